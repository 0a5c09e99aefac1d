//! A delivery of RabbitMQ as a message.

use lapin::message::Delivery;
use lapin::types::{AMQPValue, FieldTable};

use crate::message::Message;

/// The prefixes of a CloudEvent's attributes in headers.
const CLOUD_EVENT: [&str; 2] = ["cloudEvents:", "cloudEvents_"];

/// A delivery as a message; takes its payload.
pub(super) fn message(delivery: &mut Delivery) -> Message {
    let properties = &delivery.properties;
    let mut message = Message {
        position: delivery.delivery_tag.to_string(),
        subject: delivery.routing_key.to_string(),
        payload: std::mem::take(&mut delivery.data).into(),
        content_type: properties.content_type().as_ref().map(ToString::to_string),
        id: properties.message_id().as_ref().map(ToString::to_string),
        at_ms: properties.timestamp().and_then(|s| i64::try_from(s).ok()?.checked_mul(1000)),
        ..Message::default()
    };
    for (name, value) in properties.headers().iter().flat_map(FieldTable::inner) {
        let name = name.as_str();
        if name == "timestamp_in_ms" {
            // The broker's own clock, if it stamps messages.
            let at_ms = text(value).and_then(|text| text.parse().ok());
            message.at_ms = at_ms.or(message.at_ms);
        }
        let attribute = CLOUD_EVENT.iter().find_map(|prefix| name.strip_prefix(prefix));
        if let (Some(attribute), Some(text)) = (attribute, text(value)) {
            message.attributes.insert(attribute.to_owned(), text);
        }
    }
    message
}

/// The text of a header.
fn text(value: &AMQPValue) -> Option<String> {
    Some(match value {
        AMQPValue::LongString(text) => String::from_utf8_lossy(text.as_bytes()).into_owned(),
        AMQPValue::ShortString(text) => text.to_string(),
        AMQPValue::LongLongInt(number) => number.to_string(),
        AMQPValue::LongInt(number) => number.to_string(),
        // A timestamp of AMQP has seconds; as the time of an event it is read as RFC 3339.
        AMQPValue::Timestamp(seconds) => {
            jiff::Timestamp::from_second(i64::try_from(*seconds).ok()?).ok()?.to_string()
        }
        _ => return None,
    })
}
