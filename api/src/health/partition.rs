//! The health of one partition: is it level, and how far is SQL behind?

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// How long SQL's cursor may stand still, with commits behind it, before it counts as stuck.
pub(crate) const STUCK_AFTER: Duration = Duration::from_secs(10);

/// The reasons why a cursor is stuck: SQL is away, Redis does not answer, the partition waits for
/// recovery, or no process persists it.
pub(crate) const STUCK_BY: [&str; 4] = ["sql", "redis", "not_level", "persister"];

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
    /// Heads above the cursor, oldest first, and when each was first seen.
    seen: VecDeque<(u64, Instant)>,
    /// When the cursor was last seen to move.
    moved_at: Option<Instant>,
}

impl PartitionHealth {
    /// Notes the seq of the head.
    pub(super) fn see_head(&mut self, head: u64, now: Instant) {
        if head < self.head {
            self.seen.retain(|(seen, _)| *seen <= head);
        }
        if head > self.head && head > self.cursor.unwrap_or(0) {
            if self.seen.len() >= SEEN_MAX {
                // The first of the pairs stay, so the age of the oldest commit is right.
                let mut stays = false;
                self.seen.retain(|_| {
                    stays = !stays;
                    stays
                });
            }
            self.seen.push_back((head, now));
        }
        self.head = head;
    }

    /// Notes the seq of SQL's cursor.
    pub(super) fn see_cursor(&mut self, cursor: u64, now: Instant) {
        if self.cursor != Some(cursor) {
            self.moved_at = Some(now);
        }
        self.cursor = Some(cursor);
        while self.seen.front().is_some_and(|(seen, _)| *seen <= cursor) {
            self.seen.pop_front();
        }
    }

    /// The commits that SQL does not have yet.
    pub fn commits_behind(&self) -> u64 {
        self.head.saturating_sub(self.cursor.unwrap_or(self.head))
    }

    /// How long the oldest commit that SQL lacks has waited, about.
    pub fn behind_for(&self, now: Instant) -> Duration {
        let since = self.seen.front().map(|(_, since)| *since);
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// True if SQL's cursor stands still although commits wait.
    pub fn is_stuck(&self, now: Instant) -> bool {
        let stands = self.moved_at.map(|moved| now.saturating_duration_since(moved));
        self.commits_behind() > 0
            && self.behind_for(now) >= STUCK_AFTER
            && stands.is_none_or(|stands| stands >= STUCK_AFTER)
    }

    /// The reason why it is stuck, of a few; `None` if it is not.
    pub fn stuck_by(&self, now: Instant, is_sql_away: bool) -> Option<&'static str> {
        self.is_stuck(now).then_some(match (is_sql_away, self.is_level) {
            (true, _) => "sql",
            (false, None) => "redis",
            (false, Some(false)) => "not_level",
            (false, Some(true)) => "persister",
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
        assert_eq!(health.stuck_by(at(12), true), Some("sql"));
        health.see_cursor(1, at(12));
        assert!(!health.is_stuck(at(13)));
        health.is_level = Some(true);
        assert_eq!(health.stuck_by(at(30), false), Some("persister"));
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
