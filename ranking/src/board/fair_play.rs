//! Fair play: the limits beyond which a board suspects a member's scores.
//!
//! A suspicious score is refused or quarantined. Either way it is no event, so the standings remain
//! a function of the history alone.

use crate::board::{Board, Policy};
use crate::error::{Error, Result};
use crate::id::MemberId;
use crate::score::{self, RAW_MAX};
use crate::submission::Verdict;

/// The most scores that a board may allow a member in a minute.
pub const PER_MINUTE_MAX: u32 = 1_000_000;

/// The time in which [`FairPlay::per_minute_max`] counts, in milliseconds: a UTC minute.
pub const MINUTE_MS: i64 = 60_000;

/// The treatment of a score beyond a board's limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Excess {
    /// The score is refused.
    Refuse,
    /// The score is kept and not ranked, until a moderator decides.
    #[default]
    Quarantine,
}

/// The reason why a score is suspicious.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Suspicion {
    /// The member submitted more scores in the minute than the board allows.
    PerMinuteMax,
    /// The score would change the member's score in `all` by more than the board allows.
    DeltaMax,
    /// The member is banned from the board.
    Banned,
}

/// A board's limits for the scores of each member. A board without any pays nothing for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FairPlay {
    /// The most scores of a member that are ranked in a UTC minute, by the time of acceptance.
    pub per_minute_max: Option<u32>,
    /// The largest change of a member's score in `all` by one submission, raw.
    pub delta_max: Option<i64>,
    /// The treatment of scores beyond them.
    pub excess: Excess,
}

impl FairPlay {
    /// Checks the limits.
    ///
    /// # Errors
    /// `Invalid` for a limit below 1, `LimitExceeded` for one that no score reaches.
    pub fn check(&self, decimals: u8) -> Result<()> {
        match self.per_minute_max {
            Some(0) => {
                return Err(Error::invalid(format!(
                    "invalid perMinuteMax 0: expected 1 to {PER_MINUTE_MAX}"
                )));
            }
            Some(max) if max > PER_MINUTE_MAX => {
                return Err(Error::LimitExceeded(format!(
                    "invalid perMinuteMax {max}: expected at most {PER_MINUTE_MAX}"
                )));
            }
            _ => {}
        }
        match self.delta_max {
            Some(max) if !(1..=RAW_MAX).contains(&max) => {
                let [max, low, high] = [max, 1, RAW_MAX].map(|raw| score::format(raw, decimals));
                Err(Error::invalid(format!("invalid deltaMax {max}: expected {low} to {high}")))
            }
            _ => Ok(()),
        }
    }

    /// The verdict on a submission that was not admitted.
    pub(crate) fn verdict_on(&self, error: Error) -> Verdict {
        match error {
            Error::Suspicious(suspicion, message)
                if suspicion == Suspicion::Banned || self.excess == Excess::Quarantine =>
            {
                Verdict::Quarantined { suspicion, message }
            }
            error => Verdict::Rejected(error),
        }
    }
}

impl Board {
    /// This board for scores that were admitted before: it limits neither their number and change,
    /// nor their times, nor who submits them.
    #[must_use]
    pub fn without_admission(&self) -> Self {
        Self {
            admission: Default::default(),
            fair_play: FairPlay::default(),
            is_joined: false,
            ..self.clone()
        }
    }

    /// Checks that one more score of a member may be ranked in a minute in which `ranked` are.
    ///
    /// # Errors
    /// `Suspicious`, naming the limit.
    pub(crate) fn check_pace(&self, member: &MemberId, ranked: u32) -> Result<()> {
        match self.fair_play.per_minute_max {
            Some(max) if ranked >= max => Err(Error::Suspicious(
                Suspicion::PerMinuteMax,
                format!(
                    "member {} has {max} scores in this minute: expected at most perMinuteMax {max}",
                    crate::shown(member.as_str())
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Checks the change of a member's raw score in `all`. With SUM, a member without a score had
    /// 0; with another policy, its first score is no change.
    ///
    /// # Errors
    /// `Suspicious`, naming the limit.
    pub(crate) fn check_delta(
        &self,
        member: &MemberId,
        before: Option<i64>,
        after: i64,
    ) -> Result<()> {
        let Some(max) = self.fair_play.delta_max else {
            return Ok(());
        };
        let Some(before) = before.or((self.rules.policy == Policy::Sum).then_some(0)) else {
            return Ok(());
        };
        let delta = after.abs_diff(before);
        if delta <= max.unsigned_abs() {
            return Ok(());
        }
        let [delta, max] = [i64::try_from(delta).unwrap_or(i64::MAX), max]
            .map(|raw| score::format(raw, self.rules.decimals));
        Err(Error::Suspicious(
            Suspicion::DeltaMax,
            format!(
                "the score of member {} would change by {delta}: expected at most deltaMax {max}",
                crate::shown(member.as_str())
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::rules::{Rules, RulesInput};
    use crate::id::BoardNo;
    use proptest::prelude::*;

    fn board(policy: Policy, fair_play: FairPlay) -> Board {
        let rules = Rules::new(RulesInput { policy, ..RulesInput::default() }).unwrap();
        Board { fair_play, ..Board::new(BoardNo(1), rules) }
    }

    #[test]
    fn limits_that_mean_nothing_are_refused() {
        let per_minute = |max| FairPlay { per_minute_max: Some(max), ..FairPlay::default() };
        let delta = |max| FairPlay { delta_max: Some(max), ..FairPlay::default() };
        assert!(matches!(per_minute(0).check(0), Err(Error::Invalid(_))));
        assert!(matches!(per_minute(PER_MINUTE_MAX + 1).check(0), Err(Error::LimitExceeded(_))));
        assert!(per_minute(PER_MINUTE_MAX).check(0).is_ok());
        for max in [0, -1, RAW_MAX + 1] {
            assert!(matches!(delta(max).check(2), Err(Error::Invalid(_))), "{max}");
        }
        assert!(delta(RAW_MAX).check(2).is_ok());
    }

    #[test]
    fn only_a_board_that_refuses_refuses() {
        for (excess, suspicion, is_kept) in [
            (Excess::Refuse, Suspicion::PerMinuteMax, false),
            (Excess::Refuse, Suspicion::DeltaMax, false),
            (Excess::Refuse, Suspicion::Banned, true),
            (Excess::Quarantine, Suspicion::DeltaMax, true),
        ] {
            let fair_play = FairPlay { excess, ..FairPlay::default() };
            let verdict = fair_play.verdict_on(Error::Suspicious(suspicion, String::new()));
            assert_eq!(matches!(verdict, Verdict::Quarantined { .. }), is_kept, "{suspicion:?}");
        }
    }

    proptest! {
        #[test]
        fn a_change_is_suspicious_if_it_is_larger_than_the_limit(max in 1_i64..1 << 40, before: Option<u32>, after: u32) {
            let (before, after) = (before.map(i64::from), i64::from(after));
            let member = MemberId::new("ann").unwrap();
            for policy in [Policy::Sum, Policy::Best, Policy::Latest] {
                let board = board(policy, FairPlay { delta_max: Some(max), ..FairPlay::default() });
                let is_change = before.is_some() || policy == Policy::Sum;
                let is_suspicious = is_change && (after - before.unwrap_or(0)).abs() > max;
                prop_assert_eq!(board.check_delta(&member, before, after).is_err(), is_suspicious);
            }
        }
    }
}
