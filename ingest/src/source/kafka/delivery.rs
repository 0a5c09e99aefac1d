//! A message as Kafka handed it out.

use hyper::body::Bytes;
use rdkafka::message::{BorrowedMessage, Headers, Message as _, OwnedHeaders};

use super::super::{LETTER_ID, LETTER_TIME, read_time};
use crate::message::{Message, Place};

/// The prefix of a CloudEvent's attributes in headers.
const CLOUD_EVENT: &str = "ce_";

/// A message that was handed out.
pub(super) struct Delivery {
    pub(super) partition: i32,
    pub(super) offset: i64,
    /// The turn in which its partition came here.
    pub(super) turn: u64,
    pub(super) key: Option<Vec<u8>>,
    pub(super) headers: Option<OwnedHeaders>,
}

/// A message, as it was handed out.
pub(super) fn read(message: &BorrowedMessage<'_>, turn: u64) -> (Delivery, Message) {
    let (partition, offset) = (message.partition(), message.offset());
    let delivery = Delivery {
        partition,
        offset,
        turn,
        key: message.key().map(<[u8]>::to_vec),
        headers: message.headers().map(|headers| headers.detach()),
    };
    let mut read = Message {
        position: format!("{partition}/{offset}"),
        place: u32::try_from(partition)
            .ok()
            .zip(u64::try_from(offset).ok())
            .map(|(partition, offset)| Place { partition, offset }),
        subject: message.topic().to_owned(),
        payload: Bytes::copy_from_slice(message.payload().unwrap_or_default()),
        at_ms: message.timestamp().to_millis(),
        ..Message::default()
    };
    if let Some(headers) = &delivery.headers {
        read_headers(headers, &mut read);
    }
    (delivery, read)
}

/// Reads the headers of a message. Of several values of one name the last holds, as for Kafka's own
/// clients. A letter's own time comes before that of the topic that it is published to again.
fn read_headers(headers: &OwnedHeaders, message: &mut Message) {
    for header in headers.iter() {
        let Some(value) = header.value else { continue };
        let text = || String::from_utf8_lossy(value).into_owned();
        match header.key {
            "content-type" => message.content_type = Some(text()),
            LETTER_ID => message.id = Some(text()),
            LETTER_TIME => message.at_ms = read_time(&text()).or(message.at_ms),
            name => {
                if let Some(attribute) = name.strip_prefix(CLOUD_EVENT) {
                    message.attributes.insert(attribute.to_owned(), text());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rdkafka::message::Header;

    use super::*;

    #[test]
    fn the_last_of_several_headers_holds() {
        let said = [
            ("content-type", "a/b"),
            ("content-type", "c/d"),
            ("laurel-message-id", "1"),
            ("laurel-time", "1970-01-01T00:00:01Z"),
            ("laurel-time", "never"),
            ("ce_id", "2"),
            ("other", "x"),
        ];
        let headers = said.iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
            headers.insert(Header { key, value: Some(*value) })
        });
        let mut message = Message { at_ms: Some(7), ..Message::default() };
        read_headers(&headers, &mut message);
        assert_eq!(message.content_type.as_deref(), Some("c/d"));
        assert_eq!((message.id.as_deref(), message.at_ms), (Some("1"), Some(1000)));
        assert_eq!(message.attributes, BTreeMap::from([("id".to_owned(), "2".to_owned())]));
    }
}
