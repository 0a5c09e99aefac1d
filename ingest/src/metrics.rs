//! The work since the start, for Prometheus and for the line at the end.

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::operations::Told;
use crate::pause::Pause;
use crate::server::Counted;
use crate::source::Lag;

/// A label.
pub(crate) type Label = [(&'static str, String); 1];

/// The metrics of this process.
pub(crate) struct Metrics {
    registry: Registry,
    /// Messages that were settled after their scores.
    pub(crate) settled: Counter,
    /// Messages that were settled after they were put aside.
    pub(crate) put_aside: Counter,
    letters: Counter,
    applied: Counter,
    duplicate: Counter,
    quarantined: Counter,
    /// Scores that the server refused for good, or that cannot be read.
    pub(crate) rejected: Counter,
    /// Scores that were sent again.
    pub(crate) again: Counter,
    waiting: Gauge,
    under_way: Gauge,
    pub(crate) paused: Pause,
}

impl Metrics {
    /// Metrics about a queue or a stream; none of it has been done.
    pub(crate) fn new(place: &str) -> Self {
        let mut registry = Registry::default();
        let messages: Family<Label, Counter> = Family::default();
        let scores: Family<Label, Counter> = Family::default();
        let (letters, paused) = (Counter::default(), Pause::default());
        let lag: Family<Label, Gauge> = Family::default();
        let under_way: Family<Label, Gauge> = Family::default();
        registry.register(
            "laurel_ingest_messages",
            "Messages that were settled, by outcome",
            messages.clone(),
        );
        registry.register(
            "laurel_ingest_scores",
            "Scores, by the answer of the server",
            scores.clone(),
        );
        registry.register(
            "laurel_ingest_dead_letters",
            "Messages that were put aside, confirmed by the broker",
            letters.clone(),
        );
        registry.register(
            "laurel_ingest_lag",
            "Messages that wait in the queue or the stream",
            lag.clone(),
        );
        registry.register(
            "laurel_ingest_under_way",
            "Messages that were handed out and are not settled, as far as the broker tells",
            under_way.clone(),
        );
        registry.register(
            "laurel_ingest_paused",
            "1 while the server or the broker does not answer",
            paused.gauge().clone(),
        );
        let outcome = |family: &Family<Label, Counter>, outcome: &str| {
            family.get_or_create_owned(&[("outcome", outcome.to_owned())])
        };
        let source = [("source", place.to_owned())];
        Self {
            settled: outcome(&messages, "settled"),
            put_aside: outcome(&messages, "dead_letter"),
            letters,
            applied: outcome(&scores, "applied"),
            duplicate: outcome(&scores, "duplicate"),
            quarantined: outcome(&scores, "quarantined"),
            rejected: outcome(&scores, "rejected"),
            again: outcome(&scores, "again"),
            waiting: lag.get_or_create_owned(&source),
            under_way: under_way.get_or_create_owned(&source),
            paused,
            registry,
        }
    }

    /// Counts a score that the server has.
    pub(crate) fn count(&self, counted: Counted) {
        match counted {
            Counted::Applied => self.applied.inc(),
            Counted::Duplicate => self.duplicate.inc(),
            Counted::Quarantined => self.quarantined.inc(),
        };
    }

    /// Counts dead letters that the broker has confirmed.
    pub(crate) fn count_letters(&self, count: usize) {
        self.letters.inc_by(count as u64);
    }

    /// Notes what is left.
    pub(crate) fn lags(&self, lag: Lag) {
        self.waiting.set(lag.waiting as i64);
        self.under_way.set(lag.under_way as i64);
    }

    /// The work, in a line.
    pub(crate) fn summary(&self) -> String {
        format!(
            "settled {} messages with {} scores applied, {} duplicate and {} quarantined; put {} messages aside, with {} scores refused",
            self.settled.get() + self.put_aside.get(),
            self.applied.get(),
            self.duplicate.get(),
            self.quarantined.get(),
            self.put_aside.get(),
            self.rejected.get(),
        )
    }
}

impl Told for Metrics {
    fn text(&self) -> String {
        text(&self.registry)
    }

    fn why_paused(&self) -> Option<String> {
        self.paused.why()
    }
}

/// Metrics as OpenMetrics text.
pub(crate) fn text(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).expect("a String takes all text");
    text
}
