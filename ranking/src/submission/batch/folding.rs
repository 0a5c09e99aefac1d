//! The fold of one batch onto a snapshot.

use super::Batch;
use super::fairness::Fairness;
use super::index::{BaseEntry, EntryIndex, TouchedEntry, part_id};
use crate::board::Policy;
use crate::board::State;
use crate::error::Result;
use crate::score::rank_key::RankKey;
use crate::standings_id::StandingsId;
use crate::submission::{Snapshot, Submission};
use crate::window::roll::{Carried, carry};
use crate::window::{Period, Window};
use std::collections::BTreeSet;

/// A batch being folded.
pub(crate) struct Folding<'a> {
    pub(crate) batch: &'a Batch,
    pub(crate) keys: Vec<Vec<Result<Option<RankKey>>>>,
    /// Entries that are needed and were not read: if there are any, the fold is discarded.
    pub(crate) unknown: BTreeSet<BaseEntry>,
    pub(super) fairness: Fairness<'a>,
}

impl<'a> Folding<'a> {
    pub(super) fn onto(batch: &'a Batch, snapshot: &'a Snapshot) -> Self {
        let fairness = Fairness::of(&batch.wanted, snapshot);
        Self { batch, keys: snapshot.keys.clone(), unknown: BTreeSet::new(), fairness }
    }

    /// Changes the member's entries in all standings that the submission touches, or in none. Says
    /// of each whether its key became better. A submission is suspicious only if nothing else is
    /// wrong with it.
    pub(crate) fn admit(
        &mut self,
        submission: &'a Submission,
        places: &[TouchedEntry],
    ) -> Result<Vec<bool>> {
        let rules = &submission.board.rules;
        let earned_ms = submission.earned_ms(self.batch.now_ms);
        if rules.policy != Policy::Sum {
            // A score without effect now might count after a removal.
            rules.check_score(submission.score)?;
        }
        let (mut moved, mut improved) = (Vec::with_capacity(places.len()), vec![]);
        let mut fair = Ok(());
        for touch in places {
            let (id, period) = self.standings(touch.place);
            let state = match (self.state(submission, touch.place)?, touch.from) {
                (None, Some(from)) => self.carried(submission, touch.place, from)?,
                (state, _) => state,
            };
            let event = rules.first(id.window, submission.score, earned_ms);
            let folded = rules.fold(id.window, state, event);
            let (board, member) = (&submission.board, &submission.member);
            board.check_attempts(id.window, period, member, folded.score)?;
            if id.window == Window::All && id.segment.is_empty() {
                fair = board.check_delta(member, state.map(|state| state.score), folded.score);
            }
            let key = rules.key(id.window, period, folded)?;
            let last = state.map(|state| rules.key(id.window, period, state)).transpose()?;
            improved.push(last.is_none_or(|last| key < last));
            moved.push(key);
        }
        self.fairness.check(submission, fair)?;
        for (touch, key) in places.iter().zip(moved) {
            let (standings, member) = touch.place;
            self.keys[standings][member] = Ok(Some(key));
        }
        self.fairness.count(submission);
        Ok(improved)
    }

    pub(crate) fn standings(&self, (standings, _): EntryIndex) -> (&'a StandingsId, &'a Period) {
        let batch = self.batch;
        (&batch.wanted.standings[standings].0, &batch.index.periods[standings])
    }

    pub(crate) fn state(
        &self,
        submission: &Submission,
        place: EntryIndex,
    ) -> Result<Option<State>> {
        let (id, period) = self.standings(place);
        let key = self.keys[place.0][place.1].clone()?;
        Ok(key.map(|key| submission.board.rules.state(id.window, period, key)))
    }

    /// The state that the member carries into the standings after the last begun period.
    pub(crate) fn carried(
        &mut self,
        submission: &Submission,
        place: EntryIndex,
        from: EntryIndex,
    ) -> Result<Option<State>> {
        let Some(state) = self.state(submission, from)? else {
            return Ok(None);
        };
        let ((id, next), (_, from)) = (self.standings(place), self.standings(from));
        let Some(window) = id.window.rolling() else {
            return Ok(Some(state));
        };
        let part_id = |period: &Period| part_id(&submission.board, &id.segment, window, period);
        let part = |period: &Period| {
            let place = self.batch.index.find(&part_id(period), &submission.member);
            place.map(|place| self.state(submission, place)).transpose()
        };
        match carry(&submission.board.rules, window, from, next, state, part)? {
            Carried::Known(state) => Ok(state),
            Carried::Wants(periods) => {
                let wanted = periods.iter().map(|period| {
                    let member = submission.member.clone();
                    (part_id(period), period.present_from_ms, member)
                });
                let wanted: Vec<BaseEntry> = wanted.collect();
                self.unknown.extend(wanted);
                Ok(None)
            }
        }
    }
}
