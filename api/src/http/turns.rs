//! Turns: heavy requests compute on threads of their own, fewer than cores and of low priority, so
//! that light ones never wait for them.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, available_parallelism};

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, oneshot};

use crate::error::{Error, ErrorCode, Result};

/// The niceness of the threads. It bounds how long one that holds a lock may be kept from the
/// processor, too: it still gets a tenth of a busy one.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// The requests that a thread has begun and not ended: few, as they hold connections, and fetches
/// that light requests may wait for.
const BEGUN_MAX: usize = 4;

/// The threads of heavy requests: half as many as cores, and one at least.
#[derive(Debug)]
pub struct Turns {
    threads: Vec<UnboundedSender<BoxFuture<'static, ()>>>,
    next: AtomicUsize,
    /// The heavy requests that there may be besides those that there are.
    places: Arc<Semaphore>,
}

impl Turns {
    /// Starts the threads, for at most `requests_max` requests at a time. The connections to the
    /// stores stay with the runtime of the caller.
    pub fn start(requests_max: usize) -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        let threads = (0..cores.div_ceil(2)).map(|_| {
            let (sender, receiver) = unbounded_channel();
            let runtime = Handle::current();
            thread::Builder::new()
                .name("heavy".to_owned())
                .stack_size(crate::STACK_BYTES)
                .spawn(move || {
                    // Of the calling thread. Where it fails, they have the priority of the others.
                    #[cfg(target_os = "linux")]
                    let _ = rustix::process::setpriority_process(None, NICENESS);
                    runtime.block_on(take_turns(receiver));
                })
                .expect("the system has threads");
            sender
        });
        let (threads, next) = (threads.collect(), AtomicUsize::new(0));
        Self { threads, next, places: Arc::new(Semaphore::new(requests_max)) }
    }

    /// Does some work in turns. It is dropped when this future is.
    ///
    /// # Errors
    /// `UNAVAILABLE` if there are too many heavy requests, `INTERNAL` if the work panics.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        let _place = self.places.try_acquire().map_err(|_| {
            let message = "the server has many costly requests; try again in a second";
            Error::new(ErrorCode::Unavailable, message)
        })?;
        let (mut sender, receiver) = oneshot::channel();
        let work = async move {
            let work = tokio::select! {
                biased;
                // Its client may be gone before it begins.
                () = sender.closed() => return,
                done = AssertUnwindSafe(work).catch_unwind() => done,
            };
            if let Ok(done) = work {
                // The other end may be gone.
                let _ = sender.send(done);
            }
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed) % self.threads.len();
        // A thread that ended drops the work, and with it the sender.
        let _ = self.threads[number].send(work.boxed());
        receiver.await.map_err(|_| Error::internal(&"it panicked"))
    }
}

/// Does the work that comes, in its order: a step of each that has begun in turn.
async fn take_turns(mut coming: UnboundedReceiver<BoxFuture<'static, ()>>) {
    let mut begun = FuturesUnordered::new();
    loop {
        tokio::select! {
            work = coming.recv(), if begun.len() < BEGUN_MAX => match work {
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
        let mut turns = Turns::start(2);
        turns.threads.truncate(1);
        turns
    }

    #[tokio::test]
    async fn heavy_work_leaves_the_caller_free_and_waits_for_nothing_alone() {
        let turns = one_thread();
        // It waits, and another one has a turn meanwhile.
        let mut waiting = Box::pin(turns.run(std::future::pending::<()>()));
        assert!(futures::poll!(&mut waiting).is_pending());
        assert_eq!(turns.run(async { 7 }).await.unwrap(), 7);
        // It computes, and the caller goes on.
        let (go, gone) = mpsc::channel();
        let computing = turns.run(async move { gone.recv().unwrap() });
        drop(waiting);
        let going = async { go.send(8).unwrap() };
        let (done, ()) = tokio::join!(computing, going);
        assert_eq!(done.unwrap(), 8);
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
        turns.run(async {}).await.unwrap();
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
