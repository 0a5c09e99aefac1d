//! The fold: how an event changes a member's state in a window. Used by the live path and by
//! recovery, and as an oracle.

pub mod period;
pub mod periods;
pub mod replay;

use crate::board::rules::Rules;
use crate::board::{Direction, Policy, State};
use crate::window::Window;

impl Rules {
    /// The state of a member whose only score in a window was earned at an instant (Unix
    /// milliseconds).
    pub fn first(&self, window: Window, score: i64, at_ms: i64) -> State {
        match window.half_life() {
            Some(half_life) => State { score: half_life.code(score as f64, at_ms), tick: 0 },
            None if window.counted().is_some() => State { score: 1, tick: 0 },
            None => State { score, tick: self.tick(at_ms) },
        }
    }

    /// Folds two states in a window; either may be that of a single event. Between two removals the
    /// result does not depend on the order of events. SUM has the total and the time of the latest
    /// event. BEST has the best score and the earliest time it was reached. LATEST has the latest
    /// event, and the better one of those in the same tick. A window of attempts has the number of
    /// events. Only sums of decaying scores depend on the order, by their rounding.
    /// It never checks ranges: a replay must not fail. A sum that would leave 64 bits stays at the
    /// end that it reached.
    pub fn fold(&self, window: Window, state: Option<State>, event: State) -> State {
        let Some(state) = state else { return event };
        if let Some(half_life) = window.half_life() {
            return State { score: half_life.add(state.score, event.score), tick: 0 };
        }
        if window.counted().is_some() {
            return State { score: state.score.saturating_add(event.score), tick: 0 };
        }
        match self.policy {
            Policy::Sum => State {
                score: state.score.saturating_add(event.score),
                tick: state.tick.max(event.tick),
            },
            Policy::Best if event.score == state.score => {
                State { score: state.score, tick: state.tick.min(event.tick) }
            }
            Policy::Best => self.better(state, event),
            Policy::Latest if event.tick == state.tick => self.better(state, event),
            Policy::Latest if event.tick > state.tick => event,
            Policy::Latest => state,
        }
    }

    fn better(&self, a: State, b: State) -> State {
        let a_wins = match self.direction {
            Direction::HighFirst => a.score >= b.score,
            Direction::LowFirst => a.score <= b.score,
        };
        if a_wins { a } else { b }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::TieBreak;
    use crate::board::rules::RulesInput;
    use proptest::prelude::*;

    fn rules() -> impl Strategy<Value = Rules> {
        let directions = prop_oneof![Just(Direction::HighFirst), Just(Direction::LowFirst)];
        let policies = prop_oneof![
            Just((Policy::Sum, TieBreak::Earliest)),
            Just((Policy::Sum, TieBreak::Member)),
            Just((Policy::Best, TieBreak::Latest)),
            Just((Policy::Best, TieBreak::Member)),
            Just((Policy::Latest, TieBreak::Earliest)),
        ];
        (directions, policies).prop_map(|(direction, (policy, tie_break))| {
            Rules::new(RulesInput {
                direction,
                policy,
                tie_break,
                min: -1000,
                max: 1000,
                ..Default::default()
            })
            .unwrap()
        })
    }

    /// Few distinct scores and ticks, so that ties abound.
    fn events() -> impl Strategy<Value = Vec<State>> {
        proptest::collection::vec(
            (-3_i64..=3, 0_i64..4).prop_map(|(score, tick)| State { score, tick }),
            1..12,
        )
    }

    /// The documented rules, computed without a fold.
    fn naive(rules: &Rules, events: &[State]) -> State {
        let best = |scores: &mut dyn Iterator<Item = i64>| match rules.direction {
            Direction::HighFirst => scores.max().unwrap(),
            Direction::LowFirst => scores.min().unwrap(),
        };
        match rules.policy {
            Policy::Sum => State {
                score: events.iter().map(|event| event.score).sum(),
                tick: events.iter().map(|event| event.tick).max().unwrap(),
            },
            Policy::Best => {
                let score = best(&mut events.iter().map(|event| event.score));
                State {
                    score,
                    tick: events
                        .iter()
                        .filter(|event| event.score == score)
                        .map(|event| event.tick)
                        .min()
                        .unwrap(),
                }
            }
            Policy::Latest => {
                let tick = events.iter().map(|event| event.tick).max().unwrap();
                State {
                    score: best(
                        &mut events
                            .iter()
                            .filter(|event| event.tick == tick)
                            .map(|event| event.score),
                    ),
                    tick,
                }
            }
        }
    }

    #[test]
    fn a_sum_beyond_64_bits_stays_at_their_end() {
        let rules =
            Rules::new(RulesInput { policy: Policy::Sum, ..RulesInput::default() }).unwrap();
        for (score, end) in [(i64::MAX / 2, i64::MAX), (i64::MIN / 2, i64::MIN)] {
            let event = State { score, tick: 0 };
            let sum = [event; 4]
                .into_iter()
                .fold(None, |state, event| Some(rules.fold(Window::All, state, event)));
            assert_eq!(sum.map(|state| state.score), Some(end));
        }
    }

    proptest! {
        #[test]
        fn the_fold_says_what_the_policy_says_in_any_order((rules, events, shuffled) in (rules(), events()).prop_flat_map(|(rules, events)| {
            (Just(rules), Just(events.clone()), Just(events).prop_shuffle())
        })) {
            let fold = |events: &[State]| events.iter().fold(None, |state, &event| Some(rules.fold(Window::All, state, event))).unwrap();
            prop_assert_eq!(fold(&events), naive(&rules, &events));
            prop_assert_eq!(fold(&shuffled), naive(&rules, &events));
        }

        #[test]
        fn folding_through_keys_loses_nothing(rules in rules(), events in events()) {
            let period = Window::All.period_at(0, &rules.calendar).unwrap();
            let mut stored = None;
            for &event in &events {
                let state = stored.map(|key| rules.state(Window::All, &period, key));
                stored = Some(rules.key(Window::All, &period, rules.fold(Window::All, state, event)).unwrap());
            }
            let expected = rules.key(Window::All, &period, naive(&rules, &events)).unwrap();
            prop_assert_eq!(stored, Some(expected));
        }
    }
}
