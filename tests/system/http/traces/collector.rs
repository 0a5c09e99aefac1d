//! A collector of spans: the receiver's messages of OTLP, behind HTTP on a free port.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use prost::Message;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The treatment of what arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    Take,
    /// It answers 500.
    Fail,
    /// It never answers.
    Hang,
}

/// A span that arrived.
#[derive(Debug, Clone)]
pub struct Span {
    pub name: String,
    pub kind: i32,
    pub trace: String,
    pub id: String,
    /// Empty for the first of a trace.
    pub parent: String,
    pub attributes: BTreeMap<String, String>,
    /// The attributes of the process.
    pub process: BTreeMap<String, String>,
    /// The number of other spans that it names.
    pub links: usize,
}

/// A collector; it ends when it is dropped.
pub struct Collector {
    pub url: String,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

struct Shared {
    manner: Mutex<Manner>,
    spans: Mutex<Vec<Span>>,
    /// The headers of all requests, as text.
    headers: Mutex<Vec<String>>,
}

impl Collector {
    pub async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            manner: Mutex::new(manner),
            spans: Mutex::default(),
            headers: Mutex::default(),
        });
        let router = Router::new().route("/v1/traces", post(take)).with_state(shared.clone());
        let serving = tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        Self { url, shared, serving }
    }

    pub fn set(&self, manner: Manner) {
        *self.shared.manner.lock().unwrap() = manner;
    }

    /// The spans that have arrived.
    pub fn spans(&self) -> Vec<Span> {
        self.shared.spans.lock().unwrap().clone()
    }

    /// The headers that came with each request.
    pub fn headers(&self) -> Vec<String> {
        self.shared.headers.lock().unwrap().clone()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Span {
    /// An attribute; empty if it has none of the name.
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

async fn take(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<(), StatusCode> {
    shared.headers.lock().unwrap().push(format!("{headers:?}"));
    let manner = *shared.manner.lock().unwrap();
    match manner {
        Manner::Take => {}
        Manner::Fail => return Err(StatusCode::INTERNAL_SERVER_ERROR),
        Manner::Hang => std::future::pending().await,
    }
    let sent = ExportTraceServiceRequest::decode(body).map_err(|_| StatusCode::BAD_REQUEST)?;
    let mut spans = shared.spans.lock().unwrap();
    for resource in sent.resource_spans {
        let process = texts(resource.resource.unwrap_or_default().attributes);
        for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            spans.push(Span {
                name: span.name,
                kind: span.kind,
                trace: hex(&span.trace_id),
                id: hex(&span.span_id),
                parent: hex(&span.parent_span_id),
                attributes: texts(span.attributes),
                process: process.clone(),
                links: span.links.len(),
            });
        }
    }
    Ok(())
}

fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |value: Option<AnyValue>| match value.and_then(|value| value.value) {
        Some(any_value::Value::StringValue(text)) => text,
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        Some(any_value::Value::BoolValue(is)) => is.to_string(),
        other => format!("{other:?}"),
    };
    attributes.into_iter().map(|one| (one.key, text(one.value))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
