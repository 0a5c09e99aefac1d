//! The checks of single states, and of what those of a partition add up to.

use std::collections::HashSet;

use anyhow::{Context, Result, ensure};
use foldhash::fast::RandomState;
use polars::prelude::DataFrame;
use ranking::board::TieBreak;
use ranking::id::{MemberId, PartitionNo};
use ranking::score::rank_key::RankKey;
use ranking::window::Period;

use super::WindowStates;

/// The totals that the states of a partition have.
#[derive(Debug, Default)]
pub(super) struct Totals {
    events: i128,
    score: i128,
    /// The entries of everyone.
    pub(super) everyone: u64,
}

/// A state that is being checked.
struct State<'f> {
    segment: &'f str,
    member: &'f str,
    key: i64,
    score: i64,
    seq: i64,
}

impl WindowStates<'_> {
    /// Checks the sorted states of a partition one by one.
    pub(super) fn check_states(
        &self,
        frame: &DataFrame,
        partition: PartitionNo,
        totals: &mut Totals,
    ) -> Result<()> {
        let number = |name: &str| -> Result<_> { Ok(frame.column(name)?.i64()?.clone()) };
        let (keys, scores, places) = (number("key")?, number("score")?, number("period")?);
        let (seqs, events) = (number("seq")?, number("events")?);
        let (segments, members) = (frame.column("segment")?.str()?, frame.column("member")?.str()?);
        let mut run: Option<(&str, i64)> = None;
        let mut of_run: HashSet<&str, RandomState> = HashSet::default();
        for row in 0..frame.height() {
            let mut check = || -> Result<()> {
                let gap = || "it has a null";
                let state = State {
                    segment: segments.get(row).with_context(gap)?,
                    member: members.get(row).with_context(gap)?,
                    key: keys.get(row).with_context(gap)?,
                    score: scores.get(row).with_context(gap)?,
                    seq: seqs.get(row).with_context(gap)?,
                };
                let place = places.get(row).with_context(gap)?;
                let count = events.get(row).with_context(gap)?;
                if run != Some((state.segment, place)) {
                    run = Some((state.segment, place));
                    of_run.clear();
                }
                self.check_member(&state, partition)?;
                self.check_key(&state, &self.periods.periods[usize::try_from(place)?])?;
                ensure!(count > 0, "it has {count} events: expected at least one");
                ensure!(
                    of_run.insert(state.member),
                    "member {:?} has two entries in the same standings",
                    state.member
                );
                totals.events += i128::from(count);
                totals.score += i128::from(state.score);
                totals.everyone += u64::from(state.segment.is_empty());
                Ok(())
            };
            check().with_context(|| self.row(frame, row))?;
        }
        Ok(())
    }

    /// Checks the rows of a decaying window one by one, sorted by member, segment and order.
    pub(super) fn check_in_order(
        &self,
        frame: &DataFrame,
        partition: PartitionNo,
        totals: &mut Totals,
    ) -> Result<()> {
        let number = |name: &str| -> Result<_> { Ok(frame.column(name)?.i64()?.clone()) };
        let (orders, scores, times, seqs) =
            (number("order")?, number("score")?, number("at_ms")?, number("seq")?);
        let (segments, members) = (frame.column("segment")?.str()?, frame.column("member")?.str()?);
        let mut last = None;
        for row in 0..frame.height() {
            let mut check = || -> Result<()> {
                let gap = || "it has a null";
                let state = State {
                    segment: segments.get(row).with_context(gap)?,
                    member: members.get(row).with_context(gap)?,
                    key: 0,
                    score: scores.get(row).with_context(gap)?,
                    seq: seqs.get(row).with_context(gap)?,
                };
                let order = orders.get(row).with_context(gap)?;
                let at_ms = times.get(row).with_context(gap)?;
                self.check_member(&state, partition)?;
                ensure!(at_ms >= 0, "its time {at_ms} is before 1970");
                let place = (state.member, state.segment, order);
                ensure!(last != Some(place), "it is there twice");
                if last.is_none_or(|(member, _, _)| member != state.member)
                    && state.segment.is_empty()
                {
                    totals.everyone += 1;
                }
                last = Some(place);
                totals.events += 1;
                totals.score += i128::from(state.score);
                Ok(())
            };
            check().with_context(|| self.row(frame, row))?;
        }
        Ok(())
    }

    fn check_member(&self, state: &State<'_>, partition: PartitionNo) -> Result<()> {
        let member = MemberId::new(state.member)?;
        let of_member = self.plan.partitions()?.of_member(self.board, &member);
        ensure!(
            of_member == partition,
            "member {member} is of partition {of_member}, and not of {partition}"
        );
        let head_seq = self.plan.head(partition)?.seq;
        // Before a move, events lay in partitions whose heads may be further on.
        let is_known = self.board.has_moved() || state.seq.unsigned_abs() <= head_seq;
        ensure!(
            state.seq > 0 && is_known,
            "its seq {} is none of the plan's: expected 1 to {head_seq}",
            state.seq
        );
        Ok(())
    }

    /// Checks that a key is that of the score, and of a time in the period.
    fn check_key(&self, state: &State<'_>, period: &Period) -> Result<()> {
        let (rules, window) = (&self.board.rules, self.window);
        let key = RankKey::from_i64(state.key)?;
        let decoded = rules.state(window, period, key);
        ensure!(
            decoded.score == state.score,
            "key {} is that of score {}, and not of {}",
            state.key,
            decoded.score,
            state.score
        );
        let (low, high) = rules.range(window);
        ensure!(
            (low..=high).contains(&state.score),
            "score {} is out of range: expected {low} to {high}",
            state.score
        );
        let last_tick = period.end_ms.map_or(i64::MAX, |end_ms| rules.tick(end_ms - 1));
        ensure!(
            rules.ties(window) == TieBreak::Member
                || (rules.first_tick(period)..=last_tick).contains(&decoded.tick),
            "key {} is that of a time outside the period {}",
            state.key,
            period.label
        );
        Ok(())
    }

    /// Checks the states of a partition against the plan's totals.
    pub(super) fn check_totals(&self, partition: PartitionNo, found: &Totals) -> Result<()> {
        let totals = self.plan.totals_of(self.window)?.iter();
        let expected = totals.clone().find(|total| total.partition == partition.0);
        let events = expected.map_or(0, |total| i128::from(total.events));
        ensure!(
            found.events == events,
            "the states of window {} in partition {partition} are of {} events: the plan has {events}",
            self.window,
            found.events
        );
        if let Some(score) = expected.and_then(|total| total.score.as_deref()) {
            ensure!(
                found.score.to_string() == score,
                "the scores of window {} in partition {partition} add up to {}: the plan has {score}",
                self.window,
                found.score
            );
        }
        Ok(())
    }
}
