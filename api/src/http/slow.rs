//! A line in the log for each request that takes long: what it was, how long it took, and what it
//! cost. Arguments and variables stay out of it, as they name members.

use std::time::Duration;

use async_graphql::parser::types::{ExecutableDocument, Selection};
use tokio::time::Instant;

use super::admission::Budget;
use super::check::Checked;

/// The most fields that a line names, and the most characters of an operation's name.
const SLOW_FIELDS_MAX: usize = 8;
const SLOW_NAME_CHARS_MAX: usize = 64;

/// A request under way. At its end, also when it is given up, it is logged if it took long.
pub(super) struct Timed<'a> {
    pub(super) began: Instant,
    /// How long a request takes that is logged; none is without it.
    pub(super) slow: Option<Duration>,
    pub(super) checked: &'a Checked,
    pub(super) budget: &'a Budget,
    /// The name of the operation, if the client gave one beside the text.
    pub(super) name: Option<&'a str>,
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        let took = self.began.elapsed();
        if self.slow.is_none_or(|slow| took < slow) {
            return;
        }
        let name: String =
            self.name.unwrap_or_default().chars().take(SLOW_NAME_CHARS_MAX).collect();
        tracing::warn!(
            ms = took.as_millis() as u64,
            points = self.budget.spent(),
            kind = %self.checked.kind,
            name,
            fields = root_fields(&self.checked.document),
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
