//! The address of `/metrics`, `/healthz` and `/readyz`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// The most connections at a time; further ones wait.
const CONNECTIONS_MAX: usize = 32;

/// The longest life of a connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);

/// The longest time for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause after a connection that could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The media type of the metrics.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A part of the program that tells of its work.
pub(crate) trait Told: Send + Sync + 'static {
    /// Its metrics as OpenMetrics text.
    fn text(&self) -> String;

    /// The reason of its pause, if there is one.
    fn why_paused(&self) -> Option<String>;
}

/// Listens until the process ends, and says where.
///
/// # Errors
/// If nothing can listen there.
pub(crate) async fn listen(address: SocketAddr, told: Arc<impl Told>) -> Result<()> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("nothing can listen at {address}"))?;
    tracing::info!("metrics are on http://{}/metrics", listener.local_addr()?);
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    tokio::spawn(async move {
        loop {
            let place = places.clone().acquire_owned().await.expect("it is never closed");
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let told = told.clone();
            tokio::spawn(async move {
                let service = service_fn(|request| {
                    let answer = answer(&request, &*told);
                    async { Ok::<_, Infallible>(answer) }
                });
                let serving = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_TIMEOUT)
                    .serve_connection(TokioIo::new(stream), service);
                // A client that is gone, or stays too long, is none of ours.
                let _ = timeout(CONNECTION_TIMEOUT, serving).await;
                drop(place);
            });
        }
    });
    Ok(())
}

fn answer(request: &Request<Incoming>, told: &impl Told) -> Response<Full<Bytes>> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => (StatusCode::OK, told.text()),
        (&Method::GET | &Method::HEAD, "/healthz") => (StatusCode::OK, "ok\n".to_owned()),
        (&Method::GET | &Method::HEAD, "/readyz") => match told.why_paused() {
            None => (StatusCode::OK, "ok\n".to_owned()),
            Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("paused: {why}\n")),
        },
        _ => (StatusCode::NOT_FOUND, "expected GET /metrics, /healthz or /readyz\n".to_owned()),
    };
    let kind = match request.uri().path() {
        "/metrics" => OPEN_METRICS,
        _ => "text/plain; charset=utf-8",
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
