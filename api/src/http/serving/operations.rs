//! `/healthz`, `/readyz` and `/metrics`, answered on a thread of their own however busy the others
//! are.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use engine::deployment::Deployment;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::app::App;
use crate::health::{Health, Readiness};
use crate::http::admission::Admission;
use crate::metrics::{self, METRICS};

/// The addresses of operations.
const PATHS: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// How long the stores may take for `/metrics`.
const STORES_TIMEOUT: Duration = Duration::from_secs(4);

/// The text of the metrics is given out for so many times as long as it took to write: so those who
/// ask for nothing else take a fifth of a core.
const METRICS_REST: u32 = 4;

/// The state of the routes.
struct Operations {
    deployment: Deployment,
    health: Arc<Health>,
    /// The requests under way, for the metrics.
    admission: Arc<Admission>,
    /// The runtime that owns the connections to the stores.
    main: Handle,
    /// The metrics as they were written last, and until when they are given out.
    written: Mutex<(Instant, Bytes)>,
}

impl Operations {
    /// The metrics as text.
    fn text(&self) -> Bytes {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let (good_until, text) = &*written;
        let began = Instant::now();
        if began < *good_until {
            return text.clone();
        }
        let text = Bytes::from(metrics::text());
        *written = (Instant::now() + METRICS_REST * began.elapsed(), text.clone());
        text
    }
}

/// The routes. The stores are asked on the runtime of the caller.
pub fn router<S>(app: &App, admission: Arc<Admission>) -> Router<S> {
    let (deployment, health) = (app.deployment.clone(), app.health.clone());
    let (main, written) = (Handle::current(), Mutex::new((Instant::now(), Bytes::new())));
    let operations = Operations { deployment, health, admission, main, written };
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readiness))
        .route("/metrics", get(measured))
        .with_state(Arc::new(operations))
}

/// True if a path is one of these routes.
pub fn has(path: &str) -> bool {
    PATHS.contains(&path)
}

/// Answers 200 if requests can be answered, else 503; the text says why, and what is degraded. It
/// waits for no store: they are asked in the background.
async fn readiness(State(operations): State<Arc<Operations>>) -> (StatusCode, String) {
    let warnings = operations.deployment.watch.warnings();
    let Readiness { is_ready, text } = operations.health.readiness(&warnings);
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, text)
}

/// The metrics, for Prometheus. Where the stores cannot be asked in time, those of the process are
/// true and those of the stores are the last known ones.
async fn measured(State(operations): State<Arc<Operations>>) -> impl IntoResponse {
    let described =
        [(header::CONTENT_TYPE, metrics::MEDIA_TYPE), (header::CACHE_CONTROL, "no-store")];
    let gauge = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    METRICS.points_under_way.set(gauge(operations.admission.under_way()));
    METRICS.requests_waiting.set(gauge(operations.admission.waiting() as u64));
    let (deployment, health) = (operations.deployment.clone(), operations.health.clone());
    let asked =
        operations.main.spawn(async move { metrics::ask_stores(&deployment, &health).await });
    let _asked = timeout(STORES_TIMEOUT, asked).await;
    (described, operations.text())
}

/// Reads the first bytes of a connection, as many as tell if its first request is for one of these
/// routes.
///
/// # Errors
/// The connection's.
pub async fn read_begin(stream: &mut TcpStream) -> io::Result<(Vec<u8>, bool)> {
    let mut begin = Vec::with_capacity(1024);
    loop {
        if stream.read_buf(&mut begin).await? == 0 {
            return Ok((begin, false));
        }
        if let Some(is_operation) = is_operation(&begin) {
            return Ok((begin, is_operation));
        }
    }
}

/// True if a request that begins so is for one of these routes; `None` if more bytes will tell.
fn is_operation(begin: &[u8]) -> Option<bool> {
    let mut may_become_one = false;
    for method in ["GET ", "HEAD "] {
        for path in PATHS {
            let line = [method.as_bytes(), path.as_bytes()].concat();
            match begin.strip_prefix(line.as_slice()) {
                Some([b' ' | b'?', ..]) => return Some(true),
                Some([]) => may_become_one = true,
                Some(_) => {}
                None => may_become_one |= line.starts_with(begin),
            }
        }
    }
    (!may_become_one).then_some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_tells_operations_from_graphql() {
        for begin in ["GET /healthz HTTP/1.1\r\n", "HEAD /readyz ", "GET /metrics?x=1"] {
            assert_eq!(is_operation(begin.as_bytes()), Some(true), "{begin}");
        }
        for begin in
            ["POST /graphql", "GET /graphql", "GET /healthzz", "get /healthz ", "\r\n", "\x16"]
        {
            assert_eq!(is_operation(begin.as_bytes()), Some(false), "{begin}");
        }
        for begin in ["", "G", "GET /", "HEAD /me", "GET /healthz"] {
            assert_eq!(is_operation(begin.as_bytes()), None, "{begin}");
        }
    }
}
