//! The attempts of a member in a period: the scores that a board has accepted and still would.

use std::sync::Arc;

use async_graphql::{Context, SimpleObject};
use ranking::id::MemberId;
use ranking::standings_id::StandingsId;

use super::entry_page::find;
use super::{Read, Standings};
use crate::error::Result;
use crate::graphql::price;
use crate::graphql::request::app;
use crate::graphql::sight::is_hidden;
use crate::graphql::types::scalar::int;

/// A member's attempts in a period of a window with `attemptsMax`.
#[derive(SimpleObject)]
pub struct Attempts {
    /// The accepted scores that count. They may be more than `max`: a voided `removeEntry` gives
    /// back scores to which others were added.
    used: i32,
    /// The scores that would still be accepted.
    left: i32,
    /// The most in a period: `attemptsMax`.
    max: i32,
}

impl Standings {
    /// The attempts of a member in the period; `None` if they are not limited.
    pub(super) async fn attempts_of(
        &self,
        ctx: &Context<'_>,
        member: MemberId,
    ) -> Result<Option<Attempts>> {
        let (board, period) = (&self.board.board, &self.read.period);
        let window = self.read.id.window;
        let Some((max, counts)) = board.rules.attempts_max(window).zip(window.attempts()) else {
            return Ok(None);
        };
        let id = StandingsId::of(board, "", counts, period);
        let read = Arc::new(Read::new(&app(ctx).deployment.store, board, id, period.clone()));
        price::pay_fold(ctx, &read).await?;
        let is_hidden = is_hidden(ctx, member.as_str()).await;
        let found = find(ctx, &read, &member, is_hidden).await?;
        let used = found.map_or(0, |found| read.rules.state(counts, period, found.key).score);
        let used = int(used.unsigned_abs())?;
        let max = int(max.into())?;
        Ok(Some(Attempts { used, left: (max - used).max(0), max }))
    }
}
