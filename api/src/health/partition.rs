//! The health of one partition: is it level, and how far is SQL behind?

mod stuck;

use std::collections::VecDeque;
use std::time::Duration;

use super::HUNG_AFTER;
use engine::deployment::redis_health::{RECOVERY_WAIT, State};
use tokio::time::Instant;

pub use stuck::StuckBy;

/// How long a server of Redis may give no answer, or only errors, before scores are refused.
const SILENT_AFTER: Duration = Duration::from_secs(1);

/// The time in which a server of Redis that was silent has to answer twice before reads are
/// answered from it again.
const CALM_WITHIN: Duration = Duration::from_millis(300);

/// The answers of any time after which they are, too.
const CALM_ANSWERS: u32 = 40;

/// How long a partition may wait for recovery before this process recovers it, and again.
const RECOVERY_AGAIN: Duration = Duration::from_secs(10);

/// How long SQL's cursor may stand still, with commits behind it, before it counts as stuck.
pub(crate) const STUCK_AFTER: Duration = Duration::from_secs(10);

/// The most heads that are remembered with the instant at which each was seen.
const SEEN_MAX: usize = 64;

/// The health of one partition.
#[derive(Debug, Clone, Default)]
pub struct PartitionHealth {
    /// True if Redis and SQL agree on the run; `None` while its server does not answer.
    pub is_level: Option<bool>,
    /// Why the last attempt of this process to persist it failed.
    pub error: Option<String>,
    head: u64,
    cursor: Option<u64>,
    /// Heads above the cursor, oldest first; when each was first seen, and when the partition was
    /// last looked at before: then SQL lacked no commits but those of earlier heads here, and
    /// `None` if that is not known.
    seen: VecDeque<(u64, Instant, Option<Instant>)>,
    /// Since when it is not level, though its server answers.
    waits_since: Option<Instant>,
    /// When the process last began to recover it because no other one did.
    tried_at: Option<Instant>,
    /// Since when its server does not answer.
    silent_since: Option<Instant>,
    /// How calm its server is since it was silent last: an answer counts once, and a quick one as
    /// half of all that is wanted.
    calm: u32,
    /// When the head was last seen.
    seen_at: Option<Instant>,
    /// When the cursor was last seen to move.
    moved_at: Option<Instant>,
}

impl PartitionHealth {
    /// Notes the seq of the head.
    pub(super) fn see_head(&mut self, head: u64, now: Instant) {
        // A process that starts while SQL is behind cannot know since when.
        let was_complete = self.cursor.is_some_and(|cursor| self.head <= cursor);
        let before = self.seen_at.replace(now);
        let before = before.filter(|_| was_complete || !self.seen.is_empty());
        if head < self.head {
            self.seen.retain(|(seen, ..)| *seen <= head);
        }
        if head > self.head && head > self.cursor.unwrap_or(0) {
            if self.seen.len() >= SEEN_MAX {
                // Of two heads the later one stays, with the instants of the earlier one: SQL is
                // never thought to have more than it has.
                let mut pairs = std::mem::take(&mut self.seen).into_iter();
                while let Some(earlier) = pairs.next() {
                    let (later, ..) = pairs.next().unwrap_or(earlier);
                    self.seen.push_back((later, earlier.1, earlier.2));
                }
            }
            self.seen.push_back((head, now, before));
        }
        self.head = head;
    }

    /// Its state in Redis, after a look that began at `asked_at`; `was_away` is true if reads are
    /// answered from SQL. Those of a server that answers slowly would change from one look to the
    /// next, so it has to be calm first; and those of a partition that is not level stay with SQL.
    pub(super) fn state(&mut self, (was_away, asked_at, now): (bool, Instant, Instant)) -> State {
        let waits = self.waits_for(RECOVERY_WAIT, now);
        let took = now.saturating_duration_since(asked_at);
        let is_calm = self.is_calm(took);
        match (self.is_silent(asked_at, now, SILENT_AFTER), self.is_level) {
            (true, _) => State::Silent,
            (false, None) => State::Away,
            (false, Some(false)) if was_away || waits => State::Away,
            (false, Some(true)) if was_away && !is_calm => State::Away,
            (false, Some(_)) => State::Here,
        }
    }

    /// True each time that it has waited for recovery so long again: as SQL answers its readers,
    /// none of them recovers it.
    pub(super) fn is_left(&mut self, now: Instant) -> bool {
        let is_left = self.waits_for(RECOVERY_AGAIN, now)
            && self.tried_at.is_none_or(|at| now.duration_since(at) >= RECOVERY_AGAIN);
        if is_left {
            self.tried_at = Some(now);
        }
        is_left
    }

    /// True if its server has been calm for a while, after a look that took so long.
    fn is_calm(&mut self, took: Duration) -> bool {
        self.calm = match self.is_level {
            None => 0,
            Some(_) if took >= HUNG_AFTER => 0,
            Some(_) if took <= CALM_WITHIN => self.calm.saturating_add(CALM_ANSWERS.div_ceil(2)),
            Some(_) => self.calm.saturating_add(1),
        };
        self.calm >= CALM_ANSWERS
    }

    /// True if it has waited for recovery so long already; called after each look at it.
    fn waits_for(&mut self, time: Duration, now: Instant) -> bool {
        if self.is_level != Some(false) {
            self.waits_since = None;
            return false;
        }
        now.saturating_duration_since(*self.waits_since.get_or_insert(now)) >= time
    }

    /// True if its server, asked at that instant, has given no answer for so long already, and
    /// none to two looks; called after each look at it.
    fn is_silent(&mut self, asked_at: Instant, now: Instant, time: Duration) -> bool {
        if self.is_level.is_some() {
            self.silent_since = None;
            return false;
        }
        let Some(since) = self.silent_since else {
            // One long pause of a server is over soon.
            self.silent_since = Some(asked_at);
            return false;
        };
        now.saturating_duration_since(since) >= time
    }

    /// Notes the seq of SQL's cursor.
    pub(super) fn see_cursor(&mut self, cursor: u64, now: Instant) {
        if self.cursor != Some(cursor) {
            self.moved_at = Some(now);
        }
        self.cursor = Some(cursor);
        while self.seen.front().is_some_and(|(seen, ..)| *seen <= cursor) {
            self.seen.pop_front();
        }
    }

    /// The commits that SQL does not have yet.
    pub fn commits_behind(&self) -> u64 {
        self.head.saturating_sub(self.cursor.unwrap_or(self.head))
    }

    /// How long the oldest commit that SQL lacks has waited, about, as far as this process has seen
    /// it wait.
    pub fn behind_for(&self, now: Instant) -> Duration {
        let since = self.seen.front().map(|(_, since, _)| *since);
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// The last instant of which SQL is known to have every commit, about; `None` if this process
    /// has not seen the head since, or has seen only more than SQL has.
    pub fn complete_at(&self) -> Option<Instant> {
        match self.seen.front() {
            Some((.., before)) => *before,
            None => self.seen_at.filter(|_| self.cursor.is_some() && self.commits_behind() == 0),
        }
    }

    /// True if SQL's cursor stands still although commits wait.
    pub fn is_stuck(&self, now: Instant) -> bool {
        let stands = self.moved_at.map(|moved| now.saturating_duration_since(moved));
        self.commits_behind() > 0
            && self.behind_for(now) >= STUCK_AFTER
            && stands.is_none_or(|stands| stands >= STUCK_AFTER)
    }

    /// True if it is not level, cannot be persisted, or is stuck.
    pub fn is_unwell(&self, now: Instant) -> bool {
        self.is_level != Some(true) || self.error.is_some() || self.is_stuck(now)
    }

    /// The reason why it is stuck; `None` if it is not.
    pub fn stuck_by(&self, now: Instant, is_sql_away: bool) -> Option<StuckBy> {
        self.is_stuck(now).then_some(match (is_sql_away, self.is_level) {
            (true, _) => StuckBy::Sql,
            (false, None) => StuckBy::Redis,
            (false, Some(false)) => StuckBy::NotLevel,
            (false, Some(true)) => StuckBy::Persister,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_is_that_of_the_oldest_commit_that_sql_lacks() {
        let (mut health, start) = (PartitionHealth::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        health.see_cursor(0, at(0));
        for second in 0..1000 {
            health.see_head(10 * (second + 1), at(second));
        }
        assert_eq!(health.commits_behind(), 10_000);
        assert_eq!(health.behind_for(at(1000)), Duration::from_secs(1000));
        health.see_cursor(9_990, at(1001));
        assert_eq!(health.commits_behind(), 10);
        assert!(health.behind_for(at(1001)) <= Duration::from_secs(2));
        health.see_cursor(10_000, at(1002));
        assert_eq!(health.behind_for(at(2000)), Duration::ZERO);
        assert!(!health.is_stuck(at(2000)));
    }

    #[test]
    fn a_cursor_that_moves_slowly_is_not_stuck() {
        let (mut health, start) = (PartitionHealth::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        health.see_cursor(0, at(0));
        health.see_head(100, at(1));
        assert!(!health.is_stuck(at(9)));
        assert_eq!(health.stuck_by(at(12), true), Some(StuckBy::Sql));
        health.see_cursor(1, at(12));
        assert!(!health.is_stuck(at(13)));
        health.is_level = Some(true);
        assert_eq!(health.stuck_by(at(30), false), Some(StuckBy::Persister));
    }

    #[test]
    fn sql_is_complete_as_of_the_last_look_before_the_commit_that_it_lacks() {
        let (mut health, start) = (PartitionHealth::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(health.complete_at(), None);
        health.see_cursor(5, at(0));
        health.see_head(5, at(1));
        assert_eq!(health.complete_at(), Some(at(1)));
        health.see_head(7, at(4));
        health.see_head(9, at(8));
        assert_eq!(health.complete_at(), Some(at(1)));
        health.see_cursor(7, at(9));
        assert_eq!(health.complete_at(), Some(at(4)));
        health.see_cursor(9, at(9));
        assert_eq!(health.complete_at(), Some(at(8)));
    }

    #[test]
    fn sql_is_never_thought_complete_later_than_it_is() {
        let (mut health, start) = (PartitionHealth::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        health.see_cursor(0, at(0));
        // The head is 10 more at each second.
        for second in 0..1000 {
            health.see_head(10 * second, at(second));
        }
        for cursor in (0..9_990).step_by(7) {
            health.see_cursor(cursor, at(1000));
            // The last second at which the cursor had all.
            let complete = health.complete_at().unwrap();
            assert!(complete <= at(cursor / 10), "{cursor}");
        }
        assert!(health.complete_at().unwrap() >= at(900));
    }

    #[test]
    fn a_process_that_starts_while_sql_is_behind_knows_no_instant_until_sql_was_level() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        // Redis or SQL answers first.
        for cursor_first in [true, false] {
            let mut health = PartitionHealth::default();
            if cursor_first {
                health.see_cursor(5, at(0));
            }
            health.see_head(9, at(1));
            assert_eq!(health.complete_at(), None);
            health.see_cursor(5, at(2));
            health.see_head(12, at(3));
            assert_eq!(health.complete_at(), None);
            assert_eq!(health.commits_behind(), 7);
            // All that the first look saw, and nothing since.
            health.see_cursor(9, at(4));
            assert_eq!(health.complete_at(), Some(at(1)));
            health.see_cursor(12, at(5));
            assert_eq!(health.complete_at(), Some(at(3)));
        }
    }

    #[test]
    fn a_cursor_that_went_back_leaves_no_instant() {
        let (mut health, start) = (PartitionHealth::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        health.see_cursor(9, at(0));
        health.see_head(9, at(1));
        assert_eq!(health.complete_at(), Some(at(1)));
        health.see_cursor(5, at(2));
        health.see_head(10, at(3));
        assert_eq!(health.complete_at(), None);
        health.see_cursor(10, at(4));
        assert_eq!(health.complete_at(), Some(at(3)));
    }

    #[test]
    fn reads_come_back_to_a_server_that_is_calm() {
        let (mut health, start) = (PartitionHealth::default(), Instant::now());
        let mut at_ms = 0;
        // `None` where it gives no answer.
        let mut look = |is_level: Option<bool>, took_ms: u64, was: State| {
            health.is_level = is_level;
            at_ms += 100;
            let asked_at = start + Duration::from_millis(at_ms);
            let now = asked_at + Duration::from_millis(took_ms);
            at_ms += took_ms;
            health.state((was != State::Here, asked_at, now))
        };
        let level = Some(true);
        assert_eq!(look(None, 10, State::Here), State::Away);
        assert_eq!(look(level, 10, State::Away), State::Away);
        assert_eq!(look(level, 10, State::Away), State::Here);
        // One that is as slow as before is no better after many looks.
        for _ in 0..100 {
            assert_eq!(look(level, 900, State::Away), State::Away);
        }
        // One that is slower than usual comes back later.
        for _ in 1..CALM_ANSWERS {
            assert_eq!(look(level, 500, State::Away), State::Away);
        }
        assert_eq!(look(level, 500, State::Away), State::Here);
        // A partition waits for recovery a while, but reads that came from SQL stay there.
        assert_eq!(look(Some(false), 10, State::Here), State::Here);
        assert_eq!(look(Some(false), 1000, State::Here), State::Away);
        assert_eq!(look(Some(false), 10, State::Away), State::Away);
        assert_eq!(look(Some(false), 10, State::Away), State::Away);
        assert_eq!(look(Some(false), 100_000, State::Away), State::Away);
        assert_eq!(look(level, 10, State::Away), State::Away);
        assert_eq!(look(level, 10, State::Away), State::Here);
    }

    #[test]
    fn a_partition_that_nobody_recovers_is_left_every_ten_seconds() {
        let (mut health, start) = (PartitionHealth::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        health.is_level = Some(false);
        let left = (0..40).filter(|second| health.is_left(at(*second)));
        assert_eq!(left.collect::<Vec<_>>(), [10, 20, 30]);
        health.is_level = Some(true);
        assert!(!health.is_left(at(50)));
        health.is_level = Some(false);
        assert!(!health.is_left(at(51)) && !health.is_left(at(60)) && health.is_left(at(61)));
    }

    #[test]
    fn only_a_server_without_an_answer_for_long_is_silent() {
        let (mut health, start) = (PartitionHealth::default(), Instant::now());
        let mut is_silent = |is_level, asked, now| {
            health.is_level = is_level;
            let at = |seconds| start + Duration::from_secs(seconds);
            health.is_silent(at(asked), at(now), Duration::from_secs(2))
        };
        // One that refuses at once, and one that lets the probe wait.
        assert!(!is_silent(None, 0, 0) && !is_silent(None, 1, 1) && is_silent(None, 2, 2));
        assert!(!is_silent(Some(false), 3, 3) && !is_silent(None, 4, 6) && is_silent(None, 6, 8));
        assert!(!is_silent(Some(true), 7, 7) && !is_silent(None, 8, 9));
    }

    #[test]
    fn only_a_partition_that_waits_long_waits_for_recovery() {
        let (mut health, start) = (PartitionHealth::default(), Instant::now());
        let mut waits = |is_level, seconds| {
            health.is_level = is_level;
            let now = start + Duration::from_secs(seconds);
            health.waits_for(Duration::from_secs(4), now)
        };
        assert!(!waits(Some(false), 0) && !waits(Some(false), 3) && waits(Some(false), 4));
        assert!(!waits(Some(true), 5) && !waits(Some(false), 6));
    }

    #[test]
    fn a_head_that_went_back_takes_its_commits_along() {
        let (mut health, start) = (PartitionHealth::default(), Instant::now());
        health.see_cursor(5, start);
        health.see_head(9, start);
        health.see_head(5, start);
        assert_eq!(health.commits_behind(), 0);
        assert_eq!(health.behind_for(start + STUCK_AFTER), Duration::ZERO);
    }
}
