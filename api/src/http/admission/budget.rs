//! The budget of a request: the points that it may still cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use super::{Admission, LIGHT_POINTS_MAX, Lane, RESERVED_POINTS};
use crate::error::{Error, Result};
use crate::http::turns::{self, Turning};

/// The lanes of a budget.
const LIGHT: u8 = 0;
const TURNING: u8 = 1;
const HEAVY: u8 = 2;
const CHANGE: u8 = 3;

/// The reads of a request at a time whose price only their answers tell.
const SCANS_AT_ONCE: usize = 4;

/// The boards that a request looks for at a time: tokens wait for the same connections to SQL.
const FINDS_AT_ONCE: usize = 4;

/// The points that a read whose price only its answer tells is taken to cost where its request ends
/// before it: SQL goes on with it.
const UNSETTLED_POINTS: u64 = 20_000;

/// The budget of an admitted request: what it may still cost. The points that it has spent are
/// under way until it is dropped.
#[derive(Debug)]
pub struct Budget {
    admission: Arc<Admission>,
    /// [`LIGHT`], [`TURNING`], [`HEAVY`] or [`CHANGE`].
    kind: AtomicU8,
    /// Set if the request must go on in a turn once it has turned out heavy.
    turning: Option<Arc<Turning>>,
    max: u64,
    spent: AtomicU64,
    /// The points of work that was done beyond the budget, or that no answer told.
    beyond: AtomicU64,
    /// The standings that its scores write.
    standings: AtomicU64,
    /// The places of reads whose price only their answers tell.
    scans: Semaphore,
    /// The places of look-ups of boards.
    finds: Semaphore,
    /// The place of a mutation with a costly answer.
    _place: Option<OwnedSemaphorePermit>,
}

impl Budget {
    /// That of a request that enters, and has spent so many points on its text.
    pub(super) fn new(admission: Arc<Admission>, points: u64, is_heavy: bool) -> Self {
        admission.admitted.fetch_add(u64::from(!is_heavy), Ordering::Relaxed);
        Self {
            kind: if is_heavy { HEAVY } else { LIGHT }.into(),
            turning: None,
            max: admission.budget_max,
            spent: AtomicU64::new(points),
            beyond: AtomicU64::new(0),
            standings: AtomicU64::new(0),
            scans: Semaphore::new(SCANS_AT_ONCE),
            finds: Semaphore::new(FINDS_AT_ONCE),
            admission,
            _place: None,
        }
    }

    /// This budget, of a mutation, which has a place if its answer is costly.
    pub(super) fn of_change(mut self, place: Option<OwnedSemaphorePermit>) -> Self {
        (self.kind, self._place) = (CHANGE.into(), place);
        self
    }

    /// The light requests and mutations that were ever let in: while it stays, none comes.
    pub fn admitted(&self) -> Arc<AtomicU64> {
        self.admission.admitted.clone()
    }

    /// This budget, of at most so many points.
    pub fn at_most(mut self, points: u64) -> Self {
        self.max = self.max.min(points);
        self
    }

    /// This budget, of a request that may go on in a turn.
    pub fn turning(mut self, turning: Option<Arc<Turning>>) -> Self {
        self.turning = turning;
        self
    }

    /// Waits for a turn if the request has spent more than a light one, and is not in a turn. It
    /// takes no room of others meanwhile: those that are in a turn may wait for room themselves.
    pub async fn turn(&self) {
        let Some(turning) = self.turning.as_ref().filter(|_| self.spent() > LIGHT_POINTS_MAX)
        else {
            return;
        };
        // In a box: most never come here, and all that may wait are as large as it.
        let waiting = async {
            self.change_lanes(LIGHT, TURNING);
            turning.turn().await;
            self.change_lanes(TURNING, HEAVY);
        };
        Box::pin(waiting).await;
    }

    /// Moves what is held from one lane to another, unless a part of the request has done so.
    fn change_lanes(&self, from: u8, to: u8) {
        let changed = self.kind.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
        if changed.is_ok() {
            let held = self.spent().max(RESERVED_POINTS);
            self.lane_of(to).under_way.fetch_add(held, Ordering::SeqCst);
            self.lane_of(from).under_way.fetch_sub(held, Ordering::SeqCst);
            self.admission.light.wake();
            self.admission.heavy.wake();
        }
    }

    fn lane(&self) -> &Lane {
        self.lane_of(self.kind.load(Ordering::SeqCst))
    }

    fn lane_of(&self, kind: u8) -> &Lane {
        match kind {
            LIGHT => &self.admission.light,
            TURNING => &self.admission.turning,
            CHANGE => &self.admission.changes,
            _ => &self.admission.heavy,
        }
    }

    /// Spends points on work that is about to be done.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` if the request would cost more than one may.
    pub fn spend(&self, points: u64) -> Result<()> {
        let max = self.max;
        let fitting = |spent: u64| spent.checked_add(points).filter(|spent| *spent <= max);
        if let Ok(before) = self.spent.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fitting) {
            let (held, holds) = (before.max(RESERVED_POINTS), before + points);
            // Those of clients with tokens are done elsewhere.
            if turns::is_here() {
                self.admission.heavy_points.fetch_add(points, Ordering::SeqCst);
            }
            self.lane().under_way.fetch_add(holds.saturating_sub(held), Ordering::SeqCst);
            return Ok(());
        }
        Err(Error::limit_exceeded(format!(
            "this request costs more than {max} points; ask for less at once"
        )))
    }

    /// As [`Self::spend`], on work that is done. Beyond the budget all of it is spent, so that the
    /// request gets no more.
    ///
    /// # Errors
    /// As [`Self::spend`].
    pub fn owe(&self, points: u64) -> Result<()> {
        self.spend(points).inspect_err(|_| {
            let before = self.spent.fetch_max(self.max, Ordering::SeqCst);
            let (held, holds) = (before.max(RESERVED_POINTS), self.max.max(before));
            self.lane().under_way.fetch_add(holds.saturating_sub(held), Ordering::SeqCst);
            let beyond = points.saturating_sub(holds - before);
            self.beyond.fetch_add(beyond, Ordering::SeqCst);
        })
    }

    /// Does a read whose price only its answer tells. If the request ends meanwhile, it has cost
    /// [`UNSETTLED_POINTS`].
    pub async fn settle<T>(&self, reading: impl Future<Output = T>) -> T {
        let unsettled = Unsettled(Some(self));
        let read = reading.await;
        unsettled.settle();
        read
    }

    /// The points that the client has to pay: those spent, and those of work beyond the budget.
    pub fn cost(&self) -> u64 {
        self.spent().saturating_add(self.beyond.load(Ordering::SeqCst))
    }

    /// Waits for the place of a read whose price only its answer tells, so that few of them are
    /// done that the request cannot pay for.
    pub async fn scan(&self) -> Option<SemaphorePermit<'_>> {
        self.scans.acquire().await.ok()
    }

    /// Waits for the place of a look-up of a board.
    pub async fn find(&self) -> Option<SemaphorePermit<'_>> {
        self.finds.acquire().await.ok()
    }

    /// Notes that scores of the request write so many standings, unless that makes more than `max`
    /// in all.
    ///
    /// # Errors
    /// The sum that is too large.
    pub fn write(&self, standings: u64, max: u64) -> Result<(), u64> {
        let fitting = |so_far: u64| so_far.checked_add(standings).filter(|sum| *sum <= max);
        let written = self.standings.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fitting);
        written.map(|_| ()).map_err(|so_far| so_far.saturating_add(standings))
    }

    /// The standings that its scores write.
    pub fn standings(&self) -> u64 {
        self.standings.load(Ordering::SeqCst)
    }

    /// The points spent.
    pub fn spent(&self) -> u64 {
        self.spent.load(Ordering::SeqCst)
    }

    /// The points that a request may spend.
    pub fn max(&self) -> u64 {
        self.max
    }
}

/// A read whose price is not known yet.
struct Unsettled<'b>(Option<&'b Budget>);

impl Unsettled<'_> {
    fn settle(mut self) {
        self.0 = None;
    }
}

impl Drop for Unsettled<'_> {
    fn drop(&mut self) {
        if let Some(budget) = self.0 {
            budget.beyond.fetch_add(UNSETTLED_POINTS, Ordering::SeqCst);
        }
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        let held = self.spent().max(RESERVED_POINTS);
        self.lane().under_way.fetch_sub(held, Ordering::SeqCst);
        self.admission.light.wake();
        self.admission.heavy.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::admission;
    use super::*;
    use crate::error::ErrorCode;

    #[tokio::test]
    async fn a_budget_is_spent_once() {
        let admission = admission(10_000, 1);
        let budget = admission.enter(10, 1, false).await.unwrap();
        budget.spend(10).unwrap();
        assert_eq!(admission.under_way(), RESERVED_POINTS);
        budget.spend(99_980).unwrap();
        assert_eq!(admission.under_way(), 100_000);
        assert_eq!(budget.spend(1).unwrap_err().code, ErrorCode::LimitExceeded);
        assert_eq!(budget.spend(u64::MAX).unwrap_err().code, ErrorCode::LimitExceeded);
        assert_eq!(admission.under_way(), 100_000);
        drop(budget);
        // Work that is done is owed, and the request gets no more after it.
        let budget = admission.enter(10, 1, false).await.unwrap();
        budget.owe(5).unwrap();
        assert_eq!(budget.spent(), 15);
        assert_eq!(budget.owe(100_000).unwrap_err().code, ErrorCode::LimitExceeded);
        assert_eq!((budget.spent(), budget.spend(1).is_err()), (100_000, true));
        // The client pays for all of it.
        assert_eq!(budget.cost(), 100_015);
        drop(budget);
        assert_eq!(admission.under_way(), 0);
    }

    #[tokio::test]
    async fn a_read_that_is_abandoned_is_paid_for() {
        let budget = admission(10_000, 1).enter(10, 1, false).await.unwrap();
        assert_eq!(budget.settle(std::future::ready(7)).await, 7);
        assert_eq!(budget.cost(), 10);
        let abandoned = budget.settle(std::future::pending::<()>());
        let _ = tokio::time::timeout(std::time::Duration::from_millis(1), abandoned).await;
        assert_eq!((budget.spent(), budget.cost()), (10, 10 + UNSETTLED_POINTS));
    }
}
