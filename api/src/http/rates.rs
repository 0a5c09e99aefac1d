//! The rates of clients: points of reads and changes in a second, by access token or by address.

mod bucket;

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use engine::settings::RateSettings;
use moka::notification::RemovalCause;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use self::bucket::{Bucket, Spending};
use crate::metrics::METRICS;

/// The clients that have accounts. Beyond that, the one that has been away longest is forgotten.
const CLIENTS_MAX: u64 = 50_000;

/// The clients with debts whose accounts are kept besides, however many others come.
const DEBTORS_MAX: u64 = 10_000;

/// The debt of a client whose account is kept, in points: less is a moment of the default rate.
const DEBT_KEPT: u64 = 100_000;

/// The bits of the network of an IPv6 address that count as one client. A site gets more than one
/// network of 64 bits (RFC 6177), and many households one of 56.
const NETWORK_BITS: u32 = 56;

/// How long an account is kept without use, at least.
const ACCOUNT_AGE_MIN: Duration = Duration::from_secs(600);

/// The addresses of which failed tokens are remembered.
const FAILING_MAX: u64 = 10_000;

/// A client, as it is counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Client {
    /// The id of an access token.
    Token(Arc<str>),
    /// The id of a player's token, of which there may be any number.
    Player(Arc<str>),
    /// An address without one; of IPv6, its [network].
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

/// The rates of all clients.
pub struct Rates {
    accounts: Cache<Client, Arc<Account>>,
    /// The accounts with debts that were in the way of others.
    debtors: Cache<Client, Arc<Account>>,
    /// The rate of reads and its burst, in points; a rate of 0 is no limit.
    reads: (u32, u32),
    /// The rate of writes and its burst, in changes.
    writes: (u32, u32),
    /// The rate of TLS handshakes and its burst.
    handshakes: (u32, u32),
    failed_tokens: Cache<IpAddr, Arc<AtomicU32>>,
    failed_tokens_max: u32,
}

/// The buckets of one client.
pub struct Account {
    /// The client.
    pub client: Client,
    /// `None` if the rate is not limited, as of `writes`.
    reads: Option<Bucket>,
    writes: Option<Bucket>,
    handshakes: Option<Bucket>,
    /// `None` for an access token, which is never heavy, and if the rate of reads is not limited.
    spending: Option<Spending>,
}

impl Client {
    /// The client at an address.
    pub fn at(address: IpAddr) -> Self {
        Self::Address(network(address))
    }
}

/// An address as it is counted: IPv4 whole, IPv6 by the bits of its network, as a customer has any
/// number of addresses in it.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let mask = u128::MAX << (u128::BITS - NETWORK_BITS);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
        address => address,
    }
}

/// How long an account is kept without use, by rates and bursts: its client begins again with full
/// buckets, so that a debt of a burst has to be paid by then, and the buckets full.
fn account_age(limits: [(u32, u32); 2]) -> Duration {
    let seconds =
        limits.map(|(rate, burst)| (2 * u64::from(burst)).checked_div(rate.into()).unwrap_or(0));
    seconds.into_iter().map(Duration::from_secs).fold(ACCOUNT_AGE_MIN, Duration::max)
}

/// Room for the accounts of so many clients, and for those of debtors that are beyond it: who owes
/// much does not begin again.
fn accounts_of(clients_max: u64, age: Duration) -> [Cache<Client, Arc<Account>>; 2] {
    let lru = |clients_max| {
        // The other policy forgets a newcomer among clients that come more often.
        let room =
            Cache::builder().max_capacity(clients_max).eviction_policy(EvictionPolicy::lru());
        room.time_to_idle(age)
    };
    let debtors: Cache<Client, Arc<Account>> = lru(DEBTORS_MAX).build();
    let kept = debtors.clone();
    let keep = move |client: Arc<Client>, account: Arc<Account>, cause| {
        if cause == RemovalCause::Size && account.owes_much() {
            kept.insert((*client).clone(), account);
        }
    };
    [lru(clients_max).eviction_listener(keep).build(), debtors]
}

impl Rates {
    /// Full buckets for everyone.
    pub fn new(settings: &RateSettings, cost_max: u32) -> Self {
        let reads = (settings.read_rate, settings.read_burst.get().max(cost_max));
        let writes = (settings.write_rate, settings.write_burst);
        let [accounts, debtors] = accounts_of(CLIENTS_MAX, account_age([reads, writes]));
        Self {
            accounts,
            debtors,
            reads,
            writes,
            handshakes: (settings.handshake_rate, settings.handshake_burst),
            failed_tokens: Cache::builder()
                .max_capacity(FAILING_MAX)
                .eviction_policy(EvictionPolicy::lru())
                .time_to_live(Duration::from_secs(60))
                .build(),
            failed_tokens_max: settings.failed_tokens_rate,
        }
    }

    /// The account of a client, for the time of a request: it is forgotten when it is long unused.
    pub fn account(&self, client: &Client) -> Arc<Account> {
        self.accounts.get_with_by_ref(client, || {
            if let Some(debtor) = self.debtors.remove(client) {
                return debtor;
            }
            let is_known = matches!(client, Client::Token(_));
            Arc::new(Account {
                client: client.clone(),
                reads: Bucket::new(self.reads),
                writes: Bucket::new(self.writes),
                // Only an address begins any.
                handshakes: matches!(client, Client::Address(_))
                    .then(|| Bucket::new(self.handshakes))
                    .flatten(),
                spending: Spending::new(self.reads.0).filter(|_| !is_known),
            })
        })
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

impl Account {
    /// Takes points of reads. Returns true if the client is heavy: without an access token, it has
    /// spent more than its part in the last seconds.
    ///
    /// # Errors
    /// When to try again, if the client has spent what it may.
    pub fn read(&self, points: u64) -> Result<bool, RetryAfter> {
        let is_heavy = self.note(points);
        if let Some(bucket) = &self.reads {
            bucket.take(points).inspect_err(|_| {
                METRICS.requests_refused.reads.inc();
            })?;
        }
        Ok(is_heavy)
    }

    /// Takes points that a read turned out to cost besides. The client owes those that it lacks.
    pub fn read_more(&self, points: u64) {
        self.note(points);
        if let Some(bucket) = &self.reads {
            bucket.owe(points);
        }
    }

    /// Takes changes.
    ///
    /// # Errors
    /// When to try again, if the client has made as many as it may.
    pub fn write(&self, changes: u32) -> Result<(), RetryAfter> {
        let taken = self.writes.as_ref().map_or(Ok(()), |bucket| bucket.take(changes.into()));
        taken.inspect_err(|_| {
            METRICS.requests_refused.changes.inc();
        })
    }

    /// Takes a TLS handshake.
    ///
    /// # Errors
    /// When to try again, if the address has begun as many as it may.
    pub fn handshake(&self) -> Result<(), RetryAfter> {
        self.handshakes.as_ref().map_or(Ok(()), |bucket| bucket.take(1))
    }

    /// Takes changes that a write turned out to make besides. The client owes those that it lacks.
    pub fn write_more(&self, changes: u64) {
        if let Some(bucket) = &self.writes {
            bucket.owe(changes);
        }
    }

    fn owes_much(&self) -> bool {
        let mut buckets = [&self.reads, &self.writes].into_iter().flatten();
        buckets.any(|bucket| bucket.debt() >= DEBT_KEPT)
    }

    /// Notes points that the client spends; returns true if it is heavy.
    fn note(&self, points: u64) -> bool {
        self.spending.as_ref().is_some_and(|spending| spending.add(points))
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn rates(read_rate: u32) -> Rates {
        let settings = RateSettings {
            read_rate,
            read_burst: NonZeroU32::new(1000).unwrap(),
            write_rate: 1,
            write_burst: 1000,
            failed_tokens_rate: 2,
            handshake_rate: 1,
            handshake_burst: 2,
        };
        Rates::new(&settings, 100)
    }

    fn client(last: u8) -> Client {
        Client::at(IpAddr::from([192, 0, 2, last]))
    }

    #[test]
    fn each_client_has_a_bucket() {
        let rates = rates(1);
        let account = |last: u8| rates.account(&client(last));
        account(1).read(1000).unwrap();
        let RetryAfter(wait) = account(1).read(10).unwrap_err();
        assert!(wait > Duration::from_secs(8) && wait <= Duration::from_secs(10), "{wait:?}");
        // It pays its debts first.
        account(2).read(600).unwrap();
        account(2).read_more(2000);
        assert!(account(2).read(1).is_err());
        assert_eq!(account(2).reads.as_ref().unwrap().debt(), 2000);
        account(4).read(1).unwrap();
        assert!([(); 2].iter().all(|()| account(1).handshake().is_ok()));
        assert!(account(1).handshake().is_err() && account(2).handshake().is_ok());
        account(1).write(1000).unwrap();
        assert!(account(1).write(1).is_err());
        // Beyond a burst, a request takes all of it.
        account(3).read(1_000_000).unwrap();
        assert!(account(3).read(1).is_err());
    }

    #[test]
    fn a_newcomer_is_remembered_among_clients_that_come_more_often() {
        let [accounts, debtors] = accounts_of(100, ACCOUNT_AGE_MIN);
        let rates = Rates { accounts, debtors, ..rates(1) };
        for _ in 0..10 {
            for regular in 0..100 {
                rates.account(&client(regular));
            }
            rates.accounts.run_pending_tasks();
        }
        rates.account(&client(200)).read(1000).unwrap();
        rates.accounts.run_pending_tasks();
        assert!(rates.account(&client(200)).read(10).is_err());
        assert_eq!(rates.accounts.entry_count(), 100);
        // One that owes much stays, however many come.
        for (last, points) in [(201, 99_000), (202, 200_000)] {
            rates.account(&client(last)).read(1000).unwrap();
            rates.account(&client(last)).read_more(points);
        }
        for crowd in 0..1000 {
            rates.account(&Client::at(IpAddr::from([198, 51, (crowd / 250) as u8, crowd as u8])));
            rates.accounts.run_pending_tasks();
        }
        assert!(rates.account(&client(201)).read(10).is_ok());
        assert!(rates.account(&client(202)).read(10).is_err());
    }

    #[test]
    fn no_account_with_a_debt_of_a_burst_is_forgotten_before_it_is_full() {
        let age = |rates: Rates| rates.accounts.policy().time_to_idle().unwrap();
        // 1,000 points owed, and 1,000 to fill, one a second.
        assert_eq!(age(rates(1)), Duration::from_secs(2000));
        assert_eq!(account_age([(0, 1000), (1_000_000, 20_000_000)]), ACCOUNT_AGE_MIN);
    }

    #[test]
    fn a_rate_of_zero_has_no_limit() {
        let account = rates(0).account(&client(1));
        for _ in 0..100 {
            assert_eq!(account.read(u64::MAX), Ok(false));
        }
    }

    #[test]
    fn a_client_that_goes_on_to_spend_is_heavy() {
        let rates = rates(20_000);
        let is_heavy = |client: &Client| rates.account(client).note(0);
        for _ in 0..20 {
            assert!(!is_heavy(&client(1)));
            // At once, though 1,000 points become good in a second.
            let _ = rates.account(&client(1)).read(100);
        }
        for (spender, becomes_heavy) in [
            (client(1), true),
            (Client::Player("p".into()), true),
            (Client::Token("p".into()), false),
        ] {
            rates.account(&spender).read_more(100_000);
            assert_eq!(is_heavy(&spender), becomes_heavy, "{spender:?}");
        }
        assert!(!is_heavy(&client(2)));
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
    fn ipv6_is_counted_by_networks() {
        let parse = |text: &str| network(text.parse().unwrap());
        assert_eq!(parse("2001:db8:1:2:3:4:5:6"), parse("2001:db8:1:2::9"));
        assert_eq!(parse("2001:db8:1:2::"), parse("2001:db8:1:ff::"));
        assert_ne!(parse("2001:db8:1:2::"), parse("2001:db8:1:102::"));
        assert_eq!(parse("::ffff:192.0.2.1"), parse("192.0.2.1"));
    }
}
