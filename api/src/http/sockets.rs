//! The places for sockets, and the memory for their subscriptions: each address has so many places,
//! and each client may hold as much of the memory as it leaves free.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::rates::Client;
use super::serving::address::ClientAddress;
use crate::error::{Error, ErrorCode, Result};
use crate::metrics::METRICS;

/// The places and the memory of all sockets.
pub struct Sockets {
    most: Most,
    bytes_max: u64,
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
    bytes: Shares<Client>,
}

/// A number in all, and the part of each holder.
struct Shares<K> {
    all: u64,
    by_holder: HashMap<K, u64>,
}

/// The place of a socket, free again when this is dropped.
pub struct Place {
    sockets: Arc<Sockets>,
    address: ClientAddress,
    is_stream: bool,
}

/// The memory of a subscription, free again when this is dropped.
pub struct Memory {
    sockets: Arc<Sockets>,
    client: Client,
    bytes: u64,
}

impl<K> Default for Shares<K> {
    fn default() -> Self {
        Self { all: 0, by_holder: HashMap::new() }
    }
}

impl<K: Eq + Hash + Clone> Shares<K> {
    fn of(&self, holder: &K) -> u64 {
        self.by_holder.get(holder).copied().unwrap_or(0)
    }

    fn add(&mut self, holder: &K, count: u64) {
        self.all += count;
        *self.by_holder.entry(holder.clone()).or_default() += count;
    }

    /// Takes from what a holder has, and forgets one that has none left.
    fn remove(&mut self, holder: &K, count: u64) {
        self.all = self.all.saturating_sub(count);
        if let Entry::Occupied(mut held) = self.by_holder.entry(holder.clone()) {
            *held.get_mut() = held.get().saturating_sub(count);
            if *held.get() == 0 {
                held.remove();
            }
        }
    }
}

impl Sockets {
    /// So many places, and so many bytes for subscriptions.
    pub fn new(most: Most, bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { most, bytes_max, taken: Mutex::default() })
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
    pub fn hold(self: &Arc<Self>, client: &Client, bytes: u64) -> Result<Memory> {
        let mut taken = self.lock();
        let free = self.bytes_max.checked_sub(taken.bytes.all.saturating_add(bytes));
        if free.is_none_or(|free| taken.bytes.of(client) + bytes > free) {
            let message = "there is no memory for this subscription; end others, or try later";
            return Err(Error::new(ErrorCode::Unavailable, message));
        }
        taken.bytes.add(client, bytes);
        Ok(Memory { sockets: self.clone(), client: client.clone(), bytes })
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

impl Drop for Memory {
    fn drop(&mut self) {
        self.sockets.lock().bytes.remove(&self.client, self.bytes);
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
        assert_eq!(sockets.lock().sockets.by_holder.len(), 2);
    }

    #[test]
    fn a_client_holds_as_much_memory_as_it_leaves_free() {
        let sockets = Sockets::new(most(0, 0), 100);
        let client = |last: u8| Client::at(IpAddr::from([192, 0, 2, last]));
        let half = sockets.hold(&client(1), 50).unwrap();
        assert!(sockets.hold(&client(1), 1).is_err());
        let quarter = sockets.hold(&client(2), 25).unwrap();
        assert!(sockets.hold(&client(2), 1).is_err());
        drop((half, quarter));
        assert!(sockets.hold(&client(2), 101).is_err());
        assert!(sockets.lock().bytes.by_holder.is_empty());
    }
}
