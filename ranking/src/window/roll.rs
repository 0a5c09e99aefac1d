//! Rolling windows: their periods, and the step from one period's standings to the next one's.
//!
//! For a window of N periods, R(i) is period i's own standings (those of the window's
//! [base](crate::window::Rolling::base)) and S(i) is the window's: periods i − N + 1 to i. An event
//! of period j goes to R(j), and to S(k) for every existing k from j to j + N − 1. The last S is
//! that of the period after the last begun one, prepared ahead of time. So an event on time costs
//! three writes, whatever N is. The roller carries idle members into S(i + 1) = S(i) without R(i −
//! N + 1). A writer that finds a member absent from S(i + 1) carries the member first, then folds.

use std::collections::HashMap;

use crate::board::State;
use crate::board::rules::Rules;
use crate::board::{Policy, TieBreak};
use crate::error::{Error, Result};
use crate::standings_id::StandingsId;
use crate::window::{Calendar, Period, Rolling, Window};

/// The progress of one board, segment and rolling window in one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RollMark {
    /// The instant at which its last begun period became the present one, in Unix milliseconds.
    pub begun_ms: i64,
    /// True once every member is carried into the standings of the period after it.
    pub is_ready: bool,
}

impl RollMark {
    /// Reads the text in a partition.
    ///
    /// # Errors
    /// `Corrupt` for any other text.
    pub fn parse(text: &str) -> Result<Self> {
        let mark = text.split_once(' ').and_then(|(begun_ms, state)| {
            Some(Self {
                begun_ms: begun_ms.parse().ok()?,
                is_ready: match state {
                    "ready" => true,
                    "carrying" => false,
                    _ => return None,
                },
            })
        });
        mark.ok_or_else(|| Error::corrupt(format!("{text:?} is not a mark of a rolling window")))
    }

    /// The text that [`Self::parse`] reads.
    pub fn to_text(self) -> String {
        let state = if self.is_ready { "ready" } else { "carrying" };
        format!("{} {state}", self.begun_ms)
    }
}

/// The progress of rolling windows: marks by [series](StandingsId::series). A series without a mark
/// has no entries yet: it begins with the period that is present at an instant.
#[derive(Debug, Clone, Default)]
pub struct Rolls {
    /// The marks.
    pub marks: HashMap<String, RollMark>,
    /// The instant, in Unix milliseconds.
    pub now_ms: i64,
}

impl Rolls {
    /// No marks: every window has reached an instant.
    pub fn to(now_ms: i64) -> Self {
        Self { marks: HashMap::new(), now_ms }
    }

    /// An instant in the last begun period of the series of these standings.
    pub fn begun_ms(&self, id: &StandingsId) -> i64 {
        let mark = self.marks.get(&id.series());
        mark.map_or(self.now_ms, |mark| mark.begun_ms)
    }

    /// The part of the standings of a rolling window's period that exists.
    pub fn reach(
        &self,
        id: &StandingsId,
        period: &Period,
        calendar: &Calendar,
    ) -> Result<Coverage> {
        let begun = id.window.period_at(self.begun_ms(id), calendar)?;
        let is_ready = self.marks.get(&id.series()).is_none_or(|mark| mark.is_ready);
        Ok(if period.present_from_ms <= begun.present_from_ms {
            Coverage::Complete
        } else if begun.end_ms != Some(period.present_from_ms) {
            Coverage::None
        } else if is_ready {
            Coverage::Complete
        } else {
            Coverage::Partial
        })
    }
}

/// The part of a rolling window's standings that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// Every entry.
    Complete,
    /// The entries of the members carried so far.
    Partial,
    /// No entry yet.
    None,
}

/// A member's state in the next standings, or the states still needed to compute it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Carried {
    /// The state; `None` if all of the member's events have left the window.
    Known(Option<State>),
    /// The member's states in these periods of the base window are needed first.
    Wants(Vec<Period>),
}

/// The state, without new events, that a member with `state` in the period `from` of a rolling
/// window has in `next`, the period after it. `part` gives the member's state in a period of the
/// base window: `None` if that has not been read.
///
/// SUM subtracts the leaving period. BEST and LATEST keep their state unless the event that it
/// shows leaves, which the time in the key tells. The periods still inside are folded where the key
/// cannot tell (ties by member, or a tick that straddles the boundary), and for a BEST whose event
/// leaves.
///
/// # Errors
/// As [`Window::period_at`], and the errors of `part`.
pub fn carry(
    rules: &Rules,
    window: Rolling,
    from: &Period,
    next: &Period,
    state: State,
    part: impl Fn(&Period) -> Result<Option<Option<State>>>,
) -> Result<Carried> {
    if next.start_ms == from.start_ms {
        // 1970: nothing leaves yet.
        return Ok(Carried::Known(Some(state)));
    }
    let base: Window = window.base();
    let leaving = base.period_at(from.start_ms, &rules.calendar)?;
    let wants_leaving = || Ok(Carried::Wants(vec![leaving.clone()]));
    if rules.tie_break == TieBreak::Member {
        match part(&leaving)? {
            None => return wants_leaving(),
            Some(None) => return Ok(Carried::Known(Some(state))),
            Some(Some(gone)) if rules.policy == Policy::Best && gone.score != state.score => {
                return Ok(Carried::Known(Some(state)));
            }
            Some(Some(_)) => {}
        }
    } else {
        let boundary = rules.tick(next.start_ms);
        let is_aligned = next.start_ms % i64::from(rules.tick_ms) == 0;
        let stays = state.tick > boundary || (state.tick == boundary && is_aligned);
        match rules.policy {
            Policy::Sum if stays => {
                return match part(&leaving)? {
                    None => wants_leaving(),
                    Some(gone) => Ok(Carried::Known(Some(State {
                        score: state.score.saturating_sub(gone.map_or(0, |gone| gone.score)),
                        tick: state.tick,
                    }))),
                };
            }
            _ if stays => return Ok(Carried::Known(Some(state))),
            Policy::Sum | Policy::Latest if state.tick < boundary => {
                return Ok(Carried::Known(None));
            }
            _ => {}
        }
    }
    let (mut folded, mut unknown) = (None, vec![]);
    let mut inside = base.period_after(&leaving, &rules.calendar)?;
    while let Some(period) = inside.filter(|period| period.present_from_ms <= from.present_from_ms)
    {
        match part(&period)? {
            None => unknown.push(period.clone()),
            Some(None) => {}
            Some(Some(state)) => folded = Some(rules.fold(base, folded, state)),
        }
        inside = base.period_after(&period, &rules.calendar)?;
    }
    Ok(if unknown.is_empty() { Carried::Known(folded) } else { Carried::Wants(unknown) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::Direction;
    use crate::board::rules::RulesInput;
    use crate::window::parse_zone;
    use proptest::prelude::*;

    /// Rules with one rolling window, and an instant. Monrovia's days began at 00:44:30 UTC, in the
    /// middle of a tick of 100 s.
    fn cases() -> impl Strategy<Value = (Rules, Rolling, i64)> {
        let policies = prop_oneof![Just(Policy::Sum), Just(Policy::Best), Just(Policy::Latest)];
        let ties =
            prop_oneof![Just(TieBreak::Earliest), Just(TieBreak::Latest), Just(TieBreak::Member)];
        let directions = prop_oneof![Just(Direction::HighFirst), Just(Direction::LowFirst)];
        let places = prop_oneof![
            Just(("UTC", 1_000_000_000_000_i64)),
            Just(("UTC", 5 * 86_400_000)),
            Just(("Africa/Monrovia", 40_000_000_000)),
            Just(("Europe/London", 1_761_438_600_000)),
        ];
        let names = prop_oneof![Just("1d"), Just("2d"), Just("3d"), Just("5h")];
        let ticks = prop_oneof![Just(1), Just(100_000)];
        (policies, ties, directions, places, names, ticks).prop_filter_map(
            "LATEST needs a time",
            |(policy, tie_break, direction, (zone, at_ms), name, tick_ms)| {
                let rules = Rules::new(RulesInput {
                    policy,
                    tie_break,
                    direction,
                    tick_ms: (tie_break != TieBreak::Member).then_some(tick_ms),
                    min: -100,
                    max: 100,
                    calendar: Calendar::of_zone(parse_zone(zone).unwrap()),
                    windows: vec![name.parse().unwrap()],
                    ..Default::default()
                });
                let rolling = name.parse::<Window>().unwrap().rolling()?;
                Some((rules.ok()?, rolling, at_ms))
            },
        )
    }

    /// The folded state of events, as a key holds it.
    fn held<'a>(rules: &Rules, events: impl Iterator<Item = &'a (i64, i64)>) -> Option<State> {
        let folded = events.fold(None, |state, &(score, at_ms)| {
            let tick = rules.tick(at_ms);
            Some(rules.fold(Window::All, state, State { score, tick }))
        });
        folded.map(|state| State {
            tick: if rules.tie_break == TieBreak::Member { 0 } else { state.tick },
            ..state
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn what_is_carried_is_what_the_events_inside_give(
            (rules, rolling, at_ms) in cases(),
            events in proptest::collection::vec((-2_i64..=2, 0.0_f64..1.0, proptest::option::of(-120_000_i64..120_000)), 0..6),
        ) {
            let window = Window::Rolling(rolling);
            let from = window.period_at(at_ms, &rules.calendar).unwrap();
            let next = window.period_after(&from, &rules.calendar).unwrap().unwrap();
            let end_ms = from.end_ms.unwrap();
            // Anywhere in the window, or around the boundary that leaves.
            let events: Vec<(i64, i64)> = events
                .into_iter()
                .map(|(score, part, near)| {
                    let anywhere = from.start_ms + ((end_ms - from.start_ms) as f64 * part) as i64;
                    let at_ms = near.map_or(anywhere, |near| next.start_ms + near);
                    (score, at_ms.clamp(from.start_ms, end_ms - 1))
                })
                .collect();
            let within = |start_ms: i64, end_ms: i64| held(&rules, events.iter().filter(|(_, at_ms)| (start_ms..end_ms).contains(at_ms)));
            if let Some(state) = within(from.start_ms, end_ms) {
                let expected = within(next.start_ms, end_ms);
                let part = |period: &Period| Ok(Some(within(period.start_ms, period.end_ms.unwrap())));
                let carried = carry(&rules, rolling, &from, &next, state, part).unwrap();
                prop_assert_eq!(&carried, &Carried::Known(expected));
                // An unknown state is requested, never guessed.
                match carry(&rules, rolling, &from, &next, state, |_| Ok(None)).unwrap() {
                    Carried::Known(state) => prop_assert_eq!(state, expected),
                    Carried::Wants(periods) => prop_assert!(!periods.is_empty()),
                }
            }
        }
    }
}
