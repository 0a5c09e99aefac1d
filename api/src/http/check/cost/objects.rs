//! The objects that a field can answer with, by its name and arguments, and the points that it
//! takes.

use std::collections::HashMap;

use async_graphql::parser::types::{
    ExecutableDocument, Field, OperationDefinition, Selection, SelectionSet,
};
use async_graphql::{Positioned, Variables};
use async_graphql_value::{ConstValue, Name, Value};

use super::extent::Extent;
use super::lists::{LISTS, PAGES, SCHEMA_LISTS};
use crate::graphql::standings::distribution::BUCKETS_DEFAULT;
use crate::graphql::types::connection::PAGE_MAX;

/// The items of a page.
pub const ITEMS: [&str; 2] = ["edges", "nodes"];

/// Arguments whose value is the number of objects that a field answers with.
const COUNTS: [&str; 3] = ["first", "last", "buckets"];

/// Arguments of `neighbors`, whose values add up to the number of other members.
const AROUND: [&str; 2] = ["above", "below"];

/// Arguments whose length is the number of objects that a field answers with.
const LENGTHS: [&str; 5] = ["members", "keys", "boards", "windows", "input"];

/// Fields whose value the object has, without a selection and without arguments. All others may
/// have to wait, which takes memory, and count as look-ups.
const PLAIN: [&str; 22] = [
    "__typename",
    "accepted",
    "code",
    "cursor",
    "duplicates",
    "end",
    "endCursor",
    "hasNextPage",
    "hasPreviousPage",
    "id",
    "key",
    "kind",
    "label",
    "member",
    "message",
    "rank",
    "rejected",
    "score",
    "slug",
    "start",
    "startCursor",
    "status",
];

/// Fields that take more than a point whatever they find, each with its points besides. Resolvers
/// pay for the rest, by what they find.
const PRICES: [(&str, u64); 19] = [
    ("addFriend", 1200),
    ("auditLog", 40),
    ("board", 20),
    ("boards", 40),
    ("erasureReceipts", 40),
    ("findings", 40),
    ("integrityRuns", 40),
    ("jobs", 40),
    ("joinBoard", 1000),
    ("lastPeriod", 10),
    ("leaveBoard", 1000),
    ("node", 20),
    ("periods", 20),
    ("removeFriend", 200),
    ("reportMember", 1000),
    ("searchMembers", 200),
    ("segments", 40),
    ("standings", 10),
    ("top", 10),
];

/// Fields of which each object takes more than its fields, each with the points besides.
const PRICES_OF_ITEMS: [(&str, u64); 2] = [("submitScores", 40), ("upsertMembers", 40)];

/// Mutations that count as several changes, each with their number: the rows that it may write, and
/// the lists of friends that it makes others read again.
const CHANGES: [(&str, u64); 5] = [
    ("addFriend", 5),
    ("joinBoard", 5),
    ("leaveBoard", 5),
    ("removeFriend", 3),
    ("reportMember", 5),
];

/// How the objects of a field are counted.
pub enum Objects {
    /// A page of so many items.
    Page(u64),
    /// So many objects.
    Each(u64),
}

/// The values of the variables of an operation.
#[derive(Default)]
pub struct Values<'d> {
    variables: Option<&'d Variables>,
    defaults: HashMap<&'d Name, &'d ConstValue>,
    /// The extent of each variable and default, found once: a long one may stand in many fields.
    extents: HashMap<&'d Name, Extent>,
}

impl<'d> Values<'d> {
    /// The values that a request gives, and the defaults of the operation.
    pub fn new(variables: &'d Variables, operation: &'d OperationDefinition) -> Self {
        let defaults = operation.variable_definitions.iter().filter_map(|definition| {
            let default = definition.node.default_value.as_ref()?;
            Some((&definition.node.name.node, &default.node))
        });
        let defaults: HashMap<_, _> = defaults.collect();
        // A variable that is given counts in place of its default.
        let known = defaults.iter().map(|(name, value)| (*name, *value)).chain(variables.iter());
        let extents = known.map(|(name, value)| (name, Extent::of(value))).collect();
        Self { variables: Some(variables), defaults, extents }
    }

    /// The most objects that a field can answer with; at least one, so that nothing below is free.
    pub fn objects(&self, field: &Field) -> Objects {
        let name = field.name.node.as_str();
        let argument = |name: &str| self.argument(field, name);
        let count = |name: &str| argument(name).and_then(|value| value.number());
        // A default value of `first` that is written out means nothing beside `last`.
        let counted = COUNTS.into_iter().filter_map(count).max();
        if let Some((_, default)) = PAGES.iter().find(|(page, _)| *page == name) {
            return Objects::Page(counted.unwrap_or(*default as u64).max(1));
        }
        let objects = if name == "neighbors" {
            1 + AROUND.into_iter().map(|name| count(name).unwrap_or(5)).sum::<u64>()
        } else if name == "distribution" {
            counted.unwrap_or(BUCKETS_DEFAULT as u64)
        } else if let Some(length) = LENGTHS
            .into_iter()
            .filter_map(|name| self.length(&field.get_argument(name)?.node))
            .max()
        {
            length
        } else if let Some((_, length)) = LISTS.iter().find(|(list, _)| *list == name) {
            *length
        } else {
            below_schema(name).unwrap_or(1)
        };
        Objects::Each(objects.max(1))
    }

    fn argument<'f>(&'f self, field: &'f Field, name: &str) -> Option<Argument<'f>> {
        self.resolve(&field.get_argument(name)?.node)
    }

    fn resolve<'f>(&'f self, value: &'f Value) -> Option<Argument<'f>> {
        Some(match value {
            Value::Variable(name) => Argument::Known(
                self.variables?.get(name).or_else(|| self.defaults.get(name).copied())?,
            ),
            literal => Argument::Literal(literal),
        })
    }

    /// The length of a list, or of the longest list in an input object: the order of its fields is
    /// the client's choice.
    fn length(&self, value: &Value) -> Option<u64> {
        match value {
            Value::Variable(name) => self.extents.get(name)?.length,
            Value::List(items) => Some(items.len() as u64),
            Value::Object(fields) => fields.values().filter_map(|field| self.length(field)).max(),
            _ => None,
        }
    }

    /// The bytes of an argument, about.
    pub fn bytes(&self, value: &Value) -> u64 {
        match value {
            Value::Variable(name) => self.extents.get(name).map_or(8, |extent| extent.bytes),
            Value::String(text) => text.len() as u64 + 8,
            Value::List(items) => items.iter().map(|item| self.bytes(item)).sum::<u64>() + 8,
            Value::Object(fields) => {
                fields.iter().map(|(key, field)| key.len() as u64 + self.bytes(field)).sum::<u64>()
                    + 8
            }
            _ => 8,
        }
    }

    /// The changes that a mutation asks for: the length of each input that is a list, or else those
    /// of [`CHANGES`], or one. The document spreads no more than its limit, and no fragment in a
    /// circle.
    pub fn changes(&self, selections: &SelectionSet, document: &ExecutableDocument) -> u32 {
        let of_selection = |selection: &Positioned<Selection>| match &selection.node {
            Selection::Field(field) => match self.objects(&field.node) {
                Objects::Each(objects) | Objects::Page(objects) => {
                    let of_each = priced(&CHANGES, field.node.name.node.as_str()).max(1);
                    u32::try_from(objects.saturating_mul(of_each)).unwrap_or(u32::MAX)
                }
            },
            Selection::InlineFragment(fragment) => {
                self.changes(&fragment.node.selection_set.node, document)
            }
            Selection::FragmentSpread(spread) => {
                let fragment = document.fragments.get(&spread.node.fragment_name.node);
                fragment
                    .map_or(0, |fragment| self.changes(&fragment.node.selection_set.node, document))
            }
        };
        selections.items.iter().map(of_selection).fold(0, u32::saturating_add)
    }
}

/// The value of an argument: a literal, which may have variables inside, or a variable's.
enum Argument<'a> {
    Literal(&'a Value),
    Known(&'a ConstValue),
}

impl Argument<'_> {
    fn number(&self) -> Option<u64> {
        let number = match self {
            Self::Literal(Value::Number(number)) | Self::Known(ConstValue::Number(number)) => {
                number
            }
            _ => return None,
        };
        Some(number.as_u64().unwrap_or(0).min(PAGE_MAX as u64))
    }
}

/// True for a field whose value is there with its object.
pub fn is_plain(name: &str) -> bool {
    PLAIN.contains(&name)
}

/// The points of a field besides one, and those of each of its objects besides their fields.
pub fn price(name: &str) -> (u64, u64) {
    (priced(&PRICES, name), priced(&PRICES_OF_ITEMS, name))
}

fn priced(prices: &[(&str, u64)], name: &str) -> u64 {
    prices.iter().find(|(priced, _)| *priced == name).map_or(0, |(_, points)| *points)
}

/// The objects that a list of the schema counts for; `None` for another field.
pub fn below_schema(name: &str) -> Option<u64> {
    SCHEMA_LISTS.iter().find(|(list, _)| *list == name).map(|(_, objects)| *objects)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use async_graphql::parser::types::{BaseType, FieldDefinition, TypeKind, TypeSystemDefinition};

    use super::*;

    /// Lists of objects that need no argument to bound them: they are as long as the input that
    /// their parent has multiplied already.
    const BOUNDED_LISTS: [&str; 5] = [
        "UpsertMembersPayload.members",
        "ReleaseQuarantinedPayload.results",
        "VoidQuarantinedPayload.results",
        "RemoveEntriesPayload.members",
        "SubmitScoresPayload.results",
    ];

    #[test]
    fn every_field_that_answers_with_a_page_or_a_list_has_a_cost() {
        let schema = async_graphql::parser::parse_schema(crate::graphql::definitions()).unwrap();
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
            assert!(
                below_schema(name).is_none(),
                "{object}.{name} is named as a list of the schema"
            );
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
                    panic!("{object}.{name} answers with a page: add it to PAGES, and to PRICES if it reads much")
                });
                let first = argument(&["first"]).expect("a page takes `first`");
                let default = first
                    .node
                    .default_value
                    .as_ref()
                    .and_then(|value| Argument::Known(&value.node).number());
                assert_eq!(default, Some(*length as u64), "{object}.{name}");
                pages.insert(name);
            } else if is_list && is_object(base) {
                let counts = [&COUNTS[..], &AROUND, &LENGTHS].concat();
                let is_part_of_page =
                    object.ends_with("Connection") && ["edges", "nodes"].contains(&name);
                let is_bounded = BOUNDED_LISTS.contains(&format!("{object}.{name}").as_str())
                    || LISTS.iter().any(|(list, _)| *list == name);
                assert!(
                    argument(&counts).is_some() || is_part_of_page || is_bounded,
                    "{object}.{name} is a list: add its argument to COUNTS or LENGTHS, or the field to LISTS"
                );
            }
        }
        let listed: BTreeSet<&str> = PAGES.iter().map(|(page, _)| *page).collect();
        assert_eq!(pages, listed, "PAGES has a field that the schema does not have");
    }

    #[test]
    fn changes_are_the_items_of_inputs() {
        let changes = |query: &str, variables| {
            let document = async_graphql::parser::parse_query(query).unwrap();
            let variables = Variables::from_json(variables);
            let (_, operation) = document.operations.iter().next().unwrap();
            Values::new(&variables, &operation.node)
                .changes(&operation.node.selection_set.node, &document)
        };
        let none = serde_json::json!({});
        let deletion = "mutation { deleteBoard(input: { slug: \"x\" }) { slug } }";
        assert_eq!(changes(deletion, none.clone()), 1);
        let friends = "mutation { addFriend(input: { member: \"a\", friend: \"b\" }) { member { key } } removeFriend(input: { member: \"a\", friend: \"b\" }) { member { key } } }";
        assert_eq!(changes(friends, none.clone()), 5 + 3);
        let literal = "mutation { submitScores(input: { board: \"x\", scores: [{ member: \"a\", score: 1 }, { member: \"b\", score: 2 }] }) { accepted } }";
        assert_eq!(changes(literal, none.clone()), 2);
        let spread = format!(
            "mutation {{ ...f }} fragment f on Mutation {{ {} }}",
            &literal["mutation {".len()..literal.len() - 1]
        );
        assert_eq!(changes(&spread, none.clone()), 2);
        let whole = "mutation($i: SubmitScoresInput!) { submitScores(input: $i) { accepted } }";
        let scores = serde_json::json!([{}, {}, {}]);
        assert_eq!(
            changes(whole, serde_json::json!({ "i": { "board": "x", "scores": scores } })),
            3
        );
        let source = serde_json::json!({ "name": "x", "settled": [] });
        assert_eq!(
            changes(whole, serde_json::json!({ "i": { "source": source, "scores": scores } })),
            3
        );
        let settled = "mutation($s: [ScoreInput!]!, $o: SourceInput) { submitScores(input: { source: $o, scores: $s }) { accepted } }";
        assert_eq!(changes(settled, serde_json::json!({ "s": scores, "o": source })), 3);
        let part = "mutation($s: [ScoreInput!]!) { submitScores(input: { board: \"x\", scores: $s }) { accepted } }";
        assert_eq!(changes(part, serde_json::json!({ "s": scores })), 3);
        let removal = "mutation($f: EntryFilterInput!) { removeEntries(input: { board: \"x\", filter: $f }) { removed } }";
        let of_prefix = serde_json::json!({ "f": { "keyPrefix": "a" } });
        assert_eq!(changes(removal, of_prefix), 1000);
        let of_members = serde_json::json!({ "f": { "members": ["a", "b"] } });
        assert_eq!(changes(removal, of_members), 2);
    }
}
