//! The steps of a roll and their commits: a period begun, and members carried into it.

use super::deadline;
use super::series::Series;
use crate::partition::Partition;
use crate::partition::change::{Change, Proposal};
use entity::error::{Error, Result};
use ranking::board::State;
use ranking::board::mark::BoardMark;
use ranking::id::MemberId;
use ranking::score::rank_key::RankKey;
use ranking::store::write::Writes;
use ranking::submission::batch::index::part_id;
use ranking::submission::{Snapshot, StandingsChange, Wanted};
use ranking::window::Period;
use ranking::window::roll::{Carried, RollMark, carry};
use std::collections::{BTreeMap, BTreeSet};

/// The most boards and partitions whose marks one call reads.
pub(super) const PLACES_MAX: usize = 500;

impl Series<'_> {
    /// Takes one step. Returns false if there was none to take.
    pub(super) async fn step(
        &self,
        partition: Partition<'_>,
        mark: RollMark,
        now_ms: i64,
    ) -> Result<bool> {
        if !mark.is_ready {
            self.carry_all(partition, mark).await?;
            return Ok(true);
        }
        let present_ms = self.at(now_ms)?.present_from_ms;
        if mark.begun_ms >= present_ms {
            return Ok(false);
        }
        let mut beginning = Beginning { series: self, mark, present_ms, now_ms };
        partition.commit_with_retry(&mut beginning, deadline()).await?;
        Ok(true)
    }

    /// Carries all members of the last period begun into the one after it.
    pub(super) async fn carry_all(&self, partition: Partition<'_>, mark: RollMark) -> Result<()> {
        let (from, next) = self.pair(mark)?;
        let run_id = partition.store.run_id(partition.no).await?;
        let mut cursor = Some("0".to_owned());
        while let Some(at) = cursor {
            let walked = partition.store.walk(partition.no, &self.id(&from), &at).await?;
            let members: BTreeSet<MemberId> = walked.members.into_iter().collect();
            cursor = walked.next;
            let mut carrying = Carrying {
                series: self,
                mark,
                run_id: &run_id,
                from: from.clone(),
                next: next.clone(),
                members: members.into_iter().collect(),
                is_last: cursor.is_none(),
                now_ms: partition.clock.now_ms(),
            };
            let done = partition.commit_with_retry(&mut carrying, deadline()).await?;
            if !done.outcome {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Begins the next period; if it has no members, skips to the present one.
pub(super) struct Beginning<'a> {
    pub(super) series: &'a Series<'a>,
    pub(super) mark: RollMark,
    pub(super) present_ms: i64,
    pub(super) now_ms: i64,
}

impl Change for Beginning<'_> {
    type Outcome = ();

    async fn propose(&mut self, partition: Partition<'_>) -> Result<Proposal<()>> {
        let series = self.series;
        let name = series.id(&series.at(self.mark.begun_ms)?).series();
        let (head, marks) = partition.store.rolls(partition.no, series.board.no).await?;
        let proposal = Proposal::nothing(head, ());
        if marks.get(&name) != Some(&self.mark) {
            return Ok(proposal);
        }
        let (_, next) = series.pair(self.mark)?;
        let size = partition.store.shard_size(partition.no, &series.id(&next)).await?;
        let mark = match size {
            0 => RollMark { begun_ms: self.present_ms, is_ready: true },
            _ => RollMark { begun_ms: next.present_from_ms, is_ready: false },
        };
        let mut writes = Writes::default();
        writes.mark_roll(partition.store.keys(), partition.no, series.board.no, &name, mark);
        Ok(proposal.writing(writes, self.now_ms))
    }
}

/// Carries some members. The outcome is false if the walk must stop: another process moved the
/// window on, or Redis restarted.
pub(super) struct Carrying<'a> {
    pub(super) series: &'a Series<'a>,
    pub(super) mark: RollMark,
    /// The Redis run in which the walk began.
    pub(super) run_id: &'a str,
    pub(super) from: Period,
    pub(super) next: Period,
    pub(super) members: Vec<MemberId>,
    pub(super) is_last: bool,
    pub(super) now_ms: i64,
}

impl Change for Carrying<'_> {
    type Outcome = bool;

    async fn propose(&mut self, partition: Partition<'_>) -> Result<Proposal<bool>> {
        let series = self.series;
        let mut parts: BTreeMap<i64, (Period, Vec<MemberId>)> = BTreeMap::new();
        loop {
            let wanted = self.wanted(&parts);
            let snapshot = partition.snapshot(&wanted).await?;
            let mark = snapshot.rolls.iter().flatten().next().copied().flatten();
            if let Some(BoardMark::Held(_)) = snapshot.boards.first() {
                return Err(ranking::Error::BoardHeld.into());
            }
            // A walk is valid in one run of Redis only: entries carried in an earlier run may be
            // lost.
            if mark != Some(self.mark) || snapshot.head.run_id != self.run_id {
                return Ok(Proposal::nothing(snapshot.head, false));
            }
            let (entries, unknown) = self.carried(&wanted, &snapshot, &parts)?;
            if !unknown.is_empty() {
                for (period, member) in unknown {
                    let known = parts.entry(period.present_from_ms);
                    known.or_insert((period, vec![])).1.push(member);
                }
                continue;
            }
            if entries.is_empty() && !self.is_last {
                return Ok(Proposal::nothing(snapshot.head, true));
            }
            let keys = partition.store.keys();
            let mut writes = Writes::default();
            let change = StandingsChange {
                id: series.id(&self.next),
                present_from_ms: self.next.present_from_ms,
                entries,
            };
            writes.change(keys, partition.no, &change);
            if self.is_last {
                let mark = RollMark { is_ready: true, ..self.mark };
                let name = change.id.series();
                writes.mark_roll(keys, partition.no, series.board.no, &name, mark);
            }
            return Ok(Proposal::nothing(snapshot.head, true).writing(writes, self.now_ms));
        }
    }
}

impl Carrying<'_> {
    fn wanted(&self, parts: &BTreeMap<i64, (Period, Vec<MemberId>)>) -> Wanted {
        let Series { board, segment, rolling, .. } = self.series;
        let mut wanted = Wanted {
            boards: vec![board.no],
            rolls: vec![(board.no, vec![self.series.id(&self.from).series()])],
            ..Wanted::default()
        };
        if self.members.is_empty() {
            return wanted;
        }
        for period in [&self.from, &self.next] {
            let of_period = (self.series.id(period), self.members.clone());
            wanted.standings.push(of_period);
        }
        for (period, members) in parts.values() {
            let id = part_id(board, segment, *rolling, period);
            wanted.standings.push((id, members.clone()));
        }
        wanted
    }

    /// The entries of members that are not carried yet, and the base entries that must be read
    /// first.
    #[expect(clippy::type_complexity, reason = "two lists")]
    fn carried(
        &self,
        wanted: &Wanted,
        snapshot: &Snapshot,
        parts: &BTreeMap<i64, (Period, Vec<MemberId>)>,
    ) -> Result<(Vec<(MemberId, Option<RankKey>)>, Vec<(Period, MemberId)>)> {
        let Series { board, rolling, .. } = self.series;
        let rules = &board.rules;
        let (mut entries, mut unknown) = (vec![], vec![]);
        if self.members.is_empty() {
            return Ok((entries, unknown));
        }
        let mut known: BTreeMap<(i64, &MemberId), Option<State>> = BTreeMap::new();
        let read = wanted.standings[2..].iter().zip(&snapshot.keys[2..]);
        for ((period, _), ((id, members), keys)) in parts.values().zip(read) {
            for (member, key) in members.iter().zip(keys) {
                // Invalid values from other programs are not carried; the integrity diff reports
                // them.
                let key = key.clone().ok().flatten();
                let state = key.map(|key| rules.state(id.window, period, key));
                known.insert((period.present_from_ms, member), state);
            }
        }
        let there = snapshot.keys[0].iter().zip(&snapshot.keys[1]);
        for (member, (from, next)) in self.members.iter().zip(there) {
            let (Ok(Some(key)), Ok(None)) = (from.clone(), next.clone()) else {
                continue;
            };
            let state = rules.state(self.series.window, &self.from, key);
            let part = |period: &Period| Ok(known.get(&(period.present_from_ms, member)).copied());
            match carry(rules, *rolling, &self.from, &self.next, state, part)? {
                Carried::Known(None) => {}
                Carried::Known(Some(state)) => {
                    match rules.key(self.series.window, &self.next, state) {
                        Ok(key) => entries.push((member.clone(), Some(key))),
                        // A window that is being filled is rebuilt anyway.
                        Err(_) if !board.is_whole(self.series.window) => {}
                        Err(error) => return Err(Error::from(error)),
                    }
                }
                Carried::Wants(periods) => {
                    let missing = periods.into_iter().map(|period| (period, member.clone()));
                    unknown.extend(missing);
                }
            }
        }
        Ok((entries, unknown))
    }
}
