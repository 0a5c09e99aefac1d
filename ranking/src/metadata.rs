//! Metadata: a small JSON object that a client sends with a score, and the one of an entry.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::board::rules::Rules;
use crate::board::{Board, Policy, TieBreak};
use crate::error::{Error, Result};

/// The most bytes of an event's metadata, as compact JSON.
pub const METADATA_BYTES_MAX: usize = 1024;

/// The most objects and lists in one another in an event's metadata, itself included.
pub const METADATA_DEPTH_MAX: usize = 8;

/// An event's metadata: a JSON object in its canonical form, which is compact and has the keys of
/// every object in the order of their bytes. So equal objects have equal texts. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Metadata(Arc<str>);

/// The first bytes of the SHA-256 of metadata, which stand for it in the record of an event id.
pub(crate) type MetadataHash = [u8; 16];

impl Metadata {
    /// Checks an object, and stores its canonical form.
    ///
    /// # Errors
    /// `Invalid` unless it is an object of at most 1,024 bytes and a depth of at most 8.
    pub fn new(value: &Value) -> Result<Self> {
        if !value.is_object() {
            return Err(Error::invalid("invalid metadata: expected a JSON object"));
        }
        let mut writing = Writing(String::new());
        writing.write(value, 1)?;
        Ok(Self(writing.0.into()))
    }

    /// As [`Self::new`], of the text of an object.
    ///
    /// # Errors
    /// As [`Self::new`]; `Invalid` too if the text is no JSON.
    pub fn parse(text: &str) -> Result<Self> {
        let value = serde_json::from_str(text);
        Self::new(&value.map_err(|_| Error::invalid("invalid metadata: expected a JSON object"))?)
    }

    /// The text that a store has, as it is: a text that was changed there gives another leaf.
    pub fn stored(text: &str) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn hash(&self) -> MetadataHash {
        let digest: [u8; 32] = Sha256::digest(self.0.as_bytes()).into();
        let mut hash = MetadataHash::default();
        hash.copy_from_slice(&digest[..16]);
        hash
    }
}

impl fmt::Display for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The error for metadata of too many bytes.
pub fn too_long() -> Error {
    Error::invalid(format!(
        "invalid metadata: more than {METADATA_BYTES_MAX} bytes as compact JSON: expected at most {METADATA_BYTES_MAX}"
    ))
}

/// A canonical text that stops as soon as it is too long or too deep.
struct Writing(String);

impl Writing {
    fn write(&mut self, value: &Value, depth: usize) -> Result<()> {
        let nests = value.is_object() || value.is_array();
        if nests && depth > METADATA_DEPTH_MAX {
            return Err(Error::invalid(format!(
                "invalid metadata: objects and lists are more than {METADATA_DEPTH_MAX} deep: expected at most {METADATA_DEPTH_MAX}"
            )));
        }
        match value {
            Value::Object(fields) => {
                let fields: BTreeMap<&String, &Value> = fields.iter().collect();
                self.0.push('{');
                for (place, (key, value)) in fields.into_iter().enumerate() {
                    self.separate(place);
                    self.push(&Value::from(key.as_str()))?;
                    self.0.push(':');
                    self.write(value, depth + 1)?;
                }
                self.0.push('}');
            }
            Value::Array(items) => {
                self.0.push('[');
                for (place, value) in items.iter().enumerate() {
                    self.separate(place);
                    self.write(value, depth + 1)?;
                }
                self.0.push(']');
            }
            plain => self.push(plain)?,
        }
        self.check()
    }

    fn separate(&mut self, place: usize) {
        if place > 0 {
            self.0.push(',');
        }
    }

    fn push(&mut self, plain: &Value) -> Result<()> {
        self.0.push_str(&plain.to_string());
        self.check()
    }

    fn check(&self) -> Result<()> {
        if self.0.len() > METADATA_BYTES_MAX { Err(too_long()) } else { Ok(()) }
    }
}

/// Checks that entries of a board with these rules can have metadata: the time in an entry's key
/// leads to the event that made it.
///
/// # Errors
/// `Invalid` if ties go by member.
pub fn check_rules(rules: &Rules) -> Result<()> {
    if rules.tie_break == TieBreak::Member {
        return Err(Error::invalid(
            "invalid metadata: tie-break MEMBER keeps no time, which leads to the event of an entry: expected EARLIEST or LATEST",
        ));
    }
    Ok(())
}

impl Board {
    /// Checks that the board keeps the metadata of an event.
    ///
    /// # Errors
    /// `Invalid` if there is some, and the board was created without.
    pub fn check_metadata(&self, metadata: Option<&Metadata>) -> Result<()> {
        if metadata.is_some() && !self.has_metadata {
            return Err(Error::invalid(
                "invalid metadata: this board keeps none: expected no metadata, or a board that was created with metadata: true",
            ));
        }
        Ok(())
    }
}

/// An event with metadata that may have made an entry: it counts in the entry, and has its tick
/// and, but for SUM, its score.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Maker {
    /// The time at which it was earned, in Unix milliseconds.
    pub at_ms: i64,
    /// Its metadata.
    pub metadata: Metadata,
}

impl Rules {
    /// True if `maker` made an entry rather than `other`. BEST takes the earlier one, SUM and
    /// LATEST the later one; of events of the same millisecond all take that whose metadata is
    /// smaller by bytes. So the choice does not depend on the order of arrival, as the fold does
    /// not.
    pub fn is_made_by(&self, maker: &Maker, other: &Maker) -> bool {
        let order = match self.policy {
            Policy::Best => maker.at_ms.cmp(&other.at_ms),
            Policy::Sum | Policy::Latest => other.at_ms.cmp(&maker.at_ms),
        };
        order.then_with(|| maker.metadata.cmp(&other.metadata)).is_lt()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::board::rules::RulesInput;
    use proptest::prelude::*;
    use serde_json::json;

    pub(crate) fn metadata() -> impl Strategy<Value = Metadata> {
        let value = prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            ".{0,9}".prop_map(Value::from),
        ];
        proptest::collection::btree_map(".{0,5}", value, 0..4)
            .prop_map(|fields| Metadata::new(&Value::Object(fields.into_iter().collect())).unwrap())
    }

    #[test]
    fn equal_objects_have_equal_texts() {
        let text = |text: &str| Metadata::parse(text).unwrap().to_string();
        assert_eq!(
            text(r#"{ "b": [1, {"z":null,"y":1.50}], "a" : "ü\n" }"#),
            r#"{"a":"ü\n","b":[1,{"y":1.5,"z":null}]}"#
        );
        assert_eq!(text("{}"), "{}");
    }

    #[test]
    fn what_is_no_small_object_is_refused_with_what_would_be_taken() {
        let nested = |depth: usize| (1..depth).fold(json!({}), |inner, _| json!({ "a": inner }));
        assert!(Metadata::new(&nested(METADATA_DEPTH_MAX)).is_ok());
        let long = |length: usize| json!({ "a": "x".repeat(length - r#"{"a":""}"#.len()) });
        assert_eq!(
            Metadata::new(&long(METADATA_BYTES_MAX)).unwrap().as_str().len(),
            METADATA_BYTES_MAX
        );
        for (bad, says) in [
            (json!([1]), "expected a JSON object"),
            (json!("x"), "expected a JSON object"),
            (json!(null), "expected a JSON object"),
            (nested(METADATA_DEPTH_MAX + 1), "expected at most 8"),
            (long(METADATA_BYTES_MAX + 1), "expected at most 1024"),
            (json!({ "a": vec![json!({}); 10_000] }), "expected at most 1024"),
        ] {
            let refused = Metadata::new(&bad).unwrap_err().to_string();
            assert!(refused.contains(says), "{refused}");
        }
        assert!(Metadata::parse("{").is_err());
    }

    #[test]
    fn a_board_whose_ties_go_by_member_has_no_metadata() {
        let rules = |tie_break| Rules::new(RulesInput { tie_break, ..Default::default() }).unwrap();
        assert!(
            check_rules(&rules(TieBreak::Member))
                .unwrap_err()
                .to_string()
                .contains("expected EARLIEST")
        );
        assert!(check_rules(&rules(TieBreak::Earliest)).is_ok());
    }

    proptest! {
        #[test]
        fn the_canonical_form_is_read_back_as_itself(metadata in metadata()) {
            prop_assert_eq!(Metadata::parse(metadata.as_str()), Ok(metadata));
        }

        #[test]
        fn one_of_two_makers_made_the_entry(a in 0_i64..3, b in 0_i64..3, first in metadata(), second in metadata(), policy in proptest::sample::select(&[Policy::Sum, Policy::Best, Policy::Latest][..])) {
            let rules = Rules::new(RulesInput { policy, ..Default::default() }).unwrap();
            let (one, other) = (Maker { at_ms: a, metadata: first }, Maker { at_ms: b, metadata: second });
            prop_assert_eq!(rules.is_made_by(&one, &other) != rules.is_made_by(&other, &one), one != other);
        }
    }
}
