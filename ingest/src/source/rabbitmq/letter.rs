//! The properties of a dead letter in a queue of RabbitMQ.

use lapin::BasicProperties;
use lapin::message::Delivery;
use lapin::types::{AMQPValue, FieldTable};

use super::super::DeadLetter;

/// Headers that would send a dead letter elsewhere, too.
const ROUTING: [&str; 2] = ["CC", "BCC"];

/// The delivery mode of a message that outlives the broker's process.
pub(crate) const PERSISTENT: u8 = 2;

/// The properties of a dead letter: those of its message, with the reason in headers. Without the
/// ones that would end it early, send it elsewhere, or make the broker refuse it.
pub(super) fn properties(
    delivery: &Delivery,
    queue: &str,
    position: &str,
    letter: &DeadLetter,
) -> BasicProperties {
    let old = &delivery.properties;
    let mut headers = FieldTable::default();
    for (name, value) in old.headers().iter().flat_map(FieldTable::inner) {
        if !ROUTING.contains(&name.as_str()) {
            headers.insert(name.clone(), value.clone());
        }
    }
    let told = [
        ("laurel-reason", letter.fault.reason.as_str()),
        ("laurel-code", letter.fault.code.as_str()),
        ("laurel-source", queue),
        ("laurel-exchange", delivery.exchange.as_str()),
        ("laurel-routing-key", delivery.routing_key.as_str()),
        ("laurel-position", position),
    ];
    for (name, value) in told {
        headers.insert(name.into(), AMQPValue::LongString(value.into()));
    }
    let mut new = BasicProperties::default().with_headers(headers).with_delivery_mode(PERSISTENT);
    if let Some(kind) = old.content_type() {
        new = new.with_content_type(kind.clone());
    }
    if let Some(encoding) = old.content_encoding() {
        new = new.with_content_encoding(encoding.clone());
    }
    if let Some(id) = old.message_id() {
        new = new.with_message_id(id.clone());
    }
    if let Some(correlation) = old.correlation_id() {
        new = new.with_correlation_id(correlation.clone());
    }
    if let Some(timestamp) = old.timestamp() {
        new = new.with_timestamp(*timestamp);
    }
    if let Some(kind) = old.kind() {
        new = new.with_type(kind.clone());
    }
    if let Some(app) = old.app_id() {
        new = new.with_app_id(app.clone());
    }
    new
}
