//! Refuses voids that the archive prevents: those that would need archived events to fold entries
//! again.

use ranking::commit::{Event, EventKind, EventPlace};
use ranking::id::MemberId;
use ranking::standings_id::StandingsId;
use ranking::submission::Periods;
use ranking::window::Period;
use ranking::window::roll::Rolls;

use super::Amending;
use super::known::KnownHistory;

impl Amending<'_> {
    /// Checks that every entry in which an event counts can be folded again without archived
    /// events. Entries of `all` always can, as the sums of archived events are kept. Sealed periods
    /// can only if they begin after the last archived score.
    pub(super) fn check_unarchived(
        &self,
        known: &KnownHistory,
        member: &MemberId,
        target: EventPlace,
    ) -> ranking::Result<()> {
        let Some(archived_before_ms) = self.archived_before_ms else {
            return Ok(());
        };
        let refused = |what: &str| {
            Err(ranking::Error::Invalid(format!(
                "{what}; void an event after the archived ones, or remove the member"
            )))
        };
        if target.seq <= known.mark.closing_seq as u64 {
            return refused("this event is archived and cannot be voided");
        }
        let is_removal =
            |event: &&(EventPlace, Event)| event.0 == target && event.1.kind == EventKind::Removal;
        let events = known.history.of(member.as_str());
        let brings_back = events.iter().any(|event| is_removal(&event));
        if brings_back
            && known.archived_of(member).next().is_some()
            && !self.sealing_before_ms.is_empty()
        {
            return refused("this removal took back archived events and cannot be voided");
        }
        let mut periods = Periods::default();
        let sealing = self.sealing_before_ms.iter().map(|(_, before_ms)| *before_ms);
        let rolls = Rolls::to(sealing.max().unwrap_or(0).max(0));
        for (place, event) in events {
            let EventKind::Score { at_ms, .. } = event.kind else {
                continue;
            };
            let is_before = (place.seq, place.index) < (target.seq, target.index);
            if *place != target && !(brings_back && is_before) {
                continue;
            }
            let standings = periods.standings(self.board, &event.segments, at_ms, &rolls)?;
            let mut sealed = standings.iter().filter(|(id, period)| self.is_sealed(id, period));
            if sealed.any(|(_, period)| period.start_ms < archived_before_ms) {
                return refused(
                    "this event counts in a period with archived events and cannot be voided",
                );
            }
        }
        Ok(())
    }

    fn is_sealed(&self, id: &StandingsId, period: &Period) -> bool {
        let mut windows = self.sealing_before_ms.iter();
        windows.any(|(of, before_ms)| of.1 == id.window && period.present_from_ms < *before_ms)
    }
}
