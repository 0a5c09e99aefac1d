//! The times of requests, on a machine that may be busy with something else.

use std::time::Duration;

/// The median of some times: a machine that is busy for a moment does not move it.
pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
