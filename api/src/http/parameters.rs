//! The parameters of a GraphQL request, from a JSON body or a URL.

use async_graphql::{Request, Variables};
use serde_json::{Map, Value};

use super::persisted::QueryHash;
use crate::error::{Error, Result};

/// The parameters of a request.
pub struct Parameters {
    /// The request; its query is empty if only a hash was sent.
    pub request: Request,
    /// The hash under which the query is persisted.
    pub hash: Option<QueryHash>,
}

/// Parses a body.
///
/// # Errors
/// `BAD_USER_INPUT` unless it is a JSON object with a query or the hash of one, and each parameter
/// has its type.
pub fn of_body(body: &[u8]) -> Result<Parameters> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(parameters)) => read(parameters),
        Ok(_) => Err(Error::bad_input(
            "invalid body: expected a JSON object, as a request has one operation",
        )),
        Err(error) => Err(Error::bad_input(format!("the body is not JSON: {error}"))),
    }
}

/// Parses the query string of a URL, where an empty parameter counts as absent.
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
            return Err(Error::bad_input(format!("duplicate {name}: expected it once")));
        }
        parameters.insert(name, value);
    }
    read(parameters)
}

/// Finds the hash of a request that async-graphql has parsed.
///
/// # Errors
/// `BAD_USER_INPUT` if the hash is malformed, or if there is no query and no hash of one.
pub fn of_request(request: Request) -> Result<Parameters> {
    let extensions = serde_json::to_value(&request.extensions).unwrap_or_default();
    let hash = QueryHash::of_extensions(&extensions)?;
    if request.query.is_empty() && hash.is_none() {
        return Err(no_query());
    }
    Ok(Parameters { request, hash })
}

fn no_query() -> Error {
    Error::bad_input("invalid or missing query: expected a string that is not empty")
}

/// Ignores other parameters, which the specification reserves, and other extensions.
fn read(mut parameters: Map<String, Value>) -> Result<Parameters> {
    let mut taken = |name: &str| parameters.remove(name).unwrap_or_default();
    let hash = match taken("extensions") {
        Value::Null => None,
        extensions @ Value::Object(_) => QueryHash::of_extensions(&extensions)?,
        _ => {
            return Err(Error::bad_input("invalid extensions: expected a JSON object or null"));
        }
    };
    let mut request = match taken("query") {
        Value::String(query) if !query.is_empty() => Request::new(query),
        Value::Null if hash.is_some() => Request::new(""),
        _ => return Err(no_query()),
    };
    match taken("operationName") {
        Value::Null => {}
        Value::String(name) if name.is_empty() => {}
        Value::String(name) => request = request.operation_name(name),
        _ => {
            return Err(Error::bad_input("invalid operationName: expected a string or null"));
        }
    }
    match taken("variables") {
        Value::Null => {}
        variables @ Value::Object(_) => {
            request = request.variables(Variables::from_json(variables));
        }
        _ => {
            return Err(Error::bad_input("invalid variables: expected a JSON object or null"));
        }
    }
    Ok(Parameters { request, hash })
}
