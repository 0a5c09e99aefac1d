//! An answer on its way to sockets.

use std::sync::Arc;

use async_graphql::{Response, ServerError, Value};
use axum::body::Bytes;

use super::Executed;
use crate::error::{Error, ErrorCode};
use crate::http::execution::{REQUEST_POINTS, request_points};
use crate::http::rates::Client;
use crate::http::response::{finish, server_error};
use crate::http::shares::Part;

/// An answer on its way to sockets. All that share a subscription share it.
#[derive(Debug)]
pub struct Update {
    data: Arc<Value>,
    errors: Vec<ServerError>,
    /// The answer as JSON.
    pub json: Bytes,
    /// The points that each socket pays for what it is sent.
    pub sent: u64,
    /// Those that each pays for its part of the execution.
    pub executed: u64,
    /// The memory that it is held in until a socket takes it, if it is no feed's.
    pub(super) held: Option<Part<Client>>,
}

impl Update {
    /// The answer of an execution, of at most so many bytes, that so many sockets share.
    pub fn new(executed: Executed, bytes_max: u32, sockets: u64) -> Self {
        let Executed { mut response, spent } = executed;
        let shared = spent.div_ceil(sockets);
        let refusal = |errors| Self { executed: shared, ..Self::refusal(errors) };
        if response.data == Value::Null {
            return refusal(response.errors);
        }
        finish(&mut response.errors);
        // A serde_json value in between would sort the fields by name.
        let json = serde_json::to_vec(&response).expect("an answer is JSON");
        if json.len() > bytes_max as usize {
            let message = format!("the answer is longer than {bytes_max} bytes: ask for less");
            return refusal(vec![server_error(Error::limit_exceeded(message))]);
        }
        let sent = request_points(json.len());
        let Response { data, errors, .. } = response;
        Self { data: data.into(), errors, json: json.into(), sent, executed: shared, held: None }
    }

    /// The answer to an operation that is not executed, or not any more.
    pub fn refusal(mut errors: Vec<ServerError>) -> Self {
        // There is no data that a path could lead into.
        errors.iter_mut().for_each(|error| error.path.clear());
        finish(&mut errors);
        let json = serde_json::json!({ "errors": errors }).to_string().into();
        let sent = REQUEST_POINTS;
        Self { data: Value::Null.into(), errors, json, sent, executed: 0, held: None }
    }

    /// The same answer after another execution, of which each socket pays so many points.
    pub fn again(&self, executed: u64) -> Self {
        let (data, errors, json) = (self.data.clone(), self.errors.clone(), self.json.clone());
        Self { data, errors, json, sent: self.sent, executed, held: None }
    }

    /// Makes it a refusal, of the same execution.
    pub fn refuse(&mut self, error: Error) {
        let refusal = Self::refusal(vec![server_error(error)]);
        *self = Self { executed: self.executed, ..refusal };
    }

    /// True if the answer has no data, not even null: then none follows.
    pub fn is_refusal(&self) -> bool {
        *self.data == Value::Null
    }

    /// True for a refusal that passes: a store or the server has no time, or no season is open.
    pub fn is_passing(&self) -> bool {
        use ErrorCode::{SeasonNotOpen, Timeout, Unavailable};
        self.is_refusal()
            && [SeasonNotOpen, Timeout, Unavailable].into_iter().any(|code| self.has_code(code))
    }

    /// True if one of its errors has a code.
    pub fn has_code(&self, code: ErrorCode) -> bool {
        let code_of = |error: &ServerError| error.extensions.as_ref()?.get("code").cloned();
        self.errors.iter().filter_map(code_of).any(|of| of == Value::from(code.name()))
    }

    /// The answer, for a writer that wants one of its own.
    pub fn response(&self) -> Response {
        let mut response = Response::new((*self.data).clone());
        response.errors.clone_from(&self.errors);
        response
    }
}
