//! The limits of a board beyond which a member's scores are suspicious.

use async_graphql::{Enum, InputObject, SimpleObject};
use ranking::board::fair_play as rules;
use ranking::score;

use crate::cache::boards::CachedBoard;
use crate::error::{Error, Result};
use crate::graphql::types::scalar::Decimal;

/// The treatment of a score beyond the limits of fair play.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "ranking::board::fair_play::Excess")]
pub enum Excess {
    /// The score is rejected, with PER_MINUTE_EXCEEDED or DELTA_EXCEEDED.
    Refuse,
    /// The score is quarantined: kept and not ranked, until a moderator releases or voids it.
    Quarantine,
}

/// The limits of a board for the scores of each member.
#[derive(InputObject, Clone)]
pub struct FairPlayInput {
    /// The most scores of a member that are ranked in a UTC minute, by the time of acceptance: 1 to
    /// 1,000,000; no limit by default.
    per_minute_max: Option<i32>,
    /// The largest change of a member's score in "all" by one submission; no limit by default. With
    /// SUM, a member without a score had 0; otherwise the first score is no change.
    delta_max: Option<Decimal>,
    /// The treatment of scores beyond these limits.
    #[graphql(default_with = "Some(Excess::Quarantine)")]
    excess: Option<Excess>,
}

/// The limits of a board for the scores of each member.
#[derive(SimpleObject)]
pub struct FairPlay {
    /// The most scores of a member that are ranked in a UTC minute; null for no limit.
    per_minute_max: Option<i32>,
    /// The largest change of a member's score in "all" by one submission; null for no limit.
    delta_max: Option<Decimal>,
    /// The treatment of scores beyond these limits.
    excess: Excess,
}

impl FairPlayInput {
    /// The limits, checked.
    pub(super) fn read(&self, decimals: u8) -> Result<rules::FairPlay> {
        let negative = |max: i32| {
            let message =
                format!("invalid perMinuteMax {max}: expected 1 to {}", rules::PER_MINUTE_MAX);
            Error::bad_input(message).at("fairPlay.perMinuteMax")
        };
        let per_minute_max =
            self.per_minute_max.map(|max| u32::try_from(max).map_err(|_| negative(max)));
        let delta_max = self.delta_max.as_ref().map(|max| score::parse(&max.0, decimals));
        let delta_max = delta_max.transpose();
        let at = |error: ranking::Error, argument: &str| Error::from(error).at(argument);
        let fair_play = rules::FairPlay {
            per_minute_max: per_minute_max.transpose()?,
            delta_max: delta_max.map_err(|error| at(error, "fairPlay.deltaMax"))?,
            excess: self.excess.unwrap_or(Excess::Quarantine).into(),
        };
        fair_play.check(decimals).map_err(|error| {
            let is_of_delta = error.to_string().contains("deltaMax");
            at(error, if is_of_delta { "fairPlay.deltaMax" } else { "fairPlay.perMinuteMax" })
        })?;
        Ok(fair_play)
    }
}

impl FairPlay {
    /// The limits of a board; `None` if it has none.
    pub(super) fn of(board: &CachedBoard) -> Option<Self> {
        let rules::FairPlay { per_minute_max, delta_max, excess } = board.board.fair_play;
        if per_minute_max.is_none() && delta_max.is_none() {
            return None;
        }
        let decimals = board.board.rules.decimals;
        Some(Self {
            per_minute_max: per_minute_max.and_then(|max| i32::try_from(max).ok()),
            delta_max: delta_max.map(|max| Decimal::of(max, decimals)),
            excess: excess.into(),
        })
    }
}
