//! Fields in the order in which they were asked for.
//!
//! async-graphql writes an object's fields as they complete; the specification wants the order of the selection, fields of the same
//! response key merged into the first place. Answers are put into that order before they are written.

use async_graphql::Value;
use async_graphql::parser::types::{ExecutableDocument, Selection, SelectionSet};
use async_graphql_value::Name;
use indexmap::IndexMap;

/// Puts the data of an operation's answer into the order of its selections.
pub fn restore(data: &mut Value, document: &ExecutableDocument, operation_name: Option<&str>) {
    let mut operations = document.operations.iter();
    let operation = operations
        .find(|(name, _)| operation_name.is_none() || name.map(Name::as_str) == operation_name);
    if let Some((_, operation)) = operation {
        order(data, &[&operation.node.selection_set.node], document);
    }
}

fn order(value: &mut Value, selections: &[&SelectionSet], document: &ExecutableDocument) {
    match value {
        Value::List(items) => items
            .iter_mut()
            .for_each(|item| order(item, selections, document)),
        Value::Object(fields) => {
            let mut asked: IndexMap<&Name, Vec<&SelectionSet>> = IndexMap::new();
            for selection in selections {
                collect(selection, document, &mut asked);
            }
            let mut unordered = std::mem::take(fields);
            for (key, children) in asked {
                // A field of another type's fragment is not in the answer.
                if let Some(mut child) = unordered.swap_remove(key) {
                    order(&mut child, &children, document);
                    fields.insert(key.clone(), child);
                }
            }
            fields.extend(unordered);
        }
        _ => {}
    }
}

/// The response keys of a selection in their order, each with what is selected below it.
fn collect<'d>(
    selections: &'d SelectionSet,
    document: &'d ExecutableDocument,
    asked: &mut IndexMap<&'d Name, Vec<&'d SelectionSet>>,
) {
    for selection in &selections.items {
        match &selection.node {
            Selection::Field(field) => {
                let key = field.node.alias.as_ref().unwrap_or(&field.node.name);
                asked
                    .entry(&key.node)
                    .or_default()
                    .push(&field.node.selection_set.node);
            }
            Selection::InlineFragment(fragment) => {
                collect(&fragment.node.selection_set.node, document, asked)
            }
            Selection::FragmentSpread(spread) => {
                if let Some(fragment) = document.fragments.get(&spread.node.fragment_name.node) {
                    collect(&fragment.node.selection_set.node, document, asked);
                }
            }
        }
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
        assert_eq!(
            data.to_string(),
            "{b: [{y: 4, z: 5, t: 1, x: 3, w: 2}, null], a: 1}"
        );
    }
}
