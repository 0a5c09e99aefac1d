//! The order of the fields in an answer.
//!
//! async-graphql writes the fields of an object as they complete. The specification wants the order
//! of the selection, with fields of the same response key merged into the first place. This module
//! restores that order before an answer is serialized.

use async_graphql::Value;
use async_graphql::parser::types::{ExecutableDocument, Selection, SelectionSet};
use async_graphql_value::Name;
use indexmap::IndexMap;

use crate::http::check::meant;

/// Puts the data of an operation's answer into the order of its selections.
pub fn restore(data: &mut Value, document: &ExecutableDocument, operation_name: Option<&str>) {
    if let Some(operation) = meant(document, operation_name).next() {
        let mut asked = Asked::default();
        asked.collect(&operation.selection_set.node, document);
        asked.order(data);
    }
}

/// The response keys of an object in order, each with the selections below it. All items of a list
/// share them.
#[derive(Default)]
struct Asked<'d>(IndexMap<&'d Name, Asked<'d>>);

impl<'d> Asked<'d> {
    fn collect(&mut self, selections: &'d SelectionSet, document: &'d ExecutableDocument) {
        for selection in &selections.items {
            match &selection.node {
                Selection::Field(field) => {
                    let key = field.node.alias.as_ref().unwrap_or(&field.node.name);
                    let below = self.0.entry(&key.node).or_default();
                    below.collect(&field.node.selection_set.node, document);
                }
                Selection::InlineFragment(fragment) => {
                    self.collect(&fragment.node.selection_set.node, document);
                }
                Selection::FragmentSpread(spread) => {
                    let named = &spread.node.fragment_name.node;
                    if let Some(fragment) = document.fragments.get(named) {
                        self.collect(&fragment.node.selection_set.node, document);
                    }
                }
            }
        }
    }

    fn order(&self, value: &mut Value) {
        match value {
            Value::List(items) if !self.0.is_empty() => {
                items.iter_mut().for_each(|item| self.order(item));
            }
            Value::Object(fields) => {
                if !self.is_order_of(fields) {
                    let mut unordered = std::mem::take(fields);
                    // A fragment on another type adds no fields to the answer.
                    let there = self.0.keys().filter_map(|key| unordered.swap_remove_entry(*key));
                    fields.extend(there);
                    fields.extend(unordered);
                }
                for (key, child) in fields {
                    if let Some(below) = self.0.get(key).filter(|below| !below.0.is_empty()) {
                        below.order(child);
                    }
                }
            }
            _ => {}
        }
    }

    fn is_order_of(&self, fields: &IndexMap<Name, Value>) -> bool {
        let mut asked = self.0.keys();
        fields.keys().all(|key| asked.any(|asked| *asked == key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_as_they_were_asked_for() {
        let query =
            "query Q { b { y ...f x: z } a b { w } } fragment f on B { z t: y } query R { a }";
        let document = async_graphql::parser::parse_query(query).unwrap();
        let mut data = Value::from_json(
            serde_json::json!({ "a": 1, "b": [{ "t": 1, "w": 2, "x": 3, "y": 4, "z": 5 }, null] }),
        )
        .unwrap();
        restore(&mut data, &document, Some("Q"));
        assert_eq!(data.to_string(), "{b: [{y: 4, z: 5, t: 1, x: 3, w: 2}, null], a: 1}");
    }
}
