//! Turns: heavy requests compute on threads of their own, fewer than cores and of low priority, so
//! that light ones never wait for them. While light ones are under way, these threads rest most of
//! the time: what they compute keeps caches, Redis and SQL busy, whatever their priority is.

mod rest;
mod turning;

use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::thread::{self, available_parallelism};
use std::time::Instant;

use async_channel::{Receiver, Sender, unbounded};
use engine::settings::traces::SPANS;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tracing::{Instrument, Span};

use crate::error::{Error, ErrorCode, Result};
use rest::Rest;
use turning::PRESENT;

pub use turning::{Turning, share};

/// The niceness of the threads, the highest: with 10, whatever wakes for a light request waits for
/// them often enough to double its longest times. A thread that holds a lock still gets a
/// seventieth of a busy processor.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 19;

/// The heavy requests that have begun and not ended: fewer than the connections to SQL for reads,
/// which they may hold.
const BEGUN_MAX: usize = 4;

thread_local! {
    static IS_HEAVY: Cell<bool> = const { Cell::new(false) };
}

/// True on a thread of heavy requests. A fetch there may be late, so that other requests must not
/// wait for it.
pub fn is_here() -> bool {
    IS_HEAVY.get()
}

/// The threads of heavy requests: half as many as cores, and one at least.
#[derive(Debug)]
pub struct Turns {
    queue: Sender<BoxFuture<'static, ()>>,
    /// The heavy requests that there may be besides those that there are.
    places: Arc<Semaphore>,
}

impl Turns {
    /// Starts the threads, for at most `requests_max` requests at a time. They rest while light
    /// requests are under way: `beside_light` then tells the points that the heavy ones have spent
    /// since its last call. The connections to the stores stay with the runtime of the caller.
    pub fn start(
        requests_max: usize,
        beside_light: impl Fn() -> Option<u64> + Clone + Send + 'static,
    ) -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Self::with_threads(cores.div_ceil(2).min(BEGUN_MAX), requests_max, beside_light)
    }

    fn with_threads(
        threads: usize,
        requests_max: usize,
        beside_light: impl Fn() -> Option<u64> + Clone + Send + 'static,
    ) -> Self {
        let (queue, coming) = unbounded();
        for _ in 0..threads {
            let (runtime, coming, beside_light) =
                (Handle::current(), coming.clone(), beside_light.clone());
            thread::Builder::new()
                .name("heavy".to_owned())
                .stack_size(crate::STACK_BYTES)
                .spawn(move || {
                    // Of the calling thread. Where it fails, they have the priority of the others.
                    #[cfg(target_os = "linux")]
                    let _ = rustix::process::setpriority_process(None, NICENESS);
                    IS_HEAVY.set(true);
                    runtime.block_on(take_turns(coming, BEGUN_MAX / threads, beside_light));
                })
                .expect("the system has threads");
        }
        Self { queue, places: Arc::new(Semaphore::new(requests_max)) }
    }

    /// Does the work of a request that may take turns, or may not: a heavy one in turns, under its
    /// span, and another one here until it asks for a turn by what `work` is given.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub async fn run_when_heavy<F>(
        &self,
        (may_turn, is_heavy): (bool, bool),
        span: Span,
        work: impl FnOnce(Option<Arc<Turning>>) -> F,
    ) -> Result<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        match (may_turn, is_heavy) {
            (true, true) => self.run(work(None).instrument(span)).await,
            (true, false) => {
                let turning = Arc::<Turning>::default();
                self.run_later(work(Some(turning.clone())), turning).await
            }
            (false, _) => Ok(work(None).await),
        }
    }

    /// Does some work, and goes on with it in a turn once it asks for one. Until it has one, its
    /// other parts go on here, so that none of them keeps what others wait for.
    ///
    /// # Errors
    /// As [`Self::run`].
    async fn run_later<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
        turning: Arc<Turning>,
    ) -> Result<T> {
        let mut work = Box::pin(PRESENT.scope(turning.clone(), work));
        tokio::select! {
            biased;
            done = &mut work => return Ok(done),
            () = turning.due.cancelled() => {}
        }
        let (call, called) = oneshot::channel();
        let (hand, handed) = oneshot::channel();
        let begun = turning.begun.clone();
        let turn = async move {
            // Where the request has ended, the other ends are gone, and this is dropped.
            let _ = call.send(());
            let Ok(work) = handed.await else { return pending().await };
            begun.cancel();
            work.await
        };
        let mut turn = pin!(self.run(turn));
        let moving = async {
            // Threads that ended drop the turn.
            let _ = called.await;
            turning.unshared().await;
        };
        tokio::select! {
            biased;
            refused = &mut turn => refused,
            done = &mut work => Ok(done),
            () = moving => {
                let _ = hand.send(work);
                turn.await
            }
        }
    }

    /// Does some work in turns. It is dropped when this future is.
    ///
    /// # Errors
    /// `UNAVAILABLE` if there are too many heavy requests, `INTERNAL` if the work panics.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        let place = self.places.clone().try_acquire_owned().map_err(|_| {
            let message = "the server has many costly requests; try again in a second";
            Error::new(ErrorCode::Unavailable, message)
        })?;
        let (mut sender, receiver) = oneshot::channel();
        let waiting = tracing::info_span!(target: SPANS, "turn");
        let work = async move {
            drop(waiting);
            let work = tokio::select! {
                biased;
                // Its client may be gone before it begins.
                () = sender.closed() => return,
                done = AssertUnwindSafe(work).catch_unwind() => done,
            };
            drop(place);
            if let Ok(done) = work {
                // The other end may be gone.
                let _ = sender.send(done);
            }
        };
        // Threads that ended drop the work, and with it the sender.
        let _ = self.queue.try_send(work.in_current_span().boxed());
        receiver.await.map_err(|_| Error::internal(&"it panicked"))
    }
}

/// Does the work that comes, in its order: a step of each that has begun in turn.
async fn take_turns(
    coming: Receiver<BoxFuture<'static, ()>>,
    begun_max: usize,
    beside_light: impl Fn() -> Option<u64>,
) {
    let mut begun = FuturesUnordered::new();
    let mut rest = Rest::default();
    loop {
        tokio::select! {
            work = coming.recv(), if begun.len() < begun_max => match work {
                Ok(work) => begun.push(work),
                Err(_) => return,
            },
            Some(()) = step(&mut begun, &mut rest, &beside_light) => {}
        }
    }
}

/// The end of one of the works that have begun. While light requests are under way, the thread
/// rests after steps towards it; `rest` is that which is left from earlier ones.
async fn step(
    begun: &mut FuturesUnordered<BoxFuture<'static, ()>>,
    rest: &mut Rest,
    beside_light: impl Fn() -> Option<u64>,
) -> Option<()> {
    poll_fn(|context| {
        let began = Instant::now();
        let ended = begun.poll_next_unpin(context);
        match beside_light() {
            Some(points) => rest.take(began.elapsed(), points),
            None => *rest = Rest::default(),
        }
        ended
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::rest::REST_MAX;
    use super::*;

    /// With two places, and one thread.
    fn one_thread() -> Turns {
        Turns::with_threads(1, 2, || None)
    }

    #[tokio::test]
    async fn heavy_work_leaves_the_caller_free_and_waits_for_nothing_alone() {
        let turns = one_thread();
        // It waits, and another one has a turn meanwhile.
        let mut waiting = Box::pin(turns.run(std::future::pending::<()>()));
        assert!(futures::poll!(&mut waiting).is_pending());
        assert!(turns.run(async { is_here() }).await.unwrap());
        assert!(!is_here());
        // It computes, and the caller goes on.
        let (go, gone) = mpsc::channel();
        let computing = turns.run(async move { gone.recv().unwrap() });
        drop(waiting);
        let going = async { go.send(8).unwrap() };
        let (done, ()) = tokio::join!(computing, going);
        assert_eq!(done.unwrap(), 8);
    }

    #[tokio::test]
    async fn work_that_turns_out_heavy_goes_on_in_a_turn() {
        let turns = one_thread();
        let work = |turning: Arc<Turning>| {
            Box::pin(async move {
                let first = is_here();
                // Parts of the work wait beside each other.
                let part = async || {
                    turning.turn().await;
                    is_here()
                };
                let (second, third) = tokio::join!(part(), part());
                (first, second, third)
            })
        };
        let turning = Arc::new(Turning::default());
        let done = turns.run_later(work(turning.clone()), turning).await.unwrap();
        assert_eq!(done, (false, true, true));
        let light = Box::pin(async { is_here() });
        assert!(!turns.run_later(light, Arc::default()).await.unwrap());
        // Where there is no place for it, it does not go on.
        let forever = || Box::pin(turns.run(std::future::pending::<()>()));
        let (mut one, mut other) = (forever(), forever());
        assert!(futures::poll!(&mut one).is_pending() && futures::poll!(&mut other).is_pending());
        let turning = Arc::new(Turning::default());
        let refused = turns.run_later(work(turning.clone()), turning).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::Unavailable);
    }

    #[tokio::test]
    async fn parts_go_on_until_the_request_has_a_turn() {
        let turns = Turns::with_threads(1, BEGUN_MAX + 1, || None);
        let mut rest = vec![];
        for _ in 0..BEGUN_MAX {
            rest.push(Box::pin(turns.run(pending::<()>())));
            assert!(futures::poll!(rest.last_mut().unwrap()).is_pending());
        }
        let turning = Arc::new(Turning::default());
        let (told, tells) = oneshot::channel();
        let (lets, let_go) = oneshot::channel();
        let work = {
            let turning = turning.clone();
            async move {
                let costly = async {
                    turning.turn().await;
                    is_here()
                };
                let other = async {
                    let _shared = share();
                    tokio::task::yield_now().await;
                    told.send(()).unwrap();
                    let_go.await.unwrap();
                    is_here()
                };
                tokio::join!(costly, other)
            }
        };
        let mut work = Box::pin(turns.run_later(work, turning));
        // There is no turn, and a part of it goes on.
        tokio::select! {
            _ = &mut work => unreachable!("no turn ended"),
            told = tells => told.unwrap(),
        }
        // There is one, and a part is not done that others may wait for.
        drop(rest);
        let a_while = Duration::from_millis(50);
        assert!(tokio::time::timeout(a_while, &mut work).await.is_err());
        lets.send(()).unwrap();
        assert_eq!(work.await.unwrap(), (true, false));
    }

    #[tokio::test]
    async fn a_thread_rests_after_a_step_while_light_requests_are_under_way() {
        let turns = Turns::with_threads(1, 2, || Some(0));
        let began = Instant::now();
        turns.run(async { thread::sleep(Duration::from_millis(20)) }).await.unwrap();
        // The next work comes after the rest.
        turns.run(async {}).await.unwrap();
        assert!(began.elapsed() >= Duration::from_millis(20) + REST_MAX);
    }

    #[tokio::test]
    async fn a_thread_rests_for_what_its_steps_begin_elsewhere() {
        let points = Arc::new(AtomicU64::new(10_000));
        let spent = points.clone();
        let began = Instant::now();
        let turns = Turns::with_threads(1, 2, move || Some(spent.swap(0, Ordering::SeqCst)));
        // The first step takes 10 ms of Redis; the rest of 70 ms follows it and the next one.
        for _ in 0..3 {
            turns.run(async {}).await.unwrap();
        }
        assert!(began.elapsed() >= Duration::from_millis(70));
    }

    #[tokio::test]
    async fn there_are_so_many_places() {
        let turns = one_thread();
        let forever = || Box::pin(turns.run(std::future::pending::<()>()));
        let (mut first, mut second) = (forever(), forever());
        assert!(futures::poll!(&mut first).is_pending());
        assert!(futures::poll!(&mut second).is_pending());
        let refused = turns.run(async {}).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::Unavailable);
        drop(first);
        // The thread gives the place back.
        while turns.run(async {}).await.is_err() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn work_ends_with_its_client_or_badly() {
        let turns = one_thread();
        let (held, dropped) = oneshot::channel::<()>();
        let mut gone = Box::pin(turns.run(async move {
            let _held = held;
            std::future::pending::<()>().await;
        }));
        assert!(futures::poll!(&mut gone).is_pending());
        drop(gone);
        assert!(dropped.await.is_err());
        let panicking = turns.run(async { assert!(turns_are_odd(), "a surprise") });
        assert_eq!(panicking.await.unwrap_err().code, ErrorCode::Internal);
        turns.run(async {}).await.unwrap();
    }

    fn turns_are_odd() -> bool {
        false
    }
}
