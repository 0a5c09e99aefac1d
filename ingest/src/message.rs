//! A message as a broker delivered it, whatever the broker is.

use std::collections::BTreeMap;

use hyper::body::Bytes;

/// The longest message that is read, in bytes; a longer one is a dead letter.
pub(crate) const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// The place of a message in a source that hands its messages out in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) partition: u32,
    pub(crate) offset: u64,
}

/// A message.
#[derive(Debug, Clone, Default)]
pub(crate) struct Message {
    /// Its name within its queue or stream, for people: a sequence number or a delivery tag.
    pub(crate) position: String,
    /// Its place, if the server is to keep the positions of this source.
    pub(crate) place: Option<Place>,
    /// Its routing key or subject.
    pub(crate) subject: String,
    pub(crate) payload: Bytes,
    pub(crate) content_type: Option<String>,
    /// The attributes of a CloudEvent in its headers, without their prefix.
    pub(crate) attributes: BTreeMap<String, String>,
    /// The id that its producer gave it, as the broker knows ids.
    pub(crate) id: Option<String>,
    /// The broker's timestamp, in Unix milliseconds.
    pub(crate) at_ms: Option<i64>,
}

/// The reason why a message, or one of its scores, does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// A code of the API, such as BAD_USER_INPUT.
    pub(crate) code: String,
    /// A sentence for people.
    pub(crate) reason: String,
}

impl Fault {
    /// BAD_USER_INPUT.
    pub(crate) fn bad(reason: impl Into<String>) -> Self {
        Self { code: "BAD_USER_INPUT".to_owned(), reason: reason.into() }
    }

    /// LIMIT_EXCEEDED.
    pub(crate) fn limit(reason: impl Into<String>) -> Self {
        Self { code: "LIMIT_EXCEEDED".to_owned(), reason: reason.into() }
    }
}
