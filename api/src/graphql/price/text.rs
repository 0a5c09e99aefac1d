//! The price of texts.

use async_graphql::{Context, SelectionField};
use entity::board;

use crate::error::Result;
use crate::graphql::request::state;

/// The bytes of a text that are written for a point: an answer holds all of them until it is sent.
const TEXT_BYTES: u64 = 64;

/// Pays for a text of up to so many bytes that may be long, such as an id with the name of a
/// segment, before it is made.
///
/// # Errors
/// `LIMIT_EXCEEDED` if the request's points are spent.
pub(crate) async fn pay_text(ctx: &Context<'_>, bytes: usize) -> Result<()> {
    match bytes as u64 / TEXT_BYTES {
        0 => Ok(()),
        // In a box, as an answer may have very many ids and few of them are long.
        points => Box::pin(state(ctx).spend(points)).await,
    }
}

/// Pays for the windows and seasons of boards, which are parsed.
///
/// # Errors
/// As [`pay_text`].
pub(crate) async fn pay_boards(ctx: &Context<'_>, rows: &[board::Model]) -> Result<()> {
    pay_text(ctx, rows.iter().map(|row| row.windows.len()).sum()).await
}

/// Pays for the ids and cursors of a page, before they are made: `bytes` of both for all items, and
/// again for each field of the page that asks for one of them.
///
/// # Errors
/// As [`pay_text`].
pub(crate) async fn pay_texts(ctx: &Context<'_>, bytes: usize) -> Result<()> {
    let count = |field: SelectionField<'_>, name: &str| {
        field.selection_set().filter(|below| below.name() == name).count()
    };
    let copies = |field: SelectionField<'_>| match field.name() {
        "nodes" => count(field, "id"),
        "edges" => {
            let nodes = field.selection_set().filter(|below| below.name() == "node");
            count(field, "cursor") + nodes.map(|node| count(node, "id")).sum::<usize>()
        }
        _ => 0,
    };
    let copies = 1 + ctx.field().selection_set().map(copies).sum::<usize>();
    pay_text(ctx, copies * bytes).await
}
