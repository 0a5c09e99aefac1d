//! One pass over a board's events in the order of their times: the activity of each period, and the
//! ranks of the top at its end.

use std::collections::HashMap;

use anyhow::{Context, Result};
use polars::prelude::{ChunkAgg, DataFrame, IntoLazy, SortMultipleOptions};
use ranking::board::Board;
use ranking::board::State;
use ranking::score::rank_key::RankKey;
use ranking::window::{Period, Window};
use serde::Serialize;

use crate::frame::counted::unremoved;

/// The most periods shown, unless there are more months than that.
const PERIODS_MAX: i64 = 400;

/// The most times that ranks are counted.
const COUNTS_MAX: usize = 60;

const DAY_MS: i64 = 24 * 3_600_000;

/// A board's events in the order of their times. Voided events, and those before their member's
/// removal, do not count.
pub(crate) struct Timeline {
    pub(crate) events: usize,
    pub(crate) activity: Activity,
    pub(crate) movement: Movement,
    members: Members,
}

/// The activity of each period from the first to the last, including the empty ones.
#[derive(Debug, Serialize)]
pub(crate) struct Activity {
    /// `daily`; `weekly` or `monthly` if that would be too many periods.
    pub(crate) window: String,
    pub(crate) periods: Vec<Active>,
}

/// The activity of a period.
#[derive(Debug, Serialize)]
pub(crate) struct Active {
    pub(crate) period: String,
    pub(crate) events: usize,
    /// Members with an event in it.
    pub(crate) active: usize,
    /// Members with an event in it or before it.
    pub(crate) members: usize,
}

/// The ranks of the present leaders at the end of some periods, by the events up to there.
#[derive(Debug, Serialize)]
pub(crate) struct Movement {
    /// Indices into the periods of the activity.
    pub(crate) periods: Vec<usize>,
    pub(crate) members: Vec<Moved>,
}

/// The ranks of one leader; none before its first event.
#[derive(Debug, Serialize)]
pub(crate) struct Moved {
    pub(crate) member: String,
    pub(crate) ranks: Vec<Option<usize>>,
}

/// The members, numbered in the order of their first events.
#[derive(Default)]
struct Members {
    numbers: HashMap<String, usize>,
    names: Vec<String>,
    /// For each member the state in `all`, the number of events, and the period of the last one.
    states: Vec<State>,
    events: Vec<usize>,
    last_period: Vec<usize>,
}

impl Timeline {
    /// Passes over the events of a board, of everyone; `top` names the present leaders.
    ///
    /// # Errors
    /// If there are no events.
    pub(crate) fn new(board: &Board, events: &DataFrame, top: &[&str]) -> Result<Self> {
        let by_time = SortMultipleOptions::default();
        let events = unremoved(events.clone().lazy()).sort(["at_ms"], by_time);
        let events = events.collect()?;
        let member = events.column("member")?.str()?;
        let (score, at_ms) = (events.column("score")?.i64()?, events.column("at_ms")?.i64()?);
        let rows = member.iter().zip(score.iter()).zip(at_ms.iter());
        let mut rows =
            rows.map(|((member, score), at_ms)| Some((member?, score?, at_ms?))).peekable();
        let span = at_ms.min().zip(at_ms.max());
        let (window, periods) = periods(board, span.context("there are no events")?)?;
        let step = periods.len().div_ceil(COUNTS_MAX);
        let mut timeline = Self {
            events: events.height(),
            activity: Activity { window: window.to_string(), periods: vec![] },
            movement: Movement::of(top),
            members: Members::default(),
        };
        for (index, period) in periods.into_iter().enumerate() {
            let is_inside = |row: &Option<(&str, i64, i64)>| {
                row.is_none_or(|(_, _, at_ms)| period.end_ms.is_none_or(|end_ms| at_ms < end_ms))
            };
            let (mut events, mut active) = (0, 0);
            while let Some(row) = rows.next_if(is_inside) {
                let (member, score, at_ms) = row.context("a score has no value")?;
                events += 1;
                let is_first = timeline.members.take(board, member, score, at_ms, index);
                active += usize::from(is_first);
            }
            timeline.activity.periods.push(Active {
                period: period.label,
                events,
                active,
                members: timeline.members.names.len(),
            });
            if (index + 1) % step == 0 || rows.peek().is_none() {
                let ranks = timeline.members.ranks(board, top);
                timeline.movement.push(index, ranks);
            }
        }
        Ok(timeline)
    }

    /// The number of a member's events.
    pub(crate) fn events_of(&self, member: &str) -> usize {
        let number = self.members.numbers.get(member);
        number.map_or(0, |&number| self.members.events[number])
    }

    /// The number of events of each member, in no particular order.
    pub(crate) fn events_each(&self) -> Vec<usize> {
        self.members.events.clone()
    }
}

impl Movement {
    fn of(top: &[&str]) -> Self {
        let moved = |member: &&str| Moved { member: (*member).to_owned(), ranks: vec![] };
        Self { periods: vec![], members: top.iter().map(moved).collect() }
    }

    fn push(&mut self, period: usize, ranks: Vec<Option<usize>>) {
        self.periods.push(period);
        for (moved, rank) in self.members.iter_mut().zip(ranks) {
            moved.ranks.push(rank);
        }
    }
}

impl Members {
    /// Folds an event. Returns whether it is its member's first in the period of that index.
    fn take(&mut self, board: &Board, name: &str, score: i64, at_ms: i64, period: usize) -> bool {
        let (rules, all) = (&board.rules, Window::All);
        let event = rules.first(all, score, at_ms);
        let Some(&number) = self.numbers.get(name) else {
            self.numbers.insert(name.to_owned(), self.names.len());
            self.names.push(name.to_owned());
            self.states.push(event);
            self.events.push(1);
            self.last_period.push(period);
            return true;
        };
        self.states[number] = rules.fold(all, Some(self.states[number]), event);
        self.events[number] += 1;
        std::mem::replace(&mut self.last_period[number], period) != period
    }

    /// The rank of each wanted member in the order of keys and names; none for a member without
    /// events. O(members).
    fn ranks(&self, board: &Board, wanted: &[&str]) -> Vec<Option<usize>> {
        let period = Period::all();
        let place = |number: usize| -> (RankKey, &str) {
            // In the order of their times, scores may pass through values that no member ever had.
            let key = board.rules.nearest_key(Window::All, &period, self.states[number]);
            (key, &self.names[number])
        };
        let numbers = wanted.iter().map(|name| self.numbers.get(*name).copied());
        let places: Vec<Option<(RankKey, &str)>> =
            numbers.map(|number| number.map(place)).collect();
        let mut sorted: Vec<(RankKey, &str)> = places.iter().flatten().copied().collect();
        sorted.sort_unstable();
        // The number of members before each of the sorted ones, but not before its predecessor.
        let mut between = vec![0; sorted.len() + 1];
        for number in 0..self.names.len() {
            let other = place(number);
            between[sorted.partition_point(|place| *place <= other)] += 1;
        }
        let rank = |place: (RankKey, &str)| {
            let index = sorted.partition_point(|other| *other < place);
            1 + between[..=index].iter().sum::<usize>()
        };
        places.into_iter().map(|place| place.map(rank)).collect()
    }
}

/// The periods of a span of time, first to last: days, or weeks or months if there would be too
/// many.
fn periods(board: &Board, (first_ms, last_ms): (i64, i64)) -> Result<(Window, Vec<Period>)> {
    let days = (last_ms - first_ms) / DAY_MS + 1;
    let window = match days {
        days if days <= PERIODS_MAX => Window::Daily,
        days if days / 7 <= PERIODS_MAX => Window::Weekly,
        _ => Window::Monthly,
    };
    let mut periods = vec![window.period_at(first_ms, &board.rules.calendar)?];
    while let Some(end_ms) =
        periods.last().and_then(|period| period.end_ms).filter(|&end_ms| end_ms <= last_ms)
    {
        periods.push(window.period_at(end_ms, &board.rules.calendar)?);
    }
    Ok((window, periods))
}
