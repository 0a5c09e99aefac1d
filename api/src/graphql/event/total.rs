//! The counts of a member's events on a board: listed ones and archived ones.

use std::sync::Arc;

use async_graphql::{Context, Object, Result};
use entity::archive::{archive_mark, archived_entry};
use entity::history::score_event;
use ranking::id::MemberId;
use sea_orm::{ColumnTrait, PaginatorTrait, QueryFilter};

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
        let events = score_event::of_member(self.board.board.no, &self.member)
            .filter(score_event::Column::Seq.gt(mark.archived_seq));
        let count = events.count(&app(ctx).deployment.db).await.map_err(Error::from)?;
        Ok(int(count)?)
    }

    /// The number of the member's older events that are archived. They still count, but are not
    /// listed.
    async fn archived_count(&self, ctx: &Context<'_>) -> Result<i32> {
        let mark = mark_of(ctx, &self.board, &self.member).await?;
        let count = archived_entry::events(&app(ctx).deployment.db, &mark, &self.member);
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
    Ok(archive_mark::of(&deployment.db, board.board.no, partition).await?)
}
