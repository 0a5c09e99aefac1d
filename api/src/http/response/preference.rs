//! The preferences of a client: headers whose lists have weights.

use axum::http::{HeaderMap, HeaderName};

/// The most items that are read; browsers send eight.
const ITEMS_MAX: usize = 64;

/// The longest line that is read, in bytes; browsers send 150.
const LINE_BYTES_MAX: usize = 1024;

/// One header of the `Accept` family, such as `text/html, application/json;q=0.9, */*;q=0.1`.
pub struct Preference {
    items: Vec<(String, f32)>,
}

/// The weight of an accepted value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Welcome {
    /// Above 0, at most 1.
    pub weight: f32,
    /// True if the header names the value itself, not only its kind (`application/*`) or anything.
    pub named: bool,
}

impl Preference {
    /// Parses a header; `None` if the request has none, or none that is short. Items whose weight
    /// cannot be parsed are skipped, and so are those beyond [`ITEMS_MAX`].
    pub fn of(headers: &HeaderMap, name: HeaderName) -> Option<Self> {
        let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
        let lines: Vec<_> = lines.filter(|line| line.len() <= LINE_BYTES_MAX).collect();
        if lines.is_empty() {
            return None;
        }
        let items = lines.iter().flat_map(|line| line.split(',')).take(ITEMS_MAX);
        Some(Self { items: items.filter_map(item).collect() })
    }

    /// The weight of a value; `None` if the client does not accept it. The most precise item
    /// decides, whatever the others say.
    pub fn welcomes(&self, wanted: &str) -> Option<Welcome> {
        let kind = wanted.split_once('/').map(|(kind, _)| kind);
        let matching = self.items.iter().filter_map(|(item, weight)| {
            let precision = match item.strip_suffix("/*") {
                _ if item == wanted => 2,
                Some(other) if Some(other) == kind => 1,
                Some("*") => 0,
                None if item == "*" => 0,
                _ => return None,
            };
            Some((precision, *weight))
        });
        let (precision, weight) = matching.max_by_key(|(precision, _)| *precision)?;
        (weight > 0.0).then_some(Welcome { weight, named: precision == 2 })
    }

    /// True if the client refuses one of these values by its name.
    pub fn refuses(&self, names: &[&str]) -> bool {
        let mut items = self.items.iter();
        items.any(|(item, weight)| *weight == 0.0 && names.contains(&item.as_str()))
    }
}

fn item(text: &str) -> Option<(String, f32)> {
    let mut parts = text.split(';').map(str::trim);
    let name = parts.next().filter(|name| !name.is_empty())?;
    let weight = parts
        .filter_map(|part| part.split_once('='))
        .find(|(key, _)| key.trim().eq_ignore_ascii_case("q"));
    let weight = match weight {
        Some((_, weight)) => weight.trim().parse().ok()?,
        None => 1.0,
    };
    (0.0..=1.0).contains(&weight).then(|| (name.to_ascii_lowercase(), weight))
}

#[cfg(test)]
mod tests {
    use axum::http::header::ACCEPT;

    use super::*;

    fn weight(accept: &'static str, wanted: &str) -> Option<f32> {
        let mut headers = HeaderMap::new();
        for line in accept.split('|') {
            headers.append(ACCEPT, line.parse().expect("a header's value"));
        }
        let preference = Preference::of(&headers, ACCEPT).expect("a header is there");
        preference.welcomes(wanted).map(|welcome| welcome.weight)
    }

    #[test]
    fn the_most_precise_item_decides() {
        let json = "application/json";
        for (accept, expected) in [
            ("application/json", Some(1.0)),
            ("Application/JSON; charset=utf-8", Some(1.0)),
            ("*/*", Some(1.0)),
            ("*/*;q=0.1, application/*;q=0.5", Some(0.5)),
            ("application/*;q=0.5,application/json ; q=0.25", Some(0.25)),
            ("*/*, application/json;q=0", None),
            ("text/*, text/html", None),
            ("text/html|application/json;q=0.75", Some(0.75)),
            ("application/json;q=much, */*;q=0.5", Some(0.5)),
            ("application/json;q=2", None),
            ("application/jsonx", None),
            ("", None),
        ] {
            assert_eq!(weight(accept, json), expected, "{accept}");
        }
    }

    #[test]
    fn so_many_items_are_read() {
        let of = |before: usize| {
            let header = format!("{}text/html", "a/b,".repeat(before));
            let headers = HeaderMap::from_iter([(ACCEPT, header.parse().unwrap())]);
            Preference::of(&headers, ACCEPT).unwrap().welcomes("text/html").is_some()
        };
        assert!(of(ITEMS_MAX - 1) && !of(ITEMS_MAX));
    }

    #[test]
    fn codings_are_named_or_any() {
        for (accept, expected) in [
            ("gzip, deflate, br", Some(1.0)),
            ("br;q=1, gzip;q=0.5, *;q=0", Some(0.5)),
            ("*", Some(1.0)),
            ("identity", None),
            ("gzip;q=0, *", None),
        ] {
            assert_eq!(weight(accept, "gzip"), expected, "{accept}");
        }
    }
}
