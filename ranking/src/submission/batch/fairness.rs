//! Fair play in a batch: bans, and the scores of members that are ranked in this minute.

use std::collections::{BTreeMap, HashMap};

use crate::board::fair_play::MINUTE_MS;
use crate::error::Result;
use crate::id::{BoardNo, MemberId};
use crate::merge::MemberMark;
use crate::submission::{Snapshot, Submission, Wanted};

/// The bans of members, and the numbers of their ranked scores.
#[derive(Default)]
pub(super) struct Fairness<'a> {
    marks: HashMap<&'a MemberId, &'a MemberMark>,
    /// By board and member, for boards that limit them.
    paces: BTreeMap<(BoardNo, &'a MemberId), Pace>,
}

/// The number of a member's scores that are ranked in a minute.
struct Pace {
    minute: i64,
    ranked: u32,
    is_changed: bool,
}

impl<'a> Fairness<'a> {
    pub(super) fn of(wanted: &'a Wanted, snapshot: &'a Snapshot) -> Self {
        let marks = wanted.members.iter().zip(&snapshot.members).collect();
        let mut paces = BTreeMap::new();
        for ((no, minute, members), ranked) in wanted.paces.iter().zip(&snapshot.paces) {
            let of_board = members.iter().zip(ranked);
            let pace = |ranked| Pace { minute: *minute, ranked, is_changed: false };
            paces.extend(of_board.map(|(member, ranked)| ((*no, member), pace(*ranked))));
        }
        Self { marks, paces }
    }

    /// Checks that a score may be ranked. `delta` says so of its change in `all`.
    pub(super) fn check(&self, submission: &Submission, delta: Result<()>) -> Result<()> {
        let Submission { board, member, .. } = submission;
        if let Some(mark) = self.marks.get(member) {
            mark.check_ban(board.no)?;
        }
        delta?;
        let pace = self.paces.get(&(board.no, member));
        board.check_pace(member, pace.map_or(0, |pace| pace.ranked))
    }

    /// Counts a score that is ranked.
    pub(super) fn count(&mut self, submission: &'a Submission) {
        if let Some(pace) = self.paces.get_mut(&(submission.board.no, &submission.member)) {
            pace.ranked += 1;
            pace.is_changed = true;
        }
    }

    /// The numbers that went up: board, minute, member, number.
    pub(super) fn changes(&self) -> Vec<(BoardNo, i64, MemberId, u32)> {
        let changed = self.paces.iter().filter(|(_, pace)| pace.is_changed);
        let number = |(&(no, member), pace): (&(BoardNo, &MemberId), &Pace)| {
            (no, pace.minute, member.clone(), pace.ranked)
        };
        changed.map(number).collect()
    }
}

/// Asks for the scores of members that are ranked in this minute, on boards that limit them.
pub(super) fn want_paces(submissions: &[Submission], now_ms: i64, wanted: &mut Wanted) {
    let minute = now_ms.div_euclid(MINUTE_MS);
    let mut members: BTreeMap<BoardNo, Vec<MemberId>> = BTreeMap::new();
    let limited = submissions.iter().filter(|of| of.board.fair_play.per_minute_max.is_some());
    for Submission { board, member, .. } in limited {
        members.entry(board.no).or_default().push(member.clone());
    }
    for (no, mut members) in members {
        members.sort();
        members.dedup();
        wanted.paces.push((no, minute, members));
    }
}
