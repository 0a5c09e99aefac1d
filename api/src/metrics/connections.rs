//! The metrics of connections: how many are open, and why others were refused or closed.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Label, registered};

/// The metrics of connections.
pub struct Connections {
    /// Connections that clients hold.
    pub open: Gauge,
    /// Connections beyond the limit of their address.
    pub refused_for_address: Counter,
    /// Connections that the system could not give, as it has no more files or no memory.
    pub refused_by_system: Counter,
    /// Connections whose headers took too long.
    pub closed_for_headers: Counter,
    /// Connections that waited too long for a request.
    pub closed_for_idleness: Counter,
    /// Connections whose client took none of its answer.
    pub closed_for_stall: Counter,
    /// Connections that made room for a new one, as all were taken.
    pub closed_for_room: Counter,
}

impl Connections {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let open = registered(registry, "connections", "Connections that clients hold");
        let refused: Family<Label, Counter> = registered(
            registry,
            "connections_refused",
            "Connections that were refused or could not be accepted, by reason",
        );
        let closed: Family<Label, Counter> = registered(
            registry,
            "connections_closed",
            "Connections that the server closed, by reason",
        );
        let refused = |reason| refused.get_or_create_owned(&[("reason", reason)]);
        let closed = |reason| closed.get_or_create_owned(&[("reason", reason)]);
        Self {
            open,
            refused_for_address: refused("address"),
            refused_by_system: refused("system"),
            closed_for_headers: closed("headers"),
            closed_for_idleness: closed("idle"),
            closed_for_stall: closed("write"),
            closed_for_room: closed("room"),
        }
    }
}
