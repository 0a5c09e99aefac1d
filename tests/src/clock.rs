//! The present, in the unit of the stores.

use entity::deployment::clock::Clock;

/// A day, in milliseconds.
pub const DAY_MS: i64 = 86_400_000;

/// The present, in Unix milliseconds.
pub fn now_ms() -> i64 {
    Clock::default().now_ms()
}

/// The seconds until the next time that an hour is ten minutes old.
pub fn seconds_to_minute_ten() -> i64 {
    (3600 + 600 - now_ms() / 1000 % 3600) % 3600
}
