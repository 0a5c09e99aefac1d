//! The attempts of a member in a period: the scores that a board has accepted and still would.

use std::sync::Arc;

use async_graphql::{Context, SimpleObject};
use ranking::id::MemberId;
use ranking::standings_id::StandingsId;

use super::{Read, Standings};
use crate::error::Result;
use crate::graphql::price::{self, LookUp};
use crate::graphql::request::{app, state};
use crate::graphql::sight::is_hidden;
use crate::graphql::types::scalar::int;
use crate::loader::{Found, Place};

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
        price::pay(state(ctx), LookUp::Entry(&read.id, &member), price::entries(&read, 1)).await?;
        let place = Place { standings: read.clone(), key: member };
        let seen = async {
            match is_hidden(ctx, place.key.as_str()).await {
                // As for one that there is not.
                true => Ok(None),
                false => state(ctx).loaders.entry(place).await,
            }
        };
        let position = |found: &Option<Found>| found.as_ref().map_or(0, |found| found.position);
        let found = price::counted(ctx, &read, seen, position).await?;
        let used = found.map_or(0, |found| read.rules.state(counts, period, found.key).score);
        let used = int(used.unsigned_abs())?;
        let max = int(max.into())?;
        Ok(Some(Attempts { used, left: (max - used).max(0), max }))
    }
}
