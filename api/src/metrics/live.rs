//! The metrics of subscriptions: sockets, subscriptions, answers pushed, and why sockets were
//! closed.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Label, registered};
use crate::http::socket::close::Close;

/// The metrics of subscriptions.
pub struct Live {
    /// WebSockets that clients hold.
    pub websockets: Gauge,
    /// Event streams that clients hold.
    pub event_streams: Gauge,
    /// Subscriptions of all sockets.
    pub subscriptions: Gauge,
    /// Answers that were pushed to sockets.
    pub pushes: Counter,
    /// Reads of standings for all who follow them.
    pub reads: Counter,
    /// Executions of documents for all who sent the same one.
    pub executions: Counter,
    /// Sockets beyond the limit of all.
    pub refused_for_all: Counter,
    /// Sockets beyond the limit of their address.
    pub refused_for_address: Counter,
    /// WebSockets that a page of another origin asked for.
    pub refused_for_origin: Counter,
    closed: Family<Label, Counter>,
}

impl Live {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let sockets: Family<Label, Gauge> =
            registered(registry, "sockets", "Sockets that clients hold, by transport");
        let refused: Family<Label, Counter> =
            registered(registry, "sockets_refused", "Sockets that were refused, by reason");
        let closed: Family<Label, Counter> =
            registered(registry, "sockets_closed", "WebSockets that the server closed, by reason");
        for close in Close::ALL {
            closed.get_or_create_owned(&[("reason", close.name())]);
        }
        let of = |transport| sockets.get_or_create_owned(&[("transport", transport)]);
        let refused = |reason| refused.get_or_create_owned(&[("reason", reason)]);
        Self {
            websockets: of("websocket"),
            event_streams: of("sse"),
            subscriptions: registered(registry, "subscriptions", "Subscriptions of all sockets"),
            pushes: registered(registry, "pushes", "Answers that were pushed to sockets"),
            reads: registered(
                registry,
                "live_reads",
                "Reads of standings for all subscriptions to them",
            ),
            executions: registered(
                registry,
                "live_executions",
                "Executions of documents for all subscriptions of the same one",
            ),
            refused_for_all: refused("all"),
            refused_for_address: refused("address"),
            refused_for_origin: refused("origin"),
            closed,
        }
    }

    /// Counts a WebSocket that the server closes.
    pub fn count_closed(&self, close: Close) {
        self.closed.get_or_create_owned(&[("reason", close.name())]).inc();
    }
}
