//! The messages of graphql-transport-ws, as far as a session looks at them.

use std::borrow::Cow;

use async_graphql::Request;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The longest id of an operation, in bytes.
const OPERATION_ID_BYTES_MAX: usize = 128;

/// A message of a client.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    ConnectionInit,
    Subscribe { id: String },
    Complete { id: String },
    Ping,
    Pong,
}

/// A message of the server.
#[derive(Debug, PartialEq, Eq)]
pub enum Sent<'a> {
    ConnectionAck,
    /// An answer.
    Next {
        id: Cow<'a, str>,
    },
    /// A refusal: the errors, as a JSON list.
    Refusal {
        id: Cow<'a, str>,
        errors: String,
    },
    Complete {
        id: Cow<'a, str>,
    },
    /// A message that needs no look.
    Other,
}

#[derive(Deserialize)]
struct ClientEnvelope<'a> {
    r#type: String,
    id: Option<String>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    r#type: &'a str,
    #[serde(borrow, default)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(borrow)]
    errors: &'a RawValue,
}

impl Received {
    /// Reads a message; `None` if it is none of the protocol.
    pub fn read(text: &str) -> Option<Self> {
        // A payload may have more than a request, which is passed over and not read.
        let ClientEnvelope { r#type, id, payload } = serde_json::from_str(text).ok()?;
        let id = id.filter(|id| id.len() <= OPERATION_ID_BYTES_MAX);
        Some(match r#type.as_str() {
            "connection_init" => Self::ConnectionInit,
            "subscribe" => {
                serde_json::from_str::<Request>(payload?.get()).ok()?;
                Self::Subscribe { id: id? }
            }
            "complete" => Self::Complete { id: id? },
            "ping" => Self::Ping,
            "pong" => Self::Pong,
            _ => return None,
        })
    }
}

impl<'a> Sent<'a> {
    /// Reads a message that async-graphql has written: its type comes first, and its payload last.
    pub fn read(text: &'a str) -> Self {
        if let Some(rest) = text.strip_prefix("{\"type\":\"next\",\"id\":")
            && !has_no_data(text)
            && let Some(Ok(id)) = serde_json::Deserializer::from_str(rest).into_iter().next()
        {
            return Self::Next { id };
        }
        let Ok(Envelope { r#type, id, payload }) = serde_json::from_str(text) else {
            return Self::Other;
        };
        match r#type {
            "connection_ack" => Self::ConnectionAck,
            "complete" => Self::Complete { id },
            "next" => match payload.map(|payload| serde_json::from_str(payload.get())) {
                Some(Ok(Payload { errors })) => {
                    Self::Refusal { id, errors: errors.get().to_owned() }
                }
                _ => Self::Next { id },
            },
            _ => Self::Other,
        }
    }
}

/// True if the payload of an answer begins with data that is null. An id may have as many bytes
/// again as escapes.
fn has_no_data(text: &str) -> bool {
    let begin = text.floor_char_boundary(64 + 6 * OPERATION_ID_BYTES_MAX);
    text[..begin].contains("\"payload\":{\"data\":null,\"errors\"")
}

/// The message that refuses an operation.
pub fn error(id: &str, errors: &str) -> String {
    let id = serde_json::Value::from(id);
    format!("{{\"type\":\"error\",\"id\":{id},\"payload\":{errors}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_of_the_protocol_are_read() {
        let subscribe = r#"{"id":"1","type":"subscribe","payload":{"query":"{ a }"}}"#;
        assert_eq!(Received::read(subscribe), Some(Received::Subscribe { id: "1".into() }));
        let init = r#"{"type":"connection_init","payload":{"token":"x"}}"#;
        assert_eq!(Received::read(init), Some(Received::ConnectionInit));
        assert_eq!(Received::read(r#"{"type":"ping"}"#), Some(Received::Ping));
        let long = subscribe.replace("\"1\"", &format!("\"{}\"", "x".repeat(129)));
        for wrong in [
            "",
            "[]",
            r#"{"type":"start","id":"1","payload":{"query":"{ a }"}}"#,
            r#"{"type":"stop","id":"1"}"#,
            r#"{"type":"connection_terminate"}"#,
            r#"{"type":"subscribe","id":"1"}"#,
            r#"{"type":"subscribe","id":1,"payload":{"query":"{ a }"}}"#,
            r#"{"type":"subscribe","id":"1","payload":{"query":1}}"#,
            &long,
        ] {
            assert_eq!(Received::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_answer_without_data_is_a_refusal() {
        let refusal =
            r#"{"type":"next","id":"a","payload":{"data":null,"errors":[{"message":"m"}]}}"#;
        let errors = r#"[{"message":"m"}]"#.to_owned();
        assert_eq!(Sent::read(refusal), Sent::Refusal { id: "a".into(), errors });
        let null = r#"{"type":"next","id":"a","payload":{"data":{"entry":null},"errors":[]}}"#;
        assert_eq!(Sent::read(null), Sent::Next { id: "a".into() });
        let complete = r#"{"type":"complete","id":"\"payload\":{\"data\":null,\"errors\""}"#;
        let id = "\"payload\":{\"data\":null,\"errors\"".into();
        assert_eq!(Sent::read(complete), Sent::Complete { id });
        assert_eq!(Sent::read(r#"{"type":"connection_ack"}"#), Sent::ConnectionAck);
        assert_eq!(Sent::read(r#"{"type":"pong"}"#), Sent::Other);
        let text = error("\"", "[]");
        assert_eq!(text, r#"{"type":"error","id":"\"","payload":[]}"#);
    }
}
