//! Traces: the spans of requests, commits and the persister, sent to a collector by OTLP.
//!
//! ```text
//! a span ends ── bounded queue ── exporter ── HTTP ── collector
//!                    │ full          │ no answer
//!                    └── dropped and counted
//! ```
//!
//! No span names a member, a score or a token. Without a collector there are no spans: a place that
//! would begin one looks at a number and goes on.

mod collector;
mod exporter;
pub mod request;

use anyhow::Result;
use engine::settings::log::SpanLayer;
use engine::settings::{CleartextSettings, TraceSettings};
use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::{
    Sampler, SdkTracerProvider, Span as SdkSpan, SpanData, SpanProcessor,
};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;

use crate::metrics::METRICS;
use collector::Collector;
pub use exporter::Exporter;

/// The variable by which OpenTelemetry names a service.
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";

/// The traces of this process: spans queue up until [`Self::export`].
pub struct Traces {
    provider: SdkTracerProvider,
    spans: Receiver<SpanData>,
    collector: Collector,
    service: String,
}

/// The end of the queue at which spans arrive.
#[derive(Debug)]
struct Queue(Sender<SpanData>);

impl Traces {
    /// Traces as the settings want them; `None` without a collector, or if no trace is to be sent.
    /// Nothing is sent yet.
    ///
    /// # Errors
    /// Settings that do not hold. No message shows a secret.
    pub fn new(
        settings: &TraceSettings,
        cleartext: &CleartextSettings,
        service: &str,
    ) -> Result<Option<Self>> {
        let Some(collector) = Collector::new(settings, cleartext)? else {
            return Ok(None);
        };
        if settings.otlp_ratio == 0.0 {
            return Ok(None);
        }
        let (queue, spans) = channel(settings.otlp_queue as usize);
        let ratio = Sampler::TraceIdRatioBased(settings.otlp_ratio);
        // The part is taken of the traces of callers, too, or they could have all of theirs sent.
        let sampler = Sampler::parent_based(ratio.clone()).with_remote_parent_sampled(ratio);
        let provider = SdkTracerProvider::builder()
            .with_span_processor(Queue(queue))
            .with_sampler(sampler)
            .with_resource(Resource::builder_empty().build())
            .build();
        let named = std::env::var(SERVICE_NAME).ok().filter(|name| !name.is_empty());
        let service = named.unwrap_or_else(|| service.to_owned());
        Ok(Some(Self { provider, spans, collector, service }))
    }

    /// The layer that makes spans of this process into spans of OpenTelemetry.
    pub fn layer(&self) -> SpanLayer {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("laurel"))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_context_activation(false)
            .boxed()
    }

    /// Sends the spans from here on, as those of a process of a deployment.
    pub fn export(self, deployment: &str) -> Exporter {
        let own = [
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", entity::random_id()),
            KeyValue::new("laurel.deployment", deployment.to_owned()),
        ];
        // The operator's attributes go before those of the program.
        let resource = Resource::builder_empty()
            .with_attributes(own)
            .with_detector(Box::new(TelemetryResourceDetector))
            .with_service_name(self.service)
            .with_detector(Box::new(EnvResourceDetector::new()))
            .build();
        Exporter::start(self.spans, self.collector, &resource)
    }
}

/// True if a span is sent: its trace is in the part of traces that are.
pub fn is_sent(span: &Span) -> bool {
    !span.is_disabled() && span.context().span().span_context().is_sampled()
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut SdkSpan, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.0.try_send(span).is_err() {
            METRICS.spans.dropped.inc();
        }
    }

    // The exporter sends what is queued; nothing waits here.
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: std::time::Duration) -> OTelSdkResult {
        Ok(())
    }
}
