//! `/metrics`: the counters of this process and the state of the stores, as text for Prometheus
//! (OpenMetrics).
//!
//! Code that counts adds to an existing number; it looks nothing up and allocates nothing. The
//! stores are asked when a client reads the metrics, at most every few seconds. Labels have few
//! values: outcomes, kinds, codes and partitions, never boards or members.

mod connections;
pub mod live;
mod stores;
mod webhooks;

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use async_graphql::resolver_utils::EnumType;
use engine::deployment::Deployment;
use engine::deployment::watch::{Check, Warning};
use entity::sql::retention::Records;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};
use tokio::sync::MutexGuard;
use tokio::time::Instant;

use crate::error::ErrorCode;
use crate::health::Health;
use connections::Connections;
use live::Live;
use stores::Stores;
use webhooks::Webhooks;

/// The metrics of this process.
pub static METRICS: LazyLock<Metrics> = LazyLock::new(Metrics::new);

/// The media type of [`text`].
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A label.
type Label = [(&'static str, &'static str); 1];

/// The metrics of this process, all registered once, by name.
pub struct Metrics {
    registry: Registry,
    stores: Stores,
    schedule: Family<Label, Gauge>,
    warnings: Family<Label, Gauge>,
    rows_deleted: Family<Label, Counter>,
    /// Submitted scores, by outcome.
    pub submissions: Submissions,
    /// The number of scores in a commit of this process.
    pub commit_scores: Histogram,
    /// How long a commit took, from when its committer took it up to its answer, in seconds.
    pub commit_seconds: Histogram,
    /// How long the execution of queries took, in seconds.
    pub query_seconds: Histogram,
    /// How long the execution of mutations took, in seconds.
    pub mutation_seconds: Histogram,
    /// Look-ups in the cache of whole answers.
    pub answers: Lookups,
    /// Look-ups in the cache of first pages of standings.
    pub pages: Lookups,
    /// Connections of clients.
    pub connections: Connections,
    /// Subscriptions.
    pub live: Live,
    /// Spans of traces.
    pub spans: Spans,
    /// Deliveries to webhooks.
    pub webhooks: Webhooks,
    /// The points of the requests that are executed now.
    pub points_under_way: Gauge,
    /// The requests that wait to be executed.
    pub requests_waiting: Gauge,
    /// Requests that were refused for what others ask, or their client did.
    pub requests_refused: Refused,
    errors: HashMap<&'static str, Counter>,
}

/// Submitted scores, by outcome.
pub struct Submissions {
    /// Scores that count.
    pub accepted: Counter,
    /// Scores that had counted before.
    pub duplicate: Counter,
    /// Scores that were quarantined.
    pub quarantined: Counter,
    /// Scores that were refused.
    pub rejected: Counter,
    /// Scores that were refused because a store was unavailable or busy; nothing was written.
    pub unavailable: Counter,
    /// Scores without an answer in time.
    pub unknown: Counter,
}

impl Submissions {
    fn new(registry: &mut Registry) -> Self {
        let submissions: Family<Label, Counter> =
            registered(registry, "submissions", "Submitted scores, by outcome");
        let outcome = |outcome| submissions.get_or_create_owned(&[("outcome", outcome)]);
        Self {
            accepted: outcome("accepted"),
            duplicate: outcome("duplicate"),
            quarantined: outcome("quarantined"),
            rejected: outcome("rejected"),
            unavailable: outcome("unavailable"),
            unknown: outcome("unknown"),
        }
    }
}

/// Requests that were refused, by reason.
pub struct Refused {
    /// Their client had spent its rate of reads.
    pub reads: Counter,
    /// Their client had spent its rate of changes.
    pub changes: Counter,
    /// Too many requests waited already.
    pub busy: Counter,
}

impl Refused {
    fn new(registry: &mut Registry) -> Self {
        let refused: Family<Label, Counter> =
            registered(registry, "requests_refused", "Requests that were refused, by reason");
        let reason = |reason| refused.get_or_create_owned(&[("reason", reason)]);
        Self { reads: reason("reads"), changes: reason("changes"), busy: reason("busy") }
    }
}

/// Spans of traces, by outcome.
pub struct Spans {
    /// Spans that the collector took.
    pub sent: Counter,
    /// Spans that did not get there: the queue was full, or the collector did not take them.
    pub dropped: Counter,
}

impl Spans {
    fn new(registry: &mut Registry) -> Self {
        let spans: Family<Label, Counter> =
            registered(registry, "spans", "Spans of traces, by outcome");
        let outcome = |outcome| spans.get_or_create_owned(&[("outcome", outcome)]);
        Self { sent: outcome("sent"), dropped: outcome("dropped") }
    }
}

/// Look-ups in a cache.
pub struct Lookups {
    /// Values that the cache had.
    pub hits: Counter,
    /// Values that had to be fetched.
    pub misses: Counter,
}

impl Lookups {
    /// Counts a look-up.
    pub fn count(&self, is_hit: bool) {
        if is_hit {
            self.hits.inc();
        } else {
            self.misses.inc();
        }
    }
}

/// The state of the daily diff in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    /// The process runs it.
    On,
    /// It is switched off.
    Off,
    /// It is switched on, but the program that does it is missing.
    NoProgram,
}

impl Metrics {
    fn new() -> Self {
        let mut registry = Registry::with_prefix("laurel");
        let stores = Stores::new(&mut registry);
        let schedule = registered(
            &mut registry,
            "integrity_schedule",
            "State of the daily diff in this process: 1 for the present state",
        );
        let submissions = Submissions::new(&mut registry);
        let lookups: Family<[(&'static str, &'static str); 2], Counter> = registered(
            &mut registry,
            "cache_lookups",
            "Look-ups in the caches of whole answers and of first pages",
        );
        let of_cache = |cache| {
            let of =
                |outcome| lookups.get_or_create_owned(&[("cache", cache), ("outcome", outcome)]);
            Lookups { hits: of("hit"), misses: of("miss") }
        };
        let executions = Family::<Label, Histogram>::new_with_constructor(seconds);
        registry.register(
            "graphql_seconds",
            "Execution time of GraphQL requests, in seconds",
            executions.clone(),
        );
        let errors: Family<Label, Counter> =
            registered(&mut registry, "graphql_errors", "Errors in answers, by code");
        let points_under_way = registered(
            &mut registry,
            "points_under_way",
            "Points of the requests that are executed now",
        );
        let requests_waiting =
            registered(&mut registry, "requests_waiting", "Requests that wait to be executed");
        let requests_refused = Refused::new(&mut registry);
        let (commit_seconds, commit_scores) = commits(&mut registry);
        Self {
            stores,
            schedule,
            submissions,
            warnings: warnings(&mut registry),
            rows_deleted: rows_deleted(&mut registry),
            commit_scores,
            commit_seconds,
            query_seconds: executions.get_or_create_owned(&[("operation", "query")]),
            mutation_seconds: executions.get_or_create_owned(&[("operation", "mutation")]),
            answers: of_cache("answers"),
            pages: of_cache("pages"),
            connections: Connections::new(&mut registry),
            live: Live::new(&mut registry),
            spans: Spans::new(&mut registry),
            webhooks: Webhooks::new(&mut registry),
            points_under_way,
            requests_waiting,
            requests_refused,
            errors: ErrorCode::items()
                .iter()
                .map(|code| {
                    let counter = errors.get_or_create_owned(&[("code", code.name)]);
                    (code.name, counter)
                })
                .collect(),
            registry,
        }
    }

    /// Counts an error of a code in an answer.
    pub fn count_error(&self, code: &str) {
        if let Some(counter) = self.errors.get(code) {
            counter.inc();
        }
    }

    /// Sets the numbers of warnings, by check.
    pub fn set_warnings(&self, now: &[Warning]) {
        for check in Check::ALL {
            let count = now.iter().filter(|warning| warning.check == check).count();
            let gauge = self.warnings.get_or_create_owned(&[("check", check.name())]);
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// Counts old rows that were deleted.
    pub fn count_deleted(&self, records: Records, rows: u64) {
        self.rows_deleted.get_or_create_owned(&[("table", records.table())]).inc_by(rows);
    }

    /// Sets the state of the daily diff in this process.
    pub fn set_schedule(&self, now: Schedule) {
        let states =
            [("on", Schedule::On), ("off", Schedule::Off), ("no_program", Schedule::NoProgram)];
        for (name, state) in states {
            let gauge = self.schedule.get_or_create_owned(&[("state", name)]);
            gauge.set(i64::from(state == now));
        }
    }
}

/// Asks the stores for their state, unless a request did so a moment ago. No other request asks
/// while the guard is held.
pub async fn ask_stores(
    deployment: &Deployment,
    health: &Health,
) -> MutexGuard<'static, Option<Instant>> {
    METRICS.stores.ask(deployment, health).await
}

/// All metrics, with the last known state of the stores, as text.
pub fn text() -> String {
    let mut text = String::new();
    encode(&mut text, &METRICS.registry).expect("a string takes all text");
    text
}

/// A metric that begins empty.
fn registered<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// The durations of commits, and their scores.
fn commits(registry: &mut Registry) -> (Histogram, Histogram) {
    let (durations, scores) = (seconds(), Histogram::new(exponential_buckets(1.0, 4.0, 6)));
    let help = "Duration of commits of scores, in seconds";
    registry.register("commit_seconds", help, durations.clone());
    registry.register("commit_scores", "Scores per commit", scores.clone());
    (durations, scores)
}

/// The warnings of the watch, none at first.
fn warnings(registry: &mut Registry) -> Family<Label, Gauge> {
    let help = "What is wrong with the stores now though they answer, by check";
    let warnings: Family<Label, Gauge> = registered(registry, "warnings", help);
    for check in Check::ALL {
        warnings.get_or_create_owned(&[("check", check.name())]);
    }
    warnings
}

/// The rows that retention deleted, none at first.
fn rows_deleted(registry: &mut Registry) -> Family<Label, Counter> {
    let help = "Old rows that retention deleted, by table";
    let deleted: Family<Label, Counter> = registered(registry, "rows_deleted", help);
    for records in Records::ALL {
        deleted.get_or_create_owned(&[("table", records.table())]);
    }
    deleted
}

/// A histogram from a quarter of a millisecond to eight seconds, in powers of two.
fn seconds() -> Histogram {
    let first = Duration::from_micros(250).as_secs_f64();
    Histogram::new(exponential_buckets(first, 2.0, 16))
}
