//! The variables of a request, before any of them is used: all that the operation needs, none
//! other, each of its declared shape, and none too long.

use std::collections::HashSet;

use async_graphql::parser::types::{ExecutableDocument, OperationDefinition};
use async_graphql::{ServerError, Value, Variables};
use async_graphql_value::Name;
use engine::settings::RequestLimits;

use super::arguments::path_of;
use super::meant;
use super::values::{Path, fault, with_argument};
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
        let error = |message: String, rest: &str| {
            // As the argument that the variable stands in, for a client that knows no variables.
            let argument = path_of(document, operation, name);
            match argument {
                Some(argument) => {
                    Err(with_argument(message, position, format!("{argument}{rest}")))
                }
                None => Err(ServerError::new(message, Some(position))),
            }
        };
        let value = variables.get(name);
        let is_missing = match value {
            Some(value) => *value == Value::Null,
            None => definition.default_value.is_none(),
        };
        if is_missing && !needed.nullable {
            return error(format!("missing variable ${}: expected {needed}", name), "");
        }
        if let Some(value) = value
            && let Some((path, fault)) = fault(needed, value, &Path::of(name))
        {
            let rest = &path[name.len()..];
            return error(format!("invalid variable ${}{rest}: {fault}", name), rest);
        }
    }
    Ok(())
}

/// The memory of variables, in bytes, about.
pub fn memory(variables: &Variables) -> u64 {
    variables.values().map(|value| SIZE + memory_behind(value)).sum()
}

const SIZE: u64 = size_of::<Value>() as u64;

/// The memory to which a value points.
fn memory_behind(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64,
        // A list has room for four items at least.
        Value::List(items) => {
            items.capacity() as u64 * SIZE + items.iter().map(memory_behind).sum::<u64>()
        }
        // A field has a key and a place in a table, too.
        Value::Object(fields) => fields
            .iter()
            .map(|(key, field)| key.len() as u64 + 2 * SIZE + memory_behind(field))
            .sum(),
        _ => 0,
    }
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
        assert_eq!(
            fits("SubmitScoresInput", serde_json::json!({ "board": "b", "scores": [] })),
            None
        );
        let found = |declared: &str, value| fits(declared, value).unwrap();
        assert!(found("Int", serde_json::json!([[0]])).ends_with("found a list"));
        assert!(found("Int", serde_json::json!({})).ends_with("found an object"));
        assert!(found("[[Int]]", serde_json::json!([[[1]]])).ends_with("found a list"));
        assert!(found("SubmitScoresInput!", serde_json::json!("x")).ends_with("a single value"));
        assert!(found("SubmitScoresInput!", serde_json::json!({})).ends_with("found nothing"));
        let unknown = serde_json::json!({ "board": "b", "scores": [], "x": 1 });
        let unknown = found("SubmitScoresInput!", unknown);
        assert!(unknown.contains("$v: SubmitScoresInput has no field \"x\""), "{unknown}");
        assert!(found("String", serde_json::json!(1)).ends_with("expected String, found \"1\""));
        assert!(found("RankMethod", serde_json::json!("NONE")).contains("found"));
        assert_eq!(fits("RankMethod", serde_json::json!("DENSE")), None);
        assert!(found("DateTime", serde_json::json!("2025-01-01")).contains("RFC 3339"));
        assert!(found("Int!", serde_json::Value::Null).starts_with("missing variable $v"));
    }

    #[test]
    fn a_fault_has_the_path_of_its_argument() {
        let argument = |query: &str, json: serde_json::Value| {
            let document = async_graphql::parser::parse_query(query).unwrap();
            let mut variables = Variables::from_json(json);
            let error = check(&document, None, &mut variables, &limits()).err()?;
            error.extensions?.get("argument").cloned()
        };
        let submit = "mutation($i: SubmitScoresInput!) { submitScores(input: $i) { accepted } }";
        let score = |score: serde_json::Value| {
            let good = serde_json::json!({ "member": "a", "score": 1 });
            serde_json::json!({ "i": { "board": "b", "scores": [good, score] } })
        };
        let none = |score_json| argument(submit, score(score_json));
        let at = |path: &str| Some(Value::from(path));
        assert_eq!(none(serde_json::json!({ "member": "a", "score": 1.5, "at": "x" })), None);
        assert_eq!(
            none(serde_json::json!({ "member": 1, "score": 1 })),
            at("input.scores[1].member")
        );
        assert_eq!(none(serde_json::json!({ "member": "a" })), at("input.scores[1].score"));
        let of_part = "mutation($s: [ScoreInput!]!) { ...f }
            fragment f on Mutation { submitScores(input: { board: \"b\", scores: $s }) { accepted } }";
        let scores = serde_json::json!({ "s": [{ "member": "a", "score": null }] });
        assert_eq!(argument(of_part, scores), at("input.scores[0].score"));
    }

    #[test]
    fn variables_are_bounded() {
        let query = "query($v: [String]) { a(b: $v) }";
        let keys =
            |count: usize, bytes: usize| serde_json::json!({ "v": vec!["x".repeat(bytes); count] });
        assert_eq!(refusal(query, keys(1000, 128)), None);
        assert!(refusal(query, keys(40_001, 1)).unwrap().contains("40000 values"));
        assert!(refusal(query, keys(1, 2049)).unwrap().contains("2049 bytes"));
    }
}
