//! Numbers and names as a report shows them.

/// A number in few characters: 9,999, 12k, 3.4M.
pub(crate) fn compact(number: &str) -> String {
    let Ok(value) = number.parse::<f64>() else {
        return number.to_owned();
    };
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")];
    let Some((_, unit)) = units.iter().find(|(from, _)| value.abs() >= *from) else {
        return grouped(number);
    };
    let size = match *unit {
        "T" => 1e12,
        "G" => 1e9,
        "M" => 1e6,
        _ => 1e3,
    };
    let scaled = value / size;
    let text = if scaled.abs() >= 100.0 {
        format!("{scaled:.0}")
    } else {
        let text = format!("{scaled:.1}");
        text.strip_suffix(".0").unwrap_or(&text).to_owned()
    };
    format!("{text}{unit}")
}

/// A decimal with its digits grouped: 1,234,567.50.
pub(crate) fn grouped(number: &str) -> String {
    let (sign, rest) = match number.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", number),
    };
    let (whole, fraction) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
    let mut grouped = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + fraction
}

/// A name in at most `chars_max` characters.
pub(crate) fn shortened(name: &str, chars_max: usize) -> String {
    if name.chars().count() <= chars_max {
        return name.to_owned();
    }
    let start: String = name.chars().take(chars_max - 1).collect();
    start + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_shortened() {
        for (number, long, short) in [
            ("0", "0", "0"),
            ("999", "999", "999"),
            ("-1234.50", "-1,234.50", "-1,234.50"),
            ("10000", "10,000", "10k"),
            ("123456", "123,456", "123k"),
            ("-12300000", "-12,300,000", "-12.3M"),
            ("5000000000", "5,000,000,000", "5G"),
        ] {
            assert_eq!((&*grouped(number), &*compact(number)), (long, short));
        }
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(shortened("абвг", 4), "абвг");
        assert_eq!(shortened("абвгд", 4), "абв…");
    }
}
