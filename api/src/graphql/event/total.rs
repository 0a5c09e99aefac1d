//! How many events a member has on a board: listed ones, and archived ones.

use std::sync::Arc;

use async_graphql::{Context, Object, Result};
use entity::archive::{archive_mark, archived_entry};
use entity::history::score_event;
use ranking::id::MemberId;
use sea_orm::{ColumnTrait, PaginatorTrait, QueryFilter};

use crate::cache::boards::KnownBoard;
use crate::error::Error;
use crate::graphql::request::app;
use crate::graphql::types::scalar::int;

/// How many events there are, counted when it is asked for.
pub struct EventTotal {
    pub(crate) board: Arc<KnownBoard>,
    pub(crate) member: String,
}

#[Object]
impl EventTotal {
    /// How many events the member has on the board, besides archived ones.
    async fn total_count(&self, ctx: &Context<'_>) -> Result<i32> {
        let mark = mark_of(ctx, &self.board, &self.member).await?;
        let events = score_event::of_member(self.board.board.no, &self.member)
            .filter(score_event::Column::Seq.gt(mark.archived_seq));
        let count = events.count(&app(ctx).deployment.db).await.map_err(Error::from)?;
        Ok(int(count)?)
    }

    /// How many older events the member has that are archived: they count as ever, and are not listed.
    async fn archived_count(&self, ctx: &Context<'_>) -> Result<i32> {
        let mark = mark_of(ctx, &self.board, &self.member).await?;
        let count = archived_entry::events(&app(ctx).deployment.db, &mark, &self.member);
        Ok(int(count.await.map_err(Error::from)?)?)
    }
}

/// How far the part of a board's history that a member is in is archived.
pub(crate) async fn mark_of(
    ctx: &Context<'_>,
    board: &KnownBoard,
    member: &str,
) -> crate::error::Result<archive_mark::Model> {
    let deployment = &app(ctx).deployment;
    let member = MemberId::new(member)?;
    let partition = deployment.store.partitions().of_member(&board.board, &member);
    Ok(archive_mark::of(&deployment.db, board.board.no, partition).await?)
}
