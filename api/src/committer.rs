//! The committers: one task a partition takes what has queued while its last commit was under way, and commits it as one.

use std::sync::Arc;
use std::time::Duration;

use entity::deployment::Deployment;
use entity::now_ms;
use ranking::commit::COMMIT_EVENTS_MAX;
use ranking::id::Partition;
use ranking::submission::{Submission, Verdict};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::error::{Error, ErrorCode, Result};

/// How many requests may wait for one partition; beyond it submissions are refused.
const QUEUE_MAX: usize = 1024;

/// How long a batch is tried for, in seconds, before it is said that nobody knows.
const SUBMIT_TIMEOUT: Duration = Duration::from_secs(10);

/// The submissions of one request to one partition, on their way.
struct Order {
    submissions: Vec<Submission>,
    reply: oneshot::Sender<Result<Placed>>,
}

/// What became of the submissions of one request to one partition.
#[derive(Debug, Clone)]
pub struct Placed {
    /// In the order of the submissions.
    pub verdicts: Vec<Verdict>,
    /// The seq and id of the commit that holds the accepted ones; `None` where none was.
    pub commit: Option<(u64, String)>,
}

/// The queues of all partitions.
pub struct Committers {
    queues: Vec<mpsc::Sender<Order>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Committers {
    /// Starts a committer for each partition; `committed` is told after each commit.
    #[must_use]
    pub fn start(deployment: &Deployment, committed: &Arc<Notify>) -> Self {
        let (mut queues, mut tasks) = (vec![], vec![]);
        for partition in deployment.store.partitions().each() {
            let (queue, orders) = mpsc::channel(QUEUE_MAX);
            queues.push(queue);
            tasks.push(tokio::spawn(run(
                deployment.clone(),
                partition,
                orders,
                committed.clone(),
            )));
        }
        Self { queues, tasks }
    }

    /// Submits to one partition and waits for what became of it.
    ///
    /// # Errors
    /// `UNAVAILABLE` where nothing was written; `TIMEOUT` where that is not known.
    pub async fn submit(
        &self,
        partition: Partition,
        submissions: Vec<Submission>,
    ) -> Result<Placed> {
        let (reply, answer) = oneshot::channel();
        let queue = &self.queues[usize::from(partition.0)];
        queue.try_send(Order { submissions, reply }).map_err(|_| {
            Error::new(ErrorCode::Unavailable, format!("more than {QUEUE_MAX} requests wait for this board's partition; try again in a second"))
        })?;
        answer.await.map_err(|_| {
            Error::new(
                ErrorCode::Timeout,
                "the server stopped before it knew; send again with the same eventId",
            )
        })?
    }

    /// Takes no more, and waits until what is queued is done.
    pub async fn drain(self) {
        drop(self.queues);
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a committer ended badly");
            }
        }
    }
}

async fn run(
    deployment: Deployment,
    partition: Partition,
    mut orders: mpsc::Receiver<Order>,
    committed: Arc<Notify>,
) {
    let mut waiting: Option<Order> = None;
    loop {
        let first = match waiting.take() {
            Some(order) => order,
            None => match orders.recv().await {
                Some(order) => order,
                None => return,
            },
        };
        let mut size = first.submissions.len();
        let mut batch = vec![first];
        while let Ok(order) = orders.try_recv() {
            if size + order.submissions.len() > COMMIT_EVENTS_MAX {
                waiting = Some(order);
                break;
            }
            size += order.submissions.len();
            batch.push(order);
        }
        commit(&deployment, partition, batch).await;
        committed.notify_one();
    }
}

async fn commit(deployment: &Deployment, partition: Partition, mut batch: Vec<Order>) {
    let submissions: Vec<Submission> = batch
        .iter_mut()
        .flat_map(|order| order.submissions.iter().cloned())
        .collect();
    let deadline = Instant::now() + SUBMIT_TIMEOUT;
    let result = entity::submit::submit(deployment, partition, submissions, now_ms(), deadline)
        .await
        .map_err(Error::from);
    let mut verdicts = result
        .as_ref()
        .map_or_else(|_| [].iter(), |submitted| submitted.verdicts.iter());
    for order in batch {
        let answer = match &result {
            Ok(submitted) => Ok(Placed {
                verdicts: verdicts
                    .by_ref()
                    .take(order.submissions.len())
                    .cloned()
                    .collect(),
                commit: submitted.commit.clone(),
            }),
            Err(error) => Err(error.clone()),
        };
        // Whoever asked may have gone; the commit stands.
        let _ = order.reply.send(answer);
    }
}
