//! The root of a subscription: one field (GraphQL specification, §5.2.4.1).
//!
//! async-graphql would merge the answers of several, and passes over fragments and directives
//! there.

use async_graphql::parser::types::{ExecutableDocument, OperationType, Selection};
use async_graphql::{Positioned, ServerError};

use crate::error::Error;
use crate::http::response::server_error;

/// Checks the subscriptions of a document.
///
/// # Errors
/// `BAD_USER_INPUT` for one that selects something else than one field of the schema.
pub fn check(document: &ExecutableDocument) -> Result<(), ServerError> {
    let operations = document.operations.iter().map(|(_, operation)| &operation.node);
    let mut subscriptions =
        operations.filter(|operation| operation.ty == OperationType::Subscription);
    if subscriptions.all(|operation| is_one_field(&operation.selection_set.node.items)) {
        return Ok(());
    }
    Err(server_error(Error::bad_input(
        "invalid subscription: expected one field at its root, without a fragment around it or a directive",
    )))
}

fn is_one_field(selections: &[Positioned<Selection>]) -> bool {
    let [selection] = selections else { return false };
    match &selection.node {
        Selection::Field(field) => {
            let field = &field.node;
            field.directives.is_empty() && !field.name.node.starts_with("__")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use async_graphql::parser::parse_query;

    #[test]
    fn a_subscription_has_one_field_at_its_root() {
        let is_valid = |text: &str| super::check(&parse_query(text).unwrap()).is_ok();
        assert!(is_valid("subscription { a: top(board: \"b\") { nodes { rank } } }"));
        assert!(is_valid("{ a b ... on Query { c } }"));
        for refused in [
            "subscription { top { a } entry { a } }",
            "subscription { a: top { a } b: top { a } }",
            "subscription { __typename }",
            "subscription { top @skip(if: true) { a } }",
            "subscription { ... on Subscription { top { a } } }",
            "subscription { ...f } fragment f on Subscription { top { a } }",
            "query A { a } subscription B { top { a } entry { a } }",
        ] {
            assert!(!is_valid(refused), "{refused}");
        }
    }
}
