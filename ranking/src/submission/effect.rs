//! The effects of an accepted submission: the member's entries before its commit and after it.

use crate::score::rank_key::RankKey;
use crate::standings_id::StandingsId;
use crate::window::Period;

/// The standings whose effects a verdict tells. Those of segments are never told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Report {
    /// None.
    #[default]
    Nothing,
    /// Those of all time.
    AllTime,
    /// Those of every window.
    EveryWindow,
}

/// The effect of a submission in the standings of everyone in one period.
///
/// Commits of a partition follow one another, so both keys are those at the instant of the commit.
/// Submissions of one commit share them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// The standings.
    pub id: StandingsId,
    /// Their period.
    pub period: Period,
    /// The member's key before the commit; `None` without an entry.
    pub before: Option<RankKey>,
    /// The member's key after the commit.
    pub after: RankKey,
    /// True if the submission alone made the member's key better.
    pub improved: bool,
    /// The ranks that the commit has read, if it has.
    pub ranks: Ranks,
}

/// The positions, from 0, of a member in the only shard of standings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranks {
    /// None were read: the standings have several shards, or the reply of the commit was lost.
    Unknown,
    /// They are those with an index in the list of the commit.
    AtIndex(usize),
    /// Those before the commit and after it.
    Read {
        /// Before it; `None` without an entry.
        before: Option<u64>,
        /// After it.
        after: u64,
    },
}

impl Effect {
    /// Takes its ranks from those that the commit has read: all before its writes, then all after
    /// them, `count` each; none if the reply was lost.
    pub fn take_ranks(&mut self, read: &[Option<u64>], count: usize) {
        let Ranks::AtIndex(index) = self.ranks else { return };
        let (before, after) = (read.get(index).copied().flatten(), read.get(count + index));
        self.ranks = match after.copied().flatten() {
            Some(after) => Ranks::Read { before, after },
            None => Ranks::Unknown,
        };
    }
}
