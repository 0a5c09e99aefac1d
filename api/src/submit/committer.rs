//! The committers, one task per partition. A committer takes all that queued during its last
//! commit, and commits it as one.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use engine::deployment::Deployment;
use engine::partition::Partition;
use engine::partition::submit::Prepared;
use engine::settings::traces::SPANS;
use ranking::commit::COMMIT_EVENTS_MAX;
use ranking::id::{BoardNo, PartitionNo};
use ranking::submission::{Submission, Verdict};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tracing::{Instrument, Span};

use crate::background::worker::Signals;
use crate::error::{Error, ErrorCode, Result};
use crate::metrics::METRICS;
use crate::submit::memory::{Full, Memory, Part};
use crate::submit::queue::{FairQueue, Refusal};
use crate::traces::is_sent;

/// How long a committer tries a batch before it answers that the outcome is unknown.
const SUBMIT_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a committer that waits for Redis looks for requests behind it.
const REFUSAL_PAUSE: Duration = Duration::from_millis(20);

/// The submissions of one request to one partition, in the queue.
struct QueuedRequest {
    submissions: Vec<Submission>,
    /// The number of submissions, which stays when they are taken out.
    count: usize,
    /// Their part of the memory for submissions, given back with the answer.
    _memory: Part,
    /// The wait of the request, if spans are sent.
    span: Span,
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
        let span =
            tracing::info_span!(target: SPANS, "submit", partition = partition.0, scores = count);
        let order = QueuedRequest { submissions, count, _memory: memory, span, reply };
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
        let metadata = submission.metadata.as_ref().map_or(0, |metadata| metadata.as_str().len());
        size_of::<Submission>() + submission.member.as_str().len() + id + segments + metadata
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
        let (following, waiting) = match &mut next {
            Some(Taken { orders, prepared }) => (Some(prepared), Some(orders)),
            None => (None, None),
        };
        tokio::select! {
            biased;
            () = commit(deployment.partition(partition), taken, following) => {}
            never = refuse_waiting(deployment.partition(partition), waiting, &queue) => match never {},
        }
        next = next.filter(|taken| !taken.orders.is_empty());
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

/// Refuses what waits behind a commit whenever Redis does not answer: nothing of it was sent.
async fn refuse_waiting(
    partition: Partition<'_>,
    mut next: Option<&mut Vec<QueuedRequest>>,
    queue: &FairQueue<QueuedRequest>,
) -> Infallible {
    loop {
        partition.redis_health.until_silent(partition.no).await;
        let mut waiting = next.take().map(std::mem::take).unwrap_or_default();
        waiting.extend(queue.take(COMMIT_EVENTS_MAX));
        while !waiting.is_empty() {
            for order in waiting.drain(..) {
                // The client may have gone.
                let _ = order.reply.send(Err(silent()));
            }
            waiting.extend(queue.take(COMMIT_EVENTS_MAX));
        }
        sleep(REFUSAL_PAUSE).await;
    }
}

/// The error of submissions of which nothing was sent, as Redis does not answer.
fn silent() -> Error {
    Error::new(
        ErrorCode::Unavailable,
        "Redis does not answer: nothing of this was written, and nothing accepted before is changed; send it again in a few seconds",
    )
}

async fn commit(partition: Partition<'_>, taken: Taken, following: Option<&mut Prepared>) {
    let began = Instant::now();
    let count: usize = taken.orders.iter().map(|order| order.count).sum();
    let deadline = began + SUBMIT_TIMEOUT;
    let span = span_of(&partition, &taken.orders, count);
    let result = partition.submit(taken.prepared, following, deadline).instrument(span).await;
    let result = result.map_err(|error| match error {
        entity::Error::Ranking(ranking::Error::Unavailable(_))
            if partition.redis_health.is_silent(partition.no) =>
        {
            silent()
        }
        error => error.into(),
    });
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

/// The span of a commit: under the first of its requests whose trace is sent, and linked to the
/// others.
fn span_of(partition: &Partition<'_>, orders: &[QueuedRequest], scores: usize) -> Span {
    let mut sent = orders.iter().map(|order| &order.span).filter(|span| is_sent(span));
    let first = sent.next().or(orders.first().map(|order| &order.span));
    let (parent, no) = (first.and_then(Span::id), partition.no.0);
    let span = tracing::info_span!(target: SPANS, parent: parent, "commit", partition = no, scores);
    sent.for_each(|other| _ = span.follows_from(other));
    span
}
