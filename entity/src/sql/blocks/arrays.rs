//! Columns as SQLite returns them: JSON arrays.

use std::fmt;

use sea_orm::DbErr;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, SeqAccess, Visitor};

/// A column of texts in one string, without an allocation for each text.
#[derive(Debug, Default)]
pub struct Texts {
    all: String,
    /// The end offset of each text.
    ends: Vec<usize>,
}

impl Texts {
    /// The number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The text in a row.
    pub fn get(&self, row: usize) -> &str {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.all[start..self.ends[row]]
    }

    /// Appends a text.
    pub fn push(&mut self, text: &str) {
        self.all.push_str(text);
        self.ends.push(self.all.len());
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Pushed<'a>(&'a mut Texts);
        impl<'de> DeserializeSeed<'de> for Pushed<'_> {
            type Value = ();
            fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
                from.deserialize_str(self)
            }
        }
        impl Visitor<'_> for Pushed<'_> {
            type Value = ();
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }
            fn visit_str<E>(self, text: &str) -> Result<(), E> {
                self.0.push(text);
                Ok(())
            }
        }
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Texts;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("texts")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Texts, A::Error> {
                let mut texts = Texts::default();
                while from.next_element_seed(Pushed(&mut texts))?.is_some() {}
                Ok(texts)
            }
        }
        from.deserialize_seq(All)
    }
}

/// The last element of a JSON array of texts or numbers, in its JSON form.
pub fn last_of(array: &str) -> &str {
    let elements = array.strip_suffix(']').unwrap_or(array);
    let is_quote = |&(place, _): &(usize, &str)| {
        let before = elements[..place].bytes().rev();
        before.take_while(|byte| *byte == b'\\').count() % 2 == 0
    };
    let start = match elements.ends_with('"') {
        // JSON escapes a quote within a text, so the quote that opens the last text follows an even
        // number of backslashes.
        true => {
            let mut quotes = elements.rmatch_indices('"').filter(is_quote).skip(1);
            quotes.next().map(|(place, _)| place)
        }
        false => elements.rfind([',', '[']).map(|place| place + 1),
    };
    &elements[start.unwrap_or_default()..]
}

/// Parses a JSON array, or one element of it.
///
/// # Errors
/// `Type` if the JSON holds another type.
pub fn parsed<'de, T: Deserialize<'de>>(array: &'de str) -> Result<T, DbErr> {
    serde_json::from_str(array)
        .map_err(|error| DbErr::Type(format!("a column holds an invalid value: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_element_of_an_array_is_found_from_its_end() {
        let texts = ["", "a", "\"", "\\", "\\\"", "a\",\"b", "\"]", ",", "[", "ü\u{1}\\"];
        for last in texts {
            for first in texts {
                for array in [vec![last], vec![first, last]] {
                    let json = serde_json::to_string(&array).unwrap();
                    assert_eq!(parsed::<String>(last_of(&json)).unwrap(), last, "{json}");
                }
            }
        }
        for (json, last) in [("[-7]", -7), ("[1,20]", 20)] {
            assert_eq!(parsed::<i64>(last_of(json)).unwrap(), last);
        }
    }
}
