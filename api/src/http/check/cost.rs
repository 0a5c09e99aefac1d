//! The cost of a query, as far as its text and variables tell it: the fields that it expands to,
//! the points that these take, and the bytes of their arguments.
//!
//! A point stands for about a microsecond of CPU of the API and Redis; `make bench` prints how true
//! that is. Resolvers add the points that only they know, such as the shards of a board.

mod extent;
mod lists;
mod objects;
mod sum;

use std::collections::{HashMap, HashSet};

use async_graphql::Positioned;
use async_graphql::Variables;
use async_graphql::parser::types::{
    Directive, ExecutableDocument, Field, OperationDefinition, OperationType, Selection,
    SelectionSet,
};
use async_graphql_value::Name;
use engine::settings::RequestLimits;
use ranking::shown;

use crate::error::{Error, Result};
use objects::{ITEMS, Objects, Values, below_schema, is_plain, price};
use sum::{Scaled, Sum};

/// The most levels of selection sets, fragments included. The executor's own limit is the same.
const LEVELS_MAX: usize = 32;

/// The most arguments of a field: those of fields with one response key are compared, each with
/// each. The schema has none with more than ten.
const ARGUMENTS_MAX: u32 = 32;

/// The bytes of arguments that take a point: the executor copies and reads them for each field.
const ARGUMENT_BYTES_A_POINT: u64 = 64;

/// The cost of a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    /// The points of its text.
    pub points: u64,
    /// The objects and look-ups of its answer.
    pub objects: u64,
    /// The fields that it expands to, whatever the lengths of lists.
    pub selections: u64,
    /// The changes that it asks for: scores, members, and so on.
    pub changes: u32,
    /// True if it asks for the schema.
    pub introspects: bool,
}

/// The cost of a document.
///
/// # Errors
/// `LIMIT_EXCEEDED` if it is too costly or too deep, `BAD_USER_INPUT` if fragments spread each
/// other in a circle.
pub fn of(
    document: &ExecutableDocument,
    variables: &Variables,
    limits: &RequestLimits,
) -> Result<Cost> {
    let mut counts = Counts::new(document, variables, limits);
    let mut all = Sum::default();
    for (_, operation) in document.operations.iter() {
        let of_operation = counts.of_operation(&operation.node)?;
        all.add(of_operation);
    }
    // It would be validated all the same.
    if let Some(name) = document.fragments.keys().find(|name| !counts.spread.contains(name)) {
        return Err(Error::bad_input(format!("fragment {} is never spread", shown(name))));
    }
    at_most(all.selections, limits.selections_max, "fields, fragments followed")?;
    let Scaled { points, objects, argument_bytes: bytes } = all.scaled(1, 1);
    at_most(objects, limits.objects_max, "objects and look-ups")?;
    let bytes_max = limits.argument_bytes_max;
    if bytes > bytes_max {
        return Err(Error::limit_exceeded(format!(
            "the arguments of this query come to {bytes} bytes, counted for each object: expected at most {bytes_max}"
        )));
    }
    if points > u64::from(limits.cost_max) {
        return Err(Error::limit_exceeded(format!(
            "this query can cost {} points: expected at most {}; ask for shorter pages or fewer fields",
            points, limits.cost_max
        )));
    }
    let mutations = document.operations.iter().map(|(_, operation)| &operation.node);
    let changes = mutations
        .filter(|operation| operation.ty == OperationType::Mutation)
        .map(|operation| {
            let selections = &operation.selection_set.node;
            Values::new(variables, operation).changes(selections, document)
        })
        .fold(0, u32::saturating_add);
    let Counts { introspects, .. } = counts;
    Ok(Cost { points, objects, selections: all.selections, changes, introspects })
}

fn too_deep(field_levels_max: u32) -> Error {
    Error::limit_exceeded(format!(
        "this query is nested deeper than {field_levels_max} levels of fields, or {LEVELS_MAX} with fragments"
    ))
}

/// Refuses more of some things than a setting allows.
///
/// # Errors
/// `LIMIT_EXCEEDED` with both numbers.
pub fn at_most(count: u64, max: u32, things: &str) -> Result<()> {
    if count <= u64::from(max) {
        return Ok(());
    }
    Err(Error::limit_exceeded(format!("the query has {count} {things}: expected at most {max}")))
}

struct Counts<'d> {
    document: &'d ExecutableDocument,
    limits: &'d RequestLimits,
    variables: &'d Variables,
    values: Values<'d>,
    /// `None` while a fragment is being counted.
    fragments: HashMap<&'d Name, Option<Sum>>,
    /// The fragments that any operation spreads.
    spread: HashSet<&'d Name>,
    directives: u64,
    introspects: bool,
}

impl<'d> Counts<'d> {
    fn new(
        document: &'d ExecutableDocument,
        variables: &'d Variables,
        limits: &'d RequestLimits,
    ) -> Self {
        Self {
            document,
            limits,
            variables,
            values: Values::default(),
            fragments: HashMap::new(),
            spread: HashSet::new(),
            directives: 0,
            introspects: false,
        }
    }

    fn of_operation(&mut self, operation: &'d OperationDefinition) -> Result<Sum> {
        // Defaults are the operation's own, so that fragments are counted for each.
        self.fragments.clear();
        self.values = Values::new(self.variables, operation);
        self.directives(&operation.directives)?;
        self.of(&operation.selection_set.node, 0)
    }

    fn of(&mut self, selections: &'d SelectionSet, level: usize) -> Result<Sum> {
        let mut sum = Sum::default();
        let &RequestLimits { duplicates_max, field_levels_max, .. } = self.limits;
        if level > LEVELS_MAX {
            return Err(too_deep(field_levels_max));
        }
        let (mut aliases, mut keys) = (0, HashMap::<&Name, u32>::new());
        for selection in &selections.items {
            self.directives(selection.node.directives())?;
            let of_selection = match &selection.node {
                Selection::Field(field) => {
                    let field = &field.node;
                    aliases += u64::from(field.alias.is_some());
                    if !field.selection_set.node.items.is_empty() {
                        let same = keys.entry(&field.response_key().node).or_default();
                        *same += 1;
                        if *same > duplicates_max {
                            return Err(Error::limit_exceeded(format!(
                                "the query has {} more than {duplicates_max} times in one selection set: expected it once",
                                shown(&field.response_key().node)
                            )));
                        }
                    }
                    self.of_field(field, level)?
                }
                Selection::InlineFragment(fragment) => {
                    let mut below = self.of(&fragment.node.selection_set.node, level + 1)?;
                    below.levels += 1;
                    below.selections = below.selections.saturating_add(1);
                    below
                }
                Selection::FragmentSpread(spread) => {
                    self.of_fragment(&spread.node.fragment_name.node, level)?
                }
            };
            sum.add(of_selection);
        }
        at_most(aliases, self.limits.aliases_max, "aliases in one selection set")?;
        if level + sum.levels > LEVELS_MAX || sum.field_levels > field_levels_max as usize {
            return Err(too_deep(field_levels_max));
        }
        Ok(sum)
    }

    fn of_field(&mut self, field: &'d Field, level: usize) -> Result<Sum> {
        let name = field.name.node.as_str();
        let below = self.of(&field.selection_set.node, level + 1)?;
        let is_introspection = matches!(name, "__schema" | "__type");
        self.introspects |= is_introspection;
        let schema_list = below_schema(name);
        let schema_lists = below.schema_lists + usize::from(schema_list.is_some());
        let lists_max = self.limits.schema_lists_max;
        if schema_lists > lists_max as usize {
            return Err(Error::limit_exceeded(format!(
                "this query nests the lists of the schema deeper than {lists_max} levels"
            )));
        }
        let (objects, mut scaled) = match self.values.objects(field) {
            Objects::Page(items) => (1, below.scaled(1, items)),
            Objects::Each(objects) => (objects, below.scaled(objects, objects)),
        };
        if is_introspection {
            // The schema is there already.
            scaled.objects = 0;
        }
        let (once, each) = price(name);
        let has_selections = !field.selection_set.node.items.is_empty();
        // With an argument it is a look-up, such as a rank by another method.
        let is_value = is_plain(name) && !has_selections && field.arguments.is_empty();
        let count = field.arguments.len() as u64;
        at_most(count, ARGUMENTS_MAX, "arguments of one field")?;
        let arguments = field.arguments.iter();
        let argument_bytes = arguments.map(|(_, value)| self.values.bytes(&value.node)).sum();
        let field_alone = Scaled {
            points: 1 + once + objects * each + argument_bytes / ARGUMENT_BYTES_A_POINT,
            objects: if is_value { 0 } else { objects },
            argument_bytes,
        };
        let own = scaled.plus(1, field_alone, 1);
        let is_items = ITEMS.contains(&name);
        let (fixed, of_items) =
            if is_items { (Scaled::default(), own) } else { (own, Scaled::default()) };
        Ok(Sum {
            selections: below.selections.saturating_add(1),
            own: fixed,
            of_items,
            field_levels: below.field_levels + usize::from(has_selections),
            levels: below.levels + 1,
            schema_lists,
        })
    }

    fn of_fragment(&mut self, name: &'d Name, level: usize) -> Result<Sum> {
        match self.fragments.get(name) {
            Some(Some(sum)) => return Ok(*sum),
            Some(None) => {
                return Err(Error::bad_input(format!("fragment {} spreads itself", shown(name))));
            }
            None => {}
        }
        let Some(fragment) = self.document.fragments.get(name) else {
            return Err(Error::bad_input(format!("there is no fragment {}", shown(name))));
        };
        self.directives(&fragment.node.directives)?;
        self.spread.insert(name);
        self.fragments.insert(name, None);
        let mut sum = self.of(&fragment.node.selection_set.node, level + 1)?;
        sum.levels += 1;
        // A spread counts as well as what it spreads: each is followed.
        sum.selections = sum.selections.saturating_add(1);
        self.fragments.insert(name, Some(sum));
        Ok(sum)
    }

    /// Counts directives, and refuses what none of a query has: the executor would copy a variable
    /// for each of their arguments.
    fn directives(&mut self, directives: &[Positioned<Directive>]) -> Result<()> {
        for directive in directives.iter().map(|directive| &directive.node) {
            let name = directive.name.node.as_str();
            if !matches!(name, "skip" | "include") || directive.arguments.len() > 1 {
                let shown = shown(name);
                let message = format!(
                    "invalid directive {shown}: expected skip or include with one argument, if"
                );
                return Err(Error::bad_input(message));
            }
        }
        self.directives += directives.len() as u64;
        at_most(self.directives, self.limits.directives_max, "directives")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use clap::Parser;

    use super::*;
    use crate::error::ErrorCode;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        limits: RequestLimits,
    }

    /// The limits where no setting changes them.
    pub fn limits() -> RequestLimits {
        Arguments::parse_from(["laurel"]).limits
    }

    pub fn cost_of(query: &str, variables: serde_json::Value) -> Result<Cost> {
        let document = async_graphql::parser::parse_query(query).unwrap();
        of(&document, &Variables::from_json(variables), &limits())
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

    #[test]
    fn costly_fields_count_for_more() {
        let jobs: Vec<String> = (0..100).map(|index| format!("j{index}: jobs {{ a }}")).collect();
        let query = format!("{{ {} }}", jobs.join(" "));
        let points = cost_of(&query, serde_json::json!({})).unwrap().points;
        assert_eq!(points, 100 * (1 + price("jobs").0 + 1));
    }

    #[test]
    fn a_page_counts_its_own_fields_once_and_its_items_each() {
        let points = |query: &str| cost_of(query, serde_json::json!({})).unwrap().points;
        let (few, many) = (
            "{ top(first: 10) { totalCount nodes { rank } } }",
            "{ top(first: 1000) { totalCount nodes { rank } } }",
        );
        let of_item = 1 + 1 + price("rank").0;
        assert_eq!(points(many) - points(few), 990 * of_item);
        // The default that is written out means nothing beside `last`.
        let last = "{ top(first: 10, last: 1000) { totalCount nodes { rank } } }";
        assert_eq!(points(last), points(many));
        let by_fragment = "{ top(first: 1000) { ...p } } fragment p on EntryConnection { totalCount nodes { rank } }";
        assert_eq!(points(by_fragment), points(many));
        let below_list = "{ neighbors(above: 9, below: 10) { a b } }";
        assert_eq!(points(below_list), 1 + price("neighbors").0 + 20 * 2);
    }

    #[test]
    fn what_is_copied_for_each_object_is_bounded() {
        let query = "query($k: [String!]!) { boards(first: 100) { nodes { standings { entries(members: $k) { rank } } } } }";
        let keys = serde_json::json!({ "k": vec!["x".repeat(1000); 100] });
        let error = cost_of(query, keys).unwrap_err();
        assert!(error.message.contains("arguments"), "{}", error.message);
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
