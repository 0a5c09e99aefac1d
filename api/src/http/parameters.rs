//! The parameters of a request: from a JSON body, or from an address.

use async_graphql::parser::types::ExecutableDocument;
use async_graphql::{Request, ServerError, Variables};
use serde_json::{Map, Value};

use super::persisted::QueryHash;
use crate::error::{Error, Result};

/// What a request asks.
pub struct Parameters {
    /// The request; its query is empty where only its hash was sent.
    pub request: Request,
    /// The hash that the query is to be known by.
    pub hash: Option<QueryHash>,
}

/// Reads a body.
///
/// # Errors
/// Where it is no JSON object with a query or the hash of one, or a parameter is of another type.
pub fn of_body(body: &[u8]) -> Result<Parameters> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(parameters)) => read(parameters),
        Ok(_) => Err(Error::bad_input("the body is accepted as a JSON object")),
        Err(error) => Err(Error::bad_input(format!("the body is not JSON: {error}"))),
    }
}

/// Reads the pairs of an address. In these an empty parameter is as good as none.
///
/// # Errors
/// As [`of_body`].
pub fn of_address(pairs: Vec<(String, String)>) -> Result<Parameters> {
    let mut parameters = Map::new();
    for (name, text) in pairs {
        if text.is_empty() {
            continue;
        }
        let value = if name == "variables" || name == "extensions" {
            serde_json::from_str(&text)
                .map_err(|error| Error::bad_input(format!("{name} is not JSON: {error}")))?
        } else {
            Value::String(text)
        };
        if parameters.contains_key(&name) {
            return Err(Error::bad_input(format!("{name} is accepted once")));
        }
        parameters.insert(name, value);
    }
    read(parameters)
}

/// Other parameters are left alone, as the specification reserves them, and so are other extensions.
fn read(mut parameters: Map<String, Value>) -> Result<Parameters> {
    let mut taken = |name: &str| parameters.remove(name).unwrap_or_default();
    let hash = match taken("extensions") {
        Value::Null => None,
        extensions @ Value::Object(_) => QueryHash::of_extensions(&extensions)?,
        _ => {
            return Err(Error::bad_input("extensions are accepted as a JSON object or null"));
        }
    };
    let mut request = match taken("query") {
        Value::String(query) if !query.is_empty() => Request::new(query),
        Value::Null if hash.is_some() => Request::new(""),
        _ => {
            return Err(Error::bad_input(
                "query is accepted as a string that is not empty, and must be there",
            ));
        }
    };
    match taken("operationName") {
        Value::Null => {}
        Value::String(name) if name.is_empty() => {}
        Value::String(name) => request = request.operation_name(name),
        _ => {
            return Err(Error::bad_input("operationName is accepted as a string or null"));
        }
    }
    match taken("variables") {
        Value::Null => {}
        variables @ Value::Object(_) => {
            request = request.variables(Variables::from_json(variables));
        }
        _ => {
            return Err(Error::bad_input("variables are accepted as a JSON object or null"));
        }
    }
    Ok(Parameters { request, hash })
}

/// Sees that every variable that an operation needs is there, before anything of it runs: async-graphql itself would find out
/// at the field that uses it, after the fields before.
///
/// # Errors
/// Where one is missing or null.
pub fn require_variables(
    document: &ExecutableDocument,
    operation_name: Option<&str>,
    variables: &Variables,
) -> Result<(), ServerError> {
    let mut meant = document.operations.iter().filter(|(name, _)| {
        operation_name.is_none() || name.map(|name| name.as_str()) == operation_name
    });
    let (Some((_, operation)), None) = (meant.next(), meant.next()) else {
        // None or several: async-graphql says so.
        return Ok(());
    };
    for definition in &operation.node.variable_definitions {
        let position = definition.pos;
        let definition = &definition.node;
        let lacks = match variables.get(&definition.name.node) {
            Some(value) => *value == async_graphql::Value::Null,
            None => definition.default_value.is_none(),
        };
        if lacks && !definition.var_type.node.nullable {
            let (name, needed) = (&definition.name.node, &definition.var_type.node);
            let message = format!("the variable ${name} is needed, as {needed}");
            return Err(ServerError::new(message, Some(position)));
        }
    }
    Ok(())
}
