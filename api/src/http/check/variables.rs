//! The variables of a request, before any of them is used: all that the operation needs, none
//! other, each of its declared shape, and none too long.

use std::collections::HashSet;

use async_graphql::parser::types::{BaseType, ExecutableDocument, OperationDefinition, Type};
use async_graphql::{ServerError, Value, Variables};
use async_graphql_value::Name;
use engine::settings::RequestLimits;

use super::meant;
use super::types::TYPES;
use crate::error::Error;
use crate::http::response::server_error;

/// Checks the variables of the selected operation, and drops those that it does not declare.
/// async-graphql itself would find out at the field that uses a variable, after the fields before
/// it, and would print the whole value.
///
/// # Errors
/// `LIMIT_EXCEEDED` beyond a limit, `BAD_USER_INPUT` for the first variable that is missing, null
/// or of another shape than declared.
pub fn check(
    document: &ExecutableDocument,
    operation_name: Option<&str>,
    variables: &mut Variables,
    limits: &RequestLimits,
) -> Result<(), ServerError> {
    let mut meant = meant(document, operation_name);
    let (Some(operation), None) = (meant.next(), meant.next()) else {
        // async-graphql reports it if no operation or several match.
        variables.clear();
        return Ok(());
    };
    let declared = operation.variable_definitions.len();
    if declared > limits.variables_max as usize {
        return Err(server_error(Error::limit_exceeded(format!(
            "the operation has {declared} variables: expected at most {}",
            limits.variables_max
        ))));
    }
    let mut values = 0;
    for (name, value) in variables.iter() {
        measure(name, value, limits, &mut values)?;
    }
    keep_declared(operation, variables);
    for definition in &operation.variable_definitions {
        let position = definition.pos;
        let definition = &definition.node;
        let (name, needed) = (&definition.name.node, &definition.var_type.node);
        let error = |message: String| Err(ServerError::new(message, Some(position)));
        let value = variables.get(name);
        let is_missing = match value {
            Some(value) => *value == Value::Null,
            None => definition.default_value.is_none(),
        };
        if is_missing && !needed.nullable {
            return error(format!("missing variable ${name}: expected {needed}"));
        }
        if let Some(value) = value
            && let Some(found) = other_shape(needed, value)
        {
            return error(format!("invalid variable ${name}: expected {needed}, found {found}"));
        }
    }
    Ok(())
}

/// The memory of variables, in bytes, about.
pub fn memory(variables: &Variables) -> u64 {
    variables.values().map(memory_of).sum()
}

fn memory_of(value: &Value) -> u64 {
    let below = match value {
        Value::String(text) => text.len() as u64,
        Value::List(items) => items.iter().map(memory_of).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(key, field)| key.len() as u64 + memory_of(field)).sum()
        }
        _ => 0,
    };
    size_of::<Value>() as u64 + below
}

fn keep_declared(operation: &OperationDefinition, variables: &mut Variables) {
    let declared: HashSet<&Name> = operation
        .variable_definitions
        .iter()
        .map(|definition| &definition.node.name.node)
        .collect();
    variables.retain(|name, _| declared.contains(name));
}

/// Counts the values within a value.
fn measure(
    name: &Name,
    value: &Value,
    limits: &RequestLimits,
    values: &mut u32,
) -> Result<(), ServerError> {
    *values += 1;
    if *values > limits.variable_values_max {
        return Err(server_error(Error::limit_exceeded(format!(
            "the variables have more than {} values: expected at most so many",
            limits.variable_values_max
        ))));
    }
    let length = |text: &str| {
        if text.len() <= limits.string_bytes_max as usize {
            return Ok(());
        }
        Err(server_error(Error::limit_exceeded(format!(
            "a string of variable ${name} has {} bytes: expected at most {}",
            text.len(),
            limits.string_bytes_max
        ))))
    };
    match value {
        Value::String(text) => length(text),
        Value::Number(number) => length(&number.to_string()),
        Value::List(items) => items.iter().try_for_each(|item| measure(name, item, limits, values)),
        Value::Object(fields) => fields.iter().try_for_each(|(key, field)| {
            length(key)?;
            measure(name, field, limits, values)
        }),
        _ => Ok(()),
    }
}

/// The shape of a value, if the type cannot have such a value.
fn other_shape(needed: &Type, value: &Value) -> Option<&'static str> {
    match (&needed.base, value) {
        (_, Value::Null) => None,
        (BaseType::List(item), Value::List(items)) => {
            items.iter().find_map(|value| other_shape(item, value))
        }
        // A single value stands for a list of one.
        (BaseType::List(item), value) => other_shape(item, value),
        (BaseType::Named(_), Value::List(_)) => Some("a list"),
        (BaseType::Named(name), Value::Object(_)) => {
            TYPES.input_object(name).is_none().then_some("an object")
        }
        (BaseType::Named(name), _) => {
            TYPES.input_object(name).is_some().then_some("a single value")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::check::cost::tests::limits;

    fn refusal(query: &str, json: serde_json::Value) -> Option<String> {
        let document = async_graphql::parser::parse_query(query).unwrap();
        let mut variables = Variables::from_json(json);
        check(&document, None, &mut variables, &limits()).err().map(|error| error.message)
    }

    #[test]
    fn a_variable_has_its_declared_shape() {
        let json = |value: serde_json::Value| serde_json::json!({ "v": value, "undeclared": 1 });
        let fits = |declared: &str, value: serde_json::Value| {
            refusal(&format!("query($v: {declared}) {{ a(b: $v) }}"), json(value))
        };
        assert_eq!(fits("Int", serde_json::json!(1)), None);
        assert_eq!(fits("Int", serde_json::Value::Null), None);
        assert_eq!(fits("[Int!]!", serde_json::json!([1, 2])), None);
        assert_eq!(fits("[Int]", serde_json::json!(1)), None);
        assert_eq!(fits("SubmitScoresInput", serde_json::json!({})), None);
        let found = |declared: &str, value| fits(declared, value).unwrap();
        assert!(found("Int", serde_json::json!([[0]])).ends_with("found a list"));
        assert!(found("Int", serde_json::json!({})).ends_with("found an object"));
        assert!(found("[[Int]]", serde_json::json!([[[1]]])).ends_with("found a list"));
        assert!(found("SubmitScoresInput!", serde_json::json!("x")).ends_with("a single value"));
        assert!(found("Int!", serde_json::Value::Null).starts_with("missing variable $v"));
    }

    #[test]
    fn variables_are_bounded() {
        let query = "query($v: [String]) { a(b: $v) }";
        let keys =
            |count: usize, bytes: usize| serde_json::json!({ "v": vec!["x".repeat(bytes); count] });
        assert_eq!(refusal(query, keys(1000, 128)), None);
        assert!(refusal(query, keys(20_001, 1)).unwrap().contains("20000 values"));
        assert!(refusal(query, keys(1, 2049)).unwrap().contains("2049 bytes"));
    }
}
