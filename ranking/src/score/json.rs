//! Scores in JSON: texts, or numbers of so few digits that no writer has rounded them.

use crate::error::{Error, Result, shown};

/// The most digits of a score that is a JSON number: a writer that holds numbers as doubles would
/// lose more.
pub const NUMBER_DIGITS_MAX: usize = 15;

/// Checks that a number has no more digits than every writer of JSON keeps.
///
/// # Errors
/// `Invalid` if it has.
pub fn check_digits(number: &str, digits_max: usize) -> Result<()> {
    let digits = number.bytes().filter(u8::is_ascii_digit).skip_while(|&digit| digit == b'0');
    if digits.count() <= digits_max {
        return Ok(());
    }
    let number = if number.len() <= 64 { number.to_owned() } else { shown(number) };
    Err(Error::invalid(format!(
        "{number} has more than {digits_max} digits: expected text, as a number that long may have been rounded on its way"
    )))
}

/// The decimal that a JSON value has as its text or number, as [`super::parse`] takes it. `name` is
/// that of its field.
///
/// # Errors
/// `Invalid` for another value, and for a number of too many digits.
pub fn decimal(name: &str, value: &str) -> Result<String> {
    if let Ok(text) = serde_json::from_str(value) {
        return Ok(text);
    }
    if !value.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        let value = if value.len() <= 64 { value.to_owned() } else { shown(value) };
        return Err(Error::invalid(format!("invalid {name} {value}: expected text or a number")));
    }
    check_digits(value, NUMBER_DIGITS_MAX)?;
    Ok(value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_is_a_text_or_a_number_that_no_writer_has_rounded() {
        for (value, said) in [
            ("\"12.50\"", "12.50"),
            ("12.50", "12.50"),
            ("-3", "-3"),
            ("000123456789012345", "000123456789012345"),
            ("\"1234567890123456\"", "1234567890123456"),
        ] {
            assert_eq!(decimal("score", value).as_deref(), Ok(said), "{value}");
        }
        for (value, said) in [
            ("1234567890123456", "has more than 15 digits: expected text"),
            ("1.234567890123456", "has more than 15 digits"),
            ("true", "invalid score true: expected text or a number"),
            ("[1]", "invalid score [1]"),
            ("null", "invalid score null"),
        ] {
            let error = decimal("score", value).unwrap_err().to_string();
            assert!(error.contains(said), "{value}: {error}");
        }
    }
}
