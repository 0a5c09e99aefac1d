//! The health of the stores, as this process sees it. It is asked in the background, so that
//! requests, `/readyz` and the persister learn it at once, however silent a store is.

pub(crate) mod partition;
pub(crate) mod sql;

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use engine::deployment::Deployment;
use engine::deployment::redis_health::{RedisHealth, State};
use engine::deployment::watch::Warning;
use entity::history::log_cursor;
use futures::future::join_all;
use ranking::commit::Head;
use ranking::id::PartitionNo;
use ranking::store::Store;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use self::partition::PartitionHealth;
use self::sql::SqlHealth;

/// How often Redis and SQL are asked while all is well, and either while it is not. Either is also
/// asked once a look-up of a request has failed.
const REDIS_INTERVAL: Duration = Duration::from_millis(200);
const SQL_INTERVAL: Duration = Duration::from_secs(1);
const INTERVAL_UNWELL: Duration = Duration::from_millis(50);

/// How long a store may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a server of Redis may be silent before readers go to SQL.
pub(crate) const HUNG_AFTER: Duration = Duration::from_millis(750);

/// The most partitions that `/readyz` names.
const NAMED_MAX: usize = 5;

/// The heads of a server's partitions.
type Heads = Vec<ranking::Result<Head>>;

/// The health of the stores and of each partition.
#[derive(Debug)]
pub struct Health {
    /// SQL.
    pub sql: SqlHealth,
    partitions: Mutex<Vec<PartitionHealth>>,
    /// True once every partition was level.
    was_level: AtomicBool,
    task: OnceLock<AbortHandle>,
}

/// The answer to `/readyz`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readiness {
    /// True if requests can be answered.
    pub is_ready: bool,
    /// The state, and below it a line for each reason.
    pub text: String,
}

impl Health {
    /// Begins to ask the stores. A look-up in SQL may take `lookup_timeout`.
    pub fn start(deployment: &Deployment, lookup_timeout: Duration) -> Arc<Self> {
        let count = usize::from(deployment.store.partitions().count());
        let health = Arc::new(Self {
            sql: SqlHealth::new(lookup_timeout),
            partitions: Mutex::new(vec![PartitionHealth::default(); count]),
            was_level: AtomicBool::new(false),
            task: OnceLock::new(),
        });
        let (watching, deployment) = (health.clone(), deployment.clone());
        let task = tokio::spawn(async move {
            tokio::join!(watching.watch_sql(&deployment), watching.watch_redis(&deployment));
        });
        // It was empty.
        let _ = health.task.set(task.abort_handle());
        health
    }

    /// The health of stores that are never asked.
    #[cfg(test)]
    pub(crate) fn unwatched() -> Arc<Self> {
        Arc::new(Self {
            sql: SqlHealth::new(Duration::from_secs(1)),
            partitions: Mutex::default(),
            was_level: AtomicBool::new(false),
            task: OnceLock::new(),
        })
    }

    /// Stops to ask, before the stores are closed.
    pub fn stop(&self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }

    /// The health of each partition, in order.
    pub fn partitions(&self) -> Vec<PartitionHealth> {
        self.lock().clone()
    }

    /// Notes how the last attempt to persist a partition ended.
    pub fn persisted(&self, partition: PartitionNo, outcome: Result<(), String>) {
        self.lock()[usize::from(partition.0)].error = outcome.err();
    }

    /// The answer to `/readyz`. Requests can be answered once every partition was level, as long as
    /// either store answers and no warning of the watch is grave.
    pub fn readiness(&self, warnings: &[Warning]) -> Readiness {
        let now = Instant::now();
        let partitions = self.partitions();
        let (mut refused, mut degraded) = (vec![], vec![]);
        if !self.sql.was_asked() {
            refused.push("the database was not asked yet".to_owned());
        }
        if let Some(away_for) = self.sql.away_for() {
            let seconds = away_for.as_secs();
            degraded.push(format!(
                "the database does not answer for {seconds} s: scores wait in Redis"
            ));
        }
        let named = |what: &str, is_meant: &dyn Fn(&PartitionHealth) -> bool| {
            let meant = partitions.iter().enumerate().filter(|(_, health)| is_meant(health));
            let numbers: Vec<String> = meant.map(|(no, _)| no.to_string()).collect();
            let more = match numbers.len() > NAMED_MAX {
                true => ", …",
                false => "",
            };
            let first = numbers[..numbers.len().min(NAMED_MAX)].join(", ");
            (!numbers.is_empty()).then(|| {
                let all = partitions.len();
                format!("{what}: {first}{more} ({} of {all} partitions)", numbers.len())
            })
        };
        let reads_sql = self.was_level.load(Ordering::Relaxed) && !self.sql.is_away();
        let of_redis = if reads_sql { &mut degraded } else { &mut refused };
        of_redis.extend(named("Redis does not answer", &|health: &PartitionHealth| {
            health.is_level.is_none()
        }));
        of_redis.extend(named("waits for recovery", &|health: &PartitionHealth| {
            health.is_level == Some(false)
        }));
        if reads_sql && partitions.iter().any(|health| health.is_level != Some(true)) {
            degraded.push("their standings are read from SQL, and their scores refused".to_owned());
        }
        degraded.extend(named("SQL does not get the log", &|health: &PartitionHealth| {
            health.is_stuck(now)
        }));
        // The errors themselves are for the log: anyone may ask.
        let is_sql_away = self.sql.is_away();
        let reasons = partitions
            .iter()
            .enumerate()
            .filter_map(|(no, health)| Some((no, health, health.stuck_by(now, is_sql_away)?)));
        degraded.extend(reasons.take(NAMED_MAX).map(|(no, health, reason)| {
            let (commits, seconds) = (health.commits_behind(), health.behind_for(now).as_secs());
            format!("partition {no} is {commits} commits and {seconds} s behind: {}", reason.name())
        }));
        let (grave, other): (Vec<&Warning>, Vec<&Warning>) =
            warnings.iter().partition(|warning| warning.is_grave);
        refused.extend(grave.iter().map(ToString::to_string));
        let state = match (refused.is_empty(), degraded.is_empty()) {
            (true, true) => "ready",
            (true, false) => "degraded",
            (false, _) => "not ready",
        };
        let mut text = format!("{state}\n");
        degraded.extend(other.iter().map(ToString::to_string));
        for reason in refused.iter().chain(&degraded) {
            // A string takes all text.
            let _ = writeln!(text, "{reason}");
        }
        Readiness { is_ready: refused.is_empty(), text }
    }

    async fn watch_sql(&self, deployment: &Deployment) {
        loop {
            // On the persister's connections, of which no client takes one.
            match timeout(ANSWER_TIMEOUT, log_cursor::all(&deployment.persisting)).await {
                Ok(Ok(cursors)) => {
                    self.sql.answered();
                    let now = Instant::now();
                    let mut partitions = self.lock();
                    for cursor in cursors {
                        let no = usize::try_from(cursor.partition).unwrap_or(usize::MAX);
                        if let Some(health) = partitions.get_mut(no) {
                            health.see_cursor(cursor.seq.unsigned_abs(), now);
                        }
                    }
                    note_complete(&deployment.redis_health, &partitions);
                }
                Ok(Err(error)) => self.sql.failed(&error.to_string()),
                Err(_) => self.sql.failed(&format!("silent for {} s", ANSWER_TIMEOUT.as_secs())),
            }
            sleep(INTERVAL_UNWELL).await;
            if !self.sql.is_away() {
                // A timeout is the usual end.
                let _ = timeout(SQL_INTERVAL, self.sql.doubted()).await;
            }
        }
    }

    async fn watch_redis(&self, deployment: &Deployment) {
        let store = deployment.store.for_probe();
        loop {
            let redis = &deployment.redis_health;
            let Some(servers) = servers_of(&store).await else {
                let all: Vec<PartitionNo> = store.partitions().each().collect();
                self.see_heads(redis, &all, None, Instant::now());
                sleep(INTERVAL_UNWELL).await;
                continue;
            };
            let watched =
                servers.iter().map(|partitions| self.watch_server(&store, deployment, partitions));
            tokio::select! {
                _ = join_all(watched) => {}
                () = until_moved(&store, &servers) => {}
            }
        }
    }

    /// Watches a server of Redis, whatever the others do.
    async fn watch_server(
        &self,
        store: &Store,
        deployment: &Deployment,
        partitions: &[PartitionNo],
    ) {
        let (redis, mut looked_beside) = (&deployment.redis_health, Instant::now());
        loop {
            let asked_at = Instant::now();
            let heads = heads_in_time(store, redis, partitions).await;
            self.see_heads(redis, partitions, heads.as_ref(), asked_at);
            self.recover_left(deployment, partitions);
            sleep(INTERVAL_UNWELL).await;
            let is_well = {
                let all = self.lock();
                partitions.iter().all(|no| all[usize::from(no.0)].is_level == Some(true))
            };
            if is_well {
                // A timeout is the usual end.
                let _ = timeout(REDIS_INTERVAL, redis.doubted()).await;
            }
            let silent = partitions.first().filter(|no| redis.is_silent(**no));
            if let Some(&silent) = silent.filter(|_| looked_beside.elapsed() >= ANSWER_TIMEOUT) {
                // A replica may have taken its place; else it is asked again.
                let _ = timeout(ANSWER_TIMEOUT, store.look_beside(silent)).await;
                looked_beside = Instant::now();
            }
        }
    }

    /// Begins to recover the partitions that no process has recovered for long.
    fn recover_left(&self, deployment: &Deployment, partitions: &[PartitionNo]) {
        let now = Instant::now();
        let mut all = self.lock();
        for &no in partitions {
            if !all[usize::from(no.0)].is_left(now) {
                continue;
            }
            let deployment = deployment.clone();
            tokio::spawn(async move {
                if let Err(error) = deployment.partition(no).recover().await {
                    tracing::warn!(partition = no.0, %error, "the partition is not recovered");
                }
            });
        }
    }

    /// Notes the heads that a server told of its partitions when it was asked, or that it told
    /// none.
    fn see_heads(
        &self,
        redis: &RedisHealth,
        numbers: &[PartitionNo],
        heads: Option<&Heads>,
        asked_at: Instant,
    ) {
        let now = Instant::now();
        let mut partitions = self.lock();
        for (index, no) in numbers.iter().enumerate() {
            let health = &mut partitions[usize::from(no.0)];
            health.is_level = heads.and_then(|heads| heads.get(index)).map(Result::is_ok);
            if let Some(Ok(head)) = heads.and_then(|heads| heads.get(index)) {
                health.see_head(head.seq, asked_at);
            }
        }
        if partitions.iter().all(|health| health.is_level == Some(true)) {
            self.was_level.store(true, Ordering::Relaxed);
        }
        note_complete(redis, &partitions);
        // Collected, as `note` holds what `is_away` asks.
        let states = numbers.iter().map(|no| {
            let health = &mut partitions[usize::from(no.0)];
            let was_away = redis.is_away(&[*no]);
            (*no, health.state((was_away, asked_at, now)))
        });
        let states: Vec<(PartitionNo, State)> = states.collect();
        redis.note(states);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<PartitionHealth>> {
        self.partitions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The partitions of each server; `None` if no server tells.
async fn servers_of(store: &Store) -> Option<Vec<Vec<PartitionNo>>> {
    let servers = timeout(ANSWER_TIMEOUT, store.partitions_by_server()).await;
    servers.ok()?.ok().filter(|servers| !servers.is_empty())
}

/// Waits until servers are known to have other partitions than these.
async fn until_moved(store: &Store, servers: &[Vec<PartitionNo>]) {
    while servers_of(store).await.is_none_or(|now| now == servers) {
        sleep(REDIS_INTERVAL).await;
    }
}

/// Notes up to which instant SQL has every commit of each partition.
fn note_complete(redis: &RedisHealth, partitions: &[PartitionHealth]) {
    redis.note_complete(partitions.iter().map(PartitionHealth::complete_at).collect());
}

/// The heads of a server's partitions; `None` if it does not answer. A server that is silent for
/// [`HUNG_AFTER`] counts as away, and is waited for longer.
async fn heads_in_time(
    store: &Store,
    redis: &RedisHealth,
    partitions: &[PartitionNo],
) -> Option<Heads> {
    let asking = timeout(ANSWER_TIMEOUT, store.heads_of(partitions));
    tokio::pin!(asking);
    let answer = match timeout(HUNG_AFTER, &mut asking).await {
        Ok(answer) => answer,
        Err(_) => {
            let here: Vec<PartitionNo> =
                partitions.iter().copied().filter(|no| !redis.is_away(&[*no])).collect();
            redis.note(here.into_iter().map(|no| (no, State::Away)));
            asking.await
        }
    };
    answer.ok()?.ok()
}
