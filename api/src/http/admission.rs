//! Admission: how much work the process does at a time, and the budget of each request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use engine::settings::RequestLimits;
use tokio::sync::Notify;

use crate::error::{Error, ErrorCode, Result};

/// The points up to which a request counts as light. Heavier ones share half of the points under
/// way, so that light ones need not wait for them.
const LIGHT_POINTS_MAX: u64 = 20_000;

/// The points under way, and the requests that wait for some.
#[derive(Debug)]
pub struct Admission {
    under_way: AtomicU64,
    under_way_max: u64,
    waiting: AtomicUsize,
    waiting_max: usize,
    budget: u64,
    freed: Notify,
}

/// The budget of an admitted request: what it may still cost. The points that it has spent are
/// under way until it is dropped.
#[derive(Debug)]
pub struct Budget {
    admission: Arc<Admission>,
    spent: AtomicU64,
}

impl Admission {
    /// Nothing under way.
    pub fn new(limits: &RequestLimits) -> Arc<Self> {
        Arc::new(Self {
            under_way: AtomicU64::new(0),
            under_way_max: limits.cost_under_way_max.into(),
            waiting: AtomicUsize::new(0),
            waiting_max: limits.requests_waiting_max as usize,
            budget: limits.cost_max.into(),
            freed: Notify::new(),
        })
    }

    /// The points under way.
    pub fn under_way(&self) -> u64 {
        self.under_way.load(Ordering::Relaxed)
    }

    /// The requests that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Waits until there is room for a request that costs so many points at least.
    ///
    /// # Errors
    /// `UNAVAILABLE` if too many wait.
    pub async fn enter(self: &Arc<Self>, points: u64) -> Result<Budget> {
        if !self.try_enter(points) {
            let _place = Waiting::join(self)?;
            loop {
                let freed = self.freed.notified();
                if self.try_enter(points) {
                    break;
                }
                freed.await;
            }
        }
        Ok(Budget { admission: self.clone(), spent: AtomicU64::new(points) })
    }

    /// A request that costs more than all that may be under way enters alone.
    fn try_enter(&self, points: u64) -> bool {
        let max = match points > LIGHT_POINTS_MAX {
            true => self.under_way_max / 2,
            false => self.under_way_max,
        };
        let enter = |under_way: u64| {
            (under_way == 0 || under_way + points <= max).then_some(under_way + points)
        };
        self.under_way.try_update(Ordering::Relaxed, Ordering::Relaxed, enter).is_ok()
    }
}

/// A place among the requests that wait.
struct Waiting<'a>(&'a Admission);

impl<'a> Waiting<'a> {
    fn join(admission: &'a Admission) -> Result<Self> {
        let place = Self(admission);
        if admission.waiting.fetch_add(1, Ordering::Relaxed) < admission.waiting_max {
            return Ok(place);
        }
        Err(Error::new(ErrorCode::Unavailable, "the server is busy; try again in a second"))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Budget {
    /// Spends points on work that is about to be done.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` if the request would cost more than one may.
    pub fn spend(&self, points: u64) -> Result<()> {
        let spent = self.spent.fetch_add(points, Ordering::Relaxed).saturating_add(points);
        self.admission.under_way.fetch_add(points, Ordering::Relaxed);
        let max = self.admission.budget;
        if spent <= max {
            return Ok(());
        }
        Err(Error::limit_exceeded(format!(
            "this request costs more than {max} points; ask for less at once"
        )))
    }

    /// The points spent.
    pub fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }

    /// The points that a request may spend.
    pub fn max(&self) -> u64 {
        self.admission.budget
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        self.admission.under_way.fetch_sub(self.spent(), Ordering::Relaxed);
        if self.admission.waiting() > 0 {
            self.admission.freed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::http::check::cost::tests::limits;

    fn admission(under_way_max: u32, requests_waiting_max: u32) -> Arc<Admission> {
        let changed = RequestLimits {
            cost_under_way_max: under_way_max,
            requests_waiting_max,
            cost_max: 100_000,
            ..limits()
        };
        Admission::new(&changed)
    }

    #[tokio::test]
    async fn a_request_waits_until_there_is_room() {
        let admission = admission(100_000, 1);
        let first = admission.enter(50_000).await.unwrap();
        let soon = Duration::from_millis(20);
        assert!(timeout(soon, admission.enter(50_000)).await.is_err());
        assert_eq!(admission.waiting(), 0);
        // Light requests do not wait for heavy ones.
        let light = admission.enter(10_000).await.unwrap();
        assert_eq!(admission.under_way(), 60_000);
        drop((first, light));
        let alone = admission.enter(100_000).await.unwrap();
        assert_eq!(admission.under_way(), 100_000);
        let second = tokio::spawn({
            let admission = admission.clone();
            async move { admission.enter(1).await.map(|budget| budget.spent()) }
        });
        while admission.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(admission.enter(1).await.unwrap_err().code, ErrorCode::Unavailable);
        drop(alone);
        assert_eq!(second.await.unwrap().unwrap(), 1);
        assert_eq!((admission.under_way(), admission.waiting()), (0, 0));
    }

    #[tokio::test]
    async fn a_budget_is_spent_once() {
        let admission = admission(10_000, 1);
        let budget = admission.enter(40_000).await.unwrap();
        budget.spend(60_000).unwrap();
        assert_eq!(budget.spend(1).unwrap_err().code, ErrorCode::LimitExceeded);
        assert_eq!(admission.under_way(), 100_001);
        drop(budget);
        assert_eq!(admission.under_way(), 0);
    }
}
