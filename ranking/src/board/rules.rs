//! A board's rules, checked once when the board is created.

use crate::board::tick::{TICKS_MS, choose_tick};
use crate::board::{Direction, Policy, State, TieBreak, attempts};
use crate::error::{Error, Result};
use crate::score::decay::CODE_MAX;
use crate::score::rank_key::{KEY_BITS, KeyLayout, RankKey};
use crate::score::{self, DECIMALS_MAX, RAW_MAX};
use crate::window::{Calendar, Period, REACH_MS, Window};
use std::collections::{BTreeMap, BTreeSet};

/// The most windows that a board may have besides `all`.
pub const WINDOWS_MAX: usize = 16;

/// A request for rules, by the creator of a board.
#[derive(Debug, Clone)]
pub struct RulesInput {
    /// Which scores are better.
    pub direction: Direction,
    /// The effect of an event on a member's score.
    pub policy: Policy,
    /// The order of members with equal scores.
    pub tie_break: TieBreak,
    /// The tick in milliseconds; `None` for the finest that fits.
    pub tick_ms: Option<u32>,
    /// 0 to 9.
    pub decimals: u8,
    /// The lowest score in `all`, raw.
    pub min: i64,
    /// The highest score in `all`, raw.
    pub max: i64,
    /// The rules by which periods begin.
    pub calendar: Calendar,
    /// S, a power of two.
    pub shards: u16,
    /// The windows besides `all`.
    pub windows: Vec<Window>,
    /// For some of them and `all`, the most scores of a member in a period.
    pub attempts: BTreeMap<Window, u32>,
}

/// The rules of a board whose creator says nothing.
impl Default for RulesInput {
    fn default() -> Self {
        Self {
            direction: Direction::HighFirst,
            policy: Policy::Sum,
            tie_break: TieBreak::Earliest,
            tick_ms: None,
            decimals: 0,
            min: 0,
            max: 999_999_999,
            calendar: Calendar::default(),
            shards: 1,
            windows: vec![],
            attempts: BTreeMap::new(),
        }
    }
}

/// A board's rules, known to be consistent.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Which scores are better.
    pub direction: Direction,
    /// The effect of an event on a member's score.
    pub policy: Policy,
    /// The order of members with equal scores.
    pub tie_break: TieBreak,
    /// The unit of time in tie-breaks, in milliseconds.
    pub tick_ms: u32,
    /// The decimals of a score.
    pub decimals: u8,
    /// The lowest score in `all`, raw.
    pub min: i64,
    /// The highest score in `all`, raw.
    pub max: i64,
    /// The rules by which periods begin.
    pub calendar: Calendar,
    /// S, a power of two.
    pub shards: u16,
    /// Every window with standings, `all` first, each once: the requested ones, the base windows of
    /// the rolling ones, and those that count attempts.
    pub windows: Vec<Window>,
    /// The windows that were not requested.
    pub hidden: BTreeSet<Window>,
    /// The most scores of a member in a period of some windows.
    pub attempts: BTreeMap<Window, u32>,
}

impl Rules {
    /// Checks the request and chooses the tick: the finest that fits the key of every window.
    ///
    /// # Errors
    /// `Invalid`, with the accepted values; `LimitExceeded` for too many windows.
    pub fn new(input: RulesInput) -> Result<Self> {
        check_ranges(&input)?;
        let asked: BTreeSet<Window> = input.windows.iter().copied().chain([Window::All]).collect();
        if asked.len() < input.windows.len() + usize::from(!input.windows.contains(&Window::All)) {
            return Err(Error::invalid("a window is named twice: expected each window once"));
        }
        if asked.len() > WINDOWS_MAX + 1 {
            return Err(Error::LimitExceeded(format!(
                "invalid windows: {} besides all: expected at most {WINDOWS_MAX}",
                asked.len() - 1
            )));
        }
        for (&window, &max) in &input.attempts {
            attempts::check_limit(window, max)?;
            if !asked.contains(&window) {
                return Err(Error::invalid(format!(
                    "invalid attemptsMax of window {window}: expected a window of the board"
                )));
            }
        }
        let mut made = bases(&asked);
        made.extend(input.attempts.keys().filter_map(|window| window.attempts()));
        let mut rules = Self {
            direction: input.direction,
            policy: input.policy,
            tie_break: input.tie_break,
            tick_ms: 1,
            decimals: input.decimals,
            min: input.min,
            max: input.max,
            calendar: input.calendar,
            shards: input.shards,
            hidden: made.difference(&asked).copied().collect(),
            windows: asked.union(&made).copied().collect(),
            attempts: input.attempts,
        };
        if let Some(window) = rules.windows.iter().find(|window| !rules.holds(**window)) {
            return Err(Error::invalid(format!(
                "invalid window {window}: its sums would have more than {KEY_BITS} bits: expected fewer periods or a narrower score range"
            )));
        }
        let sums_highest = rules.policy == Policy::Sum && rules.direction == Direction::HighFirst;
        let decaying = rules.windows.iter().find(|window| window.half_life().is_some());
        if let Some(window) = decaying.filter(|_| !sums_highest) {
            return Err(Error::invalid(format!(
                "invalid window {window}: a decaying window adds up scores: expected policy SUM and direction HIGH_FIRST"
            )));
        }
        if rules.tie_break == TieBreak::Member {
            if rules.policy == Policy::Latest {
                return Err(Error::invalid(
                    "invalid tie-break MEMBER: it keeps no time, which policy LATEST needs: expected EARLIEST or LATEST",
                ));
            }
            if input.tick_ms.is_some() {
                return Err(Error::invalid(
                    "invalid tieBreakResolutionMs: tie-break MEMBER keeps no time: expected tie-break EARLIEST or LATEST",
                ));
            }
            return Ok(rules);
        }
        let fitting: Vec<u32> =
            TICKS_MS.into_iter().filter(|&tick_ms| rules.fits(tick_ms)).collect();
        rules.tick_ms = choose_tick(input.tick_ms, &fitting)?;
        Ok(rules)
    }

    /// The requested windows, `all` first.
    pub fn shown(&self) -> impl Iterator<Item = Window> {
        let shown = |window: &Window| self.is_shown(*window);
        self.windows.iter().copied().filter(shown)
    }

    /// True if the window was requested.
    pub fn is_shown(&self, window: Window) -> bool {
        self.windows.contains(&window) && !self.hidden.contains(&window)
    }

    /// The layout of a window's keys.
    pub fn layout(&self, window: Window) -> KeyLayout {
        let (low, high) = self.range(window);
        KeyLayout::new(self.direction, self.ties(window), low, high)
    }

    /// The order of equal scores in a window. In a decaying window time is part of the score, and a
    /// number of attempts has none, so ties go by member.
    pub fn ties(&self, window: Window) -> TieBreak {
        match window.half_life().is_some() || window.counted().is_some() {
            true => TieBreak::Member,
            false => self.tie_break,
        }
    }

    /// The lowest and highest raw score that a window can hold. A SUM over a part of time lies in
    /// the board's range or, as it may be negative, within ± the width of that range. A rolling
    /// window of N periods holds up to N times that. Scores that decay have the range of their
    /// [codes](crate::window::HalfLife::code).
    pub fn range(&self, window: Window) -> (i64, i64) {
        if window.half_life().is_some() {
            return (-CODE_MAX, CODE_MAX);
        }
        if window.counted().is_some() {
            return attempts::RANGE;
        }
        if window == Window::All || self.policy != Policy::Sum {
            return (self.min, self.max);
        }
        let span = self.max - self.min;
        let periods = window.rolling().map_or(1, |rolling| i64::from(rolling.count()));
        (periods * self.min.min(-span), periods * self.max.max(span))
    }

    /// `⌊unix ms / tick⌋`.
    pub fn tick(&self, at_ms: i64) -> i64 {
        at_ms.div_euclid(i64::from(self.tick_ms))
    }

    /// The tick at which the time field of a period starts to count.
    pub fn first_tick(&self, period: &Period) -> i64 {
        self.tick(period.start_ms)
    }

    /// The key of a state in a window's period.
    ///
    /// # Errors
    /// `OutOfRange`, naming the window, if the score or its time does not fit the key.
    pub fn key(&self, window: Window, period: &Period, state: State) -> Result<RankKey> {
        let ticks = state.tick - self.first_tick(period);
        let key = self.layout(window).encode(state.score, ticks);
        key.ok_or_else(|| match self.check_in(window, state.score) {
            Err(error) => error,
            Ok(()) => Error::OutOfRange(format!(
                "the time is too late for the window {window} of this board"
            )),
        })
    }

    /// The key of a state in a sealed period, or the nearest one if the score does not fit:
    /// admission does not check the ranges of sealed periods.
    pub fn nearest_key(&self, window: Window, period: &Period, state: State) -> RankKey {
        let layout = self.layout(window);
        let (low, high) = self.range(window);
        let ticks = state.tick - self.first_tick(period);
        layout
            .encode(state.score.clamp(low, high), ticks.clamp(0, (1 << layout.time_bits()) - 1))
            .expect("both are within the layout")
    }

    /// Checks that a score lies in the board's range.
    ///
    /// # Errors
    /// `OutOfRange`, naming the range.
    pub fn check_score(&self, score: i64) -> Result<()> {
        self.check_in(Window::All, score)
    }

    fn check_in(&self, window: Window, score: i64) -> Result<()> {
        let (low, high) = self.range(window);
        if (low..=high).contains(&score) || window.half_life().is_some() {
            return Ok(());
        }
        let [score, low, high] =
            [score, low, high].map(|score| score::format(score, self.decimals));
        Err(Error::OutOfRange(format!(
            "the window {window} would hold {score}: expected {low} to {high}"
        )))
    }

    /// The state in a key; its tick is 0 if ties go by member.
    pub fn state(&self, window: Window, period: &Period, key: RankKey) -> State {
        let (score, ticks) = self.layout(window).decode(key);
        State { score, tick: ticks.map_or(0, |ticks| ticks + self.first_tick(period)) }
    }

    /// True if a window's scores fit a key.
    fn holds(&self, window: Window) -> bool {
        let (low, high) = self.range(window);
        high.abs_diff(low) < 1 << KEY_BITS
    }

    fn fits(&self, tick_ms: u32) -> bool {
        let timed = |window: &&Window| self.ties(**window) != TieBreak::Member;
        self.windows.iter().filter(timed).all(|&window| {
            let longest_ms = window.longest_ms().unwrap_or(REACH_MS);
            let ticks_max = longest_ms.unsigned_abs() / u64::from(tick_ms) + 1;
            let time_bits = self.layout(window).time_bits();
            ticks_max < (1 << time_bits)
        })
    }
}

/// The base windows of the rolling ones among these.
pub fn bases(windows: &BTreeSet<Window>) -> BTreeSet<Window> {
    let rolling = windows.iter().filter_map(|window| window.rolling());
    rolling.map(|rolling| rolling.base()).collect()
}

fn check_ranges(input: &RulesInput) -> Result<()> {
    if input.decimals > DECIMALS_MAX {
        return Err(Error::invalid(format!(
            "invalid decimals {}: expected 0 to {DECIMALS_MAX}",
            input.decimals
        )));
    }
    if input.min >= input.max {
        return Err(Error::invalid("invalid minScore: expected less than maxScore"));
    }
    if input.min < -RAW_MAX || input.max > RAW_MAX || input.max - input.min > RAW_MAX {
        return Err(Error::invalid(format!(
            "invalid score range: more than 53 bits at {} decimals: expected maxScore - minScore of at most {}",
            input.decimals,
            score::format(RAW_MAX, input.decimals)
        )));
    }
    if !input.shards.is_power_of_two() {
        return Err(Error::invalid(format!(
            "invalid number of shards {}: expected a power of two",
            input.shards
        )));
    }
    Ok(())
}

const _: () = assert!(KEY_BITS == 62, "the ranges above are made for 62 bits");

#[cfg(test)]
mod tests {
    use super::*;

    fn tick_for(max: i64, windows: &[Window], asked: Option<u32>) -> Result<u32> {
        Rules::new(RulesInput {
            max,
            windows: windows.to_vec(),
            tick_ms: asked,
            ..Default::default()
        })
        .map(|rules| rules.tick_ms)
    }

    #[test]
    fn the_tick_is_the_finest_that_fits_every_window() {
        assert_eq!(tick_for(999_999_999, &[], None), Ok(1000));
        assert_eq!(tick_for(1_000_000, &[], None), Ok(1));
        assert_eq!(tick_for((1 << 26) - 1, &[], None), Ok(100));
        assert_eq!(tick_for(999_999_999, &[Window::Monthly, Window::Daily], None), Ok(1000));
        assert_eq!(tick_for(999_999_999, &[], Some(10_000)), Ok(10_000));
    }

    #[test]
    fn a_tick_that_does_not_fit_is_refused_with_those_that_would() {
        let refused = tick_for(999_999_999, &[], Some(1)).unwrap_err().to_string();
        assert!(refused.contains("expected 1000, 10000, 100000"), "{refused}");
        assert!(tick_for(999_999_999, &[], Some(7)).is_err());
        let refused = tick_for(1 << 33, &[], None).unwrap_err().to_string();
        assert!(refused.contains("tieBreakResolutionMs of 10000"), "{refused}");
        assert!(tick_for(RAW_MAX, &[], None).unwrap_err().to_string().contains("no room"));
    }

    #[test]
    fn latest_needs_a_time() {
        let refused = Rules::new(RulesInput {
            policy: Policy::Latest,
            tie_break: TieBreak::Member,
            ..Default::default()
        })
        .unwrap_err();
        assert!(refused.to_string().contains("expected EARLIEST or LATEST"));
    }

    #[test]
    fn the_range_has_at_most_53_bits() {
        let rules = |min, max| {
            Rules::new(RulesInput { min, max, tie_break: TieBreak::Member, ..Default::default() })
        };
        assert!(rules(0, RAW_MAX).is_ok());
        assert!(rules(-1, RAW_MAX).is_err());
        assert!(rules(5, 5).is_err());
    }

    #[test]
    fn a_window_s_sum_may_leave_the_board_s_range_by_its_width() {
        let rules = Rules::new(RulesInput { min: 10, max: 15, ..Default::default() }).unwrap();
        assert_eq!(rules.range(Window::All), (10, 15));
        assert_eq!(rules.range(Window::Daily), (-5, 15));
        let best =
            Rules::new(RulesInput { min: 10, max: 15, policy: Policy::Best, ..Default::default() })
                .unwrap();
        assert_eq!(best.range(Window::Daily), (10, 15));
    }
}
