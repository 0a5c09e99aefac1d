//! The body of a request, read within limits of size, time, rate and memory.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{BodyDataStream, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use engine::settings::ConnectionSettings;
use futures::StreamExt;
use tokio::time::{Instant, timeout_at};

use super::activity::Phase;
use super::address::ClientAddress;
use super::door::Caller;
use crate::error::{Error, ErrorCode};
use crate::http::held::holding;
use crate::http::response::{MediaType, refuse};
use crate::http::shares::SharedMemory;

/// The part of a body that does not count against the memory of all bodies, in bytes: a crowd of
/// long bodies cannot keep the short ones out.
const FREE_BYTES: u64 = 16 << 10;

/// The length of a block of a body in several parts, in bytes.
const BLOCK_BYTES: usize = 16 << 10;

/// The parts in which a body may come, besides one for each [`PART_BYTES`] of it: each part is work
/// of its own, however short it is.
const PARTS_MIN: usize = 256;
const PART_BYTES: usize = 256;

/// How long a client should wait when there is no memory for its body, in seconds.
const RETRY_AFTER_S: u64 = 2;

/// The limits of bodies. Clones share one memory.
#[derive(Debug, Clone)]
pub struct BodyLimits {
    bytes_max: usize,
    timeout: Duration,
    bytes_per_second: u64,
    memory: Arc<SharedMemory<ClientAddress>>,
}

/// Why a body was not read.
#[derive(Debug)]
pub struct BodyError {
    status: StatusCode,
    error: Error,
}

impl BodyLimits {
    /// The limits of the settings, for bodies of at most so many bytes.
    pub fn new(bytes_max: usize, settings: &ConnectionSettings) -> Self {
        Self {
            bytes_max,
            timeout: settings.body_timeout(),
            bytes_per_second: settings.body_bytes_per_second,
            memory: SharedMemory::new(settings.bodies_bytes),
        }
    }

    /// When the next part of a body is due, of which so many bytes have come.
    fn deadline(&self, began: Instant, bytes: usize) -> Instant {
        let at_rate = (bytes as u64 * 1000)
            .checked_div(self.bytes_per_second)
            .map_or(self.timeout, |ms| self.timeout / 2 + Duration::from_millis(ms));
        began + at_rate.min(self.timeout)
    }
}

impl BodyError {
    fn new(status: StatusCode, code: ErrorCode, message: impl Into<String>) -> Self {
        Self { status, error: Error::new(code, message) }
    }

    fn too_large(limits: &BodyLimits) -> Self {
        let message = format!("the body is too large: expected at most {} bytes", limits.bytes_max);
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::LimitExceeded, message)
    }

    fn in_pieces() -> Self {
        let message = "the body comes in too many parts: expected chunks of 1,024 bytes or more";
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::LimitExceeded, message)
    }

    fn late(limits: &BodyLimits) -> Self {
        let message = format!(
            "the body came too slowly: expected all of it within {} ms, at {} bytes a second or more",
            limits.timeout.as_millis(),
            limits.bytes_per_second
        );
        Self::new(StatusCode::REQUEST_TIMEOUT, ErrorCode::LimitExceeded, message)
    }

    fn no_memory() -> Self {
        let message = "too many long bodies are arriving; try again in a few seconds";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Unavailable, message)
    }

    fn broken() -> Self {
        let message = "the body is cut short or malformed";
        Self::new(StatusCode::BAD_REQUEST, ErrorCode::BadUserInput, message)
    }

    /// Answers the request. The rest of its body is not read, so the connection closes.
    pub fn answer(self, media_type: MediaType) -> Response {
        let mut answer = refuse(media_type, self.status, &self.error);
        let headers = answer.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
        }
        answer
    }
}

/// Reads the whole body of a request. Its address may hold as much of the memory as it leaves free.
/// A body in one part is not copied; the memory of a longer one is given back with its last clone.
///
/// # Errors
/// Why the body is refused.
pub async fn read_body(
    request: Request,
    caller: &Caller,
    limits: &BodyLimits,
) -> Result<Bytes, BodyError> {
    if request.body().size_hint().lower() > limits.bytes_max as u64 {
        return Err(BodyError::too_large(limits));
    }
    let activity = &caller.connection.activity;
    activity.enter(Phase::Body);
    let body = gather(request.into_body().into_data_stream(), caller.address, limits).await;
    activity.enter(Phase::Answer);
    body
}

async fn gather(
    mut parts: BodyDataStream,
    address: ClientAddress,
    limits: &BodyLimits,
) -> Result<Bytes, BodyError> {
    let began = Instant::now();
    let Some(first) = next(&mut parts, limits, began, 0).await? else {
        return Ok(Bytes::new());
    };
    if first.len() > limits.bytes_max {
        return Err(BodyError::too_large(limits));
    }
    let Some(mut part) = next(&mut parts, limits, began, first.len()).await? else {
        return Ok(first);
    };
    let mut reserved = limits.memory.part(&address);
    // In blocks: bytes that grow would be there twice each time that they move, and a part keeps
    // all that was read together with it.
    let (mut blocks, mut length) = (vec![Vec::with_capacity(BLOCK_BYTES)], first.len());
    let mut count = 1;
    push(&mut blocks, &first);
    drop(first);
    loop {
        length += part.len();
        if length > limits.bytes_max {
            return Err(BodyError::too_large(limits));
        }
        count += 1;
        if count > PARTS_MIN + length / PART_BYTES {
            return Err(BodyError::in_pieces());
        }
        if !reserved.grow_to((length as u64).saturating_sub(FREE_BYTES)) {
            return Err(BodyError::no_memory());
        }
        push(&mut blocks, &part);
        part = match next(&mut parts, limits, began, length).await? {
            Some(part) => part,
            None => return Ok(holding(blocks.concat(), reserved)),
        };
    }
}

/// Adds a part to the last block, and to new ones where that is full.
fn push(blocks: &mut Vec<Vec<u8>>, mut part: &[u8]) {
    while !part.is_empty() {
        if blocks.last().is_none_or(|block| block.len() == BLOCK_BYTES) {
            blocks.push(Vec::with_capacity(BLOCK_BYTES));
        }
        let Some(block) = blocks.last_mut() else { return };
        let (fitting, rest) = part.split_at(part.len().min(BLOCK_BYTES - block.len()));
        block.extend_from_slice(fitting);
        part = rest;
    }
}

/// The next part of a body of which so many bytes have come; `None` at its end.
async fn next(
    parts: &mut BodyDataStream,
    limits: &BodyLimits,
    began: Instant,
    bytes: usize,
) -> Result<Option<Bytes>, BodyError> {
    match timeout_at(limits.deadline(began, bytes), parts.next()).await {
        Ok(None) => Ok(None),
        Ok(Some(Ok(part))) => Ok(Some(part)),
        Ok(Some(Err(error))) => {
            tracing::debug!(%error, "a body broke off");
            Err(BodyError::broken())
        }
        Err(_) => Err(BodyError::late(limits)),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Body;
    use futures::stream;
    use tokio::sync::watch;

    use super::super::Stage;
    use super::super::activity::Activity;
    use super::super::door::Connection;
    use super::*;

    fn limits(memory: u64) -> BodyLimits {
        BodyLimits {
            bytes_max: 100_000,
            timeout: Duration::from_millis(200),
            bytes_per_second: 1_000_000,
            memory: SharedMemory::new(memory),
        }
    }

    fn request(parts: Vec<Vec<u8>>) -> Request {
        let parts = parts.into_iter().map(|part| Ok::<_, Infallible>(Bytes::from(part)));
        Request::new(Body::from_stream(stream::iter(parts)))
    }

    fn address(last: u8) -> ClientAddress {
        ClientAddress::of([192, 0, 2, last].into())
    }

    fn caller(last: u8) -> Caller {
        let stages = watch::channel(Stage::Open).1;
        let connection = Connection { activity: Arc::new(Activity::new()), stages };
        Caller { address: address(last), connection: Arc::new(connection) }
    }

    async fn status(request: Request, limits: &BodyLimits) -> u16 {
        match read_body(request, &caller(1), limits).await {
            Ok(_) => 200,
            Err(unread) => unread.status.as_u16(),
        }
    }

    #[tokio::test]
    async fn a_body_is_its_parts_in_order() {
        let limits = limits(0);
        for (parts, whole) in [(vec![], ""), (vec!["a"], "a"), (vec!["a", "", "b", "c"], "abc")] {
            let parts = parts.iter().map(|part| part.as_bytes().to_vec()).collect();
            assert_eq!(read_body(request(parts), &caller(1), &limits).await.unwrap(), whole);
        }
    }

    #[tokio::test]
    async fn a_body_that_is_too_large_is_refused() {
        let limits = limits(1 << 20);
        assert_eq!(status(request(vec![vec![0; 100_001]]), &limits).await, 413);
        assert_eq!(status(request(vec![vec![0; 50_000]; 3]), &limits).await, 413);
        assert_eq!(status(Request::new(Body::from(vec![0; 100_001])), &limits).await, 413);
        assert_eq!(status(request(vec![vec![0; 50_000]; 2]), &limits).await, 200);
        assert!(limits.memory.take(&address(1), 1 << 19).is_some());
    }

    #[tokio::test]
    async fn an_address_sends_long_bodies_as_far_as_it_leaves_memory_free_and_short_ones_always() {
        let limits = limits(40_000);
        let long = || request(vec![vec![0; 15_000]; 2]);
        let held = read_body(long(), &caller(1), &limits).await.unwrap();
        let clone = held.clone();
        assert_eq!(status(long(), &limits).await, 503);
        assert_eq!(status(request(vec![vec![0; 8000]; 2]), &limits).await, 200);
        // Each of these has less than a third of the memory beside the first.
        let parts = vec![vec![0; 14_500]; 2];
        assert!(read_body(request(parts), &caller(2), &limits).await.is_ok());
        drop(held);
        assert_eq!(status(long(), &limits).await, 503);
        drop(clone);
        assert_eq!(status(long(), &limits).await, 200);
    }

    #[tokio::test]
    async fn a_body_that_stops_is_given_up() {
        let limits = limits(0);
        let begin = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"{"))]);
        let body = Body::from_stream(begin.chain(stream::pending()));
        let began = Instant::now();
        assert_eq!(status(Request::new(body), &limits).await, 408);
        assert!(began.elapsed() >= Duration::from_millis(99), "{:?}", began.elapsed());
    }
}
