//! The JSON of a row of the audit log, in bounds.

use serde_json::{Map, Value, json};

/// The longest JSON of the values before and of those after an act, in bytes.
pub const AUDIT_VALUE_BYTES_MAX: usize = 4096;

/// The characters of a text and the items of a list or an object that are kept, fewer and fewer
/// until the whole is short enough.
const CUTS: [(usize, usize); 3] = [(400, 100), (100, 20), (30, 5)];

/// A value as JSON of at most [`AUDIT_VALUE_BYTES_MAX`] bytes. Of a longer one, texts and lists are
/// cut, and say so.
pub fn text_of(value: &Value) -> String {
    let whole = value.to_string();
    let is_short = |text: &String| text.len() <= AUDIT_VALUE_BYTES_MAX;
    if is_short(&whole) {
        return whole;
    }
    let mut cuts = CUTS.into_iter().map(|(chars, items)| cut(value, chars, items).to_string());
    let left_out = || json!({ "cut": format!("{} bytes are left out", whole.len()) }).to_string();
    cuts.find(is_short).unwrap_or_else(left_out)
}

fn cut(value: &Value, chars_max: usize, items_max: usize) -> Value {
    match value {
        Value::String(text) => {
            let chars = text.chars().count();
            if chars <= chars_max {
                return value.clone();
            }
            let kept: String = text.chars().take(chars_max).collect();
            format!("{kept}… ({} more characters)", chars - chars_max).into()
        }
        Value::Array(items) => {
            let kept = items.iter().take(items_max).map(|item| cut(item, chars_max, items_max));
            let mut kept: Vec<Value> = kept.collect();
            if items.len() > items_max {
                kept.push(format!("… ({} more)", items.len() - items_max).into());
            }
            kept.into()
        }
        Value::Object(fields) => {
            let kept = fields.iter().take(items_max);
            let kept = kept.map(|(key, value)| (key.clone(), cut(value, chars_max, items_max)));
            let mut kept: Map<String, Value> = kept.collect();
            if fields.len() > items_max {
                kept.insert("…".to_owned(), format!("{} more", fields.len() - items_max).into());
            }
            kept.into()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
            (".{1,9}", 1_usize..4000).prop_map(|(text, times)| text.repeat(times).into()),
        ];
        leaf.prop_recursive(4, 400, 150, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..150).prop_map(Value::from),
                prop::collection::btree_map(".{0,9}", inner, 0..150)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_value_is_json_of_bounded_length(value in values()) {
            let text = text_of(&value);
            prop_assert!(text.len() <= AUDIT_VALUE_BYTES_MAX);
            let read: Value = serde_json::from_str(&text).unwrap();
            if value.to_string().len() <= AUDIT_VALUE_BYTES_MAX {
                prop_assert_eq!(read, value);
            }
        }
    }

    #[test]
    fn a_long_value_says_what_is_left_out() {
        let keys: Vec<String> = (0..1000).map(|number| format!("member {number}")).collect();
        let read: Value = serde_json::from_str(&text_of(&json!({ "keys": keys }))).unwrap();
        let last = (&read["keys"][99], &read["keys"][100]);
        assert_eq!(last, (&json!("member 99"), &json!("… (900 more)")));
        let read: Value = serde_json::from_str(&text_of(&"ä".repeat(5000).into())).unwrap();
        assert!(read.as_str().unwrap().ends_with("ä… (4600 more characters)"), "{read}");
        let tree = (0..6).fold(json!("leaf"), |value, _| vec![value; 5].into());
        assert!(text_of(&tree).contains("bytes are left out"));
    }
}
