//! The places for sockets, and the memory for their subscriptions: each address has so many places,
//! and each client may hold as much of the memory as it leaves free.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::rates::Client;
use super::serving::address::ClientAddress;
use super::shares::{Part, SharedMemory, Shares};
use crate::error::{Error, ErrorCode, Result};
use crate::metrics::METRICS;

/// The clients that are asked for memory for an answer that they share, until one has some.
const HOLDERS_MAX: usize = 16;

/// The message for an answer that has no client any more.
const LEFT: &str = "no client takes the answers of this subscription";

/// The places and the memory of all sockets.
pub struct Sockets {
    most: Most,
    memory: Arc<SharedMemory<Client>>,
    taken: Mutex<Taken>,
}

/// The most sockets, and the most event streams among them, in all and for one address.
#[derive(Debug, Clone, Copy)]
pub struct Most {
    /// In all.
    pub sockets: usize,
    /// For one address.
    pub address_sockets: u32,
    /// Event streams in all. A stream keeps its connection, so that all of them together must
    /// leave connections for requests.
    pub streams: usize,
    /// Event streams for one address.
    pub address_streams: usize,
}

#[derive(Default)]
struct Taken {
    sockets: Shares<ClientAddress>,
    streams: Shares<ClientAddress>,
}

/// The clients that share answers, any of which may hold the memory for them.
pub struct Holders {
    sockets: Arc<Sockets>,
    clients: Mutex<Shares<Client>>,
    /// The clients that were asked for memory.
    asked: AtomicUsize,
}

impl Holders {
    /// One client.
    pub fn new(sockets: Arc<Sockets>, client: &Client) -> Arc<Self> {
        let holders =
            Arc::new(Self { sockets, clients: Mutex::default(), asked: AtomicUsize::new(0) });
        holders.add(client);
        holders
    }

    /// Adds a socket of a client.
    pub fn add(&self, client: &Client) {
        self.lock().add(client, 1);
    }

    /// Takes away a socket of a client.
    pub fn remove(&self, client: &Client) {
        self.lock().remove(client, 1);
    }

    /// Memory that one of the clients holds: up to [`HOLDERS_MAX`] are asked.
    ///
    /// # Errors
    /// `UNAVAILABLE` if none of those that are asked may hold so much.
    pub fn hold(&self, bytes: u64) -> Result<Part<Client>> {
        let clients = self.lock();
        let count = clients.holders().len().max(1);
        // Others each time.
        let first = self.asked.fetch_add(HOLDERS_MAX, Ordering::Relaxed) % count;
        let asked = clients.holders().skip(first).chain(clients.holders().take(first));
        let mut held = asked.take(HOLDERS_MAX).map(|client| self.sockets.hold(client, bytes));
        let first = held.next().unwrap_or_else(|| Err(Error::new(ErrorCode::Unavailable, LEFT)));
        first.or_else(|error| held.find_map(Result::ok).ok_or(error))
    }

    fn lock(&self) -> MutexGuard<'_, Shares<Client>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a socket, free again when this is dropped.
pub struct Place {
    sockets: Arc<Sockets>,
    address: ClientAddress,
    is_stream: bool,
}

impl Sockets {
    /// So many places, and so many bytes for subscriptions.
    pub fn new(most: Most, bytes_max: u64) -> Arc<Self> {
        let memory = SharedMemory::new(bytes_max);
        Arc::new(Self { most, memory, taken: Mutex::default() })
    }

    /// Takes a place for a WebSocket of an address.
    ///
    /// # Errors
    /// `RATE_LIMITED` if the address has as many as it may, `UNAVAILABLE` if all are taken.
    pub fn take(self: &Arc<Self>, address: ClientAddress) -> Result<Place> {
        self.take_one(address, false)
    }

    /// Takes a place for an event stream of an address.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn take_stream(self: &Arc<Self>, address: ClientAddress) -> Result<Place> {
        self.take_one(address, true)
    }

    fn take_one(self: &Arc<Self>, address: ClientAddress, is_stream: bool) -> Result<Place> {
        let (mut taken, most) = (self.lock(), self.most);
        let of_sockets = ("sockets", &taken.sockets, most.sockets, most.address_sockets as usize);
        let of_streams = ("event streams", &taken.streams, most.streams, most.address_streams);
        let limits = [Some(of_sockets), is_stream.then_some(of_streams)];
        for (what, shares, max, address_max) in limits.into_iter().flatten() {
            if shares.of(&address) >= address_max as u64 {
                METRICS.live.refused_for_address.inc();
                let message =
                    format!("this address has too many {what}: expected at most {address_max}");
                return Err(Error::new(ErrorCode::RateLimited, message));
            }
            if shares.all >= max as u64 {
                METRICS.live.refused_for_all.inc();
                let message = format!("the server has too many {what}; try again in a few seconds");
                return Err(Error::new(ErrorCode::Unavailable, message));
            }
        }
        taken.sockets.add(&address, 1);
        if is_stream {
            taken.streams.add(&address, 1);
        }
        Ok(Place { sockets: self.clone(), address, is_stream })
    }

    /// Takes memory for a subscription of a client.
    ///
    /// # Errors
    /// `UNAVAILABLE` if the client would hold more than it leaves free.
    pub fn hold(&self, client: &Client, bytes: u64) -> Result<Part<Client>> {
        self.memory.take(client, bytes).ok_or_else(|| {
            let message = "there is no memory for this subscription; end others, or try later";
            Error::new(ErrorCode::Unavailable, message)
        })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.sockets.lock();
        taken.sockets.remove(&self.address, 1);
        if self.is_stream {
            taken.streams.remove(&self.address, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn address(last: u8) -> ClientAddress {
        ClientAddress::of(IpAddr::from([192, 0, 2, last]))
    }

    fn most(sockets: usize, address_sockets: u32) -> Most {
        Most { sockets, address_sockets, streams: 2, address_streams: 1 }
    }

    #[test]
    fn streams_are_fewer_than_sockets() {
        let sockets = Sockets::new(most(9, 9), 0);
        let first = sockets.take_stream(address(1)).unwrap();
        let code = |last| sockets.take_stream(address(last)).map(drop).map_err(|error| error.code);
        assert_eq!(code(1), Err(ErrorCode::RateLimited));
        let _second = sockets.take_stream(address(2)).unwrap();
        assert_eq!(code(3), Err(ErrorCode::Unavailable));
        assert!(sockets.take(address(1)).is_ok());
        drop(first);
        assert_eq!(code(3), Ok(()));
    }

    #[test]
    fn an_answer_lies_in_the_memory_of_any_of_its_clients() {
        let sockets = Sockets::new(most(9, 9), 1000);
        let client = |last: u8| Client::Address(IpAddr::from([192, 0, 2, last]));
        let holders = Holders::new(sockets.clone(), &client(1));
        let full = sockets.hold(&client(1), 400).unwrap();
        assert_eq!(holders.hold(200).map(drop).unwrap_err().code, ErrorCode::Unavailable);
        holders.add(&client(2));
        let held = [(); 2].map(|()| holders.hold(200));
        assert_eq!(held.iter().filter(|held| held.is_ok()).count(), 1);
        drop((full, held));
        holders.remove(&client(1));
        holders.remove(&client(2));
        assert!(holders.hold(1).is_err());
    }

    #[test]
    fn an_address_has_so_many_places_and_gives_them_back() {
        let sockets = Sockets::new(most(3, 2), 0);
        let first = sockets.take(address(1)).unwrap();
        let _second = sockets.take(address(1)).unwrap();
        let code = |last| sockets.take(address(last)).map(drop).map_err(|error| error.code);
        assert_eq!(code(1), Err(ErrorCode::RateLimited));
        let _third = sockets.take(address(2)).unwrap();
        assert_eq!(code(3), Err(ErrorCode::Unavailable));
        drop(first);
        assert_eq!(code(1), Ok(()));
        assert_eq!(sockets.lock().sockets.holders().len(), 2);
    }
}
