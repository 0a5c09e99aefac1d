//! The number of standings that a score would write, counted before it is folded: a late score
//! writes many of a rolling window.

use crate::board::Board;
use crate::submission::Periods;
use crate::window::Window;

/// Counts the standings that scores for one board would write. It assumes that the rolling windows
/// have rolled to the present, and does not know which periods are sealed.
#[derive(Debug)]
pub struct StandingsWritten<'a> {
    board: &'a Board,
    /// The number of segments that a score counts in, besides everyone.
    segments: usize,
    now_ms: i64,
    periods: Periods,
}

impl<'a> StandingsWritten<'a> {
    /// Counts for scores accepted at `now_ms`, in Unix milliseconds, whose members are in at most
    /// `segments` segments besides everyone.
    pub fn new(board: &'a Board, segments: usize, now_ms: i64) -> Self {
        Self { board, segments, now_ms, periods: Periods::default() }
    }

    /// The number of standings that a score writes, given the time of earning in Unix milliseconds;
    /// `None` for the time of acceptance; 0 if the board refuses scores of that time. O(windows),
    /// however late the score is.
    pub fn by_score(&mut self, at_ms: Option<i64>) -> u64 {
        if at_ms.is_some_and(|at_ms| self.board.admission.check(at_ms, self.now_ms).is_err()) {
            return 0;
        }
        let earned_ms = at_ms.map_or(self.now_ms, |at_ms| at_ms.min(self.now_ms));
        let board = self.board;
        let windows = board.rules.windows.iter().copied();
        let segments = self.segments as u64 + 1;
        let in_segments = |window: Window| if window.counted().is_some() { 1 } else { segments };
        windows.map(|window| self.in_window(window, earned_ms) * in_segments(window)).sum()
    }

    /// The periods of a window that the score counts in: of a rolling one, those from its own to
    /// the one after the present, which is prepared ahead.
    fn in_window(&mut self, window: Window, earned_ms: i64) -> u64 {
        let Some(rolling) = window.rolling() else {
            return 1;
        };
        let mut base = |at_ms| self.periods.at(self.board, rolling.base(), at_ms);
        // Admission rejects a score whose time has no period.
        let (Ok(own), Ok(present)) = (base(earned_ms), base(self.now_ms)) else {
            return 1;
        };
        (rolling.periods_between(&own, &present) + 2).min(rolling.count().into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::board::rules::{Rules, RulesInput};
    use crate::board::{Policy, TieBreak};
    use crate::id::BoardNo;
    use crate::window::roll::Rolls;
    use crate::window::{Calendar, parse_zone};

    const DAY_MS: i64 = 86_400_000;

    /// 2025-09-03 in Unix milliseconds.
    const NOW_MS: i64 = 1_756_857_600_000;

    fn board(windows: &[&str], zone: &str) -> Board {
        let rules = Rules::new(RulesInput {
            policy: Policy::Best,
            tie_break: TieBreak::Member,
            max: 1000,
            calendar: Calendar::of_zone(parse_zone(zone).unwrap()),
            windows: windows.iter().map(|name| name.parse().unwrap()).collect(),
            ..Default::default()
        });
        Board::new(BoardNo(1), rules.unwrap())
    }

    #[test]
    fn a_late_score_writes_standings_for_each_period_that_it_still_counts_in() {
        let board = board(&["daily", "7d", "30d", "90d"], "UTC");
        let count =
            |segments, at_ms| StandingsWritten::new(&board, segments, NOW_MS).by_score(at_ms);
        assert_eq!(count(0, None), 2 + 3 * 2);
        assert_eq!(count(0, Some(NOW_MS + DAY_MS)), 2 + 3 * 2);
        assert_eq!(count(0, Some(NOW_MS - DAY_MS)), 2 + 3 * 3);
        assert_eq!(count(0, Some(NOW_MS - 10 * DAY_MS)), 2 + 7 + 12 + 12);
        assert_eq!(count(0, Some(DAY_MS)), 2 + 7 + 30 + 90);
        assert_eq!(count(1, Some(DAY_MS)), 2 * (2 + 7 + 30 + 90));
    }

    proptest! {
        #[test]
        fn the_count_is_that_of_the_standings_which_the_fold_writes(
            late_ms in 0_i64..3_000_000_000, months in 0_i64..40,
            zone in proptest::sample::select(&["UTC", "Europe/London", "Australia/Lord_Howe", "Pacific/Apia"][..]),
            window in proptest::sample::select(&["daily", "1d", "7d", "24h", "300h", "5w", "3mo", "24mo"][..]),
        ) {
            let board = board(&[window], zone);
            let at_ms = NOW_MS - late_ms - months * 31 * DAY_MS;
            let mut periods = Periods::default();
            let written = periods.standings(&board, &[], at_ms, &Rolls::to(NOW_MS)).unwrap();
            let count = StandingsWritten::new(&board, 0, NOW_MS).by_score(Some(at_ms));
            prop_assert!(count.abs_diff(written.len() as u64) <= 1, "{count} for {}", written.len());
        }
    }
}
