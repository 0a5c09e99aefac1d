//! How a score is shown to people. It is written in one neutral way; a client that knows its
//! reader's language formats the exact score itself.

use serde::{Deserialize, Serialize};

/// The form in which the scores of a board are shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "style", rename_all = "snake_case")]
pub enum ScoreFormat {
    /// The score as it is: `1234.50`, and with a suffix `1234.50 pts`.
    Plain {
        /// The text behind the score, such as a unit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        suffix: Option<String>,
    },
    /// A time in seconds: `0:42.10`, `1:02:03`.
    Seconds,
    /// A time in milliseconds, shown as one in seconds: `0:42.100`.
    Milliseconds,
    /// An amount of money: `1,234.50 EUR`.
    Money {
        /// The code of the currency by ISO 4217.
        currency: String,
    },
}

impl Default for ScoreFormat {
    fn default() -> Self {
        Self::Plain { suffix: None }
    }
}

impl ScoreFormat {
    /// Writes a decimal, such as `-1234.50`, in this form. All of its digits are kept.
    pub fn apply(&self, decimal: &str) -> String {
        let (sign, unsigned) = match decimal.strip_prefix('-') {
            Some(unsigned) => ("-", unsigned),
            None => ("", decimal),
        };
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        match self {
            Self::Plain { suffix: None } => decimal.to_owned(),
            Self::Plain { suffix: Some(suffix) } => format!("{decimal} {suffix}"),
            Self::Seconds => format!("{sign}{}", clock(whole, fraction)),
            Self::Milliseconds => {
                let whole = format!("{whole:0>4}");
                let (seconds, thousandths) = whole.split_at(whole.len() - 3);
                format!("{sign}{}", clock(seconds, &format!("{thousandths}{fraction}")))
            }
            Self::Money { currency } => {
                let amount = joined(&grouped(whole), fraction);
                format!("{sign}{amount} {currency}")
            }
        }
    }
}

/// Seconds as minutes and seconds, or as hours, minutes and seconds from an hour on.
fn clock(seconds: &str, fraction: &str) -> String {
    let seconds: u64 = seconds.parse().unwrap_or(u64::MAX);
    let (hours, minutes, left) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let whole = match hours {
        0 => format!("{minutes}:{left:02}"),
        _ => format!("{hours}:{minutes:02}:{left:02}"),
    };
    joined(&whole, fraction)
}

/// Digits in groups of three.
fn grouped(whole: &str) -> String {
    let mut grouped = String::new();
    for (index, digit) in whole.char_indices() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

fn joined(whole: &str, fraction: &str) -> String {
    if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::score;

    #[test]
    fn a_score_is_written_in_the_form_of_its_board() {
        let suffix = Some("pts".to_owned());
        let money = ScoreFormat::Money { currency: "EUR".to_owned() };
        for (format, decimal, expected) in [
            (ScoreFormat::default(), "-1234.50", "-1234.50"),
            (ScoreFormat::Plain { suffix }, "1234.50", "1234.50 pts"),
            (ScoreFormat::Seconds, "0", "0:00"),
            (ScoreFormat::Seconds, "42.10", "0:42.10"),
            (ScoreFormat::Seconds, "3599", "59:59"),
            (ScoreFormat::Seconds, "-3723.005", "-1:02:03.005"),
            (ScoreFormat::Milliseconds, "0", "0:00.000"),
            (ScoreFormat::Milliseconds, "7", "0:00.007"),
            (ScoreFormat::Milliseconds, "62345", "1:02.345"),
            (ScoreFormat::Milliseconds, "62345.5", "1:02.3455"),
            (money.clone(), "999.99", "999.99 EUR"),
            (money.clone(), "-1234567", "-1,234,567 EUR"),
            (money, "100000", "100,000 EUR"),
        ] {
            assert_eq!(format.apply(decimal), expected, "{format:?} {decimal}");
        }
    }

    proptest! {
        #[test]
        fn every_score_can_be_read_again(raw in -score::RAW_MAX..=score::RAW_MAX, decimals in 0_u8..=9) {
            let decimal = score::format(raw, decimals);
            let (sign, unsigned) = match decimal.strip_prefix('-') {
                Some(unsigned) => (-1, unsigned),
                None => (1, &*decimal),
            };
            let nanos = |text: &str| -> i128 {
                let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
                let seconds = whole.split(':').fold(0, |sum, part| sum * 60 + part.parse::<i128>().unwrap());
                seconds * 1_000_000_000_000 + format!("{fraction:0<12}").parse::<i128>().unwrap()
            };
            let seconds = ScoreFormat::Seconds.apply(&decimal);
            prop_assert_eq!(nanos(seconds.trim_start_matches('-')), nanos(unsigned));
            let milliseconds = ScoreFormat::Milliseconds.apply(&decimal);
            prop_assert_eq!(nanos(milliseconds.trim_start_matches('-')) * 1000, nanos(unsigned));
            let money = ScoreFormat::Money { currency: "XTS".to_owned() }.apply(&decimal);
            prop_assert_eq!(money.replace(',', ""), format!("{decimal} XTS"));
            prop_assert_eq!(seconds.starts_with('-'), sign < 0);
        }
    }
}
