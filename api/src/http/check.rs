//! The checks of a request before it is executed: nothing that a client sends may be longer, deeper
//! or costlier than the settings allow.
//!
//! Each check takes time in proportion to the text. A fragment is looked at once, however often it
//! is spread; the checks of async-graphql, which come afterwards, follow each spread, so the number
//! of fields that a query expands to is bounded here.

mod arguments;
pub(crate) mod cost;
mod overlaps;
mod subscription;
mod text;
pub(crate) mod types;
mod values;
mod variables;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_graphql::parser::parse_query;
use async_graphql::parser::types::{
    DocumentOperations, ExecutableDocument, OperationDefinition, OperationType,
};
use async_graphql::{Name, Request, Response, ServerError, Value, Variables};
use engine::settings::{Introspection, RequestLimits};
use moka::sync::Cache;

use super::rates::Account;
use super::response::server_error;
use crate::error::{Error, Result};
use crate::graphql::{LaurelSchema, Schemas};
use cost::Cost;

/// The memory for parsed documents, in bytes, about.
const DOCUMENTS_BYTES_MAX: u64 = 32 << 20;

/// The memory of a parsed document for each byte of its text, about.
const BYTES_PARSED: u32 = 40;

/// The longest query whose parsed document is kept, in bytes.
const DOCUMENT_KEPT_BYTES_MAX: usize = 4 << 10;

/// The looks at selections that take a point.
const LOOKS_A_POINT: u64 = 4;

/// Checks requests, and keeps the parsed documents of short ones.
pub struct Checks {
    limits: RequestLimits,
    documents: Cache<String, Arc<Document>>,
}

/// A parsed document.
pub struct Document {
    parsed: ExecutableDocument,
    /// True if it may become valid whatever its variables are, as [`variables::check`] judges those
    /// of each request: its only operation is the one that is executed, and no variable of it may
    /// be null where null is no value.
    is_lasting: bool,
    /// True once async-graphql has found it valid by all rules of the specification.
    is_valid: AtomicBool,
}

impl Document {
    /// The schema that executes it.
    pub fn schema<'s>(&self, schemas: &'s Schemas) -> &'s LaurelSchema {
        match self.is_valid.load(Ordering::Relaxed) {
            true => &schemas.trusting,
            false => &schemas.checking,
        }
    }

    /// Notes that it was executed, for which it had to be valid.
    pub fn note(&self, response: &Response) {
        if self.is_lasting && response.data != Value::Null {
            self.is_valid.store(true, Ordering::Relaxed);
        }
    }
}

impl Deref for Document {
    type Target = ExecutableDocument;

    fn deref(&self) -> &ExecutableDocument {
        &self.parsed
    }
}

/// A request within the limits. Once it has paid, its fields are [compared](Self::compare).
pub struct Checked {
    /// Its document.
    pub document: Arc<Document>,
    /// The type of its operation.
    pub kind: OperationType,
    /// Its cost, as far as the text tells it.
    pub cost: Cost,
    /// The memory of its parsed document and its variables, in bytes, about.
    pub bytes: u64,
}

/// The memory of a query of so many bytes, once it is parsed, and of its variables, in bytes,
/// about.
pub fn memory_of(query_bytes: usize, variables: &Variables) -> u64 {
    query_bytes as u64 * u64::from(BYTES_PARSED) + variables::memory(variables)
}

impl Checked {
    /// Compares the fields of one response key, of a document that is not known to be valid, for
    /// points that the client of the account owes, whatever comes of it.
    ///
    /// # Errors
    /// As [`overlaps::check`].
    pub fn compare(&self, account: &Account) -> Result<(), ServerError> {
        if self.document.is_valid.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (looks, compared) = overlaps::check(&self.document, self.cost.selections);
        account.read_more(looks / LOOKS_A_POINT);
        compared
    }
}

impl Checks {
    /// Starts with no documents.
    pub fn new(limits: &RequestLimits) -> Self {
        let bytes = |query: &String, _: &Arc<Document>| {
            (query.len() as u32).saturating_mul(BYTES_PARSED) + 1024
        };
        let documents = Cache::builder().max_capacity(DOCUMENTS_BYTES_MAX).weigher(bytes).build();
        Self { limits: limits.clone(), documents }
    }

    /// The most values in all variables of a request.
    pub fn variable_values_max(&self) -> u32 {
        self.limits.variable_values_max
    }

    /// Parses a request and checks it.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` beyond a limit, `FORBIDDEN` if it asks for the schema and may not,
    /// `BAD_USER_INPUT` if it is malformed.
    pub fn check(&self, request: &mut Request, has_token: bool) -> Result<Checked, ServerError> {
        let document = self.document(&request.query)?;
        let operation_name = request.operation_name.as_deref();
        variables::check(&document, operation_name, &mut request.variables, &self.limits)?;
        let cost = cost::of(&document, &request.variables, &self.limits).map_err(server_error)?;
        if cost.introspects {
            self.allow_introspection(has_token).map_err(server_error)?;
        }
        let kind = kind(&document, operation_name);
        request.set_parsed_query(document.parsed.clone());
        let bytes = memory_of(request.query.len(), &request.variables);
        Ok(Checked { document, kind, cost, bytes })
    }

    fn document(&self, query: &str) -> Result<Arc<Document>, ServerError> {
        if let Some(document) = self.documents.get(query) {
            return Ok(document);
        }
        text::check(query, &self.limits).map_err(server_error)?;
        let document = parse_query(query).map_err(|error| {
            let mut error = ServerError::from(error);
            if error.message.contains("recursion limit") {
                return server_error(Error::limit_exceeded(
                    "the query is nested deeper than the parser follows: expected at most 50 levels",
                ));
            }
            // The parser draws the place in several lines, which `locations` has.
            let last = error.message.lines().last().unwrap_or_default();
            if let Some(expected) = last.trim_start().strip_prefix("= ") {
                // Its rules have names such as executable_definition.
                let expected = expected.replace("EOI", "the end").replace('_', " ");
                error.message = format!("invalid query: {expected}");
            }
            error
        })?;
        let operations = document.operations.iter().count() as u64;
        cost::at_most(operations, self.limits.operations_max, "operations")
            .map_err(server_error)?;
        let has_null = arguments::check(&document)?;
        subscription::check(&document)?;
        let is_single = matches!(document.operations, DocumentOperations::Single(_));
        let document = Arc::new(Document {
            parsed: document,
            is_lasting: is_single && !has_null,
            is_valid: AtomicBool::new(false),
        });
        if query.len() <= DOCUMENT_KEPT_BYTES_MAX {
            self.documents.insert(query.to_owned(), document.clone());
        }
        Ok(document)
    }

    fn allow_introspection(&self, has_token: bool) -> Result<()> {
        let refused = |message: &str| Err(Error::forbidden(message));
        match self.limits.introspection {
            Introspection::Tokens if !has_token => {
                refused("the schema is shown to clients with an access token only")
            }
            Introspection::Off => refused("introspection is switched off on this server"),
            _ => Ok(()),
        }
    }
}

/// The type of the selected operation; if several match, a mutation if one of them is, or else a
/// subscription.
fn kind(document: &ExecutableDocument, operation_name: Option<&str>) -> OperationType {
    let is_meant = |kind| meant(document, operation_name).any(|operation| operation.ty == kind);
    let others = [OperationType::Mutation, OperationType::Subscription];
    others.into_iter().find(|kind| is_meant(*kind)).unwrap_or(OperationType::Query)
}

/// The operations that a request may mean: those of the name, or all if it names none.
pub(crate) fn meant<'d>(
    document: &'d ExecutableDocument,
    operation_name: Option<&str>,
) -> impl Iterator<Item = &'d OperationDefinition> {
    let operations = document.operations.iter();
    operations
        .filter(move |(name, _)| {
            operation_name.is_none() || name.map(Name::as_str) == operation_name
        })
        .map(|(_, operation)| &operation.node)
}

#[cfg(test)]
mod tests {
    use super::cost::tests::cost_of;
    use crate::error::ErrorCode;

    #[test]
    fn a_query_about_the_schema_nests_three_lists() {
        let query = |pairs: usize| {
            let nested = "interfaces { possibleTypes { ".repeat(pairs);
            format!("{{ __type(name: \"Board\") {{ {nested} name {} }} }}", "} }".repeat(pairs))
        };
        assert!(cost_of(&query(1), serde_json::json!({})).unwrap().introspects);
        assert!(cost_of(&query(2), serde_json::json!({})).is_err());
        assert!(cost_of(&query(8), serde_json::json!({})).is_err());
    }

    #[test]
    fn objects_and_look_ups_are_bounded() {
        let page = |aliases: usize| {
            let sizes: String =
                (0..aliases).map(|n| format!("a{n}: standings {{ size }} ")).collect();
            format!("{{ board {{ standings {{ top(first: 1000) {{ nodes {{ {sizes} }} }} }} }} }}")
        };
        assert!(cost_of(&page(9), serde_json::json!({})).is_ok());
        assert!(cost_of(&page(20), serde_json::json!({})).is_err());
    }

    #[test]
    fn nothing_is_free_below_a_page_without_items() {
        for first in ["0", "-1", "$n"] {
            let mut query =
                format!("query($n: Int = 0) {{ boards(first: {first}) {{ nodes {{ ...f0 }} }} }}");
            for level in 0..29 {
                query.push_str(&format!(
                    " fragment f{level} on Board {{ ...f{next} ...f{next} ...f{next} }}",
                    next = level + 1
                ));
            }
            query.push_str(" fragment f29 on Board { id }");
            let error = cost_of(&query, serde_json::json!({})).unwrap_err();
            assert_eq!(error.code, ErrorCode::LimitExceeded, "{first}");
        }
    }

    #[test]
    fn a_fragment_is_there_and_spread() {
        let says = |query: &str| cost_of(query, serde_json::json!({})).unwrap_err().message;
        assert!(says("{ ...none }").contains("no fragment"));
        assert!(says("{ a } fragment f on Query { a }").contains("never spread"));
        let mut chain = "{ ...f0 }".to_owned();
        for level in 0..29 {
            let next = level + 1;
            chain.push_str(&format!(
                " fragment f{level} on Query {{ ...f{next} ...f{next} ...f{next} }}"
            ));
        }
        chain.push_str(" fragment f29 on Query { ... { a } }");
        assert!(says(&chain).contains("fields"), "{}", says(&chain));
        assert!(says(&chain.replace("f29 on", "f99 on")).contains("no fragment"));
    }
}
