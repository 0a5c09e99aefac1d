//! Scalars: exact decimals, instants and JSON objects.

use std::borrow::Cow;

use async_graphql::registry::Registry;
use async_graphql::{InputType, InputValueError, InputValueResult, Scalar, ScalarType, Value};
use async_graphql_value::{Name, RAW_VALUE_TOKEN};
use jiff::Timestamp;
use ranking::metadata::{METADATA_BYTES_MAX, Metadata, too_long};
use ranking::shown;
use ranking::text::is_presentable;
use serde::de::IgnoredAny;

use crate::error::{Error, Result};

/// The longest title, member name or region, in characters.
const TEXT_CHARS_MAX: usize = 200;

/// The most digits of a decimal that comes as a JSON number. A longer one would not survive a
/// reader that holds numbers as doubles.
const NUMBER_DIGITS_MAX: usize = 15;

/// An exact decimal. Sent as a string ("1234.50"). Accepted as a string, or as an integer of at
/// most 15 digits. A number with a point or an exponent is refused, since it may have been rounded
/// on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decimal(pub String);

/// An instant in the format of RFC 3339. Sent in UTC with milliseconds: "2025-09-03T12:00:00.000Z".
/// Accepted with any offset; "T" separates date and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DateTime(pub i64);

/// A JSON object of at most 1,024 bytes as compact JSON, whose objects and lists are at most 8
/// deep. Sent with the keys of every object in the order of their bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Json(pub Metadata);

/// A scalar that is read from a value, or the reason why it cannot be.
pub trait Readable: ScalarType + InputType + Send + Sync {
    /// Reads it.
    ///
    /// # Errors
    /// The message for the client.
    fn read(value: &Value) -> std::result::Result<Self, String>;
}

/// A scalar in an item of a list, where a fault refuses the item and not the request.
#[derive(Debug, Clone)]
pub struct OfItem<T>(pub std::result::Result<T, String>);

impl<T: Readable> InputType for OfItem<T> {
    type RawValueType = Self;

    fn type_name() -> Cow<'static, str> {
        T::type_name()
    }

    fn create_type_info(registry: &mut Registry) -> String {
        <T as InputType>::create_type_info(registry)
    }

    fn parse(value: Option<Value>) -> InputValueResult<Self> {
        Ok(Self(T::read(&value.unwrap_or_default())))
    }

    fn to_value(&self) -> Value {
        self.0.as_ref().map_or(Value::Null, InputType::to_value)
    }

    fn as_raw_value(&self) -> Option<&Self> {
        Some(self)
    }
}

impl Readable for Decimal {
    fn read(value: &Value) -> std::result::Result<Self, String> {
        match value {
            Value::String(text) => Ok(Self(text.clone())),
            Value::Number(number) if number.is_i64() || number.is_u64() => {
                let text = number.to_string();
                if text.trim_start_matches('-').len() > NUMBER_DIGITS_MAX {
                    return Err(format!(
                        "invalid number {text}: expected at most {NUMBER_DIGITS_MAX} digits, or a string, as JSON readers may round longer numbers"
                    ));
                }
                Ok(Self(text))
            }
            Value::Number(number) => Err(format!(
                "invalid number {number}: expected an integer, or a string such as \"12.50\", as a float may have been rounded on its way"
            )),
            other => Err(format!(
                "invalid decimal {}: expected an integer or a string",
                shown(&other.to_string())
            )),
        }
    }
}

impl Readable for DateTime {
    fn read(value: &Value) -> std::result::Result<Self, String> {
        let refused = |shown: String| {
            format!("invalid instant {shown}: expected RFC 3339, such as \"2025-09-03T12:00:00Z\"")
        };
        let Value::String(text) = value else {
            return Err(refused(shown(&value.to_string())));
        };
        let instant: Option<Timestamp> = text.parse().ok().filter(|_| is_rfc_3339(text));
        let instant = instant.ok_or_else(|| refused(shown(text)))?;
        Ok(Self(instant.as_millisecond()))
    }
}

impl Readable for Json {
    fn read(value: &Value) -> std::result::Result<Self, String> {
        // A value may have a megabyte, so it is measured before it is copied.
        let mut left = METADATA_BYTES_MAX;
        let metadata = match is_within(value, &mut left) {
            true => value.clone().into_json().ok(),
            false => return Err(too_long().to_string()),
        };
        let metadata = Metadata::new(&metadata.unwrap_or_default());
        metadata.map(Self).map_err(|error| error.to_string())
    }
}

/// True if the texts of a value and its parts have no more bytes than are left; takes them.
fn is_within(value: &Value, left: &mut usize) -> bool {
    let bytes = match value {
        Value::String(text) => text.len(),
        Value::List(items) => items.len(),
        Value::Object(fields) => fields.len(),
        _ => 1,
    };
    let Some(rest) = left.checked_sub(bytes) else { return false };
    *left = rest;
    match value {
        Value::List(items) => items.iter().all(|item| is_within(item, left)),
        Value::Object(fields) => fields.iter().all(|(key, value)| {
            let rest = left.checked_sub(key.len());
            *left = rest.unwrap_or_default();
            rest.is_some() && is_within(value, left)
        }),
        _ => true,
    }
}

impl Decimal {
    /// The decimal of a raw score.
    pub fn of(raw: i64, decimals: u8) -> Self {
        Self(ranking::score::format(raw, decimals))
    }

    /// The worth of a decaying score, in units of the raw score, rounded to six decimals more than
    /// the board's.
    pub fn decayed(value: f64, decimals: u8) -> Self {
        Self(ranking::score::format_decayed(value, decimals))
    }
}

/// An exact decimal. Sent as a string ("1234.50"). Accepted as a string, or as an integer of at
/// most 15 digits. A number with a point or an exponent is refused, since it may have been rounded
/// on its way.
#[Scalar(specified_by_url = "https://www.w3.org/TR/xmlschema11-2/#decimal")]
impl ScalarType for Decimal {
    fn parse(value: Value) -> InputValueResult<Self> {
        Self::read(&value).map_err(InputValueError::custom)
    }

    fn to_value(&self) -> Value {
        Value::String(self.0.clone())
    }
}

/// An instant in the format of RFC 3339. Sent in UTC with milliseconds: "2025-09-03T12:00:00.000Z".
/// Accepted with any offset; "T" separates date and time.
#[Scalar(specified_by_url = "https://www.rfc-editor.org/rfc/rfc3339#section-5.6")]
impl ScalarType for DateTime {
    fn parse(value: Value) -> InputValueResult<Self> {
        Self::read(&value).map_err(InputValueError::custom)
    }

    fn to_value(&self) -> Value {
        let instant = Timestamp::from_millisecond(self.0).unwrap_or(Timestamp::UNIX_EPOCH);
        Value::String(format!("{instant:.3}"))
    }
}

/// A JSON object of at most 1,024 bytes as compact JSON, whose objects and lists are at most 8
/// deep. Sent with the keys of every object in the order of their bytes.
#[Scalar(name = "JSON", specified_by_url = "https://www.rfc-editor.org/rfc/rfc8259")]
impl ScalarType for Json {
    fn parse(value: Value) -> InputValueResult<Self> {
        Self::read(&value).map_err(InputValueError::custom)
    }

    fn to_value(&self) -> Value {
        // The text as it is: a tree of it takes up to sixty times as much memory. An answer with a
        // text that is no JSON, as a store may have it by another's hand, could not be written.
        let text = self.0.as_str();
        if serde_json::from_str::<IgnoredAny>(text).is_err() {
            return Value::Null;
        }
        let raw = (Name::new(RAW_VALUE_TOKEN), Value::String(text.to_owned()));
        Value::Object([raw].into_iter().collect())
    }
}

/// True if a text that jiff reads as an instant has the form of RFC 3339, §5.6: jiff also takes a
/// space for the "T", a time without seconds, and a zone in brackets.
fn is_rfc_3339(text: &str) -> bool {
    const FORM: &[u8] = b"0000-00-00T00:00:00";
    let Some((date_time, rest)) = text.as_bytes().split_at_checked(FORM.len()) else {
        return false;
    };
    let fits = |(byte, form): (&u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        b'T' => matches!(byte, b'T' | b't'),
        form => byte == form,
    };
    let offset = match rest.strip_prefix(b".") {
        Some(fraction) => {
            let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            &fraction[digits..]
        }
        None => rest,
    };
    let is_offset = match offset {
        [b'Z' | b'z'] => true,
        [b'+' | b'-', a, b, b':', c, d] => [a, b, c, d].iter().all(|byte| byte.is_ascii_digit()),
        _ => false,
    };
    date_time.iter().zip(FORM).all(fits) && is_offset
}

/// Checks the number of items of a list that a client sends; `what` names them.
///
/// # Errors
/// `BAD_USER_INPUT` without one, `LIMIT_EXCEEDED` beyond the most.
pub(crate) fn check_count(what: &str, count: usize, max: usize) -> Result<()> {
    let error = match count {
        0 => Error::bad_input(format!("{what} is empty: expected 1 to {max} {what}")),
        _ if count > max => {
            Error::limit_exceeded(format!("{count} {what} sent at once: expected at most {max}"))
        }
        _ => return Ok(()),
    };
    Err(error.at(format!("input.{what}")))
}

/// A count as an Int of the schema.
///
/// # Errors
/// `INTERNAL` above 2³¹ − 1, the largest Int of GraphQL.
pub(crate) fn int(count: u64) -> Result<i32> {
    i32::try_from(count).map_err(|_| {
        Error::new(
            crate::error::ErrorCode::Internal,
            "a count is larger than GraphQL's Int can hold",
        )
    })
}

/// Checks a text for people: a title, a name, a region.
///
/// # Errors
/// `BAD_USER_INPUT` if it is blank, too long, or not [presentable](is_presentable).
pub(crate) fn text(name: &str, text: String) -> Result<String> {
    text_within(name, text, TEXT_CHARS_MAX)
}

/// As [`text`], of at most `chars_max` characters.
pub(crate) fn text_within(name: &str, text: String, chars_max: usize) -> Result<String> {
    let count = text.chars().count();
    if count > chars_max || !is_presentable(&text) {
        return Err(Error::bad_input(format!(
            "invalid {name}: expected 1 to {chars_max} characters that are not blank, without control characters, invisible ones or ones that change its direction"
        ))
        .at(name));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_written_as_in_rfc_3339() {
        let parsed = |text: &str| {
            let parsed = <DateTime as ScalarType>::parse(Value::from(text));
            parsed.ok().map(|DateTime(ms)| ms)
        };
        for accepted in [
            "2025-09-03T12:00:00Z",
            "2025-09-03t12:00:00z",
            "2025-09-03T12:00:00.000Z",
            "2025-09-03T14:00:00+02:00",
            "2025-09-03T11:30:00.000000000-00:30",
        ] {
            assert_eq!(parsed(accepted), Some(1_756_900_800_000), "{accepted}");
        }
        for refused in [
            "2025-09-03 12:00:00Z",
            "2025-09-03T12:00Z",
            "2025-09-03T12:00:00",
            "2025-09-03T12:00:00+02",
            "2025-09-03T12:00:00+0200",
            "2025-09-03T12:00:00,5Z",
            "2025-09-03T12:00:00+02:00[Europe/Berlin]",
            "20250903T120000Z",
            "2025-13-03T12:00:00Z",
            "2025-09-03",
            "",
        ] {
            assert_eq!(parsed(refused), None, "{refused}");
        }
    }
}
