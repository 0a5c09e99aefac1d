//! The parameters of a GraphQL request, from a JSON body or a URL.

use async_graphql::{Name, Request, Value, Variables};
use indexmap::IndexMap;

use super::persisted::QueryHash;
use crate::error::{Error, Result};

/// The parameters of a request.
pub struct Parameters {
    /// The request; its query is empty if only a hash was sent.
    pub request: Request,
    /// The hash under which the query is persisted.
    pub hash: Option<QueryHash>,
}

/// The most values of a body that are in none of its variables, such as those of extensions.
const OTHER_VALUES_MAX: u32 = 1000;

/// Parses a body. Its values are counted before any is made, as the shortest take a hundred times
/// the memory of their text.
///
/// # Errors
/// `LIMIT_EXCEEDED` if it has more values than the variables may have, and some others;
/// `BAD_USER_INPUT` unless it is a JSON object with a query or the hash of one, and each parameter
/// has its type.
pub fn of_body(body: &[u8], variable_values_max: u32) -> Result<Parameters> {
    let most = u64::from(variable_values_max) + u64::from(OTHER_VALUES_MAX);
    if has_more_values(body, most) {
        let message = format!("the body has more than {most} values: expected at most so many");
        return Err(Error::limit_exceeded(message));
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(parameters)) => read(parameters),
        Ok(_) => Err(Error::bad_input(
            "invalid body: expected a JSON object, as a request has one operation",
        )),
        Err(error) => Err(Error::bad_input(format!("the body is not JSON: {error}"))),
    }
}

/// True if a JSON text has more than so many values. This goes by the commas and brackets outside
/// its strings; the parser judges everything else.
fn has_more_values(json: &[u8], most: u64) -> bool {
    // A value has two bytes at least, with the comma or bracket before it.
    if json.len() as u64 / 2 < most {
        return false;
    }
    let (mut values, mut is_empty, mut bytes) = (1, false, json.iter());
    while let Some(byte) = bytes.next() {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => continue,
            b',' => values += 1,
            // A list or an object has a value before its first comma, unless it ends at once.
            b']' | b'}' => {}
            _ if is_empty => values += 1,
            _ => {}
        }
        if values > most {
            return true;
        }
        is_empty = matches!(byte, b'[' | b'{');
        if *byte == b'"' {
            while let Some(byte) = bytes.next().filter(|byte| **byte != b'"') {
                if *byte == b'\\' {
                    bytes.next();
                }
            }
        }
    }
    false
}

/// Parses the query string of a URL, where an empty parameter counts as absent.
///
/// # Errors
/// As [`of_body`].
pub fn of_address(pairs: Vec<(String, String)>) -> Result<Parameters> {
    let mut parameters = IndexMap::new();
    for (name, text) in pairs {
        if text.is_empty() {
            continue;
        }
        let value = if name == "variables" || name == "extensions" {
            serde_json::from_str::<Value>(&text)
                .map_err(|error| Error::bad_input(format!("{name} is not JSON: {error}")))?
        } else {
            Value::String(text)
        };
        if parameters.insert(Name::new(&name), value).is_some() {
            return Err(Error::bad_input(format!("duplicate {name}: expected it once")));
        }
    }
    read(parameters)
}

/// Finds the hash of a request that async-graphql has parsed.
///
/// # Errors
/// `BAD_USER_INPUT` if the hash is malformed, or if there is no query and no hash of one.
pub fn of_request(request: Request) -> Result<Parameters> {
    let hash = QueryHash::of_extension(request.extensions.get("persistedQuery"))?;
    if request.query.is_empty() && hash.is_none() {
        return Err(no_query());
    }
    Ok(Parameters { request, hash })
}

fn no_query() -> Error {
    Error::bad_input("invalid or missing query: expected a string that is not empty")
}

/// Ignores other parameters, which the specification reserves, and other extensions.
fn read(mut parameters: IndexMap<Name, Value>) -> Result<Parameters> {
    let mut taken = |name: &str| parameters.swap_remove(name).unwrap_or_default();
    let hash = match taken("extensions") {
        Value::Null => None,
        Value::Object(extensions) => QueryHash::of_extension(extensions.get("persistedQuery"))?,
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
            request = request.variables(Variables::from_value(variables));
        }
        _ => {
            return Err(Error::bad_input("invalid variables: expected a JSON object or null"));
        }
    }
    Ok(Parameters { request, hash })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_a_text_are_counted_before_they_are_made() {
        fn values(value: &Value) -> u64 {
            1 + match value {
                Value::List(items) => items.iter().map(values).sum(),
                Value::Object(fields) => fields.values().map(values).sum(),
                _ => 0,
            }
        }
        for text in [
            "[[],[],[0],{}]",
            "[[[[[[[[]]]]]]]]",
            r#"{ "a": [1, -2.5e3, true, null], "b\"": "x,[y\",", "c": {}, "": [ ] }"#,
            r#"[[0,0],[0,{"a":0,"b":[{"c":0},{}]}], "\\", ["]"], "", [ { } ]]"#,
        ] {
            // The count begins where a text is long for its values.
            let text = format!("{text}{}", " ".repeat(200));
            let count = values(&serde_json::from_str(&text).unwrap());
            assert!(!has_more_values(text.as_bytes(), count), "{count}: {text}");
            assert!(has_more_values(text.as_bytes(), count - 1), "{count}: {text}");
        }
        let lists = |count: usize| format!("[{}]", vec!["0"; count].join(","));
        let body = |values| format!("{{\"query\":\"{{a}}\",\"extensions\":{{\"v\":{values}}}}}");
        // The object, the query, the extensions and the list are values, too.
        assert!(of_body(body(lists(20_996)).as_bytes(), 20_000).is_ok());
        let refused = of_body(body(lists(20_997)).as_bytes(), 20_000).err().unwrap();
        assert!(refused.message.contains("more than 21000 values"), "{}", refused.message);
    }
}
