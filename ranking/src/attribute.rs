//! Member attributes: what a segment of a board has in common.

use std::collections::BTreeMap;

use crate::error::{Error, Result, shown};
use crate::text::is_presentable;

/// The attribute that every member has a field for.
pub const REGION: &str = "region";

/// The most attributes by which a board has segments.
pub const SEGMENT_ATTRIBUTES_MAX: usize = 3;

/// The most attributes of a member, or of a score.
pub const ATTRIBUTES_MAX: usize = 8;

/// The longest name of an attribute, in characters.
pub const ATTRIBUTE_NAME_MAX: usize = 32;

/// The longest value of an attribute, in characters.
pub const ATTRIBUTE_VALUE_MAX: usize = 200;

/// The attributes of a member or a score: values by name.
pub type Attributes = BTreeMap<String, String>;

/// The segment of all members with an attribute: `region:eu`.
pub fn segment_of(attribute: &str, value: &str) -> String {
    format!("{attribute}:{value}")
}

/// The segments of a board by some attributes, given the values that a score has of them.
pub fn segments_of<'a>(
    segment_by: &[String],
    value: impl Fn(&str) -> Option<&'a String>,
) -> Vec<String> {
    segment_by.iter().filter_map(|name| Some(segment_of(name, value(name)?))).collect()
}

/// Checks the attributes by which a board is to have segments.
///
/// # Errors
/// `Invalid` for a bad name or one that comes twice; `LimitExceeded` for more than three.
pub fn check_segment_by(names: &[String]) -> Result<()> {
    if names.len() > SEGMENT_ATTRIBUTES_MAX {
        return Err(Error::LimitExceeded(format!(
            "{} attributes in segmentBy: expected at most {SEGMENT_ATTRIBUTES_MAX}",
            names.len()
        )));
    }
    for (index, name) in names.iter().enumerate() {
        check_name(name)?;
        if names[..index].contains(name) {
            return Err(Error::invalid(format!("segmentBy names {name} twice: expected it once")));
        }
    }
    Ok(())
}

/// Checks that a board has segments by an attribute.
///
/// # Errors
/// `Invalid` if it has none; the message says by which it has some.
pub fn check_segmented_by(segment_by: &[String], name: &str) -> Result<()> {
    if segment_by.iter().any(|by| by == name) {
        return Ok(());
    }
    let expected = match segment_by.is_empty() {
        true => "no attributes, as the board has no segments".to_owned(),
        false => segment_by.join(", "),
    };
    Err(Error::invalid(format!("invalid attribute {}: expected {expected}", shown(name))))
}

/// Checks the name of an attribute.
///
/// # Errors
/// `Invalid` if it is none.
pub fn check_name(name: &str) -> Result<()> {
    let is_of_name = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    if begins && name.len() <= ATTRIBUTE_NAME_MAX && name.bytes().all(is_of_name) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "invalid attribute {}: expected a name of 1 to {ATTRIBUTE_NAME_MAX} characters from a-z, 0-9, _ and -, the first a letter",
        shown(name)
    )))
}

/// Checks attributes that a client gives, each a name and a value.
///
/// # Errors
/// `Invalid` for a bad name, one that comes twice, and for a value that is blank, too long, or has
/// characters that are not shown; `LimitExceeded` for more than eight.
pub fn checked(given: impl IntoIterator<Item = (String, String)>) -> Result<Attributes> {
    let mut attributes = Attributes::new();
    for (name, value) in given {
        check_name(&name)?;
        if value.chars().count() > ATTRIBUTE_VALUE_MAX || !is_presentable(&value) {
            return Err(Error::invalid(format!(
                "invalid value of attribute {name}: expected 1 to {ATTRIBUTE_VALUE_MAX} characters that are not blank, without control characters, invisible ones or ones that change its direction"
            )));
        }
        if attributes.contains_key(&name) {
            return Err(Error::invalid(format!("attribute {name} comes twice: expected it once")));
        }
        attributes.insert(name, value);
        if attributes.len() > ATTRIBUTES_MAX {
            return Err(Error::LimitExceeded(format!(
                "more than {ATTRIBUTES_MAX} attributes: expected at most {ATTRIBUTES_MAX}"
            )));
        }
    }
    Ok(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn given(pairs: &[(&str, &str)]) -> Result<Attributes> {
        checked(pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())))
    }

    #[test]
    fn a_member_is_in_a_segment_for_each_attribute_that_it_has() {
        let attributes = given(&[("country", "de"), ("class", "mage"), ("region", "eu")]).unwrap();
        let by = names(&["region", "platform", "country"]);
        let value = |name: &str| attributes.get(name);
        assert_eq!(segments_of(&by, value), ["region:eu", "country:de"]);
        assert!(segments_of(&[], value).is_empty());
    }

    #[test]
    fn bad_attributes_are_refused_with_what_would_be_taken() {
        for bad in ["", "A", "1a", "a:b", "é", &"a".repeat(ATTRIBUTE_NAME_MAX + 1)] {
            let refused = check_segment_by(&names(&[bad])).unwrap_err().to_string();
            assert!(refused.contains("expected a name of 1 to 32"), "{refused}");
            assert!(given(&[(bad, "x")]).is_err());
        }
        assert!(check_segment_by(&names(&["a", "b-1", "c_2"])).is_ok());
        let refused = check_segment_by(&names(&["a", "b", "a"])).unwrap_err().to_string();
        assert!(refused.contains("names a twice"), "{refused}");
        let refused = check_segment_by(&names(&["a", "b", "c", "d"])).unwrap_err();
        assert!(matches!(refused, Error::LimitExceeded(_)));
        for bad in ["", " ", "\u{200B}", "a\nb", &"x".repeat(ATTRIBUTE_VALUE_MAX + 1)] {
            let refused = given(&[("a", bad)]).unwrap_err().to_string();
            assert!(refused.contains("expected 1 to 200 characters"), "{refused}");
        }
        let refused = given(&[("a", "x"), ("a", "y")]).unwrap_err().to_string();
        assert!(refused.contains("comes twice"), "{refused}");
        let many: Vec<_> = (0..=ATTRIBUTES_MAX).map(|n| (format!("a{n}"), "x".into())).collect();
        assert!(matches!(checked(many), Err(Error::LimitExceeded(_))));
    }
}
