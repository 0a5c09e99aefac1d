//! Stores that answer and are wrong: the start refuses some, and the watch warns of all while the
//! process runs.
//!
//! [`check`] is the judgement at the start, [`Deployment::look`] the one of the watch. Each warning
//! is one sentence that says what to do.

mod judgement;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use entity::deployment::clock::Clock;
use entity::error::Result;
use entity::history::dead_letter;
use entity::integrity::integrity_run;
use entity::sql::signs;
use ranking::id::PartitionNo;
use ranking::store::Store;
use ranking::store::server::health::ServerHealth;
use tokio::time::timeout;

use super::Deployment;
use judgement::{judge, of_clock};

/// The longest time that a look waits for a store; one that does not answer is reported elsewhere.
const LOOK_TIMEOUT: Duration = Duration::from_secs(4);

/// The time for which a look tells of an event that SQL refused, in milliseconds.
const DEAD_LETTERS_MS: i64 = 24 * 3_600_000;

/// The subject of a warning; the label of its metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// A server is a replica.
    Role,
    /// A server may evict entries.
    EvictionPolicy,
    /// A server evicted entries.
    Eviction,
    /// A server's crash loses what SQL does not have.
    Persistence,
    /// A server cannot write its append-only file.
    AppendOnlyFile,
    /// A server frees expired keys while others wait.
    Expiry,
    /// The clocks differ.
    Clock,
    /// Another process uses another Redis.
    Process,
    /// SQL refused events.
    DeadLetters,
    /// SQL does not take a partition's log.
    Persister,
}

impl Check {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Role,
        Self::EvictionPolicy,
        Self::Eviction,
        Self::Persistence,
        Self::AppendOnlyFile,
        Self::Expiry,
        Self::Clock,
        Self::Process,
        Self::DeadLetters,
        Self::Persister,
    ];

    /// Its name, as a label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Role => "role",
            Self::EvictionPolicy => "eviction_policy",
            Self::Eviction => "eviction",
            Self::Persistence => "persistence",
            Self::AppendOnlyFile => "append_only_file",
            Self::Expiry => "expiry",
            Self::Clock => "clock",
            Self::Process => "process",
            Self::DeadLetters => "dead_letters",
            Self::Persister => "persister",
        }
    }
}

/// Something that an operator should change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The subject.
    pub check: Check,
    /// Its place: a server, a partition or a store.
    pub at: String,
    /// True if standings may be wrong or writes get lost because of it, so that the process is not
    /// ready.
    pub is_grave: bool,
    /// One sentence: what is so, what is expected, and what to do.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The warnings of the last look, by their source; a source that did not answer keeps its last
/// ones.
#[derive(Debug, Default)]
pub struct Watch {
    allows_volatile: bool,
    of_redis: Mutex<Vec<Warning>>,
    of_sql: Mutex<Vec<Warning>>,
    /// The partitions whose log SQL does not take, and why.
    unpersisted: Mutex<BTreeMap<u16, String>>,
    /// By the address of a server.
    evictions: Mutex<HashMap<String, Evictions>>,
}

/// The evicted keys of a server, as far as they were seen.
#[derive(Debug, Clone, Default)]
struct Evictions {
    run_id: String,
    count: u64,
    /// When entries may have gone, in Unix milliseconds, until a diff that began later is clean.
    since_ms: Option<i64>,
    /// True if this process saw the count grow.
    is_seen: bool,
}

impl Watch {
    pub(crate) fn new(allows_volatile: bool) -> Self {
        Self { allows_volatile, ..Self::default() }
    }

    /// All warnings that hold now.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = lock(&self.of_redis).clone();
        warnings.extend(lock(&self.of_sql).iter().cloned());
        let unpersisted = lock(&self.unpersisted);
        warnings.extend(unpersisted.iter().map(|(partition, text)| Warning {
            check: Check::Persister,
            at: format!("partition {partition}"),
            is_grave: false,
            text: text.clone(),
        }));
        warnings
    }

    /// Notes that SQL does not take the log of a partition, or that it does again.
    pub(crate) fn note_persisted(&self, partition: PartitionNo, trouble: Option<String>) {
        let mut unpersisted = lock(&self.unpersisted);
        match trouble {
            Some(text) => {
                unpersisted.insert(partition.0, text);
            }
            None => {
                unpersisted.remove(&partition.0);
            }
        }
    }

    /// True if a server evicted keys, and no diff has left nothing since.
    fn has_evictions(&self) -> bool {
        lock(&self.evictions).values().any(|evictions| evictions.since_ms.is_some())
    }

    /// Compares a server's count of evicted keys with the last one, and forgets evictions before a
    /// diff that left nothing.
    fn evicted(
        &self,
        server: &ServerHealth,
        now_ms: i64,
        clean_since_ms: Option<i64>,
    ) -> Option<Warning> {
        let mut evictions = lock(&self.evictions);
        let is_new = !evictions.contains_key(&server.address);
        let known = evictions.entry(server.address.clone()).or_default();
        let before = if known.run_id == server.run_id { known.count } else { 0 };
        if server.evicted_keys > before {
            known.since_ms = Some(now_ms);
            known.is_seen = !is_new;
        }
        known.run_id.clone_from(&server.run_id);
        known.count = server.evicted_keys;
        if clean_since_ms > known.since_ms {
            known.since_ms = None;
        }
        known.since_ms?;
        Some(judgement::of_eviction(&server.address, known.is_seen))
    }
}

/// The value of a lock; no code that holds one panics.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checks before anything is read or written that every server may hold a deployment.
///
/// # Errors
/// `Invalid` for a replica, an eviction policy other than noeviction, and a server that keeps no
/// append-only file where that is not allowed; `Unavailable` if a server does not answer.
pub(crate) async fn check(store: &Store, allows_volatile: bool) -> Result<()> {
    for server in store.health().await? {
        let server = server?;
        for warning in judge(&server) {
            match warning.check {
                Check::Role | Check::EvictionPolicy => {}
                Check::Persistence if server.tells_config && !allows_volatile => {}
                Check::Persistence => {
                    tracing::warn!("{warning}");
                    continue;
                }
                _ => continue,
            }
            return Err(ranking::Error::Invalid(warning.text).into());
        }
    }
    Ok(())
}

impl Deployment {
    /// Looks at the stores, and keeps the warnings in `watch`. It ends within seconds, whatever
    /// the stores do.
    pub async fn look(&self) {
        let clean_since_ms = match timeout(LOOK_TIMEOUT, self.look_at_sql()).await {
            Ok(Ok(clean_since_ms)) => clean_since_ms,
            _ => None,
        };
        let begin_ms = Clock::default().now_ms();
        let asked = timeout(LOOK_TIMEOUT, self.store.for_reads().health()).await;
        let Ok(Ok(servers)) = asked else { return };
        let end_ms = Clock::default().now_ms();
        let mut warnings = vec![];
        let mut now_ms = None;
        for server in servers.into_iter().flatten() {
            now_ms = now_ms.max(server.now_ms);
            warnings.extend(judge(&server).into_iter().filter(|warning| {
                warning.check != Check::Persistence || !self.watch.allows_volatile
            }));
            warnings.extend(self.watch.evicted(&server, end_ms, clean_since_ms));
            let place = format!("Redis at {}", server.address);
            let clock = server.now_ms.and_then(|now_ms| of_clock(&place, now_ms, begin_ms, end_ms));
            warnings.extend(clock);
        }
        let now_ms = now_ms.map_or(end_ms, |now_ms: i64| now_ms.min(end_ms));
        let asked = timeout(LOOK_TIMEOUT, self.store.for_reads().heads()).await;
        let heads = asked.ok().and_then(std::result::Result::ok).unwrap_or_default();
        let clocks = heads.iter().map(|head| head.as_ref().map_or(0, |head| head.clock_ms));
        warnings.extend(judgement::of_heads(clocks, now_ms, self.dedup.window_ms));
        *lock(&self.watch.of_redis) = warnings;
    }

    /// Looks at SQL's clock, the other processes and the events that SQL refused. Returns the start
    /// of the last diff of all boards that left nothing, if keys were evicted.
    async fn look_at_sql(&self) -> Result<Option<i64>> {
        let mut warnings = vec![];
        let begin_ms = Clock::default().now_ms();
        let signs = signs::trouble(&self.db, self.presence.own(), DEAD_LETTERS_MS).await?;
        warnings.extend(of_clock("SQL", signs.now_ms, begin_ms, Clock::default().now_ms()));
        if signs.strangers > 0 {
            warnings.extend(self.presence.stranger().await?.map(|text| Warning {
                check: Check::Process,
                at: "another process".to_owned(),
                is_grave: true,
                text,
            }));
        }
        if signs.dead_letters > 0 {
            let counts = dead_letter::counts(&self.db, signs.now_ms - DEAD_LETTERS_MS).await?;
            warnings.extend(judgement::of_dead_letters(&counts));
        }
        let last = match self.watch.has_evictions() {
            true => integrity_run::last(&self.db).await?,
            false => None,
        };
        *lock(&self.watch.of_sql) = warnings;
        let left_nothing = last.filter(|run| run.found == run.repaired);
        Ok(left_nothing.map(|run| run.started_at_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evictions_are_told_until_a_later_diff_left_nothing() {
        let watch = Watch::default();
        let server = |run: &str, evicted_keys| ServerHealth {
            address: "a:1".to_owned(),
            run_id: run.to_owned(),
            evicted_keys,
            ..ServerHealth::default()
        };
        assert_eq!(watch.evicted(&server("1", 0), 10, None), None);
        let told = watch.evicted(&server("1", 5), 20, Some(15)).unwrap();
        assert!(told.is_grave && told.text.contains("diff --repair"), "{told}");
        // The file of a restarted server has no more than the server had.
        assert!(watch.evicted(&server("2", 0), 30, Some(15)).unwrap().is_grave);
        assert_eq!(watch.evicted(&server("2", 0), 40, Some(35)), None);
        assert_eq!(watch.evicted(&server("2", 0), 50, None), None);
        // Others evicted before this process began: nothing says if it harmed standings.
        let other = Watch::default();
        assert!(!other.evicted(&server("1", 5), 10, None).unwrap().is_grave);
    }

    #[test]
    fn a_partition_is_told_until_sql_takes_it_again() {
        let watch = Watch::default();
        watch.note_persisted(PartitionNo(3), Some("stuck".to_owned()));
        assert_eq!(watch.warnings()[0].at, "partition 3");
        watch.note_persisted(PartitionNo(3), None);
        assert!(watch.warnings().is_empty());
    }
}
