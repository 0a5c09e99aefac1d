//! Arrival times: hours of the day are busy or quiet, and some hours are bursts.

use super::random::Random;

/// How busy each hour of a day is, from midnight.
const HOURS: [u64; 24] =
    [4, 3, 2, 1, 1, 1, 2, 4, 6, 7, 8, 8, 9, 8, 8, 8, 9, 11, 13, 15, 16, 14, 10, 6];

/// One in this many hours is a burst.
const BURSTS: u64 = 50;

/// A burst is this many times as busy as the same hour otherwise.
const BURST: u64 = 12;

const HOUR_MS: u128 = 3_600_000;

/// The instants at which events arrive, one after the other.
pub(crate) struct Activity {
    /// How busy each hour is.
    hours: Vec<u64>,
    total: u64,
    events: u64,
    next: u64,
    /// The hour of the last event, and the total of the hours before it.
    hour: usize,
    before: u64,
}

impl Activity {
    /// Spreads `events` over `days`.
    pub(crate) fn new(random: &mut Random, days: u32, events: u64) -> Self {
        let mut hour = |busy: u64| match random.below(BURSTS) {
            0 => busy * BURST,
            _ => busy,
        };
        let hours: Vec<u64> = (0..days).flat_map(|_| HOURS).map(&mut hour).collect();
        Self { total: hours.iter().sum(), hours, events, next: 0, hour: 0, before: 0 }
    }

    /// The arrival of the next event, in milliseconds since the first day began. The times of
    /// `events` calls never go back.
    pub(crate) fn next_ms(&mut self) -> i64 {
        // The total that has passed, times the number of events: exact.
        let passed = u128::from(self.next) * u128::from(self.total);
        let events = u128::from(self.events);
        while passed >= u128::from(self.before + self.hours[self.hour]) * events
            && self.hour + 1 < self.hours.len()
        {
            self.before += self.hours[self.hour];
            self.hour += 1;
        }
        self.next += 1;
        let within = passed - u128::from(self.before) * events;
        let width = u128::from(self.hours[self.hour]) * events;
        self.hour as i64 * HOUR_MS as i64 + (within * HOUR_MS / width) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_go_forward_through_every_day_and_are_dense_in_busy_hours() {
        let mut activity = Activity::new(&mut Random::new(7), 9, 100_000);
        let instants: Vec<i64> = (0..100_000).map(|_| activity.next_ms()).collect();
        assert!(instants.is_sorted());
        assert_eq!(instants[0], 0);
        let mut hours = vec![0_u64; 9 * 24];
        for at_ms in instants {
            hours[at_ms as usize / HOUR_MS as usize] += 1;
        }
        for (hour, count) in hours.iter().enumerate() {
            let expected = activity.hours[hour] * 100_000 / activity.total;
            assert!(count.abs_diff(expected) <= 1, "hour {hour}: {count}, not {expected}");
        }
        let is_burst = |&hour: &u64| hour > 16;
        assert!(activity.hours.iter().any(is_burst));
    }
}
