//! The work of a feed since the start, for Prometheus and for the line at the end.

use engine::webhook::delivery::Waiting;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::metrics::{Label, text};
use crate::operations::Told;
use crate::pause::Pause;

/// The metrics of a feed.
pub(crate) struct Metrics {
    registry: Registry,
    /// Events that the broker has confirmed.
    pub(crate) confirmed: Counter,
    /// Attempts to hand over events that failed.
    pub(crate) failed: Counter,
    commits: Gauge,
    events: Gauge,
    /// The pause while there is no webhook to deliver to, or SQL does not answer.
    pub(super) webhook: Pause,
    /// The pause while the broker takes nothing.
    pub(crate) broker: Pause,
}

impl Metrics {
    /// Metrics of nothing done yet.
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let deliveries: Family<Label, Counter> = Family::default();
        let paused: Family<Label, Gauge> = Family::default();
        let (commits, events) = (Gauge::default(), Gauge::default());
        registry.register(
            "laurel_feed_events",
            "Events that the broker confirmed, and attempts that failed, by outcome",
            deliveries.clone(),
        );
        registry.register(
            "laurel_feed_commits_behind",
            "Commits of the history that the feed has still to read",
            commits.clone(),
        );
        registry.register(
            "laurel_feed_events_waiting",
            "Events beside the history that wait for the feed",
            events.clone(),
        );
        registry.register(
            "laurel_feed_paused",
            "1 while nothing is delivered, by what it waits for",
            paused.clone(),
        );
        let outcome =
            |outcome: &str| deliveries.get_or_create_owned(&[("outcome", outcome.to_owned())]);
        let pause =
            |reason: &str| Pause::of(paused.get_or_create_owned(&[("reason", reason.to_owned())]));
        Self {
            confirmed: outcome("confirmed"),
            failed: outcome("failed"),
            commits,
            events,
            webhook: pause("webhook"),
            broker: pause("broker"),
            registry,
        }
    }

    /// Notes what waits.
    pub(super) fn waits(&self, waiting: Waiting) {
        self.commits.set(waiting.commits);
        self.events.set(i64::try_from(waiting.events).unwrap_or(i64::MAX));
    }

    /// The work, in a line.
    pub(super) fn summary(&self) -> String {
        format!(
            "the broker confirmed {} events; {} attempts failed",
            self.confirmed.get(),
            self.failed.get()
        )
    }
}

impl Told for Metrics {
    fn text(&self) -> String {
        text(&self.registry)
    }

    fn why_paused(&self) -> Option<String> {
        self.webhook.why().or_else(|| self.broker.why())
    }
}
