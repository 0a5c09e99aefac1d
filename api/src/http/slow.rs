//! A line in the log for each request that takes long: what it was, how long it took, and what it
//! cost. Arguments and variables stay out of it, as they name members.

use std::time::Duration;

use async_graphql::parser::types::{ExecutableDocument, Selection};
use tokio::time::Instant;
use tracing::Span;

use super::admission::Budget;
use super::check::Checked;

/// The most fields that a line names, and the most characters of an operation's name.
const SLOW_FIELDS_MAX: usize = 8;
const SLOW_NAME_CHARS_MAX: usize = 64;

/// A request under way. At its end, also when it is given up, its span has its cost, and it is
/// logged if it took long.
pub(super) struct Timed<'a> {
    pub(super) began: Instant,
    /// How long a request takes that is logged; none is without it.
    pub(super) slow: Option<Duration>,
    /// The text; the name of the operation, if the client gave one beside it; and the span.
    pub(super) of_request: (&'a Checked, Option<&'a str>, &'a Span),
    pub(super) budget: &'a Budget,
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        let (checked, name, span) = self.of_request;
        let took = self.began.elapsed();
        span.record("laurel.points", self.budget.spent());
        if self.slow.is_none_or(|slow| took < slow) {
            return;
        }
        let name: String = name.unwrap_or_default().chars().take(SLOW_NAME_CHARS_MAX).collect();
        tracing::warn!(
            ms = took.as_millis() as u64,
            points = self.budget.spent(),
            kind = %checked.kind,
            name,
            fields = root_fields(&checked.document),
            "a slow request"
        );
    }
}

/// The names of the first fields of a document's operations.
fn root_fields(document: &ExecutableDocument) -> String {
    let items = document.operations.iter().flat_map(|(_, operation)| {
        operation.node.selection_set.node.items.iter().map(|item| match &item.node {
            Selection::Field(field) => field.node.name.node.as_str(),
            Selection::FragmentSpread(_) | Selection::InlineFragment(_) => "…",
        })
    });
    items.take(SLOW_FIELDS_MAX).collect::<Vec<_>>().join(" ")
}
