//! Scores: exact decimals, held as raw `i64`s at a board's number of decimals. Nothing here rounds.

pub mod decay;
pub mod format;
pub mod json;
pub mod rank_key;

use crate::error::{Error, Result, shown};
use crate::window::Window;

/// The most decimals a board may have.
pub const DECIMALS_MAX: u8 = 9;

/// The largest magnitude of a raw score: 53 bits, which every JSON reader and every double holds
/// exactly.
pub const RAW_MAX: i64 = (1 << 53) - 1;

/// The decimals that a decayed score is shown with, beyond the board's own.
const DECAYED_DECIMALS: u8 = 6;

/// The longest text accepted as a score, in bytes: sign, 16 digits, point and generous zeros.
const TEXT_BYTES_MAX: usize = 64;

/// Reads a decimal such as `-12.50` as a raw score with `decimals` decimals.
///
/// # Errors
/// `Invalid` if the text is not a decimal or has more decimals than the board (trailing zeros
/// excepted); `OutOfRange` if the raw score has more than 53 bits. Nothing is rounded.
pub fn parse(text: &str, decimals: u8) -> Result<i64> {
    let not_decimal = || {
        let shown = shown(text);
        Error::invalid(format!(
            "invalid score {shown}: expected digits with an optional sign and point, as in \"-12.5\""
        ))
    };
    if text.len() > TEXT_BYTES_MAX {
        return Err(not_decimal());
    }
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let (whole, fraction) = match unsigned.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_) => return Err(not_decimal()),
        None => (unsigned, ""),
    };
    let digits_only = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits_only(whole) || !digits_only(fraction) {
        return Err(not_decimal());
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > usize::from(decimals) {
        return Err(Error::invalid(format!(
            "{text} has {} decimals; this board keeps {decimals} and never rounds",
            fraction.len()
        )));
    }
    let too_large = || {
        Error::OutOfRange(format!(
            "score {text} is out of range: expected {} to {}",
            format(-RAW_MAX, decimals),
            format(RAW_MAX, decimals)
        ))
    };
    let padding = std::iter::repeat_n(b'0', usize::from(decimals) - fraction.len());
    let mut raw: i64 = 0;
    for digit in whole.bytes().chain(fraction.bytes()).chain(padding) {
        raw = raw * 10 + i64::from(digit - b'0');
        if raw > RAW_MAX {
            return Err(too_large());
        }
    }
    Ok(if negative { -raw } else { raw })
}

/// Writes a raw score with exactly `decimals` decimals; the inverse of [`parse`].
pub fn format(raw: i64, decimals: u8) -> String {
    let sign = if raw < 0 { "-" } else { "" };
    let magnitude = raw.unsigned_abs();
    if decimals == 0 {
        return format!("{sign}{magnitude}");
    }
    let unit = 10_u64.pow(u32::from(decimals));
    format!(
        "{sign}{}.{:0width$}",
        magnitude / unit,
        magnitude % unit,
        width = usize::from(decimals)
    )
}

/// Writes a decayed score, given in units of the raw score, rounded to six decimals more than the
/// board's.
pub fn format_decayed(value: f64, decimals: u8) -> String {
    let places = usize::from(decimals + DECAYED_DECIMALS);
    let text = format!("{:.places$}", value / 10_f64.powi(decimals.into()));
    let zero = text.strip_prefix('-').filter(|text| text.bytes().all(|byte| b"0.".contains(&byte)));
    zero.unwrap_or(&text).to_owned()
}

/// Writes a score of a window; if it decays, its worth at an instant, as [`format_decayed`] does. A
/// number of attempts has no decimals.
pub fn format_in(window: Window, raw: i64, decimals: u8, now_ms: i64) -> String {
    match window.half_life() {
        Some(half_life) => format_decayed(half_life.value(raw, now_ms), decimals),
        None if window.counted().is_some() => format(raw, 0),
        None => format(raw, decimals),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_decimal_is_read_exactly_or_refused() {
        let check = |text: &str, decimals: u8, raw: i64| {
            assert_eq!(parse(text, decimals), Ok(raw), "{text}")
        };
        check("0", 0, 0);
        check("-0", 2, 0);
        check("+7", 0, 7);
        check("1234.5", 2, 123_450);
        check("1.500", 1, 15);
        check("007", 0, 7);
        check("-0.000000001", 9, -1);
        check("9007199254740991", 0, RAW_MAX);
        check("-9007199.254740991", 9, -RAW_MAX);
        for (text, decimals) in [
            ("", 0),
            ("-", 0),
            (".5", 1),
            ("5.", 1),
            ("1e3", 0),
            ("1,5", 1),
            ("0x1", 0),
            (" 1", 0),
            ("NaN", 0),
            ("--1", 0),
            ("٣", 0),
            ("1.5", 0),
            ("1.005", 2),
        ] {
            assert!(matches!(parse(text, decimals), Err(Error::Invalid(_))), "{text}");
        }
        for (text, decimals) in [
            ("9007199254740992", 0),
            ("-9007199254740992", 0),
            ("9007199.254740992", 9),
            ("99999999999999999999999999", 0),
        ] {
            assert!(matches!(parse(text, decimals), Err(Error::OutOfRange(_))), "{text}");
        }
    }

    proptest! {
        #[test]
        fn text_and_raw_are_inverse(raw in -RAW_MAX..=RAW_MAX, decimals in 0..=DECIMALS_MAX) {
            prop_assert_eq!(parse(&format(raw, decimals), decimals), Ok(raw));
        }

        #[test]
        fn any_text_is_read_or_refused_without_a_panic(text in ".*", decimals in 0..=DECIMALS_MAX) {
            let _ = parse(&text, decimals);
        }
    }
}
