//! Admission: how much work the process does at a time, and the budget of each request.

mod budget;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use engine::settings::RequestLimits;
use engine::settings::traces::SPANS;
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

use crate::error::{Error, ErrorCode, Result};
use crate::metrics::METRICS;

pub use budget::Budget;

/// The points up to which a request counts as light.
pub const LIGHT_POINTS_MAX: u64 = 2000;

/// The points that a request holds at least, as it may spend more than its text costs. By default
/// 100 requests are executed at a time, half of which may be heavy.
const RESERVED_POINTS: u64 = 10_000;

/// The points of a mutation, or the objects of its answer, beyond which the answer is costly: a
/// thousand scores with their entries take fewer.
const COSTLY_CHANGE_POINTS: u64 = 60_000;
const COSTLY_CHANGE_OBJECTS: u64 = 5000;

/// The mutations with costly answers that are executed at a time.
const COSTLY_CHANGES_MAX: usize = 4;

/// The longest wait of another one.
const COSTLY_CHANGE_TIMEOUT: Duration = Duration::from_secs(5);

/// The points under way, and the requests that wait for some.
#[derive(Debug)]
pub struct Admission {
    under_way_max: u64,
    light: Lane,
    heavy: Lane,
    /// The requests that wait for a turn, which has as many places as there are.
    turning: Lane,
    /// Mutations, which keep no reads waiting: they may wait for SQL for long.
    changes: Lane,
    /// The places of mutations with costly answers.
    costly_changes: Arc<Semaphore>,
    /// The points that heavy requests have spent since they were last taken.
    heavy_points: AtomicU64,
    /// The light requests and mutations that have ever been let in.
    admitted: Arc<AtomicU64>,
    waiting: AtomicUsize,
    waiting_max: usize,
    /// The bytes that the waiting requests hold.
    waiting_bytes: AtomicU64,
    waiting_bytes_max: u64,
    budget_max: u64,
}

/// The requests of one kind: those that are executed, and those that wait in the order in which
/// they came.
#[derive(Debug, Default)]
struct Lane {
    /// The points under way.
    under_way: AtomicU64,
    waiting: AtomicUsize,
    /// Wakes the first request.
    room: Notify,
}

impl Admission {
    /// Nothing under way.
    pub fn new(limits: &RequestLimits) -> Arc<Self> {
        Arc::new(Self {
            under_way_max: limits.cost_under_way_max.into(),
            light: Lane::default(),
            heavy: Lane::default(),
            turning: Lane::default(),
            changes: Lane::default(),
            costly_changes: Arc::new(Semaphore::new(COSTLY_CHANGES_MAX)),
            heavy_points: AtomicU64::new(0),
            admitted: Arc::default(),
            waiting: AtomicUsize::new(0),
            waiting_max: limits.requests_waiting_max as usize,
            waiting_bytes: AtomicU64::new(0),
            waiting_bytes_max: limits.requests_waiting_bytes,
            budget_max: limits.cost_max.into(),
        })
    }

    /// The points under way.
    pub fn under_way(&self) -> u64 {
        let lanes = [&self.light, &self.heavy, &self.turning, &self.changes];
        let lanes = lanes.map(|lane| lane.under_way.load(Ordering::SeqCst));
        lanes.iter().sum()
    }

    /// True if light requests or mutations are under way.
    fn has_light(&self) -> bool {
        [&self.light, &self.changes].iter().any(|lane| lane.under_way.load(Ordering::SeqCst) > 0)
    }

    /// The points that heavy requests have spent since the last call, if light ones or mutations
    /// are under way.
    pub fn heavy_points_beside_light(&self) -> Option<u64> {
        let points = self.heavy_points.swap(0, Ordering::SeqCst);
        self.has_light().then_some(points)
    }

    /// The requests that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Waits until there is room for a request that costs so many points at least. It holds so
    /// many bytes while it waits. Light ones go first.
    ///
    /// # Errors
    /// `UNAVAILABLE` if too many wait, or ones that hold too much.
    pub async fn enter(
        self: &Arc<Self>,
        points: u64,
        bytes: u64,
        is_heavy: bool,
    ) -> Result<Budget> {
        let lane = self.lane(is_heavy);
        // A newcomer overtakes none that waits. Each is woken alone: a crowd that woke at once
        // would cost more than its requests do.
        if lane.waiting.load(Ordering::SeqCst) > 0 || !self.try_enter(points, is_heavy) {
            let place = Waiting::join(self, lane, bytes)?;
            let _waiting = tracing::info_span!(target: SPANS, "admission");
            if place.is_first {
                // Room that came before the place did has woken none.
                lane.wake();
            }
            loop {
                lane.room.notified().await;
                if self.try_enter(points, is_heavy) {
                    break;
                }
            }
        }
        Ok(Budget::new(self.clone(), points, is_heavy))
    }

    /// Lets a mutation in, of so many points and objects. It waits for others only if its answer is
    /// as costly as few are.
    ///
    /// # Errors
    /// `UNAVAILABLE` if too many with costly answers are under way for too long.
    pub async fn enter_to_change(self: &Arc<Self>, points: u64, objects: u64) -> Result<Budget> {
        let mut place = None;
        if points > COSTLY_CHANGE_POINTS || objects > COSTLY_CHANGE_OBJECTS {
            let acquiring = self.costly_changes.clone().acquire_owned();
            let acquired = timeout(COSTLY_CHANGE_TIMEOUT, acquiring).await;
            let busy = "other mutations with answers as long are under way, and nothing of this one is done; ask for less, or send it again";
            let Ok(Ok(acquired)) = acquired else {
                return Err(Error::new(ErrorCode::Unavailable, busy));
            };
            place = Some(acquired);
        }
        self.changes.under_way.fetch_add(points.max(RESERVED_POINTS), Ordering::SeqCst);
        Ok(Budget::new(self.clone(), points, false).of_change(place))
    }

    fn lane(&self, is_heavy: bool) -> &Lane {
        if is_heavy { &self.heavy } else { &self.light }
    }

    /// Heavy requests enter while all under way are within half of the points, and take no more
    /// than that half from light ones, however much they turn out to cost. One that costs more than
    /// it may enters alone.
    fn try_enter(&self, points: u64, is_heavy: bool) -> bool {
        let half = self.under_way_max / 2;
        let other = self.lane(!is_heavy).under_way.load(Ordering::SeqCst);
        let max = match is_heavy {
            true => half.saturating_sub(other),
            false => self.under_way_max - other.min(half),
        };
        let held = points.max(RESERVED_POINTS);
        let is_alone = |under_way: u64| under_way == 0 && (other == 0 || !is_heavy);
        let enter = |under_way: u64| {
            (is_alone(under_way) || under_way + held <= max).then_some(under_way + held)
        };
        let lane = self.lane(is_heavy);
        lane.under_way.fetch_update(Ordering::SeqCst, Ordering::SeqCst, enter).is_ok()
    }
}

impl Lane {
    /// Wakes the first request that waits.
    fn wake(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.room.notify_one();
        }
    }
}

/// A place among the requests that wait.
struct Waiting<'a> {
    admission: &'a Admission,
    lane: &'a Lane,
    bytes: u64,
    /// True if none waited before in the lane.
    is_first: bool,
}

impl<'a> Waiting<'a> {
    fn join(admission: &'a Admission, lane: &'a Lane, bytes: u64) -> Result<Self> {
        let is_first = lane.waiting.fetch_add(1, Ordering::SeqCst) == 0;
        let place = Self { admission, lane, bytes, is_first };
        let before = admission.waiting.fetch_add(1, Ordering::SeqCst);
        let bytes_before = admission.waiting_bytes.fetch_add(bytes, Ordering::SeqCst);
        let all = bytes_before.saturating_add(bytes);
        if before < admission.waiting_max && all <= admission.waiting_bytes_max {
            return Ok(place);
        }
        METRICS.requests_refused.busy.inc();
        Err(Error::new(ErrorCode::Unavailable, "the server is busy; try again in a second"))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.lane.waiting.fetch_sub(1, Ordering::SeqCst);
        self.admission.waiting.fetch_sub(1, Ordering::SeqCst);
        self.admission.waiting_bytes.fetch_sub(self.bytes, Ordering::SeqCst);
        // There may be room for the next one.
        self.lane.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::check::cost::tests::limits;

    pub fn admission(under_way_max: u32, requests_waiting_max: u32) -> Arc<Admission> {
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
        let admission = admission(200_000, 1);
        let first = admission.enter(90_000, 1, true).await.unwrap();
        let soon = Duration::from_millis(20);
        assert!(timeout(soon, admission.enter(50_000, 1, true)).await.is_err());
        assert_eq!(admission.waiting(), 0);
        // Light requests do not wait for heavy ones, but hold what they may come to.
        let light = admission.enter(10_000, 1, false).await.unwrap();
        assert_eq!(admission.under_way(), 90_000 + RESERVED_POINTS);
        drop((first, light));
        let alone = admission.enter(200_000, 1, false).await.unwrap();
        assert_eq!(admission.under_way(), 200_000);
        let second = tokio::spawn({
            let admission = admission.clone();
            async move { admission.enter(1, 1, false).await.map(|budget| budget.spent()) }
        });
        while admission.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(admission.enter(1, 1, false).await.unwrap_err().code, ErrorCode::Unavailable);
        let write = admission.enter_to_change(1, 1).await.unwrap();
        drop((alone, write));
        assert_eq!(second.await.unwrap().unwrap(), 1);
        assert_eq!((admission.under_way(), admission.waiting()), (0, 0));
    }

    #[tokio::test]
    async fn mutations_take_no_room_of_reads_and_few_have_costly_answers() {
        let admission = admission(20_000, 10);
        let mut changes = vec![];
        for _ in 0..100 {
            changes.push(admission.enter_to_change(40_000, 1000).await.unwrap());
        }
        assert_eq!(admission.under_way(), 4_000_000);
        drop(admission.enter(1, 1, false).await.unwrap());
        for _ in 0..COSTLY_CHANGES_MAX {
            changes.push(admission.enter_to_change(1, COSTLY_CHANGE_OBJECTS + 1).await.unwrap());
        }
        let mut costly = Box::pin(admission.enter_to_change(COSTLY_CHANGE_POINTS + 1, 1));
        assert!(futures::poll!(&mut costly).is_pending());
        drop(changes);
        drop(costly.await.unwrap());
        assert_eq!(admission.under_way(), 0);
    }

    #[tokio::test]
    async fn what_waits_for_a_turn_takes_no_room() {
        let admission = admission(40_000, 10);
        let mut budgets = vec![];
        for _ in 0..4 {
            let budget = admission.enter(1, 1, false).await.unwrap().turning(Some(Arc::default()));
            budget.spend(LIGHT_POINTS_MAX).unwrap();
            budgets.push(budget);
        }
        let soon = Duration::from_millis(20);
        assert!(timeout(soon, admission.enter(1, 1, false)).await.is_err());
        let mut waiting: Vec<_> = budgets.iter().map(|budget| Box::pin(budget.turn())).collect();
        for turn in &mut waiting {
            assert!(futures::poll!(turn).is_pending());
        }
        // One in a turn enters, and so do light ones.
        let heavy = admission.enter(LIGHT_POINTS_MAX + 1, 1, true).await.unwrap();
        let light = admission.enter(1, 1, false).await.unwrap();
        assert_eq!(admission.under_way(), 6 * RESERVED_POINTS);
        drop((heavy, light, waiting));
        drop(budgets);
        assert_eq!(admission.under_way(), 0);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_crowd_enters_in_its_order_and_nobody_is_forgotten() {
        let admission = admission(40_000, 1000);
        let (first, second) = (admission.enter(1, 1, false), admission.enter(1, 1, false));
        let (first, second) = (first.await.unwrap(), second.await.unwrap());
        let rest = [admission.enter(1, 1, false), admission.enter(1, 1, false)];
        let rest = futures::future::join_all(rest).await;
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(admission.enter(1, 1, false))).collect();
        for enter in &mut waiting {
            assert!(futures::poll!(enter.as_mut()).is_pending());
        }
        drop(first);
        // It came later, and there is room for one.
        let mut late = Box::pin(admission.enter(1, 1, false));
        assert!(futures::poll!(late.as_mut()).is_pending());
        assert!(futures::poll!(waiting[2].as_mut()).is_pending());
        let entered = waiting.remove(0).await.unwrap();
        // One that gives up leaves its turn to the next.
        drop(second);
        drop(waiting.remove(0));
        drop(waiting.remove(0).await.unwrap());
        drop(late.await.unwrap());
        drop((entered, rest));
        let crowd = (0..1000).map(|number| {
            let admission = admission.clone();
            let is_heavy = number % 3 == 0;
            tokio::spawn(async move {
                let budget = admission.enter(number * 30, 1, is_heavy).await.unwrap();
                tokio::task::yield_now().await;
                drop(budget);
            })
        });
        let crowd: Vec<_> = crowd.collect();
        let all = futures::future::join_all(crowd);
        let all = timeout(Duration::from_secs(60), all).await.unwrap();
        assert!(all.iter().all(Result::is_ok));
        assert_eq!(admission.waiting(), 0);
    }

    #[tokio::test]
    async fn light_requests_keep_half_of_the_points_whatever_heavy_ones_cost() {
        let admission = admission(200_000, 1);
        let heavy = [(); 10].map(|()| admission.enter(10_000, 1, true));
        let heavy = futures::future::join_all(heavy).await;
        for budget in heavy.iter().flatten() {
            budget.spend(90_000).unwrap();
        }
        assert_eq!(admission.under_way(), 1_000_000);
        let light = [(); 10].map(|()| admission.enter(1, 1, false));
        let light = futures::future::join_all(light).await;
        assert!(light.iter().all(Result::is_ok));
        let soon = Duration::from_millis(20);
        assert!(timeout(soon, admission.enter(1, 1, false)).await.is_err());
        drop((heavy, light));
        assert_eq!(admission.under_way(), 0);
    }

    #[tokio::test]
    async fn requests_that_hold_much_do_not_wait_in_crowds() {
        let admission = admission(10_000, 1000);
        let first = admission.enter(10_000, 1, false).await.unwrap();
        let bytes = limits().requests_waiting_bytes;
        let half = || Box::pin(admission.enter(1, bytes / 2, false));
        let mut waiting = [half(), half()];
        for enter in &mut waiting {
            assert!(futures::poll!(enter.as_mut()).is_pending());
        }
        let refused = admission.enter(1, 1, false).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::Unavailable);
        drop(waiting);
        let soon = Duration::from_millis(20);
        assert!(timeout(soon, admission.enter(1, bytes, false)).await.is_err());
        drop(first);
        admission.enter(1, bytes + 1, false).await.unwrap();
        assert_eq!(admission.waiting_bytes.load(Ordering::SeqCst), 0);
    }
}
