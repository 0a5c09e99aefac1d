//! Values that their types do not take, in the arguments of a document and in variables: the fault
//! of each, and its path.

use std::fmt::{self, Write};

use async_graphql::parser::types::{BaseType, Type};
use async_graphql::{Name, Pos, ServerError, Value};
use ranking::shown;

use super::types::TYPES;
use crate::graphql::types::scalar::{DateTime, Decimal, Json, Readable};

/// The input object whose scalars are judged with its item of a list: a bad one refuses that score
/// and not the request.
const ITEM: &str = "ScoreInput";

/// The characters of a value that are written, of which a message shows fewer.
const BEGINNING_CHARS: usize = 256;

/// The path of a value in an argument: `input.scores[1].score`.
pub struct Path<'p> {
    outer: Option<&'p Path<'p>>,
    step: Step<'p>,
    is_of_item: bool,
}

enum Step<'p> {
    Name(&'p str),
    Item(usize),
}

impl<'p> Path<'p> {
    /// The path of an argument or a variable.
    pub fn of(name: &'p str) -> Self {
        Self { outer: None, step: Step::Name(name), is_of_item: false }
    }

    /// The path of a field of an input object of some type.
    pub fn field(&'p self, name: &'p str, type_name: &str) -> Self {
        Self { outer: Some(self), step: Step::Name(name), is_of_item: type_name == ITEM }
    }

    /// The path of an item of a list.
    pub fn item(&'p self, index: usize) -> Self {
        Self { outer: Some(self), step: Step::Item(index), is_of_item: self.is_of_item }
    }

    /// True for a scalar that is judged with its item.
    pub fn is_of_item(&self) -> bool {
        self.is_of_item
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(outer) = self.outer {
            write!(out, "{outer}")?;
        }
        match (self.outer, &self.step) {
            (None, Step::Name(name)) => write!(out, "{name}"),
            (Some(_), Step::Name(name)) => write!(out, ".{name}"),
            (_, Step::Item(index)) => write!(out, "[{index}]"),
        }
    }
}

/// An error at a place of the document, of the argument with a path.
pub fn with_argument(message: String, pos: Pos, argument: String) -> ServerError {
    let mut error = ServerError::new(message, Some(pos));
    error.extensions.get_or_insert_default().set("argument", argument);
    error
}

/// The fault of a value of a variable, and its path; `None` if its type takes it.
pub fn fault(needed: &Type, value: &Value, path: &Path<'_>) -> Option<(String, String)> {
    let found = |found: &str| Some((path.to_string(), format!("expected {needed}, found {found}")));
    match (&needed.base, value) {
        (_, Value::Null) if needed.nullable => None,
        (_, Value::Null) => found("null"),
        (BaseType::List(item), Value::List(items)) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(index, value)| fault(item, value, &path.item(index)))
        }
        // A single value stands for a list of one.
        (BaseType::List(item), value) => fault(item, value, path),
        // A scalar that is an object.
        (BaseType::Named(name), value) if *name == "JSON" => match path.is_of_item() {
            true => None,
            false => Some((path.to_string(), fault_of_scalar(name, value)?)),
        },
        (BaseType::Named(_), Value::List(_)) => found("a list"),
        (BaseType::Named(name), Value::Object(fields)) => {
            let Some(inputs) = TYPES.input_object(name) else { return found("an object") };
            if let Some(key) = fields.keys().find(|key| is_fixed(name, key)) {
                return Some((path.field(key, name).to_string(), FIXED.to_owned()));
            }
            if let Some(key) = fields.keys().find(|key| !inputs.contains_key(*key)) {
                let mut names: Vec<&str> = inputs.keys().map(Name::as_str).collect();
                names.sort_unstable();
                let (key, names) = (shown(key), names.join(", "));
                let message = format!("{name} has no field {key}: expected one of {names}");
                return Some((path.to_string(), message));
            }
            let mut missing: Vec<_> = inputs
                .iter()
                .filter(|(key, input)| {
                    !input.of.nullable && !input.has_default && !fields.contains_key(*key)
                })
                .collect();
            missing.sort_unstable_by_key(|(key, _)| *key);
            if let Some((key, input)) = missing.first() {
                let message = format!("expected {}, found nothing", input.of);
                return Some((path.field(key, name).to_string(), message));
            }
            fields
                .iter()
                .find_map(|(key, value)| fault(&inputs.get(key)?.of, value, &path.field(key, name)))
        }
        (BaseType::Named(name), _) if TYPES.input_object(name).is_some() => found("a single value"),
        (BaseType::Named(_), _) if path.is_of_item() && is_custom(needed) => None,
        (BaseType::Named(name), value) if !is_of(name, value) => found(&shown_value(value)),
        (BaseType::Named(name), value) => {
            fault_of_scalar(name, value).map(|fault| (path.to_string(), fault))
        }
    }
}

/// The fault of a value of a scalar of ours; `None` for every other type.
pub fn fault_of_scalar(type_name: &str, value: &Value) -> Option<String> {
    match type_name {
        "Decimal" => Decimal::read(value).err(),
        "DateTime" => DateTime::read(value).err(),
        "JSON" => Json::read(value).err(),
        _ => None,
    }
}

/// The fault of a rule that a client tries to change.
pub const FIXED: &str = "it is fixed when a board is created: expected a new board for another";

/// True for a field of an update of a board that only a new board has.
pub fn is_fixed(type_name: &str, field: &str) -> bool {
    let has = |name| TYPES.input_object(name).is_some_and(|inputs| inputs.contains_key(field));
    type_name == "UpdateBoardInput" && !has("UpdateBoardInput") && has("CreateBoardInput")
}

/// True for a scalar of ours.
pub fn is_scalar_of_ours(type_name: &str) -> bool {
    matches!(type_name, "Decimal" | "DateTime" | "JSON")
}

fn is_custom(of: &Type) -> bool {
    matches!(&of.base, BaseType::Named(name) if is_scalar_of_ours(name))
}

/// The beginning of a value as text. The rest is not written: a text may have a megabyte.
pub fn shown_value(value: &impl fmt::Display) -> String {
    let mut beginning = Beginning(String::new());
    // An error says that the beginning is full.
    let _ = write!(beginning, "{value}");
    shown(&beginning.0)
}

/// Text up to a length.
struct Beginning(String);

impl fmt::Write for Beginning {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend(text.chars().take(BEGINNING_CHARS));
        if self.0.len() < BEGINNING_CHARS { Ok(()) } else { Err(fmt::Error) }
    }
}

/// True unless a value of a variable, no list and no object, is none of the type: an enum or a
/// scalar of the specification.
fn is_of(type_name: &str, value: &Value) -> bool {
    if let Some(values) = TYPES.enum_values(type_name) {
        return match value {
            Value::String(name) => values.iter().any(|value| value == name.as_str()),
            Value::Enum(name) => values.contains(name),
            _ => false,
        };
    }
    let integer = match value {
        Value::Number(number) => number.as_i64(),
        _ => None,
    };
    match type_name {
        "Int" => integer.is_some_and(|integer| i32::try_from(integer).is_ok()),
        "Float" => matches!(value, Value::Number(_)),
        "String" => matches!(value, Value::String(_)),
        "ID" => matches!(value, Value::String(_)) || integer.is_some(),
        "Boolean" => matches!(value, Value::Boolean(_)),
        _ => true,
    }
}
