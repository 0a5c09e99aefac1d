//! The present, in the unit of the stores.

use entity::deployment::clock::Clock;

/// A day, in milliseconds.
pub const DAY_MS: i64 = 86_400_000;

/// The present, in Unix milliseconds.
pub fn now_ms() -> i64 {
    Clock::default().now_ms()
}
