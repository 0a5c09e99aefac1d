//! Rolling windows: which of their standings there are, and what the next one takes over from the present one.
//!
//! Over N periods, R(i) is the period's own standings (those of the window's [base](crate::window::Rolling::base)) and S(i) the window's: the
//! N periods that end with i. An event of period j goes to R(j) and to S(k) for every k from j to j + N − 1 that there is: up to the
//! one after the last period begun, which is prepared ahead of time. So an event on time costs three writes, whatever N is.
//! Who does not play is carried into S(i + 1) = S(i) without R(i − N + 1) by whoever rolls; absent from it means: carry first, then fold.

use std::collections::HashMap;

use jiff::tz::TimeZone;

use crate::board::{Policy, Rules, TieBreak};
use crate::error::{Error, Result};
use crate::fold::State;
use crate::key::StandingsId;
use crate::window::{Period, Rolling, Window};

/// How far one board, segment and rolling window has got in one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RollMark {
    /// Since when its last period begun is the present one, in Unix milliseconds.
    pub begun_ms: i64,
    /// Whether everybody is carried into the standings of the period after it.
    pub is_ready: bool,
}

impl RollMark {
    /// Reads what a partition holds.
    ///
    /// # Errors
    /// `Corrupt` where it is no such mark.
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
        mark.ok_or_else(|| Error::corrupt(format!("{text:?} is no mark of a rolling window")))
    }

    /// The text that [`Self::parse`] reads.
    #[must_use]
    pub fn to_text(self) -> String {
        let state = if self.is_ready { "ready" } else { "carrying" };
        format!("{} {state}", self.begun_ms)
    }
}

/// How far rolling windows have got: marks by [series](StandingsId::series). One without a mark has no entries yet: it begins with the
/// period that is present at an instant.
#[derive(Debug, Clone, Default)]
pub struct Rolls {
    /// The marks.
    pub marks: HashMap<String, RollMark>,
    /// The instant, in Unix milliseconds.
    pub now_ms: i64,
}

impl Rolls {
    /// No marks: every window has got to an instant.
    #[must_use]
    pub fn to(now_ms: i64) -> Self {
        Self {
            marks: HashMap::new(),
            now_ms,
        }
    }

    /// An instant in the last period begun of a standings' series.
    #[must_use]
    pub fn begun_ms(&self, id: &StandingsId) -> i64 {
        let mark = self.marks.get(&id.series());
        mark.map_or(self.now_ms, |mark| mark.begun_ms)
    }

    /// Whether the entries of a rolling window's period are all there, all or in part not there yet, or not there.
    ///
    /// # Errors
    /// As [`Window::period_at`].
    pub fn reach(&self, id: &StandingsId, period: &Period, zone: &TimeZone) -> Result<Reach> {
        let begun = id.window.period_at(self.begun_ms(id), zone)?;
        let is_ready = self
            .marks
            .get(&id.series())
            .is_none_or(|mark| mark.is_ready);
        Ok(if period.present_from_ms <= begun.present_from_ms {
            Reach::There
        } else if begun.end_ms != Some(period.present_from_ms) {
            Reach::NotThere
        } else if is_ready {
            Reach::There
        } else {
            Reach::InPart
        })
    }
}

/// How much of a rolling window's period there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// All of it.
    There,
    /// Whoever is carried already.
    InPart,
    /// Nothing yet.
    NotThere,
}

/// What a member has in the next standings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Carried {
    /// This; nothing where all it had has left.
    Known(Option<State>),
    /// What it has in these periods of the base window has to be known for that.
    Wants(Vec<Period>),
}

/// What a member who has `state` in the period `from` of a rolling window has in `next`, the period after it, without new events.
/// `part` is what it has in a period of the base window: `None` where that is not known.
///
/// SUM subtracts what leaves; BEST and LATEST stay as they are unless what they show leaves. Who leaves is told by the time in the key. Where there is none
/// (ties by member), or the tick around the boundary is in both periods, and for a BEST that leaves, the periods still inside are folded.
///
/// # Errors
/// As [`Window::period_at`]; what `part` says.
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
    let leaving = base.period_at(from.start_ms, &rules.zone)?;
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
                        score: state.score - gone.map_or(0, |gone| gone.score),
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
    let mut inside = base.period_after(&leaving, &rules.zone)?;
    while let Some(period) = inside.filter(|period| period.present_from_ms <= from.present_from_ms)
    {
        match part(&period)? {
            None => unknown.push(period.clone()),
            Some(None) => {}
            Some(Some(state)) => folded = Some(rules.fold(folded, state)),
        }
        inside = base.period_after(&period, &rules.zone)?;
    }
    Ok(if unknown.is_empty() {
        Carried::Known(folded)
    } else {
        Carried::Wants(unknown)
    })
}
