//! The fields of an answer: their order, and null where one failed.
//!
//! async-graphql writes the fields of an object as they complete, and leaves out those that fail.
//! The specification wants the order of the selection, with fields of the same response key merged
//! into the first place. It wants null for a field that failed; where the schema rules null out,
//! the object or list around it becomes null instead, and so on outwards (GraphQL specification,
//! §6.4.4). This module sees to both before an answer is serialized.

use std::collections::HashMap;

use async_graphql::parser::types::{
    BaseType, ExecutableDocument, OperationType, Selection, SelectionSet, Type,
};
use async_graphql::{PathSegment, Response, ServerError, Value};
use async_graphql_value::Name;
use indexmap::IndexMap;

use crate::graphql::DESCRIPTION;
use crate::http::check::meant;
use crate::http::check::types::TYPES;

/// Puts the data of an operation's answer into the order of its selections, with null for what
/// failed.
pub fn complete(
    response: &mut Response,
    document: &ExecutableDocument,
    operation_name: Option<&str>,
) {
    let Some(operation) = meant(document, operation_name).next() else {
        return;
    };
    let mut asked = Asked::default();
    asked.collect(&operation.selection_set.node, document, None);
    asked.describe(&mut response.data);
    let failures = Failures::of(&response.errors);
    if failures.0.is_empty() {
        return asked.order(&mut response.data);
    }
    let root = match operation.ty {
        OperationType::Query => "Query",
        OperationType::Mutation => "Mutation",
        OperationType::Subscription => "Subscription",
    };
    let fields = match std::mem::take(&mut response.data) {
        Value::Object(fields) => fields,
        _ => IndexMap::new(),
    };
    response.data = asked.completed_object(fields, root, &failures);
}

/// The response keys of an object in order, each with the selections below it. All items of a list
/// share them.
#[derive(Default)]
struct Asked<'d>(IndexMap<&'d Name, Field<'d>>);

/// A field of a selection.
struct Field<'d> {
    name: &'d Name,
    /// The type that the fragment around it is on.
    on: Option<&'d Name>,
    below: Asked<'d>,
}

impl<'d> Asked<'d> {
    fn collect(
        &mut self,
        selections: &'d SelectionSet,
        document: &'d ExecutableDocument,
        on: Option<&'d Name>,
    ) {
        for selection in &selections.items {
            match &selection.node {
                Selection::Field(field) => {
                    let name = &field.node.name.node;
                    let key = field.node.alias.as_ref().map_or(name, |alias| &alias.node);
                    let field_of_key = self.0.entry(key);
                    let field_of_key =
                        field_of_key.or_insert_with(|| Field { name, on, below: Self::default() });
                    field_of_key.below.collect(&field.node.selection_set.node, document, None);
                }
                Selection::InlineFragment(fragment) => {
                    let condition = fragment.node.type_condition.as_ref();
                    let on = condition.map(|condition| &condition.node.on.node).or(on);
                    self.collect(&fragment.node.selection_set.node, document, on);
                }
                Selection::FragmentSpread(spread) => {
                    let named = &spread.node.fragment_name.node;
                    if let Some(fragment) = document.fragments.get(named) {
                        let on = Some(&fragment.node.type_condition.node.on.node);
                        self.collect(&fragment.node.selection_set.node, document, on);
                    }
                }
            }
        }
    }

    /// Puts the description of the schema in the place of async-graphql's own sentence.
    fn describe(&self, data: &mut Value) {
        let Value::Object(fields) = data else { return };
        for (key, field) in self.0.iter().filter(|(_, field)| *field.name == "__schema") {
            let Some(Value::Object(schema)) = fields.get_mut(*key) else { continue };
            let below = field.below.0.iter();
            for (key, _) in below.filter(|(_, field)| *field.name == "description") {
                schema.insert((*key).clone(), DESCRIPTION.into());
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
                    if let Some(field) = self.0.get(key).filter(|field| !field.below.0.is_empty()) {
                        field.below.order(child);
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

    /// A value of a type, below which something failed; `None` if it would be null and must not.
    fn completed(&self, value: Value, needed: &Type, failures: &Failures) -> Option<Value> {
        let value = match (&needed.base, value) {
            (BaseType::List(item), Value::List(items)) => {
                let items = items.into_iter().enumerate().map(|(index, mut value)| match failures
                    .0
                    .get(&index.to_string())
                {
                    Some(failures) => self.completed(value, item, failures),
                    None => {
                        self.order(&mut value);
                        Some(value)
                    }
                });
                items.collect::<Option<Vec<_>>>().map_or(Value::Null, Value::List)
            }
            (BaseType::Named(name), Value::Object(fields)) => {
                self.completed_object(fields, name, failures)
            }
            // All fields of the object failed.
            (BaseType::Named(name), Value::Null) if !failures.0.is_empty() => {
                self.completed_object(IndexMap::new(), name, failures)
            }
            (_, value) => value,
        };
        (needed.nullable || value != Value::Null).then_some(value)
    }

    /// An object of a type, or null if a field of it failed that must not be null.
    fn completed_object(
        &self,
        mut fields: IndexMap<Name, Value>,
        type_name: &str,
        failures: &Failures,
    ) -> Value {
        let mut completed = IndexMap::with_capacity(self.0.len());
        for (&key, field) in &self.0 {
            let value = fields.swap_remove(key);
            let failures = failures.0.get(key.as_str());
            let value = match (value, failures) {
                // It is skipped, or in a fragment on another type.
                (None, None) => continue,
                (Some(mut value), None) => {
                    field.below.order(&mut value);
                    value
                }
                (value, Some(failures)) => {
                    let value = value.unwrap_or_default();
                    let type_name = field.on.map_or(type_name, Name::as_str);
                    let needed = TYPES.field(type_name, field.name).map(|field| &field.of);
                    match needed {
                        Some(needed) => match field.below.completed(value, needed, failures) {
                            Some(value) => value,
                            None => return Value::Null,
                        },
                        None => value,
                    }
                }
            };
            completed.insert(key.clone(), value);
        }
        completed.extend(fields);
        Value::Object(completed)
    }
}

/// The paths of errors, as a tree of response keys and indices; where it has no branches, a field
/// failed.
#[derive(Default)]
struct Failures(HashMap<String, Failures>);

impl Failures {
    fn of(errors: &[ServerError]) -> Self {
        let mut root = Self::default();
        for error in errors {
            let mut at = &mut root;
            for segment in &error.path {
                let step = match segment {
                    PathSegment::Field(key) => key.clone(),
                    PathSegment::Index(index) => index.to_string(),
                };
                at = at.0.entry(step).or_default();
            }
        }
        root
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    fn completed(query: &str, data: Json, paths: &[Json]) -> Value {
        let document = async_graphql::parser::parse_query(query).unwrap();
        let segment = |segment: &Json| match segment.as_u64() {
            Some(index) => PathSegment::Index(index as usize),
            None => PathSegment::Field(segment.as_str().unwrap().to_owned()),
        };
        let errors = paths.iter().map(|path| {
            let path = path.as_array().unwrap().iter().map(segment).collect();
            ServerError { path, ..ServerError::new("", None) }
        });
        let mut response = Response::new(Value::from_json(data).unwrap());
        response.errors = errors.collect();
        complete(&mut response, &document, Some("Q"));
        response.data
    }

    fn is(value: &Value, json: Json) -> bool {
        *value == Value::from_json(json).unwrap()
    }

    #[test]
    fn fields_stand_as_they_were_asked_for() {
        let query =
            "query Q { b { y ...f x: z } a b { w } } fragment f on B { z t: y } query R { a }";
        let data = json!({ "a": 1, "b": [{ "t": 1, "w": 2, "x": 3, "y": 4, "z": 5 }, null] });
        let completed = completed(query, data, &[]).to_string();
        assert_eq!(completed, "{b: [{y: 4, z: 5, t: 1, x: 3, w: 2}, null], a: 1}");
    }

    #[test]
    fn a_field_that_failed_is_null_or_what_is_around_it() {
        let member = "query Q { member(key: \"m\") { name: key region } boards { totalCount } }";
        let boards = json!({ "totalCount": 1 });
        let check = |data: Json, failed: Json, expected: Json| {
            let completed = completed(member, data, &[failed]);
            assert!(is(&completed, expected), "{completed}");
        };
        // A region may be null, a key may not.
        check(
            json!({ "boards": boards, "member": { "name": "m" } }),
            json!(["member", "region"]),
            json!({ "member": { "name": "m", "region": null }, "boards": boards }),
        );
        check(
            json!({ "boards": boards, "member": { "region": "eu" } }),
            json!(["member", "name"]),
            json!({ "member": null, "boards": boards }),
        );
        // All that was asked of the member failed.
        check(
            json!({ "boards": boards, "member": null }),
            json!(["member", "region"]),
            json!({ "member": { "region": null }, "boards": boards }),
        );
    }

    #[test]
    fn an_item_that_must_not_be_null_takes_the_list_with_it() {
        let query = "query Q { boards { nodes { ...f title } totalCount } } \
            fragment f on Board { no: id }";
        let data = json!({ "boards": { "totalCount": 2, "nodes": [{ "title": "t" }, null] } });
        let completed = completed(query, data, &[json!(["boards", "nodes", 0, "no"])]);
        assert!(is(&completed, json!({ "boards": null })), "{completed}");
    }
}
