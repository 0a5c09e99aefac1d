//! The account of one client: a bucket of points or changes with its debt, and the points that it
//! has spent lately.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use governor::clock::Clock;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

use super::RetryAfter;

/// A client is light as long as it spends no more than this part of the rate of reads.
const LIGHT_PART: u32 = 20;

/// How long a client may spend more than that before it is heavy, in seconds of that rate.
const LIGHT_SECONDS: u32 = 2;

/// The points that a client without an access token has spent beyond those that became good again
/// since. Unlike a bucket, it grows while a client is over its limit: a client that goes on like
/// that stays heavy.
pub(super) struct Spending {
    spent: Mutex<(f64, Instant)>,
    /// The points that become good in a second.
    rate: f64,
}

pub(super) struct Bucket {
    limiter: DefaultDirectRateLimiter,
    burst: u32,
    /// The debt of the client, which it pays before anything else.
    debt: AtomicU64,
}

impl Spending {
    pub(super) fn new(read_rate: u32) -> Option<Self> {
        let rate = NonZeroU32::new(read_rate)?.get().div_ceil(LIGHT_PART).into();
        Some(Self { spent: Mutex::new((0.0, Instant::now())), rate })
    }

    /// Adds to what the client has spent; returns true if that makes it heavy.
    pub(super) fn add(&self, points: u64) -> bool {
        let now = Instant::now();
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let good = now.saturating_duration_since(spent.1).as_secs_f64() * self.rate;
        // A minute is enough to become light again.
        let sum = ((spent.0 - good).max(0.0) + points as f64).min(60.0 * self.rate);
        *spent = (sum, now);
        sum > f64::from(LIGHT_SECONDS) * self.rate
    }
}

impl Bucket {
    /// `None` if the rate is not limited.
    pub(super) fn new((rate, burst): (u32, u32)) -> Option<Self> {
        let quota = Quota::per_second(NonZeroU32::new(rate)?);
        let limiter = RateLimiter::direct(quota.allow_burst(NonZeroU32::new(burst)?));
        Some(Self { limiter, burst, debt: AtomicU64::new(0) })
    }

    pub(super) fn take(&self, count: u64) -> Result<(), RetryAfter> {
        if count == 0 {
            return Ok(());
        }
        // Of two requests at once, the second finds no debt.
        if self.debt.load(Ordering::SeqCst) > 0 {
            let owed = self.debt.swap(0, Ordering::SeqCst);
            let part = owed.min(self.burst.into());
            if let Err(wait) = self.take_now(part) {
                self.add_debt(owed);
                return Err(wait);
            }
            self.add_debt(owed - part);
        }
        self.take_now(count)
    }

    pub(super) fn owe(&self, count: u64) {
        if self.take(count).is_err() {
            self.add_debt(count);
        }
    }

    /// The points or changes that the client owes.
    pub(super) fn debt(&self) -> u64 {
        self.debt.load(Ordering::SeqCst)
    }

    fn add_debt(&self, count: u64) {
        let add = |debt: u64| Some(debt.saturating_add(count));
        let _ = self.debt.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add);
    }

    fn take_now(&self, count: u64) -> Result<(), RetryAfter> {
        let count = u32::try_from(count).unwrap_or(u32::MAX).min(self.burst);
        let Some(count) = NonZeroU32::new(count) else { return Ok(()) };
        match self.limiter.check_n(count) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(until)) => Err(RetryAfter(until.wait_time_from(self.limiter.clock().now()))),
            // A burst always has room for itself.
            Err(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_heavy_client_becomes_light_again() {
        let spending = Spending::new(20_000).unwrap();
        assert!(spending.add(1_000_000_000));
        let (sum, at) = *spending.spent.lock().unwrap();
        assert!((sum - 60_000.0).abs() < 1.0);
        *spending.spent.lock().unwrap() = (sum, at - Duration::from_secs(57));
        assert!(spending.add(0), "57 of 60 seconds' worth became good");
        *spending.spent.lock().unwrap() = (sum, at - Duration::from_secs(59));
        assert!(!spending.add(0));
    }
}
