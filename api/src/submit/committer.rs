//! The committers, one task per partition. A committer takes all that queued during its last
//! commit, and commits it as one.

use std::sync::Arc;
use std::time::Duration;

use engine::deployment::Deployment;
use engine::partition::Partition;
use engine::partition::submit::Prepared;
use ranking::commit::COMMIT_EVENTS_MAX;
use ranking::id::{BoardNo, PartitionNo};
use ranking::submission::{Submission, Verdict};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::background::worker::Signals;
use crate::error::{Error, ErrorCode, Result};
use crate::metrics::METRICS;
use crate::submit::memory::{Full, Memory, Part};
use crate::submit::queue::{FairQueue, Refusal};

/// How long a committer tries a batch before it answers that the outcome is unknown.
const SUBMIT_TIMEOUT: Duration = Duration::from_secs(10);

/// The submissions of one request to one partition, in the queue.
struct QueuedRequest {
    submissions: Vec<Submission>,
    /// The number of submissions, which stays when they are taken out.
    count: usize,
    /// Their part of the memory for submissions, given back with the answer.
    _memory: Part,
    reply: oneshot::Sender<Result<Submitted>>,
}

/// The outcome of the submissions of one request to one partition.
#[derive(Debug, Clone)]
pub struct Submitted {
    /// The verdicts, in the order of the submissions.
    pub verdicts: Vec<Verdict>,
    /// The seq and id of the commit that has the accepted ones; `None` if none was accepted.
    pub commit: Option<(u64, String)>,
}

/// The queues of all partitions.
pub struct Committers {
    queues: Vec<Arc<FairQueue<QueuedRequest>>>,
    memory: Arc<Memory>,
    tasks: Vec<JoinHandle<()>>,
    signals: Arc<Signals>,
}

impl Committers {
    /// Starts a committer for each partition, with so much memory for the submissions of all. Each
    /// signals the persister after each commit.
    pub fn start(deployment: &Deployment, signals: &Arc<Signals>, bytes: u64) -> Self {
        let (mut queues, mut tasks) = (vec![], vec![]);
        for partition in deployment.store.partitions().each() {
            let queue = Arc::new(FairQueue::new());
            queues.push(queue.clone());
            tasks.push(tokio::spawn(run(deployment.clone(), partition, queue, signals.clone())));
        }
        Self { queues, memory: Memory::new(bytes), tasks, signals: signals.clone() }
    }

    /// Submits to one partition for a client, and waits for the outcome. The request queues under
    /// the board of its first submission.
    ///
    /// # Errors
    /// `UNAVAILABLE` if nothing was written; `TIMEOUT` if that is unknown.
    pub async fn submit(
        &self,
        client: &Arc<str>,
        partition: PartitionNo,
        submissions: Vec<Submission>,
    ) -> Result<Submitted> {
        let (reply, answer) = oneshot::channel();
        let queue = &self.queues[usize::from(partition.0)];
        let board = submissions.first().map_or(BoardNo(0), |first| first.board.no);
        let count = submissions.len();
        let busy = |what: &str| {
            Error::new(ErrorCode::Unavailable, format!("{what}; try again in a second"))
        };
        let memory = self.memory.take(board, client, kib(&submissions)).map_err(|full| {
            busy(match full {
                Full::All => "too many scores wait for their commit",
                Full::Board => "too many scores wait for this board",
                Full::Client => "too many scores of this access token wait for their commit",
            })
        })?;
        let order = QueuedRequest { submissions, count, _memory: memory, reply };
        queue.push(board, count, order).map_err(|refusal| {
            busy(match refusal {
                Refusal::Board => "too many requests wait for this board",
                Refusal::Queue => "too many requests wait for this part of the boards",
                Refusal::Closed => "the server is stopping",
            })
        })?;
        answer.await.map_err(|_| {
            Error::new(
                ErrorCode::Timeout,
                "the server stopped before it knew the outcome; send again with the same eventId",
            )
        })?
    }

    /// Signals the persister of this process, if it runs one, not to wait for more commits.
    pub fn hurry_persister(&self) {
        self.signals.awaited.notify_one();
    }

    /// Closes the queues, and waits until the committers have answered all that is in them.
    pub async fn drain(self) {
        for queue in &self.queues {
            queue.close();
        }
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "the task of a committer failed");
            }
        }
    }
}

/// The memory that submissions take, in KiB, about.
fn kib(submissions: &[Submission]) -> u64 {
    let bytes = submissions.iter().map(|submission| {
        let id = submission.event_id.as_ref().map_or(0, |id| id.as_str().len());
        let segments: usize = submission.segments.iter().map(|segment| segment.len() + 24).sum();
        size_of::<Submission>() + submission.member.as_str().len() + id + segments
    });
    bytes.sum::<usize>().div_ceil(1024) as u64
}

async fn run(
    deployment: Deployment,
    partition: PartitionNo,
    queue: Arc<FairQueue<QueuedRequest>>,
    signals: Arc<Signals>,
) {
    let mut next: Option<Taken> = None;
    loop {
        let taken = match next.take() {
            Some(taken) => taken,
            None => {
                let orders = queue.wait(COMMIT_EVENTS_MAX).await;
                match Taken::of(orders, deployment.clock.now_ms()) {
                    Some(taken) => taken,
                    None => return,
                }
            }
        };
        next = Taken::of(queue.take(COMMIT_EVENTS_MAX), deployment.clock.now_ms());
        commit(deployment.partition(partition), taken, next.as_mut()).await;
        signals.committed.notify_one();
    }
}

/// The requests of one commit.
struct Taken {
    orders: Vec<QueuedRequest>,
    prepared: Prepared,
}

impl Taken {
    fn of(mut orders: Vec<QueuedRequest>, now_ms: i64) -> Option<Self> {
        if orders.is_empty() {
            return None;
        }
        let submissions =
            orders.iter_mut().flat_map(|order| std::mem::take(&mut order.submissions));
        let prepared = Prepared::new(submissions.collect(), now_ms);
        Some(Self { orders, prepared })
    }
}

async fn commit(partition: Partition<'_>, taken: Taken, following: Option<&mut Taken>) {
    let following = following.map(|taken| &mut taken.prepared);
    let began = Instant::now();
    let count: usize = taken.orders.iter().map(|order| order.count).sum();
    let deadline = began + SUBMIT_TIMEOUT;
    let result = partition.submit(taken.prepared, following, deadline).await.map_err(Error::from);
    if matches!(&result, Ok(submitted) if submitted.commit.is_some()) {
        METRICS.commit_scores.observe(count as f64);
        let seconds = began.elapsed().as_secs_f64();
        METRICS.commit_seconds.observe(seconds);
    }
    let mut verdicts =
        result.as_ref().map_or_else(|_| [].iter(), |submitted| submitted.verdicts.iter());
    for order in taken.orders {
        let answer = match &result {
            Ok(submitted) => Ok(Submitted {
                verdicts: verdicts.by_ref().take(order.count).cloned().collect(),
                commit: submitted.commit.clone(),
            }),
            Err(error) => Err(error.clone()),
        };
        // The client may have gone; the commit stands.
        let _ = order.reply.send(answer);
    }
}
