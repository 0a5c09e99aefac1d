//! The periods of a window that have entries, found from the events of their time.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::board::Board;
use crate::commit::{Event, EventKind, EventPlace};
use crate::error::Result;
use crate::id::MemberId;
use crate::submission::Periods;
use crate::window::{ListedPeriod, Window};

/// The fold of events into the periods that they leave entries in, of everyone or of a segment.
/// Holds for each member the periods in which it scored.
#[derive(Debug)]
pub struct PeriodsFold<'a> {
    board: &'a Board,
    window: Window,
    segment: &'a str,
    voided: HashSet<EventPlace>,
    periods: Periods,
    /// The starts of the periods in which members scored: of a rolling window, of its base periods.
    scored: HashMap<MemberId, BTreeSet<i64>>,
}

impl<'a> PeriodsFold<'a> {
    /// A fold of no event yet; `segment` is empty for everyone, `voided` are the events of the
    /// board that count no more.
    pub fn new(
        board: &'a Board,
        window: Window,
        segment: &'a str,
        voided: HashSet<EventPlace>,
    ) -> Self {
        let (periods, scored) = (Periods::default(), HashMap::new());
        Self { board, window, segment, voided, periods, scored }
    }

    /// Folds one event of the board. The events of a member come in the order of its history.
    ///
    /// # Errors
    /// `Invalid` if the event's time is in no period; the time of an accepted event always is.
    pub fn apply(&mut self, place: EventPlace, event: Event) -> Result<()> {
        if self.voided.contains(&place) {
            return Ok(());
        }
        match event.kind {
            EventKind::Removal => {
                self.scored.remove(&event.member);
            }
            EventKind::Score { at_ms, .. }
                if self.segment.is_empty()
                    || event.segments.iter().any(|of| of == self.segment) =>
            {
                let base = self.window.rolling().map_or(self.window, |rolling| rolling.base());
                let period = self.periods.at(self.board, base, at_ms)?;
                if !period.is_gap() {
                    self.scored.entry(event.member).or_default().insert(period.start_ms);
                }
            }
            EventKind::Score { .. } | EventKind::Void { .. } => {}
        }
        Ok(())
    }

    /// The periods that have entries and became the present one up to an instant, in Unix
    /// milliseconds.
    ///
    /// # Errors
    /// `Invalid` if a period after an accepted event's is beyond the calendar.
    pub fn into_periods(self, through_ms: i64) -> Result<BTreeSet<ListedPeriod>> {
        let starts_ms: BTreeSet<i64> = self.scored.into_values().flatten().collect();
        let calendar = &self.board.rules.calendar;
        let (mut listed, mut next_ms) = (BTreeSet::new(), i64::MIN);
        for start_ms in starts_ms {
            next_ms = next_ms.max(start_ms);
            // A rolling window's periods hold the base period for as long as they reach back.
            while next_ms <= through_ms {
                let period = self.window.period_at(next_ms, calendar)?;
                if period.start_ms > start_ms {
                    break;
                }
                next_ms = period.end_ms.unwrap_or(i64::MAX);
                let (present_from_ms, label) = (period.present_from_ms, period.label);
                listed.insert(ListedPeriod { present_from_ms, label });
            }
        }
        Ok(listed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::board::rules::{Rules, RulesInput};
    use crate::fold::replay::Replay;
    use crate::id::{BoardNo, PartitionNo};
    use crate::submission::StandingsChange;
    use crate::window::Calendar;

    const DAY_MS: i64 = 86_400_000;

    /// Scores of three members within 40 days, removals and voids among them.
    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = |(member, at_ms, kind): (u8, i64, u8)| Event {
            board: BoardNo(1),
            generation: 1,
            member: MemberId::new(&format!("m{member}")).unwrap(),
            kind: match kind {
                0 => EventKind::Removal,
                _ => EventKind::Score { score: 1, at_ms, at_sent: true },
            },
            event_id: None,
            segments: if kind == 1 { vec!["region:eu".into()] } else { vec![] },
            metadata: None,
            origin: None,
        };
        let fields = (0_u8..3, DAY_MS..41 * DAY_MS, 0_u8..6);
        proptest::collection::vec(fields.prop_map(event), 0..20)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn it_lists_the_periods_of_a_replay(events in events(), voided in 0_u64..20, reset_hour in 0_i32..24) {
            let windows = ["hourly", "daily", "weekly", "monthly", "3d", "5h"];
            let windows: Vec<Window> = windows.iter().map(|name| name.parse().unwrap()).collect();
            let zone = crate::window::parse_zone("America/St_Johns").unwrap();
            let calendar = Calendar::of_zone(zone).reset_at(reset_hour).unwrap();
            let input =
                RulesInput { windows: windows.clone(), calendar, max: 1000, ..Default::default() };
            let board = Board::new(BoardNo(1), Rules::new(input).unwrap());
            let now_ms = 41 * DAY_MS - 1;
            let place = |seq: u64| EventPlace { partition: PartitionNo(0), seq, index: 0 };
            let voided: HashSet<EventPlace> = [place(voided)].into();
            let mut replay = Replay::without(voided.clone(), now_ms);
            for (seq, event) in (0..).zip(&events) {
                replay.apply(&board, place(seq), event).unwrap();
            }
            let changes = replay.changes().unwrap();
            for window in windows {
                for segment in ["", "region:eu"] {
                    let mut fold = PeriodsFold::new(&board, window, segment, voided.clone());
                    for (seq, event) in (0..).zip(&events) {
                        fold.apply(place(seq), event.clone()).unwrap();
                    }
                    let listed = fold.into_periods(now_ms).unwrap();
                    let of_list = changes.iter().filter(|change| {
                        (change.id.window, change.id.segment.as_str()) == (window, segment)
                    });
                    let period = |change: &StandingsChange| ListedPeriod {
                        present_from_ms: change.present_from_ms,
                        label: change.id.period.clone(),
                    };
                    // A replay has the next period of a rolling window, too.
                    let begun = |listed: &ListedPeriod| listed.present_from_ms <= now_ms;
                    let expected: BTreeSet<ListedPeriod> =
                        of_list.map(period).filter(begun).collect();
                    prop_assert_eq!(listed, expected, "{} {}", window, segment);
                }
            }
        }
    }
}
