//! CloudEvents 1.0 around scores: structured (all of it is JSON) or binary (its attributes are
//! headers).

use serde::Deserialize;
use serde_json::value::RawValue;

use super::shortened;
use crate::message::{Fault, Message};

/// The media types of structured events begin so.
const STRUCTURED: &str = "application/cloudevents";

/// The media type of one structured event in JSON.
const STRUCTURED_JSON: &str = "application/cloudevents+json";

/// The scores of a message, and what an event says of all of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Envelope<'m> {
    /// JSON text.
    pub(super) data: &'m str,
    /// The event's id: its source and its id within that.
    pub(super) id: Option<String>,
    /// The event's time, in RFC 3339.
    pub(super) at: Option<String>,
}

/// A structured event; extensions are ignored.
#[derive(Deserialize)]
struct Structured<'a> {
    specversion: String,
    id: String,
    source: String,
    time: Option<String>,
    datacontenttype: Option<String>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

impl<'m> Envelope<'m> {
    /// The content of a message, by its content type and headers.
    ///
    /// # Errors
    /// If it is no JSON, or an event that cannot be read.
    pub(super) fn of(message: &'m Message) -> Result<Self, Fault> {
        let text = std::str::from_utf8(&message.payload)
            .map_err(|_| Fault::bad("it is not JSON: it is no UTF-8"))?;
        let media_type = message.content_type.as_deref().unwrap_or_default();
        let media_type = media_type.split(';').next().unwrap_or_default().trim();
        if media_type.eq_ignore_ascii_case(STRUCTURED_JSON) {
            return structured(text);
        }
        let begins = media_type.get(..STRUCTURED.len());
        if begins.is_some_and(|begins| begins.eq_ignore_ascii_case(STRUCTURED)) {
            return Err(Fault::bad(shortened(&format!(
                "it is of type {media_type}: expected {STRUCTURED_JSON} or JSON"
            ))));
        }
        match message.attributes.get("specversion") {
            None => Ok(Self { data: text, id: None, at: None }),
            Some(version) => {
                let get = |name: &str| message.attributes.get(name);
                let required = |name: &str| {
                    get(name).ok_or_else(|| {
                        Fault::bad(format!("it is a CloudEvent without {name}: expected one"))
                    })
                };
                check_version(version)?;
                let id = event_id(required("source")?, required("id")?)?;
                Ok(Self { data: text, id: Some(id), at: get("time").cloned() })
            }
        }
    }
}

fn structured(text: &str) -> Result<Envelope<'_>, Fault> {
    let event: Structured<'_> = serde_json::from_str(text)
        .map_err(|error| Fault::bad(shortened(&format!("it is not a CloudEvent: {error}"))))?;
    check_version(&event.specversion)?;
    let id = event_id(&event.source, &event.id)?;
    let is_json = event.datacontenttype.as_deref().is_none_or(|kind| kind.contains("json"));
    let data = event.data.filter(|_| is_json).ok_or_else(|| {
        Fault::bad("it is a CloudEvent without data in JSON: expected a score or an array of them")
    })?;
    Ok(Envelope { data: data.get(), id: Some(id), at: event.time })
}

fn check_version(version: &str) -> Result<(), Fault> {
    match version {
        "1.0" => Ok(()),
        _ => {
            let reason = format!("it is a CloudEvent of version {version}: expected 1.0");
            Err(Fault::bad(shortened(&reason)))
        }
    }
}

/// An event is known by its source and its id together. A source is the reference of a URI, which
/// has no space.
fn event_id(source: &str, id: &str) -> Result<String, Fault> {
    if source.is_empty() || source.contains(' ') || id.is_empty() {
        return Err(Fault::bad(
            "it is a CloudEvent with an invalid source or id: expected the reference of a URI, and a text that is not empty",
        ));
    }
    Ok(format!("{source} {id}"))
}
