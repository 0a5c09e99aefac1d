//! The exporter: a task that takes spans from their queue and sends them, a batch at a time.

use std::time::Duration;

use anyhow::Result;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanData;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::collector::Collector;
use crate::metrics::METRICS;

/// The most spans of a batch.
const SPANS_OF_BATCH_MAX: usize = 512;

/// The longest wait for a batch to fill.
const SPANS_LINGER: Duration = Duration::from_secs(1);

/// The pause after a collector failed.
const COLLECTOR_PAUSE: Duration = Duration::from_secs(1);

/// How long no span must be dropped until the log says that all is well again.
const SPANS_CALM: Duration = Duration::from_secs(10);

/// The exporter of this process, running.
pub struct Exporter {
    stop: CancellationToken,
    task: AbortOnDropHandle<()>,
}

/// The sending of spans.
struct Sending {
    spans: Receiver<SpanData>,
    collector: Collector,
    resource: ResourceAttributesWithSchema,
    stop: CancellationToken,
    losses: Losses,
}

/// The spans that were dropped, as the log tells of them.
#[derive(Default)]
struct Losses {
    /// The dropped spans that were seen.
    seen: u64,
    /// Since the log told of losses: the spans that were dropped before, and when one was last.
    told: Option<(u64, Instant)>,
}

impl Exporter {
    /// Begins to send spans, with these attributes of the process.
    pub(super) fn start(
        spans: Receiver<SpanData>,
        collector: Collector,
        resource: &Resource,
    ) -> Self {
        let stop = CancellationToken::new();
        let sending = Sending {
            spans,
            collector,
            resource: resource.into(),
            stop: stop.clone(),
            losses: Losses::default(),
        };
        let task = AbortOnDropHandle::new(tokio::spawn(sending.run()));
        Self { stop, task }
    }

    /// Sends what is queued, and ends; or gives it up after some time.
    pub async fn stop(self, time: Duration) {
        self.stop.cancel();
        if timeout(time, self.task).await.is_err() {
            tracing::warn!("stopping: some spans were not sent");
        }
    }
}

impl Sending {
    async fn run(mut self) {
        loop {
            let is_last = self.stop.is_cancelled() || self.spans.is_closed();
            let batch = self.batch().await;
            if !batch.is_empty() {
                self.send(batch).await;
            } else if is_last {
                return;
            }
        }
    }

    /// The next spans, as soon as they are as many as a batch takes, or the first has waited. At
    /// the stop, those that are there.
    async fn batch(&mut self) -> Vec<SpanData> {
        let mut batch = Vec::with_capacity(SPANS_OF_BATCH_MAX);
        let mut until = None;
        while batch.len() < SPANS_OF_BATCH_MAX && !self.stop.is_cancelled() {
            let left = SPANS_OF_BATCH_MAX - batch.len();
            tokio::select! {
                biased;
                more = self.spans.recv_many(&mut batch, left) => {
                    if more == 0 {
                        break;
                    }
                    until.get_or_insert_with(|| Instant::now() + SPANS_LINGER);
                }
                () = over(until) => break,
                () = self.stop.cancelled() => {}
            }
        }
        while batch.len() < SPANS_OF_BATCH_MAX
            && let Ok(span) = self.spans.try_recv()
        {
            batch.push(span);
        }
        batch
    }

    async fn send(&mut self, batch: Vec<SpanData>) {
        let count = batch.len() as u64;
        let resource_spans = group_spans_by_resource_and_scope(batch, &self.resource);
        let sent = self.collector.post(&ExportTraceServiceRequest { resource_spans }).await;
        let taken = sent.as_ref().map_or(0, |rejected| count - count.min(*rejected));
        METRICS.spans.sent.inc_by(taken);
        METRICS.spans.dropped.inc_by(count - taken);
        self.losses.tell(&sent);
        if sent.is_err() {
            tokio::select! {
                () = sleep(COLLECTOR_PAUSE) => {}
                () = self.stop.cancelled() => {}
            }
        }
    }
}

/// Waits until an instant; without one, for good.
async fn over(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

impl Losses {
    /// Tells the log once that spans are dropped, and why, and once that they no longer are.
    fn tell(&mut self, sent: &Result<u64>) {
        let dropped = METRICS.spans.dropped.get();
        let before = std::mem::replace(&mut self.seen, dropped);
        if dropped > before {
            let reason = match sent {
                Err(error) => format!("{error:#}"),
                Ok(1..) => "the collector rejects them".to_owned(),
                Ok(0) => "they come faster than the collector takes them".to_owned(),
            };
            let (_, at) = self.told.get_or_insert_with(|| {
                tracing::warn!(reason, "spans are dropped; laurel_spans_total counts them");
                (before, Instant::now())
            });
            *at = Instant::now();
        } else if let Some((before, at)) = self.told
            && at.elapsed() >= SPANS_CALM
        {
            tracing::info!(dropped = dropped - before, "the collector takes all spans again");
            self.told = None;
        }
    }
}
