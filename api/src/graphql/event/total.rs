//! The counts of a member's events on a board: listed ones and archived ones.

use std::sync::Arc;

use async_graphql::{Context, Object, Result};
use entity::archive::{archive_mark, archived_entry};
use entity::history::score_event;
use ranking::id::MemberId;

use crate::cache::boards::CachedBoard;
use crate::error::Error;
use crate::graphql::request::app;
use crate::graphql::types::scalar::int;

/// The counts of a connection of events, made only if a query asks for them.
pub struct EventTotal {
    pub(crate) board: Arc<CachedBoard>,
    pub(crate) member: String,
}

#[Object]
impl EventTotal {
    /// The number of the member's events on the board, without archived ones.
    async fn total_count(&self, ctx: &Context<'_>) -> Result<i32> {
        let mark = mark_of(ctx, &self.board, &self.member).await?;
        let (db, board) = (&app(ctx).deployment.reads, self.board.board.no);
        let count = score_event::count_of_member(db, board, &self.member, mark.archived_seq);
        Ok(int(count.await.map_err(Error::from)?)?)
    }

    /// The number of the member's older events that are archived. They still count, but are not
    /// listed.
    async fn archived_count(&self, ctx: &Context<'_>) -> Result<i32> {
        let mark = mark_of(ctx, &self.board, &self.member).await?;
        let count = archived_entry::events(&app(ctx).deployment.reads, &mark, &self.member);
        Ok(int(count.await.map_err(Error::from)?)?)
    }
}

/// The archive mark of the partition that holds a member on a board: how far its history is
/// archived.
pub(crate) async fn mark_of(
    ctx: &Context<'_>,
    board: &CachedBoard,
    member: &str,
) -> crate::error::Result<archive_mark::Model> {
    let deployment = &app(ctx).deployment;
    let member = MemberId::new(member)?;
    let partition = deployment.store.partitions().of_member(&board.board, &member);
    Ok(archive_mark::of(&deployment.reads, board.board.no, partition).await?)
}
