//! The places for connections: their number in all and of each address.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use super::activity::Activity;
use super::address::ClientAddress;
use crate::metrics::METRICS;

/// The time between two looks for a connection that makes room.
const ROOM_INTERVAL: Duration = Duration::from_millis(50);

/// The places for the connections of one listener.
#[derive(Debug)]
pub struct Places {
    taken: Mutex<Taken>,
    freed: Notify,
    max: usize,
    address_max: usize,
}

#[derive(Debug, Default)]
struct Taken {
    last: u64,
    by_number: HashMap<u64, Holder>,
    by_address: HashMap<ClientAddress, usize>,
}

#[derive(Debug)]
struct Holder {
    address: ClientAddress,
    is_proxy: bool,
    activity: Arc<Activity>,
}

/// The place of a connection, free again when this is dropped.
#[derive(Debug)]
pub struct Place {
    number: u64,
    activity: Arc<Activity>,
    places: Arc<Places>,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The address holds as many as one address may.
    Address,
    /// All are taken.
    All,
}

impl Places {
    /// So many places, and so many for one address.
    pub fn new(max: usize, address_max: usize) -> Arc<Self> {
        let taken = Mutex::default();
        Arc::new(Self { taken, freed: Notify::new(), max, address_max })
    }

    /// Takes a place for a connection from an address. A proxy may take any number of them.
    ///
    /// # Errors
    /// The limit that is reached.
    pub fn take(self: &Arc<Self>, address: ClientAddress, is_proxy: bool) -> Result<Place, Full> {
        let mut taken = self.lock();
        let of_address = taken.by_address.get(&address).copied().unwrap_or_default();
        if !is_proxy && of_address >= self.address_max {
            return Err(Full::Address);
        }
        if taken.by_number.len() >= self.max {
            return Err(Full::All);
        }
        taken.last += 1;
        let number = taken.last;
        let activity = Arc::new(Activity::new());
        taken.by_number.insert(number, Holder { address, is_proxy, activity: activity.clone() });
        *taken.by_address.entry(address).or_default() += 1;
        METRICS.connections.open.inc();
        Ok(Place { number, activity, places: self.clone() })
    }

    /// Asks one connection that waits for its client to close: of the addresses with such
    /// connections, the one that holds the most places loses the connection that has waited
    /// longest. So a crowd from few addresses makes room for everyone else. If none waits, one that
    /// is answered ends with its answer, chosen in the same way.
    pub fn make_room(&self) {
        let taken = self.lock();
        if let Some(activity) = taken.first(Activity::waiting_ms) {
            activity.make_room();
        } else if let Some(activity) = taken.first(Activity::answering_ms) {
            activity.end_with_answer();
        }
    }

    /// Waits until a place is given back, or until it is time to [make room](Self::make_room)
    /// again: a connection that was answered may wait by then.
    pub async fn freed(&self) {
        let _ = timeout(ROOM_INTERVAL, self.freed.notified()).await;
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Of the connections with a time, that of the address with the most connections; of these, the
    /// one with the longest time.
    fn first(&self, time_ms: impl Fn(&Activity) -> Option<u64>) -> Option<&Activity> {
        let timed = self.by_number.values().filter_map(|holder| {
            let held = match holder.is_proxy {
                true => 0,
                false => self.by_address.get(&holder.address).copied().unwrap_or_default(),
            };
            Some(((held, time_ms(&holder.activity)?), &*holder.activity))
        });
        timed.max_by_key(|(rank, _)| *rank).map(|(_, activity)| activity)
    }
}

impl Place {
    /// The state of the connection.
    pub fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        if let Some(holder) = taken.by_number.remove(&self.number)
            && let Some(of_address) = taken.by_address.get_mut(&holder.address)
        {
            *of_address -= 1;
            if *of_address == 0 {
                taken.by_address.remove(&holder.address);
            }
        }
        drop(taken);
        METRICS.connections.open.dec();
        self.places.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::super::activity::Phase;
    use super::*;

    fn address(text: &str) -> ClientAddress {
        ClientAddress::of(text.parse().unwrap())
    }

    #[test]
    fn an_address_has_so_many_places_and_a_proxy_any_number() {
        let places = Places::new(5, 2);
        let one = places.take(address("192.0.2.1"), false).unwrap();
        let _two = places.take(address("192.0.2.1"), false).unwrap();
        let third = places.take(address("192.0.2.1"), false);
        assert_eq!(third.map(drop), Err(Full::Address));
        let _proxied = [(); 3].map(|()| places.take(address("10.0.0.1"), true).unwrap());
        let other = places.take(address("192.0.2.2"), false);
        assert_eq!(other.map(drop), Err(Full::All));
        drop(one);
        places.take(address("192.0.2.1"), false).unwrap();
        assert_eq!(places.lock().by_address.len(), 2);
    }

    #[test]
    fn networks_of_ipv6_count_as_one_address() {
        let places = Places::new(5, 1);
        let _first = places.take(address("2001:db8::1"), false).unwrap();
        let second = places.take(address("2001:db8::ffff:0:0:2"), false);
        assert_eq!(second.map(drop), Err(Full::Address));
        places.take(address("2001:db8:0:100::1"), false).unwrap();
    }

    #[test]
    fn the_address_with_most_connections_makes_room_unless_it_is_served() {
        let places = Places::new(4, 4);
        let crowd = [(); 3].map(|()| places.take(address("192.0.2.1"), false).unwrap());
        let single = places.take(address("192.0.2.2"), false).unwrap();
        crowd[0].activity().enter(Phase::Answer);
        places.make_room();
        places.make_room();
        let is_closing = |place: &Place| place.activity().waiting_ms().is_none();
        assert!(is_closing(&crowd[1]) && is_closing(&crowd[2]));
        assert!(!is_closing(&single));
        places.make_room();
        assert!(is_closing(&single));
        // None waits any more.
        assert!(!crowd[0].activity().ends_with_answer());
        places.make_room();
        assert!(crowd[0].activity().ends_with_answer());
    }
}
