//! Turns: heavy requests compute on threads of their own, fewer than cores and of low priority, so
//! that light ones never wait for them.

use std::cell::Cell;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::thread::{self, available_parallelism};

use engine::settings::traces::SPANS;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Mutex, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::error::{Error, ErrorCode, Result};

/// The niceness of the threads. It bounds how long one that holds a lock may be kept from the
/// processor, too: it still gets a tenth of a busy one.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

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

/// The way of a request into a turn: it begins as a light one, and goes on there once it has turned
/// out heavy.
#[derive(Debug, Default)]
pub struct Turning {
    /// Cancelled once the request wants a turn.
    due: CancellationToken,
    /// Cancelled once it has one.
    begun: CancellationToken,
}

impl Turning {
    /// Asks for a turn, and waits for it.
    pub async fn turn(&self) {
        self.due.cancel();
        self.begun.cancelled().await;
    }
}

/// The threads of heavy requests: half as many as cores, and one at least.
#[derive(Debug)]
pub struct Turns {
    queue: UnboundedSender<BoxFuture<'static, ()>>,
    /// The heavy requests that there may be besides those that there are.
    places: Arc<Semaphore>,
}

impl Turns {
    /// Starts the threads, for at most `requests_max` requests at a time. The connections to the
    /// stores stay with the runtime of the caller.
    pub fn start(requests_max: usize) -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Self::with_threads(cores.div_ceil(2).min(BEGUN_MAX), requests_max)
    }

    fn with_threads(threads: usize, requests_max: usize) -> Self {
        let (queue, coming) = unbounded_channel();
        let coming = Arc::new(Mutex::new(coming));
        for _ in 0..threads {
            let (runtime, coming) = (Handle::current(), coming.clone());
            thread::Builder::new()
                .name("heavy".to_owned())
                .stack_size(crate::STACK_BYTES)
                .spawn(move || {
                    // Of the calling thread. Where it fails, they have the priority of the others.
                    #[cfg(target_os = "linux")]
                    let _ = rustix::process::setpriority_process(None, NICENESS);
                    IS_HEAVY.set(true);
                    runtime.block_on(take_turns(&coming, BEGUN_MAX / threads));
                })
                .expect("the system has threads");
        }
        Self { queue, places: Arc::new(Semaphore::new(requests_max)) }
    }

    /// Does some work, and goes on with it in a turn once it asks for one.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub async fn run_later<T: Send + 'static>(
        &self,
        mut work: impl Future<Output = T> + Unpin + Send + 'static,
        turning: Arc<Turning>,
    ) -> Result<T> {
        tokio::select! {
            biased;
            () = turning.due.cancelled() => {}
            done = &mut work => return Ok(done),
        }
        let begun = async move {
            turning.begun.cancel();
            work.await
        };
        self.run(begun).await
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
        let _ = self.queue.send(work.in_current_span().boxed());
        receiver.await.map_err(|_| Error::internal(&"it panicked"))
    }
}

/// Does the work that comes, in its order: a step of each that has begun in turn.
async fn take_turns(coming: &Mutex<UnboundedReceiver<BoxFuture<'static, ()>>>, begun_max: usize) {
    let mut begun = FuturesUnordered::new();
    loop {
        let next = async { coming.lock().await.recv().await };
        tokio::select! {
            work = next, if begun.len() < begun_max => match work {
                Some(work) => begun.push(work),
                None => return,
            },
            Some(()) = begun.next() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// With two places, and one thread.
    fn one_thread() -> Turns {
        Turns::with_threads(1, 2)
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
