//! Scalars: exact decimals and instants.

use async_graphql::{InputValueError, InputValueResult, Scalar, ScalarType, Value};
use jiff::Timestamp;
use ranking::shown;
use ranking::text::is_presentable;

use crate::error::{Error, Result};

/// The longest title, member name or region, in characters.
const TEXT_CHARS_MAX: usize = 200;

/// The most digits of a decimal that comes as a JSON number. A longer one would not survive a
/// reader that holds numbers as doubles.
const NUMBER_DIGITS_MAX: usize = 15;

/// An exact decimal. Sent as a string ("1234.50"). Accepted as a string, or as an integer of at
/// most 15 digits. A number with a point or an exponent is refused, as it may have been rounded on
/// its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decimal(pub String);

/// An instant in RFC 3339, in UTC, with milliseconds: "2025-09-03T12:00:00.000Z". Accepted with any
/// offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DateTime(pub i64);

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
/// most 15 digits. A number with a point or an exponent is refused, as it may have been rounded on
/// its way.
#[Scalar]
impl ScalarType for Decimal {
    fn parse(value: Value) -> InputValueResult<Self> {
        match value {
            Value::String(text) => Ok(Self(text)),
            Value::Number(number) if number.is_i64() || number.is_u64() => {
                let text = number.to_string();
                if text.trim_start_matches('-').len() > NUMBER_DIGITS_MAX {
                    return Err(InputValueError::custom(format!(
                        "invalid number {text}: expected at most {NUMBER_DIGITS_MAX} digits, or a string, as JSON readers may round longer numbers"
                    )));
                }
                Ok(Self(text))
            }
            Value::Number(number) => Err(InputValueError::custom(format!(
                "invalid number {number}: expected an integer, or a string such as \"12.50\", as a float may have been rounded on its way"
            ))),
            other => Err(InputValueError::expected_type(other)),
        }
    }

    fn to_value(&self) -> Value {
        Value::String(self.0.clone())
    }
}

/// An instant in RFC 3339, in UTC, with milliseconds: "2025-09-03T12:00:00.000Z". Accepted with any
/// offset.
#[Scalar]
impl ScalarType for DateTime {
    fn parse(value: Value) -> InputValueResult<Self> {
        let Value::String(text) = &value else {
            return Err(InputValueError::expected_type(value));
        };
        let instant: Timestamp = text.parse().map_err(|_| {
            let shown = shown(text);
            InputValueError::custom(format!(
                "invalid instant {shown}: expected RFC 3339, such as \"2025-09-03T12:00:00Z\""
            ))
        })?;
        Ok(Self(instant.as_millisecond()))
    }

    fn to_value(&self) -> Value {
        let instant = Timestamp::from_millisecond(self.0).unwrap_or(Timestamp::UNIX_EPOCH);
        Value::String(format!("{instant:.3}"))
    }
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
    let count = text.chars().count();
    if count > TEXT_CHARS_MAX || !is_presentable(&text) {
        return Err(Error::bad_input(format!(
            "invalid {name}: expected 1 to {TEXT_CHARS_MAX} characters that are not blank, without control characters, invisible ones or ones that change its direction"
        )));
    }
    Ok(text)
}
