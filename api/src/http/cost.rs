//! The cost of a query: the number of fields that it can expand to, with pages and lists multiplied
//! and fragments followed.
//!
//! The cost is computed before execution, and once for each fragment. The checks of async-graphql
//! visit a fragment each time it is spread, which takes exponential time in a chain of fragments
//! that each spread the next one twice.

use std::collections::HashMap;

use async_graphql::Variables;
use async_graphql::parser::types::{ExecutableDocument, Field, Selection, SelectionSet};
use async_graphql_value::{ConstValue, Name, Value};

use crate::error::{Error, Result};
use crate::graphql::integrity::FINDINGS_DEFAULT;
use crate::graphql::job::JOBS_DEFAULT;
use crate::graphql::standings::distribution::BUCKETS_DEFAULT;
use crate::graphql::types::connection::{PAGE_DEFAULT, PAGE_MAX};

/// The most fields that a query may expand to.
pub const COST_MAX: u64 = 100_000;

/// The most levels of fragments and fields.
const DEPTH_MAX: usize = 50;

/// Fields that answer with a page, each with its default length.
const PAGES: [(&str, usize); 9] = [
    ("top", PAGE_DEFAULT),
    ("boards", PAGE_DEFAULT),
    ("friends", PAGE_DEFAULT),
    ("periods", PAGE_DEFAULT),
    ("events", PAGE_DEFAULT),
    ("searchMembers", PAGE_DEFAULT),
    ("jobs", JOBS_DEFAULT),
    ("integrityRuns", JOBS_DEFAULT),
    ("findings", FINDINGS_DEFAULT),
];

/// Arguments whose value is the number of objects that a field answers with.
const COUNTS: [&str; 3] = ["first", "last", "buckets"];

/// Arguments of `neighbors`, whose values add up to the number of other members.
const AROUND: [&str; 2] = ["above", "below"];

/// Arguments whose length is the number of objects that a field answers with.
const LISTS: [&str; 4] = ["members", "keys", "boards", "input"];

/// Fields that read much to answer with little, each with the number of fields that it counts as
/// besides its own. `friends` ranks all friends of a member for a page of them, `periods` passes
/// over periods without entries, and `searchMembers` may count all that it finds.
const WEIGHTS: [(&str, u64); 6] = [
    ("friends", 500),
    ("periods", 2000),
    ("distribution", 200),
    ("events", 100),
    ("findings", 100),
    ("searchMembers", 2000),
];

/// Checks the cost of a document.
///
/// # Errors
/// `LIMIT_EXCEEDED` if it is too costly or too deep, `BAD_USER_INPUT` if fragments spread each
/// other in a circle.
pub fn check(document: &ExecutableDocument, variables: &Variables) -> Result<()> {
    let mut total: u64 = 0;
    for (_, operation) in document.operations.iter() {
        let defaults = operation.node.variable_definitions.iter().filter_map(|definition| {
            let default = definition.node.default_value.as_ref()?;
            Some((definition.node.name.node.clone(), default.node.clone()))
        });
        let mut costs =
            Costs { document, variables, defaults: defaults.collect(), fragments: HashMap::new() };
        total = total.saturating_add(costs.of(&operation.node.selection_set.node, 0)?);
    }
    if total > COST_MAX {
        return Err(Error::limit_exceeded(format!(
            "this query can expand to {total} fields: expected at most {COST_MAX}; ask for shorter pages or fewer fields"
        )));
    }
    Ok(())
}

/// The costs of one operation and its fragments, with its variables and their defaults.
struct Costs<'d> {
    document: &'d ExecutableDocument,
    variables: &'d Variables,
    defaults: HashMap<Name, ConstValue>,
    /// `None` while the cost of a fragment is being computed.
    fragments: HashMap<Name, Option<u64>>,
}

impl Costs<'_> {
    fn of(&mut self, selections: &SelectionSet, depth: usize) -> Result<u64> {
        if depth > DEPTH_MAX {
            return Err(Error::limit_exceeded(format!(
                "this query is nested deeper than {DEPTH_MAX} levels"
            )));
        }
        let mut total: u64 = 0;
        for selection in &selections.items {
            let cost = match &selection.node {
                Selection::Field(field) => {
                    let children = self.of(&field.node.selection_set.node, depth + 1)?;
                    children
                        .saturating_mul(self.objects(&field.node))
                        .saturating_add(weight(&field.node))
                }
                Selection::InlineFragment(fragment) => {
                    self.of(&fragment.node.selection_set.node, depth + 1)?
                }
                Selection::FragmentSpread(spread) => {
                    self.of_fragment(&spread.node.fragment_name.node, depth)?
                }
            };
            total = total.saturating_add(cost);
        }
        Ok(total)
    }

    fn of_fragment(&mut self, name: &Name, depth: usize) -> Result<u64> {
        match self.fragments.get(name) {
            Some(Some(cost)) => return Ok(*cost),
            Some(None) => return Err(Error::bad_input(format!("fragment {name} spreads itself"))),
            None => {}
        }
        let Some(fragment) = self.document.fragments.get(name) else {
            return Ok(0);
        };
        self.fragments.insert(name.clone(), None);
        let cost = self.of(&fragment.node.selection_set.node, depth + 1)?;
        self.fragments.insert(name.clone(), Some(cost));
        Ok(cost)
    }

    /// The most objects that a field can answer with.
    fn objects(&self, field: &Field) -> u64 {
        let argument = |name: &str| field.get_argument(name).map(|value| self.resolve(&value.node));
        let count = |name: &str| argument(name).and_then(|value| number(&value));
        if let Some(count) = COUNTS.into_iter().find_map(count) {
            return count;
        }
        if field.name.node == "neighbors" {
            return 1 + AROUND.into_iter().map(|name| count(name).unwrap_or(5)).sum::<u64>();
        }
        if let Some(length) =
            LISTS.into_iter().find_map(|name| argument(name).and_then(|value| length(&value)))
        {
            // An empty list must not make the field free.
            return length.max(1);
        }
        if field.name.node == "distribution" {
            return BUCKETS_DEFAULT as u64;
        }
        let name = field.name.node.as_str();
        let page = PAGES.iter().find(|(page, _)| *page == name);
        page.map_or(1, |(_, default)| *default as u64)
    }

    fn resolve(&self, value: &Value) -> ConstValue {
        let by_name = |name: Name| {
            let value = self.variables.get(&name).or_else(|| self.defaults.get(&name));
            Ok::<_, ()>(value.cloned().unwrap_or_default())
        };
        value.clone().into_const_with(by_name).unwrap_or_default()
    }
}

fn weight(field: &Field) -> u64 {
    let name = field.name.node.as_str();
    let heavy = WEIGHTS.iter().find(|(heavy, _)| *heavy == name);
    1 + heavy.map_or(0, |(_, weight)| *weight)
}

fn number(value: &ConstValue) -> Option<u64> {
    match value {
        ConstValue::Number(number) => Some(number.as_u64().unwrap_or(0).min(PAGE_MAX as u64)),
        _ => None,
    }
}

/// The length of a list, or of the list in an input object.
fn length(value: &ConstValue) -> Option<u64> {
    match value {
        ConstValue::List(items) => Some(items.len() as u64),
        ConstValue::Object(fields) => fields.values().find_map(length),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use async_graphql::Positioned;
    use async_graphql::parser::types::{BaseType, FieldDefinition, TypeKind, TypeSystemDefinition};

    use super::*;
    use crate::error::ErrorCode;

    fn cost_of(query: &str, variables: serde_json::Value) -> Result<()> {
        let document = async_graphql::parser::parse_query(query).unwrap();
        check(&document, &Variables::from_json(variables))
    }

    fn is_accepted(query: &str, variables: serde_json::Value) -> bool {
        cost_of(query, variables).is_ok()
    }

    #[test]
    fn pages_multiply() {
        let none = serde_json::json!({});
        assert!(is_accepted(
            "{ board { standings { top(first: 1000) { nodes { rank score member { name } } } } } }",
            none.clone()
        ));
        assert!(!is_accepted(
            "{ boards(first: 1000) { nodes { standings { top(first: 1000) { nodes { rank } } } } } }",
            none.clone()
        ));
        assert!(!is_accepted(
            "query($n: Int) { boards(first: $n) { nodes { standings { top(last: $n) { nodes { rank } } } } } }",
            serde_json::json!({ "n": 1000 })
        ));
        assert!(is_accepted("{ boards { nodes { standings { top { nodes { rank } } } } } }", none));
    }

    #[test]
    fn defaults_of_variables_and_fragments_hide_nothing() {
        let none = serde_json::json!({});
        let by_default = "query($n: Int = 1000) { boards(first: $n) { nodes { standings { top(first: $n) { nodes { rank } } } } } }";
        assert!(!is_accepted(by_default, none.clone()));
        assert!(is_accepted(by_default, serde_json::json!({ "n": 10 })));
        let hidden = "{ boards { ...b } } fragment b on BoardConnection { nodes { standings { top { ...t } } } }
            fragment t on EntryConnection { nodes { standings { top { ...u } } } }
            fragment u on EntryConnection { nodes { standings { top { ...v } } } }
            fragment v on EntryConnection { nodes { standings { top { nodes { rank score value percentile } } } } }";
        assert!(!is_accepted(hidden, none));
    }

    /// Lists of objects that need no argument to bound them: a board has at most 17 windows; the
    /// rest are as long as the page or the input that their parent has multiplied already.
    const BOUNDED_LISTS: [&str; 4] = [
        "Board.windows",
        "FriendEntryConnection.missing",
        "MembersPayload.members",
        "SubmitScoresPayload.results",
    ];

    #[test]
    fn every_field_that_answers_with_a_page_or_a_list_has_a_cost() {
        let schema = async_graphql::parser::parse_schema(crate::graphql::sdl()).unwrap();
        let types = schema.definitions.iter().filter_map(|definition| match definition {
            TypeSystemDefinition::Type(of) => Some(&of.node),
            _ => None,
        });
        let objects: Vec<(&str, &[Positioned<FieldDefinition>])> = types
            .filter_map(|of| match &of.kind {
                TypeKind::Object(object) => Some((of.name.node.as_str(), object.fields.as_slice())),
                _ => None,
            })
            .collect();
        let is_object = |name: &str| objects.iter().any(|(object, _)| *object == name);
        let fields = objects
            .iter()
            .flat_map(|(object, fields)| fields.iter().map(move |field| (object, &field.node)));
        let mut pages = BTreeSet::new();
        for (object, field) in fields {
            let name = field.name.node.as_str();
            let argument = |names: &[&str]| {
                field
                    .arguments
                    .iter()
                    .find(|argument| names.contains(&argument.node.name.node.as_str()))
            };
            let (base, is_list) = match &field.ty.node.base {
                BaseType::Named(base) => (base.as_str(), false),
                BaseType::List(item) => match &item.base {
                    BaseType::Named(base) => (base.as_str(), true),
                    BaseType::List(_) => panic!("{object}.{name} is a list of lists"),
                },
            };
            if base.ends_with("Connection") || argument(&["first", "last"]).is_some() {
                let page = PAGES.iter().find(|(page, _)| *page == name);
                let (_, length) = page.unwrap_or_else(|| {
                    panic!("{object}.{name} answers with a page: add it to PAGES, and to WEIGHTS if it reads much")
                });
                let first = argument(&["first"]).expect("a page takes `first`");
                let default =
                    first.node.default_value.as_ref().and_then(|value| number(&value.node));
                assert_eq!(
                    default.unwrap_or(PAGE_DEFAULT as u64),
                    *length as u64,
                    "{object}.{name}"
                );
                pages.insert(name);
            } else if is_list && is_object(base) {
                let counts = [&COUNTS[..], &AROUND, &LISTS].concat();
                let is_part_of_page =
                    object.ends_with("Connection") && ["edges", "nodes"].contains(&name);
                let is_bounded = BOUNDED_LISTS.contains(&format!("{object}.{name}").as_str());
                assert!(
                    argument(&counts).is_some() || is_part_of_page || is_bounded,
                    "{object}.{name} is a list: add its argument to COUNTS or LISTS, or the field to BOUNDED_LISTS"
                );
            }
        }
        let listed: BTreeSet<&str> = PAGES.iter().map(|(page, _)| *page).collect();
        assert_eq!(pages, listed, "PAGES has a field that the schema does not have");
    }

    #[test]
    fn costly_fields_count_for_more() {
        let friends = |count: usize| {
            let aliases: Vec<String> = (0..count)
                .map(|index| format!("f{index}: friends(member: \"a\") {{ totalCount }}"))
                .collect();
            format!("{{ board {{ standings {{ {} }} }} }}", aliases.join(" "))
        };
        let none = serde_json::json!({});
        assert!(is_accepted(&friends(100), none.clone()));
        assert!(!is_accepted(&friends(250), none));
    }

    #[test]
    fn fragments_that_double_are_counted_in_no_time() {
        let mut query = "{ ...f0 }".to_owned();
        for level in 0..30 {
            query.push_str(&format!(
                " fragment f{level} on Query {{ ...f{next} ...f{next} }}",
                next = level + 1
            ));
        }
        query.push_str(" fragment f30 on Query { __typename }");
        assert_eq!(
            cost_of(&query, serde_json::json!({})).unwrap_err().code,
            ErrorCode::LimitExceeded
        );
        let circle = "{ ...a } fragment a on Query { ...b } fragment b on Query { ...a }";
        assert_eq!(
            cost_of(circle, serde_json::json!({})).unwrap_err().code,
            ErrorCode::BadUserInput
        );
    }
}
