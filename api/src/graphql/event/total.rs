//! The counts of a member's events on a board: listed ones and archived ones.

use std::sync::Arc;

use async_graphql::{Context, Object, Result};
use entity::archive::archive_mark;
use ranking::id::{MemberId, PartitionNo};

use crate::cache::boards::CachedBoard;
use crate::graphql::price;
use crate::graphql::request::{app, state};
use crate::graphql::types::scalar::int;
use crate::loader::totals::{OfMember, Total};

/// The counts of a connection of events, made only if a query asks for them.
pub struct EventTotal {
    pub(crate) board: Arc<CachedBoard>,
    pub(crate) member: String,
}

impl EventTotal {
    /// The history that is counted.
    fn history(&self, ctx: &Context<'_>) -> crate::error::Result<OfMember> {
        let partition = partition_of(ctx, &self.board, &self.member)?;
        let (board, member) = (self.board.board.no, self.member.clone());
        Ok(OfMember { board, partition, member })
    }
}

#[Object]
impl EventTotal {
    /// The number of the member's events on the board, not counting archived ones.
    async fn total_count(&self, ctx: &Context<'_>) -> Result<i32> {
        let total = Total::Events(self.history(ctx)?);
        Ok(int(price::total(state(ctx), total, price::counted_rows).await?)?)
    }

    /// The number of the member's older events that are archived. They still count, but are not
    /// listed.
    async fn archived_count(&self, ctx: &Context<'_>) -> Result<i32> {
        let total = Total::ArchivedEvents(self.history(ctx)?);
        Ok(int(price::total(state(ctx), total, price::counted_rows).await?)?)
    }
}

/// The archive mark of the partition that holds a member on a board: how far its history is
/// archived.
pub(crate) async fn mark_of(
    ctx: &Context<'_>,
    board: &CachedBoard,
    member: &str,
) -> crate::error::Result<archive_mark::Model> {
    let partition = partition_of(ctx, board, member)?;
    Ok(archive_mark::of(&app(ctx).deployment.reads, board.board.no, partition).await?)
}

fn partition_of(
    ctx: &Context<'_>,
    board: &CachedBoard,
    member: &str,
) -> crate::error::Result<PartitionNo> {
    let member = MemberId::new(member)?;
    Ok(app(ctx).deployment.store.partitions().of_member(&board.board, &member))
}
