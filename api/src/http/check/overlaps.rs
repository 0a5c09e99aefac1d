//! Fields of one response key: all of them mean the same, so that their answers can be merged
//! (GraphQL specification, §5.3.2).
//!
//! async-graphql compares those of one selection set by their names and arguments, and not what
//! lies below them. Each level is looked at as one set of fields here, which takes time in
//! proportion to the fields (S. Adameit, "GraphQL: Overlapping Fields Can Be Merged Fast", 2018).

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::LazyLock;

use async_graphql::parser::types::{
    BaseType, ExecutableDocument, Field, Selection, SelectionSet, Type,
};
use async_graphql::{Pos, ServerError};
use async_graphql_value::{Name, Value};
use ranking::shown;

use super::arguments::{named, root_of};
use super::types::TYPES;
use crate::error::Error;
use crate::http::response::server_error;

/// The selections that are looked at for each one of the expanded document, and for a short one:
/// those on an interface are looked at once for each type of objects beside it, at each level
/// again.
const LOOKS_OF_FIELD: u64 = 20;
const LOOKS_MIN: u64 = 100;

/// The type of `__typename`.
static TYPENAME: LazyLock<Type> = LazyLock::new(|| Type::new("String!").expect("it is a type"));

/// Checks the fields of each operation, and returns the looks that it took. The document spreads no
/// fragment in a circle, and expands to so many fields.
///
/// # Errors
/// The second value: `BAD_USER_INPUT` with the place of the second of two fields that do not fit
/// each other; `LIMIT_EXCEEDED` if objects of many types below each other make them too many to
/// compare.
pub fn check(document: &ExecutableDocument, fields: u64) -> (u64, Result<(), ServerError>) {
    let looks_max = LOOKS_MIN + LOOKS_OF_FIELD * fields;
    let overlaps = Overlaps { document, left: Cell::new(looks_max) };
    let checked = document.operations.iter().try_for_each(|(_, operation)| {
        let root = Some(root_of(operation.node.ty));
        overlaps.check([(&operation.node.selection_set.node, root)], Alike::Fields)
    });
    (looks_max - overlaps.left.get(), checked)
}

/// How far the fields of one key have to be alike.
#[derive(Clone, Copy, PartialEq)]
enum Alike {
    /// The same field with the same arguments where an object may have both.
    Fields,
    /// Values of the same shape, as no object has both.
    Shapes,
}

/// A field, and the type that it is selected on; `None` if the schema has no such type, or it is
/// one of the schema's own.
#[derive(Clone, Copy)]
struct Selected<'d> {
    on: Option<&'d str>,
    field: &'d Field,
    pos: Pos,
}

struct Overlaps<'d> {
    document: &'d ExecutableDocument,
    /// The selections that may still be looked at.
    left: Cell<u64>,
}

impl<'d> Overlaps<'d> {
    fn check(
        &self,
        sets: impl IntoIterator<Item = (&'d SelectionSet, Option<&'d str>)>,
        alike: Alike,
    ) -> Result<(), ServerError> {
        let (mut keys, mut spread) = (BTreeMap::new(), HashSet::new());
        for (selections, on) in sets {
            self.collect(selections, on, &mut keys, &mut spread)?;
        }
        for fields in keys.into_values() {
            let groups = match alike {
                Alike::Fields => self.of_one_object(&fields)?,
                Alike::Shapes => vec![],
            };
            if groups.len() != 1 {
                all_are(&fields, is_of_shape)?;
                self.check(below(&fields), Alike::Shapes)?;
            }
            for group in groups {
                // Each argument is looked for among those of the other field.
                let arguments = group.first().map_or(0, |one| one.field.arguments.len());
                self.look_at(group.len().saturating_sub(1) * arguments)?;
                all_are(&group, is_same)?;
                self.check(below(&group), Alike::Fields)?;
            }
        }
        Ok(())
    }

    /// Collects the fields of selections by their keys; those of a fragment once.
    fn collect(
        &self,
        selections: &'d SelectionSet,
        on: Option<&'d str>,
        keys: &mut BTreeMap<&'d Name, Vec<Selected<'d>>>,
        spread: &mut HashSet<&'d Name>,
    ) -> Result<(), ServerError> {
        self.look_at(selections.items.len())?;
        for selection in &selections.items {
            let (condition, below) = match &selection.node {
                Selection::Field(field) => {
                    let key = &field.node.response_key().node;
                    let field = Selected { on, field: &field.node, pos: field.pos };
                    keys.entry(key).or_default().push(field);
                    continue;
                }
                Selection::InlineFragment(fragment) => {
                    (fragment.node.type_condition.as_ref(), &fragment.node.selection_set)
                }
                Selection::FragmentSpread(fragment) => {
                    let name = &fragment.node.fragment_name.node;
                    let Some(fragment) = self.document.fragments.get(name) else { continue };
                    if !spread.insert(name) {
                        continue;
                    }
                    (Some(&fragment.node.type_condition), &fragment.node.selection_set)
                }
            };
            let on = condition.map(|condition| condition.node.on.node.as_str()).or(on);
            self.collect(&below.node, on, keys, spread)?;
        }
        Ok(())
    }

    /// The fields that one object may have, for each type of objects: those on the type itself or
    /// on an interface.
    fn of_one_object(
        &self,
        fields: &[Selected<'d>],
    ) -> Result<Vec<Vec<Selected<'d>>>, ServerError> {
        let is_on_interface =
            |field: &&Selected<'_>| field.on.is_some_and(|on| TYPES.is_interface(on));
        let objects: BTreeSet<_> =
            fields.iter().filter(|field| !is_on_interface(field)).map(|field| field.on).collect();
        if objects.len() < 2 {
            return Ok(vec![fields.to_vec()]);
        }
        self.look_at(objects.len() * fields.len())?;
        let of = |object| {
            let may_be = fields.iter().filter(|field| field.on == object || is_on_interface(field));
            may_be.copied().collect()
        };
        Ok(objects.into_iter().map(of).collect())
    }

    /// Takes so many selections from those that may be looked at.
    fn look_at(&self, selections: usize) -> Result<(), ServerError> {
        let left = self.left.get().checked_sub(selections as u64);
        self.left.set(left.unwrap_or(0));
        left.map(|_| ()).ok_or_else(too_many)
    }
}

fn too_many() -> ServerError {
    server_error(Error::limit_exceeded(
        "fields of one name on objects of many types, below each other, are too many to compare: expected an alias of its own for each",
    ))
}

/// The selections of fields, with the types that they are on.
fn below<'d>(fields: &[Selected<'d>]) -> impl Iterator<Item = (&'d SelectionSet, Option<&'d str>)> {
    fields.iter().map(|selected| {
        let of = selected.definition().map(|definition| named(&definition.of));
        (&selected.field.selection_set.node, of)
    })
}

fn all_are(
    fields: &[Selected<'_>],
    fits: impl Fn(&Selected<'_>, &Selected<'_>) -> bool,
) -> Result<(), ServerError> {
    let Some((first, others)) = fields.split_first() else { return Ok(()) };
    let Some(other) = others.iter().find(|other| !fits(first, other)) else { return Ok(()) };
    let key = shown(&first.field.response_key().node);
    let (one, two) = (&first.field.name.node, &other.field.name.node);
    let message = match one == two {
        true => format!("{key} stands for {one} with other arguments or of another type as well"),
        false => format!("{key} stands for {} and {}", shown(one), shown(two)),
    };
    let mut error = server_error(Error::bad_input(format!(
        "{message}: expected one field with the same arguments; give one of them an alias"
    )));
    error.locations = vec![other.pos];
    Err(error)
}

/// True for the same field with the same arguments.
fn is_same(one: &Selected<'_>, other: &Selected<'_>) -> bool {
    let (a, b) = (one.field, other.field);
    // There are few of them.
    let has = |name: &Name, value: &Value| {
        a.arguments.iter().any(|(own, of)| own.node == *name && of.node == *value)
    };
    a.name.node == b.name.node
        && a.arguments.len() == b.arguments.len()
        && b.arguments.iter().all(|(name, of)| has(&name.node, &of.node))
        && is_of_shape(one, other)
}

/// True for values of the same lists, all of which are objects, or all of one scalar or enum.
fn is_of_shape(one: &Selected<'_>, other: &Selected<'_>) -> bool {
    match (one.shape(), other.shape()) {
        (Some(one), Some(other)) => are_alike(one, other),
        // One that the schema has not is refused later.
        _ => true,
    }
}

/// True for types whose values have one shape; a name of objects may stand for any other one.
fn are_alike(one: &Type, other: &Type) -> bool {
    one.nullable == other.nullable
        && match (&one.base, &other.base) {
            (BaseType::List(one), BaseType::List(other)) => are_alike(one, other),
            (BaseType::Named(one), BaseType::Named(other)) => {
                one == other || TYPES.is_composite(one) && TYPES.is_composite(other)
            }
            _ => false,
        }
}

impl Selected<'_> {
    fn definition(&self) -> Option<&'static super::types::Field> {
        TYPES.field(self.on?, &self.field.name.node)
    }

    /// The type of its values.
    fn shape(&self) -> Option<&'static Type> {
        match self.field.name.node.as_str() {
            "__typename" => Some(&TYPENAME),
            _ => self.definition().map(|definition| &definition.of),
        }
    }
}

#[cfg(test)]
mod tests {
    use async_graphql::parser::parse_query;

    #[test]
    fn fields_of_one_key_are_one_field() {
        let fault = |text: &str| super::check(&parse_query(text).unwrap(), 20).1.err();
        for valid in [
            "{ board(slug: \"b\") { id } board(slug: \"b\") { id title } }",
            "{ board(slug: \"b\") { a: title } ...f } fragment f on Query { board(slug: \"b\") { a: title } }",
            "{ node(id: \"x\") { ... on Board { a: slug } ... on Member { a: key } } }",
            "{ node(id: \"x\") { ... on Board { a: standings { size } } ... on Member { a: entry(board: \"b\") { rank } } } }",
            "{ boards { nodes { a: id } edges { a: cursor } } }",
        ] {
            assert_eq!(fault(valid).map(|error| error.message), None, "{valid}");
        }
        for (refused, says) in [
            (
                "{ board(slug: \"b\") { a: id } board(slug: \"b\") { a: title } }",
                "\"a\" stands for \"id\" and \"title\"",
            ),
            ("{ board(slug: \"b\") { id } ... { board(slug: \"c\") { id } } }", "other arguments"),
            (
                "{ node(id: \"x\") { ... on Board { a: slug } ... on Board { a: title } } }",
                "\"slug\" and \"title\"",
            ),
            (
                "{ node(id: \"x\") { ... on Board { a: slug } ... on Entry { a: rank } } }",
                "\"slug\" and \"rank\"",
            ),
            (
                "{ node(id: \"x\") { a: id ... on Board { a: slug } ... on Entry { b: rank } } }",
                "\"id\" and \"slug\"",
            ),
            // Deeper than the objects that differ.
            (
                "{ node(id: \"x\") { ... on Board { a: standings { b: size } }
                    ... on Member { a: entry(board: \"b\") { b: score } } } }",
                "\"size\" and \"score\"",
            ),
            (
                "{ ...f ...g } fragment f on Query { boards { nodes { a: slug } } }
                    fragment g on Query { boards { nodes { ... { a: title } } } }",
                "\"slug\" and \"title\"",
            ),
        ] {
            let error = fault(refused).unwrap_or_else(|| panic!("{refused} is accepted"));
            assert!(error.message.contains(says), "{refused}: {}", error.message);
            assert_eq!(error.locations.len(), 1);
        }
    }

    #[test]
    fn objects_of_many_types_below_each_other_are_compared_up_to_a_limit() {
        let nested = |levels: usize| {
            let on = |types: &str, below: &str| format!("...on {types} {{ x {{ {below} }} }} ");
            let types: String = (0..4).map(|no| on(&format!("T{no}"), "y")).collect();
            let field = |below: String, _| types.clone() + &on("Node", &below);
            format!("{{ {} }}", (0..levels).fold("y".to_owned(), field))
        };
        let check = |levels| super::check(&parse_query(nested(levels)).unwrap(), levels as u64 * 9);
        let (looks, compared) = check(2);
        assert!(compared.is_ok() && (20..300).contains(&looks), "{looks} looks");
        for levels in [8, 15] {
            let (looks, compared) = check(levels);
            // A refusal takes time, too.
            assert_eq!(looks, 100 + 20 * levels as u64 * 9);
            let error = compared.unwrap_err();
            assert!(error.message.contains("an alias of its own"), "{}", error.message);
        }
    }
}
