//! `/metrics`: what this process counts, and what the stores say, as text for Prometheus (OpenMetrics).
//!
//! Whoever does something counts it by adding to a number that is there already; nothing is looked up or allocated on the way. What the stores
//! say is asked for when somebody reads, at most every few seconds. Labels have few values: outcomes, kinds, codes and partitions, never
//! boards or members.

mod stores;

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use async_graphql::resolver_utils::EnumType;
use engine::deployment::Deployment;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::error::ErrorCode;
use stores::Stores;

/// What this process counts.
pub static METRICS: LazyLock<Metrics> = LazyLock::new(Metrics::new);

/// The media type of what [`text`] gives.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A label.
type Label = [(&'static str, &'static str); 1];

/// What this process counts. All of it is registered once, by name.
pub struct Metrics {
    registry: Registry,
    stores: Stores,
    schedule: Family<Label, Gauge>,
    /// Scores that were submitted, by what became of them.
    pub submissions: Submissions,
    /// How many scores a commit of this process had.
    pub commit_scores: Histogram,
    /// How long a commit took from being taken up to being answered, in seconds.
    pub commit_seconds: Histogram,
    /// How long the execution of queries took, in seconds.
    pub query_seconds: Histogram,
    /// How long the execution of mutations took, in seconds.
    pub mutation_seconds: Histogram,
    /// Look-ups of whole answers.
    pub answers: Lookups,
    /// Look-ups of first pages of standings.
    pub pages: Lookups,
    errors: HashMap<&'static str, Counter>,
}

/// Scores that were submitted, by what became of them.
pub struct Submissions {
    /// They count.
    pub accepted: Counter,
    /// They counted before.
    pub duplicate: Counter,
    /// They were refused.
    pub rejected: Counter,
    /// They were not taken for now: nothing was written.
    pub unavailable: Counter,
    /// No answer in time.
    pub unknown: Counter,
}

/// Look-ups in a cache.
pub struct Lookups {
    /// What was there.
    pub hits: Counter,
    /// What had to be fetched.
    pub misses: Counter,
}

impl Lookups {
    /// Counts one.
    pub fn count(&self, is_hit: bool) {
        if is_hit {
            self.hits.inc();
        } else {
            self.misses.inc();
        }
    }
}

/// Whether this process sees to the daily diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    /// It does.
    On,
    /// It was told not to.
    Off,
    /// It would, but there is no program to do it.
    NoProgram,
}

impl Metrics {
    fn new() -> Self {
        let mut registry = Registry::with_prefix("laurel");
        let stores = Stores::new(&mut registry);
        let schedule = Family::default();
        registry.register(
            "integrity_schedule",
            "Whether this process sees to the daily diff: 1 for the state it is in",
            schedule.clone(),
        );
        let submissions =
            counters(&mut registry, "submissions", "Scores submitted, by what became of them");
        let outcome = |outcome| submissions.get_or_create_owned(&[("outcome", outcome)]);
        let lookups = Family::<[(&'static str, &'static str); 2], Counter>::default();
        registry.register(
            "cache_lookups",
            "Look-ups of whole answers and of first pages",
            lookups.clone(),
        );
        let of_cache = |cache| {
            let of =
                |outcome| lookups.get_or_create_owned(&[("cache", cache), ("outcome", outcome)]);
            Lookups { hits: of("hit"), misses: of("miss") }
        };
        let executions = Family::<Label, Histogram>::new_with_constructor(seconds);
        registry.register(
            "graphql_seconds",
            "How long GraphQL requests were executed, in seconds",
            executions.clone(),
        );
        let errors = counters(&mut registry, "graphql_errors", "Errors in answers, by code");
        let (commit_seconds, commit_scores) =
            (seconds(), Histogram::new(exponential_buckets(1.0, 4.0, 6)));
        registry.register(
            "commit_seconds",
            "How long commits of scores took, in seconds",
            commit_seconds.clone(),
        );
        registry.register("commit_scores", "How many scores commits had", commit_scores.clone());
        Self {
            stores,
            schedule,
            submissions: Submissions {
                accepted: outcome("accepted"),
                duplicate: outcome("duplicate"),
                rejected: outcome("rejected"),
                unavailable: outcome("unavailable"),
                unknown: outcome("unknown"),
            },
            commit_scores,
            commit_seconds,
            query_seconds: executions.get_or_create_owned(&[("operation", "query")]),
            mutation_seconds: executions.get_or_create_owned(&[("operation", "mutation")]),
            answers: of_cache("answers"),
            pages: of_cache("pages"),
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

    /// Says whether this process sees to the daily diff.
    pub fn set_schedule(&self, now: Schedule) {
        let states =
            [("on", Schedule::On), ("off", Schedule::Off), ("no_program", Schedule::NoProgram)];
        for (name, state) in states {
            let gauge = self.schedule.get_or_create_owned(&[("state", name)]);
            gauge.set(i64::from(state == now));
        }
    }
}

/// All of it, as text.
pub async fn text(deployment: &Deployment) -> String {
    let metrics = &*METRICS;
    let _asked = metrics.stores.ask(deployment).await;
    let mut text = String::new();
    encode(&mut text, &metrics.registry).expect("a string takes all text");
    text
}

fn counters(registry: &mut Registry, name: &str, help: &str) -> Family<Label, Counter> {
    let family = Family::default();
    registry.register(name, help, family.clone());
    family
}

/// From a quarter of a millisecond to eight seconds, in powers of two.
fn seconds() -> Histogram {
    let first = Duration::from_micros(250).as_secs_f64();
    Histogram::new(exponential_buckets(first, 2.0, 16))
}
