//! The standings of one period, folded from the events in it.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::board::{Board, State};
use crate::commit::{Event, EventKind, EventPlace};
use crate::error::Result;
use crate::id::MemberId;
use crate::score::rank_key::RankKey;
use crate::window::{Period, Window};

/// The entries of each segment in order; everyone is the empty segment.
pub type Segments = BTreeMap<String, Vec<(RankKey, MemberId)>>;

/// The fold of the events of one period. Holds a state for each member and segment.
#[derive(Debug)]
pub struct PeriodFold<'a> {
    board: &'a Board,
    window: Window,
    period: &'a Period,
    voided: HashSet<EventPlace>,
    states: HashMap<MemberId, HashMap<String, State>>,
}

impl<'a> PeriodFold<'a> {
    /// A fold of no event yet; `voided` are the events of the board that count no more.
    pub fn new(
        board: &'a Board,
        window: Window,
        period: &'a Period,
        voided: HashSet<EventPlace>,
    ) -> Self {
        Self { board, window, period, voided, states: HashMap::new() }
    }

    /// Folds one event of the board; one of another period changes nothing. The events of a member
    /// come in the order of its history, removals from any time included.
    pub fn apply(&mut self, place: EventPlace, event: Event) {
        if self.voided.contains(&place) {
            return;
        }
        match event.kind {
            EventKind::Removal => {
                self.states.remove(&event.member);
            }
            EventKind::Score { score, at_ms, .. } if self.holds(at_ms) => {
                let (rules, window) = (&self.board.rules, self.window);
                let first = rules.first(window, score, at_ms);
                let states = self.states.entry(event.member).or_default();
                for segment in window.segments_of(&event.segments) {
                    let state = rules.fold(window, states.get(segment).copied(), first);
                    states.insert(segment.to_owned(), state);
                }
            }
            EventKind::Score { .. } | EventKind::Void { .. } => {}
        }
    }

    /// The entries that the events add up to.
    ///
    /// # Errors
    /// `OutOfRange` if a state has no key, which no accepted history leads to.
    pub fn into_segments(self) -> Result<Segments> {
        let (rules, window, period) = (&self.board.rules, self.window, self.period);
        // Admission does not check late events of a period that is being sealed.
        let sealing_before_ms = self.board.sealed(window).sealing_before_ms;
        let is_closed = period.present_from_ms < sealing_before_ms;
        let mut segments = Segments::new();
        for (member, states) in self.states {
            for (segment, state) in states {
                let key = match rules.key(window, period, state) {
                    Err(_) if is_closed => rules.nearest_key(window, period, state),
                    key => key?,
                };
                segments.entry(segment).or_default().push((key, member.clone()));
            }
        }
        segments.values_mut().for_each(|entries| entries.sort_unstable());
        Ok(segments)
    }

    fn holds(&self, at_ms: i64) -> bool {
        self.period.start_ms <= at_ms && self.period.end_ms.is_none_or(|end_ms| at_ms < end_ms)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::board::Policy;
    use crate::board::rules::{Rules, RulesInput};
    use crate::fold::replay::Replay;
    use crate::id::{BoardNo, PartitionNo};
    use crate::standings_id::StandingsId;

    const DAY_MS: i64 = 86_400_000;
    const WINDOWS: [&str; 4] = ["daily", "weekly", "3d", "decay:1d"];
    const LIMITED: [Window; 2] = [Window::All, Window::Daily];

    fn board(policy: Policy) -> Board {
        let windows = windows(policy);
        let attempts = LIMITED.map(|window| (window, 2)).into();
        let input = RulesInput { policy, windows, attempts, max: 1000, ..Default::default() };
        Board::new(BoardNo(1), Rules::new(input).unwrap())
    }

    /// A decaying window adds up scores.
    fn windows(policy: Policy) -> Vec<Window> {
        let windows = WINDOWS.iter().map(|name| name.parse::<Window>().unwrap());
        let windows = windows.filter(|of| of.half_life().is_none() || policy == Policy::Sum);
        windows.collect()
    }

    /// Scores of three members within six days, among them removals and voids.
    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = |(member, score, at_ms, kind): (u8, i64, i64, u8)| Event {
            board: BoardNo(1),
            generation: 1,
            member: MemberId::new(&format!("m{member}")).unwrap(),
            kind: match kind {
                0 => EventKind::Removal,
                _ => EventKind::Score { score, at_ms, at_sent: true },
            },
            event_id: None,
            segments: if kind == 1 { vec!["region:eu".into()] } else { vec![] },
            metadata: None,
            origin: None,
        };
        let fields = (0_u8..3, 0_i64..10, 0..6 * DAY_MS, 0_u8..6);
        proptest::collection::vec(fields.prop_map(event), 0..30)
    }

    proptest! {
        #[test]
        fn it_leads_to_the_standings_of_a_replay(
            policy in proptest::sample::select(&[Policy::Sum, Policy::Best, Policy::Latest][..]),
            events in events(), voided in 0_u64..30
        ) {
            let (board, now_ms) = (board(policy), 6 * DAY_MS - 1);
            let place = |seq: u64| EventPlace { partition: PartitionNo(0), seq, index: 0 };
            let voided: HashSet<EventPlace> = [place(voided)].into();
            let mut replay = Replay::without(voided.clone(), now_ms);
            for (seq, event) in (0..).zip(&events) {
                replay.apply(&board, place(seq), event).unwrap();
            }
            let expected = replay.entries().unwrap();
            let counts = LIMITED.into_iter().filter_map(Window::attempts);
            for window in windows(policy).into_iter().chain(counts) {
                for at_ms in [now_ms - DAY_MS, now_ms] {
                    let period = window.period_at(at_ms, &board.rules.calendar).unwrap();
                    let mut fold = PeriodFold::new(&board, window, &period, voided.clone());
                    for (seq, event) in (0..).zip(&events) {
                        fold.apply(place(seq), event.clone());
                    }
                    let folded = fold.into_segments().unwrap();
                    for segment in ["", "region:eu"] {
                        let id = StandingsId::of(&board, segment, window, &period);
                        let entries = expected.get(&id).cloned().unwrap_or_default();
                        prop_assert_eq!(folded.get(segment).cloned().unwrap_or_default(), entries);
                    }
                }
            }
        }
    }
}
