//! Deliveries to webhooks.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Label, registered};

/// Deliveries to webhooks.
pub struct Webhooks {
    /// Events that the receiver took.
    pub taken: Counter,
    /// Attempts that failed.
    pub refused: Counter,
    failed: Gauge,
}

impl Webhooks {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let deliveries: Family<Label, Counter> = registered(
            registry,
            "webhook_deliveries",
            "Deliveries of events to webhooks by this process, by outcome",
        );
        let of = |outcome| deliveries.get_or_create_owned(&[("outcome", outcome)]);
        let help = "Webhooks that failed and get no more events";
        Self {
            taken: of("taken"),
            refused: of("failed"),
            failed: registered(registry, "webhooks_failed", help),
        }
    }

    /// Sets the number of webhooks that failed.
    pub fn set_failed(&self, count: usize) {
        self.failed.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}
