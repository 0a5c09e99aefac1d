//! The arguments of a document where async-graphql takes more than the specification does: a
//! variable whose type does not fit its place, a string for an enum, an integer beyond 32 bits.
//!
//! Unknown fields and arguments, and required ones that are missing, are left to async-graphql.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use async_graphql::parser::types::{
    BaseType, Directive, ExecutableDocument, OperationDefinition, OperationType, Selection,
    SelectionSet, Type, VariableDefinition,
};
use async_graphql::{Pos, Positioned, ServerError};
use async_graphql_value::{ConstValue, Name, Value};
use ranking::shown;

use super::types::TYPES;
use super::values::{
    FIXED, Path, fault_of_scalar, is_fixed, is_scalar_of_ours, shown_value, with_argument,
};
use crate::error::Error;
use crate::http::response::server_error;

/// The scalars of GraphQL itself.
const BUILT_IN: [&str; 5] = ["Boolean", "Float", "ID", "Int", "String"];

/// The argument of `@skip` and `@include`.
static CONDITION: LazyLock<Type> = LazyLock::new(|| Type::new("Boolean!").expect("it is a type"));

/// Checks that a variable is of an input type: async-graphql panics at the default of another one.
fn check_type(definition: &VariableDefinition) -> Result<(), ServerError> {
    let (name, of) = (&definition.name.node, named(&definition.var_type.node));
    let is_known = TYPES.input_object(of).is_some()
        || TYPES.enum_values(of).is_some()
        || BUILT_IN.contains(&of)
        || is_scalar_of_ours(of);
    if is_known {
        return Ok(());
    }
    let mut error = server_error(Error::bad_input(format!(
        "variable ${} is of type {}: expected an input type of the schema",
        shown(name),
        shown(of)
    )));
    error.locations = vec![definition.var_type.pos];
    Err(error)
}

/// Checks the arguments of each operation and fragment (GraphQL specification, §5.6.1 and §5.8.5).
/// A fragment is followed once for each operation that spreads it. Returns true if a variable that
/// may be null stands where null is none of the values, as a default replaces it if it is absent.
///
/// # Errors
/// The first value or variable that does not fit its place.
pub fn check(document: &ExecutableDocument) -> Result<bool, ServerError> {
    let mut has_null = false;
    let mut fragments = HashMap::new();
    for (name, fragment) in &document.fragments {
        let type_name = fragment.node.type_condition.node.on.node.as_str();
        let part =
            Part::of(&fragment.node.selection_set.node, &fragment.node.directives, type_name)?;
        fragments.insert(name, part);
    }
    for (_, operation) in document.operations.iter() {
        let OperationDefinition { ty, variable_definitions, directives, selection_set } =
            &operation.node;
        for definition in variable_definitions.iter().map(|definition| &definition.node) {
            check_type(definition)?;
            let Some(default) = &definition.default_value else { continue };
            let place = Place {
                argument: &definition.name.node,
                needed: &definition.var_type.node,
                has_default: false,
                pos: default.pos,
            };
            let path = Path::of(&definition.name.node);
            Part::default().value(&default.node.clone().into_value(), place, &path)?;
        }
        let variables = variable_definitions
            .iter()
            .map(|definition| (&definition.node.name.node, &definition.node))
            .collect();
        let own = Part::of(&selection_set.node, directives, root_of(*ty))?;
        let (mut seen, mut parts) = (HashSet::new(), vec![&own]);
        while let Some(part) = parts.pop() {
            has_null |= part.check(&variables)?;
            let spread = part.spreads.iter().filter(|name| seen.insert(**name));
            parts.extend(spread.filter_map(|name| fragments.get(name)));
        }
    }
    Ok(has_null)
}

/// The path of the first argument that a variable of an operation stands in: `input.scores`; `None`
/// if it stands in none that the schema has.
pub fn path_of(
    document: &ExecutableDocument,
    operation: &OperationDefinition,
    variable: &Name,
) -> Option<String> {
    let part = |selections, directives, root| Part::of(selections, directives, root).ok();
    let root = root_of(operation.ty);
    let own = part(&operation.selection_set.node, &operation.directives, root);
    let of_fragments = document.fragments.values().map(|fragment| {
        let on = fragment.node.type_condition.node.on.node.as_str();
        part(&fragment.node.selection_set.node, &fragment.node.directives, on)
    });
    let mut usages = [own].into_iter().chain(of_fragments).flatten().flat_map(|part| part.usages);
    usages.find(|usage| usage.variable == variable).map(|usage| usage.path)
}

/// The type that an operation selects on.
pub(super) fn root_of(operation: OperationType) -> &'static str {
    match operation {
        OperationType::Query => "Query",
        OperationType::Mutation => "Mutation",
        OperationType::Subscription => "Subscription",
    }
}

/// The variables and fragments that an operation or a fragment uses by itself.
#[derive(Default)]
struct Part<'d> {
    usages: Vec<Usage<'d>>,
    spreads: Vec<&'d Name>,
}

/// A variable in a place.
struct Usage<'d> {
    variable: &'d Name,
    place: Place<'d>,
    path: String,
}

/// Where a value stands.
#[derive(Clone, Copy)]
struct Place<'d> {
    /// The argument, the field of an input object, or the variable.
    argument: &'d Name,
    needed: &'d Type,
    has_default: bool,
    pos: Pos,
}

impl<'d> Part<'d> {
    fn of(
        selections: &'d SelectionSet,
        directives: &'d [Positioned<Directive>],
        type_name: &'d str,
    ) -> Result<Self, ServerError> {
        let mut part = Self::default();
        part.directives(directives)?;
        part.selections(selections, Some(type_name))?;
        Ok(part)
    }

    /// Looks at selections on a type; at their directives only where the schema has no such type.
    fn selections(
        &mut self,
        selections: &'d SelectionSet,
        type_name: Option<&'d str>,
    ) -> Result<(), ServerError> {
        for selection in &selections.items {
            self.directives(selection.node.directives())?;
            match &selection.node {
                Selection::Field(field) => {
                    let field = &field.node;
                    let known = type_name.and_then(|name| TYPES.field(name, &field.name.node));
                    for (name, value) in &field.arguments {
                        let input = known.and_then(|known| known.arguments.get(&name.node));
                        let Some(input) = input else { continue };
                        self.value(
                            &value.node,
                            Place {
                                argument: &name.node,
                                needed: &input.of,
                                has_default: input.has_default,
                                pos: value.pos,
                            },
                            &Path::of(&name.node),
                        )?;
                    }
                    let below = known.map(|known| named(&known.of));
                    self.selections(&field.selection_set.node, below)?;
                }
                Selection::InlineFragment(fragment) => {
                    let condition = fragment.node.type_condition.as_ref();
                    let on = condition.map(|condition| condition.node.on.node.as_str());
                    self.selections(&fragment.node.selection_set.node, on.or(type_name))?;
                }
                Selection::FragmentSpread(spread) => {
                    self.spreads.push(&spread.node.fragment_name.node);
                }
            }
        }
        Ok(())
    }

    fn directives(&mut self, directives: &'d [Positioned<Directive>]) -> Result<(), ServerError> {
        let directives = directives.iter().map(|directive| &directive.node);
        for directive in directives.filter(|of| matches!(&*of.name.node, "skip" | "include")) {
            for (name, value) in directive.arguments.iter().filter(|(name, _)| name.node == "if") {
                self.value(
                    &value.node,
                    Place {
                        argument: &name.node,
                        needed: &CONDITION,
                        has_default: false,
                        pos: value.pos,
                    },
                    &Path::of(&name.node),
                )?;
            }
        }
        Ok(())
    }

    fn value(
        &mut self,
        value: &'d Value,
        place: Place<'d>,
        path: &Path<'_>,
    ) -> Result<(), ServerError> {
        match (value, &place.needed.base) {
            (Value::Variable(variable), _) => {
                self.usages.push(Usage { variable, place, path: path.to_string() });
            }
            (Value::Null, _) if !place.needed.nullable => return Err(place.misfit(value, path)),
            (Value::Null, _) => {}
            (Value::List(items), BaseType::List(item)) => {
                for (index, value) in items.iter().enumerate() {
                    let place = Place { needed: item, has_default: false, ..place };
                    self.value(value, place, &path.item(index))?;
                }
            }
            // A single value stands for a list of one.
            (_, BaseType::List(item)) => {
                self.value(value, Place { needed: item, has_default: false, ..place }, path)?;
            }
            (Value::Object(fields), BaseType::Named(name))
                if TYPES.input_object(name).is_some() =>
            {
                let inputs = TYPES.input_object(name);
                for (key, value) in fields {
                    if is_fixed(name, key) {
                        let message = format!("invalid value of {key}: {FIXED}");
                        let path = path.field(key, name).to_string();
                        return Err(with_argument(message, place.pos, path));
                    }
                    let Some(input) = inputs.and_then(|inputs| inputs.get(key)) else { continue };
                    let place = Place {
                        argument: key,
                        needed: &input.of,
                        has_default: input.has_default,
                        ..place
                    };
                    self.value(value, place, &path.field(key, name))?;
                }
            }
            (_, BaseType::Named(name)) if !is_of(value, name) => {
                return Err(place.misfit(value, path));
            }
            (_, BaseType::Named(name)) if !path.is_of_item() && is_scalar_of_ours(name) => {
                let literal = value.clone().into_const();
                let fault = literal.and_then(|literal| fault_of_scalar(name, &literal));
                if let Some(fault) = fault {
                    let message = format!("invalid value of {}: {fault}", shown(place.argument));
                    return Err(with_argument(message, place.pos, path.to_string()));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks the types of its variables. Returns true if one may be null where null is no value.
    fn check(&self, variables: &HashMap<&Name, &VariableDefinition>) -> Result<bool, ServerError> {
        let mut has_null = false;
        for Usage { variable, place, path } in &self.usages {
            let Some(definition) = variables.get(variable) else { continue };
            let declared = &definition.var_type.node;
            let default = definition.default_value.as_ref().map(|value| &value.node);
            let replaces_null =
                place.has_default || default.is_some_and(|it| *it != ConstValue::Null);
            let fits = if replaces_null && declared.nullable {
                is_within(&declared.base, &place.needed.base)
            } else {
                is_subtype(declared, place.needed)
            };
            if !fits {
                let message = format!(
                    "variable ${} is of type {declared}: argument {} expects {}",
                    shown(variable),
                    place.argument,
                    place.needed
                );
                return Err(with_argument(message, place.pos, path.clone()));
            }
            has_null |= declared.nullable && !place.needed.nullable;
        }
        Ok(has_null)
    }
}

impl Place<'_> {
    fn misfit(&self, value: &Value, path: &Path<'_>) -> ServerError {
        let values = TYPES.enum_values(named(self.needed)).map(|values| {
            let values: Vec<&str> = values.iter().map(Name::as_str).collect();
            format!(" ({})", values.join(", "))
        });
        let message = format!(
            "invalid value of {}: expected {}{}, found {}",
            shown(self.argument),
            self.needed,
            values.unwrap_or_default(),
            shown_value(value)
        );
        with_argument(message, self.pos, path.to_string())
    }
}

/// True unless a literal, no object of the type's fields, is none of the type: an enum, an input
/// object or a scalar of the specification.
fn is_of(literal: &Value, type_name: &str) -> bool {
    if let Some(values) = TYPES.enum_values(type_name) {
        return matches!(literal, Value::Enum(value) if values.contains(value));
    }
    let integer = match literal {
        Value::Number(number) => number.as_i64(),
        _ => None,
    };
    match type_name {
        "Int" => integer.is_some_and(|integer| i32::try_from(integer).is_ok()),
        "Float" => matches!(literal, Value::Number(_)),
        "String" => matches!(literal, Value::String(_)),
        "ID" => matches!(literal, Value::String(_)) || integer.is_some(),
        "Boolean" => matches!(literal, Value::Boolean(_)),
        _ => TYPES.input_object(type_name).is_none(),
    }
}

/// True if each value of a type is one of the other.
fn is_subtype(of: &Type, needed: &Type) -> bool {
    (needed.nullable || !of.nullable) && is_within(&of.base, &needed.base)
}

fn is_within(of: &BaseType, needed: &BaseType) -> bool {
    match (of, needed) {
        (BaseType::Named(of), BaseType::Named(needed)) => of == needed,
        (BaseType::List(of), BaseType::List(needed)) => is_subtype(of, needed),
        _ => false,
    }
}

/// The name of a type, or of the items of its lists.
pub(super) fn named(of: &Type) -> &str {
    match &of.base {
        BaseType::Named(name) => name,
        BaseType::List(item) => named(item),
    }
}
