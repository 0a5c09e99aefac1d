//! The gauges of `/metrics` that come from SQL and Redis, read with a few small queries at most
//! every few seconds.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use engine::deployment::Deployment;
use entity::history::{dead_letter, log_cursor};
use entity::integrity::integrity_run;
use entity::job::State;
use entity::{Result, job};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use ranking::store::log::LogLength;
use sea_orm::DatabaseConnection;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout};

use super::{Label, registered};
use crate::health::Health;
use crate::health::partition::StuckBy;

/// The greatest age of the gauges.
const AGE_MAX: Duration = Duration::from_secs(5);

/// How long a store may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// How long an ended job still counts, in milliseconds.
const JOBS_MS: i64 = 24 * 3_600_000;

/// The states of jobs, and their labels.
const STATES: [(State, &str); 3] =
    [(State::Running, "RUNNING"), (State::Done, "DONE"), (State::Failed, "FAILED")];

/// A count for each partition.
type ByPartition = Family<[(&'static str, u16); 1], Gauge>;

/// An instant, in seconds since 1970; 0 for never.
type Instants = Gauge<f64, AtomicU64>;

/// The gauges of the stores. The gauges of an unavailable store keep their last values.
pub(crate) struct Stores {
    asked: Mutex<Option<Instant>>,
    up: Family<Label, Gauge>,
    log_commits: ByPartition,
    log_fill: Family<[(&'static str, u16); 1], Gauge<f64, AtomicU64>>,
    sql_lag_commits: ByPartition,
    sql_lag_seconds: Family<[(&'static str, u16); 1], Gauge<f64, AtomicU64>>,
    level: ByPartition,
    stuck: ByPartition,
    stuck_by: Family<Label, Gauge>,
    jobs: Family<[(&'static str, &'static str); 2], Gauge>,
    dead_letters: Family<Label, Gauge>,
    diffs: Diffs,
    mirrored_at: Instants,
}

/// The gauges of the diffs of all boards.
struct Diffs {
    last_run: Family<Label, Gauge>,
    findings: Gauge,
    checked: Gauge,
    last_run_at: Instants,
    last_clean_at: Instants,
}

impl Stores {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        Self {
            asked: Mutex::new(None),
            up: registered(registry, "up", "1 if the store answers, else 0"),
            log_commits: registered(registry, "log_commits", "Commits in the log of a partition"),
            log_fill: registered(
                registry,
                "log_fill",
                "Part of its limit that the log of a partition has, in commits or in bytes",
            ),
            sql_lag_commits: registered(
                registry,
                "sql_lag_commits",
                "Commits of a partition that SQL does not have yet",
            ),
            sql_lag_seconds: registered(
                registry,
                "sql_lag_seconds",
                "Age of the oldest commit of a partition that SQL does not have yet, in seconds",
            ),
            level: registered(
                registry,
                "partition_level",
                "1 if the partition is level, so that it can be read and written, else 0",
            ),
            stuck: registered(
                registry,
                "sql_cursor_stuck",
                "1 if SQL's cursor of a partition stands still although commits wait, else 0",
            ),
            stuck_by: registered(
                registry,
                "sql_cursors_stuck",
                "Partitions whose cursor stands still, by reason",
            ),
            jobs: registered(
                registry,
                "jobs",
                "Jobs that are running, and those that ended in the last 24 hours",
            ),
            dead_letters: registered(registry, "dead_letters", "Events that SQL refused, by state"),
            diffs: Diffs::new(registry),
            mirrored_at: registered(
                registry,
                "mirror_timestamp_seconds",
                "When the last run of the mirror began that ended well; 0 for never",
            ),
        }
    }

    /// Asks the stores, unless a request did so a moment ago. No other request asks while the guard
    /// is held.
    pub(crate) async fn ask(
        &self,
        deployment: &Deployment,
        health: &Health,
    ) -> MutexGuard<'_, Option<Instant>> {
        let mut asked = self.asked.lock().await;
        self.set_health(health);
        if asked.is_none_or(|at| at.elapsed() >= AGE_MAX) {
            let (sql, redis) = tokio::join!(
                timeout(ANSWER_TIMEOUT, self.ask_sql(deployment, health)),
                timeout(ANSWER_TIMEOUT, deployment.store.log_lengths()),
            );
            let (sql, redis) = (sql.ok().and_then(Result::ok), redis.ok().and_then(Result::ok));
            self.set_up("redis", redis.is_some());
            self.set_logs(deployment, &sql.unwrap_or_default(), redis.unwrap_or_default());
            *asked = Some(Instant::now());
        }
        asked
    }

    /// Sets the gauges of SQL. Returns the seqs of its cursors by partition.
    async fn ask_sql(&self, deployment: &Deployment, health: &Health) -> Result<HashMap<i32, u64>> {
        if health.sql.is_away() {
            return Err(ranking::Error::Unavailable("the database is away".into()).into());
        }
        let db = &deployment.reads;
        self.ask_jobs(db, deployment.clock.now_ms() - JOBS_MS).await?;
        self.diffs.ask(db).await?;
        let mirrored = job::last_done(db, job::MIRROR).await?;
        let began_ms = mirrored.map_or(0, |job| job.started_at_ms);
        self.mirrored_at.set(began_ms as f64 / 1000.0);
        self.ask_dead_letters(db).await?;
        let cursors = log_cursor::all(db).await?;
        let seq = |row: log_cursor::Model| (row.partition, row.seq.unsigned_abs());
        Ok(cursors.into_iter().map(seq).collect())
    }

    async fn ask_jobs(&self, db: &DatabaseConnection, since_ms: i64) -> Result<()> {
        let counts = job::counts_since(db, since_ms).await?;
        let is_known = |kind: &str| job::KINDS.contains(&kind);
        for (state, label) in STATES {
            for name in job::KINDS.into_iter().chain([job::OTHER]) {
                let is_meant = |kind: &str| kind == name || name == job::OTHER && !is_known(kind);
                let of_kind = counts
                    .iter()
                    .filter(|(kind, of, _)| *of == state && is_meant(kind))
                    .map(|(_, _, count)| count);
                let labels = [("kind", name), ("state", label)];
                self.jobs.get_or_create_owned(&labels).set(of_kind.sum());
            }
        }
        Ok(())
    }

    async fn ask_dead_letters(&self, db: &DatabaseConnection) -> Result<()> {
        let counts = dead_letter::counts(db, i64::MIN).await?;
        for (state, label) in
            [(dead_letter::State::Pending, "PENDING"), (dead_letter::State::Voided, "VOIDED")]
        {
            let of_state = counts.iter().filter(|(of, _)| *of == state).map(|(_, count)| *count);
            self.dead_letters.get_or_create_owned(&[("state", label)]).set(of_state.sum());
        }
        Ok(())
    }

    /// Sets the gauges of what the health knows, which no store need be asked for.
    fn set_health(&self, health: &Health) {
        let (now, is_sql_away) = (Instant::now(), health.sql.is_away());
        // The reads below share their connections with requests, which may keep them busy.
        self.set_up("sql", health.sql.was_asked() && !is_sql_away);
        let mut stuck_by = HashMap::from(StuckBy::ALL.map(|reason| (reason, 0)));
        for (partition, health) in (0..).zip(health.partitions()) {
            let labels = [("partition", partition)];
            let seconds = health.behind_for(now).as_secs_f64();
            self.sql_lag_seconds.get_or_create_owned(&labels).set(seconds);
            let is_level = health.is_level == Some(true);
            self.level.get_or_create_owned(&labels).set(is_level.into());
            let reason = health.stuck_by(now, is_sql_away);
            self.stuck.get_or_create_owned(&labels).set(reason.is_some().into());
            if let Some(reason) = reason {
                *stuck_by.entry(reason).or_default() += 1;
            }
        }
        for (reason, count) in stuck_by {
            self.stuck_by.get_or_create_owned(&[("reason", reason.name())]).set(count);
        }
    }

    fn set_up(&self, store: &'static str, is_up: bool) {
        self.up.get_or_create_owned(&[("store", store)]).set(is_up.into());
    }

    fn set_logs(
        &self,
        limits: &Deployment,
        cursors: &HashMap<i32, u64>,
        logs: Vec<Option<LogLength>>,
    ) {
        for (partition, log) in (0..).zip(logs) {
            let Some(log) = log else { continue };
            let labels = [("partition", partition)];
            let gauge = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
            let of_log = self.log_commits.get_or_create_owned(&labels);
            of_log.set(gauge(log.commits));
            let part = |count: u64, most: u64| count as f64 / most as f64;
            let fill = part(log.commits, limits.log_commits_max);
            let fill = fill.max(part(log.bytes, limits.log_bytes_max));
            self.log_fill.get_or_create_owned(&labels).set(fill);
            // A partition without a head must be recovered first; until then its lag is unknown.
            if let (Some(seq), Some(cursor)) = (log.seq, cursors.get(&partition.into())) {
                let lag = self.sql_lag_commits.get_or_create_owned(&labels);
                lag.set(gauge(seq.saturating_sub(*cursor)));
            }
        }
    }
}

impl Diffs {
    fn new(registry: &mut Registry) -> Self {
        Self {
            last_run: registered(
                registry,
                "integrity_last_run",
                "Outcome of the last diff of all boards: 1 for that outcome",
            ),
            findings: registered(
                registry,
                "integrity_findings",
                "Differences that the last diff of all boards found and did not repair",
            ),
            checked: registered(
                registry,
                "integrity_checked",
                "Entries that the last diff of all boards compared",
            ),
            last_run_at: registered(
                registry,
                "integrity_last_run_timestamp_seconds",
                "End of the last diff of all boards; 0 for never",
            ),
            last_clean_at: registered(
                registry,
                "integrity_last_clean_timestamp_seconds",
                "End of the last diff of all boards that found no difference; 0 for never",
            ),
        }
    }

    async fn ask(&self, db: &DatabaseConnection) -> Result<()> {
        let last = integrity_run::last(db).await?;
        let clean = integrity_run::last_clean(db).await?;
        let failed = job::last_ended(db, job::DIFF).await?.filter(|job| job.state == State::Failed);
        let outcome = match (&last, failed) {
            (_, Some(_)) => "failed",
            (None, None) => "none",
            (Some(run), None) if run.found == 0 => "clean",
            (Some(_), None) => "differences",
        };
        for name in ["clean", "differences", "failed", "none"] {
            let gauge = self.last_run.get_or_create_owned(&[("outcome", name)]);
            gauge.set(i64::from(name == outcome));
        }
        let seconds = |run: &Option<integrity_run::Model>| {
            let at_ms = run.as_ref().and_then(|run| run.finished_at_ms);
            at_ms.unwrap_or_default() as f64 / 1000.0
        };
        self.last_run_at.set(seconds(&last));
        self.last_clean_at.set(seconds(&clean));
        if let Some(run) = last {
            self.findings.set(run.found - run.repaired);
            self.checked.set(run.checked);
        }
        Ok(())
    }
}
