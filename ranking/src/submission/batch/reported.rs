//! The effects that the submissions of a batch ask for.

use super::Batch;
use super::folding::Folding;
use super::index::{EntryIndex, TouchedEntry};
use crate::error::Result;
use crate::id::MemberId;
use crate::score::rank_key::RankKey;
use crate::standings_id::StandingsId;
use crate::submission::effect::{Effect, Ranks, Report};
use crate::submission::{Submission, Verdict};
use crate::window::Window;

/// The entries that verdicts report: the index of the verdict, the entry, whether the submission
/// improved it, and whether its standings have one shard.
#[derive(Default)]
pub(super) struct Reported(Vec<(usize, EntryIndex, bool, bool)>);

impl Reported {
    /// Admits a submission to a fold, and notes the entries that its verdict reports. `closed` says
    /// which standings are sealed.
    pub(super) fn admit<'a>(
        &mut self,
        folding: &mut Folding<'a>,
        verdict: usize,
        submission: &'a Submission,
        places: &Result<Vec<TouchedEntry>>,
        closed: &[bool],
    ) -> Result<()> {
        let mut places = places.clone()?;
        for touch in places.iter().filter(|touch| closed[touch.place.0]) {
            let (id, period) = folding.standings(touch.place);
            submission.board.check_not_counted(id.window, period)?;
        }
        places.retain(|touch| !closed[touch.place.0]);
        let improved = folding.admit(submission, &places)?;
        if submission.report == Report::Nothing {
            return Ok(());
        }
        let is_single = submission.board.rules.shards == 1;
        for (touch, improved) in places.iter().zip(improved) {
            let (id, _) = folding.standings(touch.place);
            let is_wanted = submission.report == Report::EveryWindow || id.window == Window::All;
            if is_wanted && id.segment.is_empty() && id.window.counted().is_none() {
                self.0.push((verdict, touch.place, improved, is_single));
            }
        }
        Ok(())
    }

    /// Tells the effects to the verdicts. Returns the entries whose ranks the commit has to read.
    pub(super) fn tell(
        self,
        batch: &Batch,
        before: &[Vec<Result<Option<RankKey>>>],
        after: &[Vec<Result<Option<RankKey>>>],
        verdicts: &mut [Verdict],
    ) -> Result<Vec<(StandingsId, MemberId)>> {
        let (mut ranked, mut indices) = (vec![], std::collections::HashMap::new());
        for (verdict, place, improved, is_single) in self.0 {
            let (standings, member) = place;
            let (id, members) = &batch.wanted.standings[standings];
            let ranks = if is_single {
                let next = ranked.len();
                let index = *indices.entry(place).or_insert(next);
                if index == next {
                    ranked.push((id.clone(), members[member].clone()));
                }
                Ranks::AtIndex(index)
            } else {
                Ranks::Unknown
            };
            let (before, after) =
                (before[standings][member].clone()?, after[standings][member].clone()?);
            if let (Some(Verdict::Accepted { effects, .. }), Some(after)) =
                (verdicts.get_mut(verdict), after)
            {
                let (id, period) = (id.clone(), batch.index.periods[standings].clone());
                effects.push(Effect { id, period, before, after, improved, ranks });
            }
        }
        Ok(ranked)
    }
}
