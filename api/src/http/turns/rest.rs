//! The rests of a thread of heavy requests while light ones are under way.

use std::thread;
use std::time::Duration;

/// The time for which a thread rests after a step while light requests are under way, as a multiple
/// of the step, or of what the step has begun in Redis and SQL: a microsecond for each point.
const REST: u32 = 7;

/// The shortest rest: those of shorter steps are taken together.
const REST_MIN: Duration = Duration::from_millis(1);

/// The longest rest after a step. The remainder of a longer one follows later steps.
pub(super) const REST_MAX: Duration = Duration::from_millis(50);

/// The longest rest that is left.
const REST_LEFT_MAX: Duration = Duration::from_secs(2);

/// The rest that a thread has not taken yet.
#[derive(Debug, Default)]
pub(super) struct Rest(Duration);

impl Rest {
    /// Rests after a step that took so long, and spent so many points: blocks the thread. Short
    /// rests are taken together.
    pub(super) fn take(&mut self, step: Duration, points: u64) {
        self.0 += step.max(Duration::from_micros(points)) * REST;
        if self.0 >= REST_MIN {
            let now = self.0.min(REST_MAX);
            thread::sleep(now);
            self.0 = (self.0 - now).min(REST_LEFT_MAX);
        }
    }
}
