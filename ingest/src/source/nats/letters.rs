//! Dead letters in a stream of NATS: each with the reason in headers, and short enough for the
//! server and the stream.

use anyhow::anyhow;
use async_nats::header::HeaderMap;
use async_nats::jetstream::consumer::Consumer;
use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::context::GetStreamByNameErrorKind;
use async_nats::jetstream::{Context, Message as Delivery};
use hyper::body::Bytes;

use super::super::{DeadLetter, LETTER_ID, LETTER_TIME, Trouble, lost};
use super::{NatsAddress, stream, trouble};
use crate::format::{instant, shortened};
use crate::message::Message;

/// The prefix of headers that are commands to a stream.
const COMMAND: &str = "nats-";

/// The bytes that any letter may need for the headers that say what it is: a stream of shorter
/// messages takes no letters.
const LETTER_BYTES_MIN: usize = 4 << 10;

/// The place of dead letters.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) subject: String,
    /// The longest message that its stream takes, in bytes.
    pub(super) bytes_max: usize,
}

/// The place that a subject names.
///
/// # Errors
/// If no stream keeps it, if its stream takes only short messages, or if letters would come back.
pub(super) async fn open(
    context: &Context,
    subject: &str,
    consumer: &Consumer<Config>,
    address: &NatsAddress,
) -> Result<Place, Trouble> {
    let name = context.stream_by_subject(subject).await.map_err(|error| {
        let is_passing = matches!(error.kind(), GetStreamByNameErrorKind::Request);
        let told = format!("no stream keeps the subject {subject} of dead letters: expected one");
        trouble(is_passing, anyhow!("{told} ({error})"))
    })?;
    let config = &consumer.cached_info().config;
    let filters = config.filter_subjects.iter().chain([&config.filter_subject]);
    let filters: Vec<&str> =
        filters.map(String::as_str).filter(|filter| !filter.is_empty()).collect();
    let is_taken = filters.is_empty() || filters.iter().any(|filter| fits(filter, subject));
    if name == address.stream && is_taken {
        return Err(Trouble::Wrong(anyhow!(
            "dead letters would come back, as the consumer {} takes {subject}, too: expected a subject in another stream than {name}, or a filter that leaves it out",
            address.consumer
        )));
    }
    let stream = stream(context, &name).await?;
    let bytes_max = usize::try_from(stream.cached_info().config.max_message_size)
        .ok()
        .filter(|bytes| *bytes > 0)
        .unwrap_or(usize::MAX);
    if bytes_max < LETTER_BYTES_MIN {
        return Err(Trouble::Wrong(anyhow!(
            "the stream {name} takes messages of {bytes_max} bytes: expected at least {LETTER_BYTES_MIN} for dead letters"
        )));
    }
    Ok(Place { subject: subject.to_owned(), bytes_max })
}

/// True if a subject fits a filter, in which * stands for one part and > for all that follow.
pub(crate) fn fits(filter: &str, subject: &str) -> bool {
    let mut parts = subject.split('.');
    for wanted in filter.split('.') {
        match (wanted, parts.next()) {
            (">", Some(_)) => return true,
            ("*", Some(_)) => {}
            (wanted, Some(part)) if wanted == part => {}
            _ => return false,
        }
    }
    parts.next().is_none()
}

/// The letter of a message: its headers and bytes, with the reason. A message that is as long as
/// the server allows leaves no room for the reason. Then its end is cut off, and its own headers
/// are left out if that is not enough; a header says so by the length of the whole.
pub(super) fn letter(
    delivery: &Delivery,
    message: &Message,
    letter: &DeadLetter,
    bytes_max: usize,
) -> Result<(HeaderMap, Bytes), Trouble> {
    let info = delivery.info().map_err(|error| lost(anyhow!("{error}")))?;
    let mut headers = own(delivery.headers.as_ref());
    tell(&mut headers, info.stream, message, letter);
    let (id, at) = (message.id.as_deref(), message.at_ms.and_then(instant));
    for (name, value) in [(LETTER_ID, id), (LETTER_TIME, at.as_deref())] {
        if let Some(value) = value {
            headers.insert(name, value);
        }
    }
    Ok(cut(headers, &message.payload, bytes_max, || {
        let mut few = HeaderMap::new();
        tell(&mut few, info.stream, message, letter);
        few
    }))
}

/// A letter of at most so many bytes; `few` are the headers if there is no room for all.
fn cut(
    mut headers: HeaderMap,
    payload: &Bytes,
    bytes_max: usize,
    few: impl FnOnce() -> HeaderMap,
) -> (HeaderMap, Bytes) {
    if length(&headers) + payload.len() <= bytes_max {
        return (headers, payload.clone());
    }
    let say_cut = |headers: &mut HeaderMap| {
        headers.insert("laurel-cut", payload.len().to_string().as_str());
        bytes_max.checked_sub(length(headers))
    };
    let room = say_cut(&mut headers).unwrap_or_else(|| {
        headers = few();
        say_cut(&mut headers).unwrap_or_default()
    });
    (headers, payload.slice(..room.min(payload.len())))
}

/// The headers of a message, without those that are commands to a stream: it would take two letters
/// with one id for one.
fn own(headers: Option<&HeaderMap>) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for (name, values) in headers.into_iter().flat_map(HeaderMap::iter) {
        let text: &str = name.as_ref();
        if !text.to_ascii_lowercase().starts_with(COMMAND) {
            for value in values {
                kept.append(name.clone(), value.clone());
            }
        }
    }
    kept
}

/// Adds the headers that say what a letter is.
fn tell(headers: &mut HeaderMap, stream: &str, message: &Message, letter: &DeadLetter) {
    for (name, value) in [
        ("laurel-reason", &*letter.fault.reason),
        ("laurel-code", &*shortened(&letter.fault.code)),
        ("laurel-source", stream),
        ("laurel-subject", &*shortened(&message.subject)),
        ("laurel-position", &*message.position),
    ] {
        headers.insert(name, value);
    }
}

/// The bytes of headers, as the server counts them.
fn length(headers: &HeaderMap) -> usize {
    let pairs = headers.iter().flat_map(|(name, values)| {
        let name: &str = name.as_ref();
        values.iter().map(move |value| name.len() + value.as_str().len() + ": \r\n".len())
    });
    "NATS/1.0\r\n\r\n".len() + pairs.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_takes_subjects_part_by_part() {
        for (filter, subject, is_taken) in [
            ("a.b", "a.b", true),
            ("a.b", "a.b.c", false),
            ("a.b.c", "a.b", false),
            ("a.*", "a.b", true),
            ("a.*", "a.b.c", false),
            ("a.*", "a", false),
            ("*.b", "a.b", true),
            ("a.>", "a.b.c", true),
            ("a.>", "a", false),
            (">", "a", true),
            ("ab", "a", false),
        ] {
            assert_eq!(fits(filter, subject), is_taken, "{filter} {subject}");
        }
    }

    #[test]
    fn a_letter_keeps_to_its_bytes_and_says_when_it_is_cut() {
        let with = |bytes: usize| {
            let mut headers = HeaderMap::new();
            headers.insert("laurel-reason", "r");
            headers.insert("x", "v".repeat(bytes));
            headers
        };
        let few = || {
            let mut headers = HeaderMap::new();
            headers.insert("laurel-reason", "r");
            headers
        };
        let payload = Bytes::from(vec![7; 5000]);
        for bytes in [0, 100, 4000, 8000, 20_000] {
            for bytes_max in [4096, 5000, 5200, 9000, 30_000] {
                let (headers, body) = cut(with(bytes), &payload, bytes_max, few);
                assert!(length(&headers) + body.len() <= bytes_max, "{bytes} {bytes_max}");
                assert_eq!(headers.get("laurel-reason").unwrap().as_str(), "r");
                let is_whole = length(&with(bytes)) + payload.len() <= bytes_max;
                assert_eq!(headers.get("laurel-cut").is_none(), is_whole, "{bytes} {bytes_max}");
                let is_full = length(&headers) + body.len() == bytes_max;
                assert!(is_whole || is_full || body.len() == payload.len());
            }
        }
    }
}
