//! The mutation that deletes a board.

use std::time::Duration;

use async_graphql::{Context, ID, InputObject, SimpleObject};
use engine::board::delete;
use ranking::id::check_slug;

use super::input::no_board;
use crate::graphql::audit::writer::Audit;
use crate::graphql::request::{app, state};
use crate::graphql::types::global_id::{BoardName, GlobalId};

/// How long a deleting request waits for the purge of the board's data; the background work
/// finishes it.
const PURGE_TIMEOUT: Duration = Duration::from_secs(15);

/// The board to delete.
#[derive(InputObject)]
pub struct DeleteBoardInput {
    /// The board's slug.
    pub(crate) slug: String,
}

/// The result of `deleteBoard`.
#[derive(SimpleObject)]
pub struct DeleteBoardPayload {
    /// The global id that the board had.
    deleted_board_id: ID,
}

/// Deletes a board. Once this returns, the board is gone for readers and writers. Its data is
/// purged too, unless there is very much of it.
pub(crate) async fn delete(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    slug: &str,
) -> crate::error::Result<DeleteBoardPayload> {
    let app = app(ctx);
    audit.note(|act| act.on_slug(slug));
    let no_board = || no_board(slug).at("input.slug");
    check_slug(slug).map_err(|_| no_board())?;
    let marked = delete::mark(&app.deployment, slug, audit.act()).await?;
    let row = marked.ok_or_else(no_board)?;
    audit.written();
    app.boards.changed(slug);
    match tokio::time::timeout(PURGE_TIMEOUT, delete::purge(&app.deployment, &row)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(slug, %error, "a deleted board's data is left to the background work");
        }
        Err(_) => tracing::info!(slug, "a deleted board's data is left to the background work"),
    }
    state(ctx).loaders.clear().await;
    let name = BoardName { slug: slug.to_owned(), no: row.no };
    Ok(DeleteBoardPayload { deleted_board_id: GlobalId::Board(name).to_text().into() })
}
