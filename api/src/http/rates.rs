//! The rates of clients: points of reads and changes in a second, by access token or by address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::settings::RateSettings;
use governor::clock::{Clock, DefaultClock};
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};
use moka::sync::Cache;

/// The clients that are remembered before those with full buckets are forgotten.
const CLIENTS_MAX: usize = 10_000;

/// The addresses of which failed tokens are remembered.
const FAILING_MAX: u64 = 10_000;

/// A client is light as long as it spends no more than this part of the rate of reads.
const LIGHT_PART: u32 = 20;

/// How long a client may spend more than that before it is heavy, in seconds of that rate.
const LIGHT_SECONDS: f64 = 2.0;

/// A client, as it is counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Client {
    /// The id of an access token.
    Token(Arc<str>),
    /// The id of a player's token, of which there may be any number.
    Player(Arc<str>),
    /// An address without one; of IPv6, its network of 64 bits.
    Address(IpAddr),
}

/// The time after which a client may try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryAfter(pub Duration);

impl RetryAfter {
    /// The time in whole seconds, one at least.
    pub fn seconds(self) -> u64 {
        self.0.as_secs_f64().ceil().max(1.0) as u64
    }
}

/// The buckets of all clients.
pub struct Rates {
    reads: Option<Buckets>,
    writes: Option<Buckets>,
    /// The points that clients have spent lately; `None` if the rate of reads is not limited.
    spending: Option<Spending>,
    failed_tokens: Cache<IpAddr, Arc<AtomicU32>>,
    failed_tokens_max: u32,
}

/// The points that clients without an access token have spent beyond those that became good again
/// since. Unlike a bucket, it grows while a client is over its limit: a client that goes on like
/// that stays heavy.
struct Spending {
    by_client: Cache<Client, Arc<Mutex<(f64, Instant)>>>,
    /// The points that become good in a second.
    rate: f64,
}

impl Spending {
    fn new(read_rate: u32) -> Option<Self> {
        let rate = NonZeroU32::new(read_rate)?.get().div_ceil(LIGHT_PART).into();
        let by_client = Cache::builder()
            .max_capacity(CLIENTS_MAX as u64)
            .time_to_idle(Duration::from_secs(60))
            .build();
        Some(Self { by_client, rate })
    }

    /// Adds to what a client has spent; returns the sum.
    fn add(&self, client: &Client, points: u64) -> f64 {
        if matches!(client, Client::Token(_)) {
            return 0.0;
        }
        let now = Instant::now();
        let spent = self.by_client.get_with_by_ref(client, || Arc::new(Mutex::new((0.0, now))));
        let mut spent = spent.lock().unwrap_or_else(PoisonError::into_inner);
        let good = now.saturating_duration_since(spent.1).as_secs_f64() * self.rate;
        // A minute is enough to become light again.
        let sum = ((spent.0 - good).max(0.0) + points as f64).min(60.0 * self.rate);
        *spent = (sum, now);
        sum
    }
}

struct Buckets {
    limiter: RateLimiter<Client, DashMapStateStore<Client>, DefaultClock>,
    burst: u32,
    checks: AtomicU32,
    debts: Debts,
}

/// The debts of clients: a client pays its own before anything else.
#[derive(Default)]
struct Debts {
    by_client: Mutex<HashMap<Client, u64>>,
    /// How many there are: mostly none, and then nothing is locked.
    count: AtomicUsize,
}

impl Debts {
    /// Takes a client's debt out.
    fn take(&self, client: &Client) -> u64 {
        if self.count.load(Ordering::SeqCst) == 0 {
            return 0;
        }
        let mut by_client = self.by_client.lock().unwrap_or_else(PoisonError::into_inner);
        let owed = by_client.remove(client).unwrap_or(0);
        self.count.store(by_client.len(), Ordering::SeqCst);
        owed
    }

    /// Adds to a client's debt. Beyond [`CLIENTS_MAX`] debtors, another one is forgiven.
    fn add(&self, client: &Client, points: u64) {
        if points == 0 {
            return;
        }
        let mut by_client = self.by_client.lock().unwrap_or_else(PoisonError::into_inner);
        if by_client.len() >= CLIENTS_MAX
            && !by_client.contains_key(client)
            && let Some(forgiven) = by_client.keys().next().cloned()
        {
            by_client.remove(&forgiven);
        }
        let owed = by_client.entry(client.clone()).or_default();
        *owed = owed.saturating_add(points);
        self.count.store(by_client.len(), Ordering::SeqCst);
    }
}

impl Client {
    /// The client at an address.
    pub fn at(address: IpAddr) -> Self {
        Self::Address(network(address))
    }
}

/// An address as it is counted: IPv4 whole, IPv6 by its first 64 bits, which one customer has.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        address => address,
    }
}

impl Rates {
    /// Full buckets for everyone.
    pub fn new(settings: &RateSettings, cost_max: u32) -> Self {
        let burst = settings.read_burst.get().max(cost_max);
        Self {
            reads: Buckets::new(settings.read_rate, burst),
            writes: Buckets::new(settings.write_rate, settings.write_burst),
            spending: Spending::new(settings.read_rate),
            failed_tokens: Cache::builder()
                .max_capacity(FAILING_MAX)
                .time_to_live(Duration::from_secs(60))
                .build(),
            failed_tokens_max: settings.failed_tokens_rate,
        }
    }

    /// Takes points of reads. Returns true if the client is heavy: without an access token, it has
    /// spent more than its part in the last seconds.
    ///
    /// # Errors
    /// When to try again, if the client has spent what it may.
    pub fn read(&self, client: &Client, points: u64) -> Result<bool, RetryAfter> {
        let is_heavy = self.note(client, points);
        if let Some(buckets) = &self.reads {
            buckets.take(client, points)?;
        }
        Ok(is_heavy)
    }

    /// Takes points that a read turned out to cost besides. The client owes those that it lacks.
    pub fn read_more(&self, client: &Client, points: u64) {
        self.note(client, points);
        if let Some(buckets) = &self.reads {
            buckets.owe(client, points);
        }
    }

    /// Takes changes that a write turned out to make besides. The client owes those that it lacks.
    pub fn write_more(&self, client: &Client, changes: u64) {
        if let Some(buckets) = &self.writes {
            buckets.owe(client, changes);
        }
    }

    /// Takes changes.
    ///
    /// # Errors
    /// When to try again, if the client has made as many as it may.
    pub fn write(&self, client: &Client, changes: u32) -> Result<(), RetryAfter> {
        self.writes.as_ref().map_or(Ok(()), |buckets| buckets.take(client, changes.into()))
    }

    /// Notes points that a client spends; returns true if it is heavy.
    fn note(&self, client: &Client, points: u64) -> bool {
        let spending = self.spending.as_ref();
        spending
            .is_some_and(|spending| spending.add(client, points) > LIGHT_SECONDS * spending.rate)
    }

    /// True if an address has sent too many failing tokens within a minute.
    pub fn has_failed_tokens(&self, address: IpAddr) -> bool {
        let failed = self.failed_tokens.get(&network(address));
        let failed = failed.map_or(0, |failed| failed.load(Ordering::SeqCst));
        self.failed_tokens_max > 0 && failed >= self.failed_tokens_max
    }

    /// Notes that a token of an address failed.
    pub fn token_failed(&self, address: IpAddr) {
        let failed = self.failed_tokens.get_with(network(address), Default::default);
        failed.fetch_add(1, Ordering::SeqCst);
    }
}

impl Buckets {
    /// `None` if the rate is not limited.
    fn new(rate: u32, burst: u32) -> Option<Self> {
        let quota = Quota::per_second(NonZeroU32::new(rate)?);
        let quota = quota.allow_burst(NonZeroU32::new(burst)?);
        Some(Self {
            limiter: RateLimiter::dashmap(quota),
            burst,
            checks: AtomicU32::new(0),
            debts: Debts::default(),
        })
    }

    fn take(&self, client: &Client, count: u64) -> Result<(), RetryAfter> {
        if count == 0 {
            return Ok(());
        }
        // Two requests at once may both pay: the second pays nothing.
        let owed = self.debts.take(client);
        let part = owed.min(self.burst.into());
        if let Err(wait) = self.take_now(client, part) {
            self.debts.add(client, owed);
            return Err(wait);
        }
        self.debts.add(client, owed - part);
        self.take_now(client, count)
    }

    fn owe(&self, client: &Client, count: u64) {
        if self.take(client, count).is_err() {
            self.debts.add(client, count);
        }
    }

    fn take_now(&self, client: &Client, count: u64) -> Result<(), RetryAfter> {
        let count = u32::try_from(count).unwrap_or(u32::MAX).min(self.burst);
        let Some(count) = NonZeroU32::new(count) else { return Ok(()) };
        self.forget();
        match self.limiter.check_key_n(client, count) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(until)) => Err(RetryAfter(until.wait_time_from(self.limiter.clock().now()))),
            // A burst always has room for itself.
            Err(_) => Ok(()),
        }
    }

    /// Forgets clients whose buckets are full, now and then.
    fn forget(&self) {
        let checks = self.checks.fetch_add(1, Ordering::SeqCst);
        if checks.is_multiple_of(CLIENTS_MAX as u32) && self.limiter.len() > CLIENTS_MAX {
            self.limiter.retain_recent();
            self.limiter.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(read_rate: u32) -> Rates {
        let settings = RateSettings {
            read_rate,
            read_burst: NonZeroU32::new(1000).unwrap(),
            write_rate: 1,
            write_burst: 1000,
            failed_tokens_rate: 2,
        };
        Rates::new(&settings, 100)
    }

    fn client(last: u8) -> Client {
        Client::at(IpAddr::from([192, 0, 2, last]))
    }

    #[test]
    fn each_client_has_a_bucket() {
        let rates = rates(1);
        rates.read(&client(1), 1000).unwrap();
        let RetryAfter(wait) = rates.read(&client(1), 10).unwrap_err();
        assert!(wait > Duration::from_secs(8) && wait <= Duration::from_secs(10), "{wait:?}");
        // It pays its debts first.
        rates.read(&client(2), 600).unwrap();
        rates.read_more(&client(2), 2000);
        assert!(rates.read(&client(2), 1).is_err());
        rates.read(&client(4), 1).unwrap();
        rates.write(&client(1), 1000).unwrap();
        assert!(rates.write(&client(1), 1).is_err());
        // Beyond a burst, a request takes all of it.
        rates.read(&client(3), 1_000_000).unwrap();
        assert!(rates.read(&client(3), 1).is_err());
    }

    #[test]
    fn a_rate_of_zero_has_no_limit() {
        let rates = rates(0);
        for _ in 0..100 {
            rates.read(&client(1), 1_000_000).unwrap();
        }
    }

    #[test]
    fn a_client_that_goes_on_to_spend_is_heavy() {
        let rates = rates(20_000);
        let is_heavy = |client: &Client| rates.note(client, 0);
        for _ in 0..20 {
            assert!(!is_heavy(&client(1)));
            // At once, though 1,000 points become good in a second.
            let _ = rates.read(&client(1), 100);
        }
        rates.read_more(&client(1), 100_000);
        assert!(is_heavy(&client(1)));
        assert!(!is_heavy(&client(2)));
        rates.read_more(&Client::Player("p".into()), 100_000);
        assert!(is_heavy(&Client::Player("p".into())));
        rates.read_more(&Client::Token("p".into()), 100_000);
        assert!(!is_heavy(&Client::Token("p".into())));
        let unlimited = self::rates(0);
        assert_eq!(unlimited.read(&client(1), u64::MAX), Ok(false));
    }

    #[test]
    fn a_heavy_client_becomes_light_again() {
        let spending = Spending::new(20_000).unwrap();
        spending.add(&client(1), 1_000_000_000);
        let spent = spending.by_client.get(&client(1)).unwrap();
        let (sum, at) = *spent.lock().unwrap();
        assert!((sum - 60_000.0).abs() < 1.0);
        *spent.lock().unwrap() = (sum, at - Duration::from_secs(59));
        assert!(spending.add(&client(1), 0) < 2000.0);
    }

    #[test]
    fn failing_tokens_are_counted_by_address() {
        let rates = rates(1);
        let address = IpAddr::from([192, 0, 2, 1]);
        rates.token_failed(address);
        assert!(!rates.has_failed_tokens(address));
        rates.token_failed(address);
        assert!(rates.has_failed_tokens(address));
        assert!(!rates.has_failed_tokens(IpAddr::from([192, 0, 2, 2])));
    }

    #[test]
    fn ipv6_is_counted_by_networks_of_64_bits() {
        let parse = |text: &str| network(text.parse().unwrap());
        assert_eq!(parse("2001:db8:1:2:3:4:5:6"), parse("2001:db8:1:2::9"));
        assert_ne!(parse("2001:db8:1:2::"), parse("2001:db8:1:3::"));
        assert_eq!(parse("::ffff:192.0.2.1"), parse("192.0.2.1"));
    }
}
