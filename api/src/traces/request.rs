//! The span of a request: over all of its handling, under the span of its caller.

use std::sync::Arc;

use async_graphql::parser::types::{ExecutableDocument, OperationType};
use axum::Router;
use axum::extract::Request;
use axum::http::{Extensions, HeaderMap};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use engine::settings::traces::SPANS;
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use tracing::field::Empty;
use tracing::{Instrument, Level, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::http::request_id::id_of;

/// The header that names the caller's span (W3C Trace Context).
const TRACEPARENT: &str = "traceparent";

/// The first parts of the paths that there are. The rest of a path may name a member.
const PLACES: [&str; 8] =
    ["", "admin", "boards", "embed", "graphiql", "graphql", "members", "page"];

/// The most characters of an operation's name in a span.
const SPAN_NAME_CHARS_MAX: usize = 64;

/// The codes of the errors in an answer.
#[derive(Debug, Clone)]
pub struct ErrorCodes(pub Arc<str>);

/// True if spans are sent.
pub fn has_spans() -> bool {
    tracing::span_enabled!(target: SPANS, Level::INFO, "request")
}

/// Gives each request of some routes a span, if spans are sent.
pub fn traced<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    match has_spans() {
        true => router.layer(from_fn(under_span)),
        false => router,
    }
}

/// The span of a request.
pub fn span_of(extensions: &Extensions) -> Span {
    extensions.get().cloned().unwrap_or_else(Span::none)
}

/// Names the operation of a request in its span.
pub fn name_operation(
    span: &Span,
    kind: OperationType,
    document: &ExecutableDocument,
    asked: Option<&str>,
) {
    if span.is_disabled() {
        return;
    }
    span.record("graphql.operation.type", kind.to_string());
    let mut names = document.operations.iter().filter_map(|(name, _)| name);
    if let Some(name) = names.find(|name| asked.is_none_or(|asked| asked == name.as_str())) {
        let name: String = name.chars().take(SPAN_NAME_CHARS_MAX).collect();
        span.record("graphql.operation.name", name);
    }
}

async fn under_span(mut request: Request, next: Next) -> Response {
    let span = begin(&request);
    request.extensions_mut().insert(span.clone());
    let answer = next.run(request).instrument(span.clone()).await;
    let status = answer.status();
    span.record("http.response.status_code", status.as_u16());
    if let Some(ErrorCodes(codes)) = answer.extensions().get() {
        span.record("laurel.error.codes", &**codes);
    }
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
    answer
}

fn begin(request: &Request) -> Span {
    let (method, place) = (request.method().as_str(), place_of(request.uri().path()));
    let span = tracing::info_span!(
        target: SPANS,
        parent: None,
        "request",
        otel.name = format!("{method} {place}"),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method,
        url.path = place,
        http.response.status_code = Empty,
        laurel.request.id = Empty,
        laurel.points = Empty,
        laurel.cached = Empty,
        laurel.error.codes = Empty,
        "graphql.operation.type" = Empty,
        "graphql.operation.name" = Empty,
    );
    if let Some(caller) = caller_of(request.headers()) {
        // It has not begun, so it takes a parent.
        let _ = span.set_parent(Context::new().with_remote_span_context(caller));
    }
    if let Some(id) = id_of(request.headers()) {
        span.record("laurel.request.id", id.to_str().unwrap_or_default());
    }
    span
}

/// A path without that which may name a member.
fn place_of(path: &str) -> String {
    let first = path.split('/').nth(1).unwrap_or_default();
    match PLACES.contains(&first) {
        true => format!("/{first}"),
        false => "/…".to_owned(),
    }
}

/// The span of the caller. A header that is not well-formed, or is there twice, is passed over.
fn caller_of(headers: &HeaderMap) -> Option<SpanContext> {
    let mut given = headers.get_all(TRACEPARENT).iter();
    let text = given.next()?.to_str().ok()?;
    if given.next().is_some() {
        return None;
    }
    let parts: Vec<&str> = text.split('-').collect();
    let [version, trace, span, flags, more @ ..] = parts.as_slice() else { return None };
    let is_hex = |text: &str, digits: usize| {
        text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    // A later version may have more parts.
    let is_known = *version == "00" && more.is_empty();
    let is_later = is_hex(version, 2) && !matches!(*version, "00" | "ff");
    if !(is_known || is_later) || !is_hex(trace, 32) || !is_hex(span, 16) || !is_hex(flags, 2) {
        return None;
    }
    let trace = TraceId::from_hex(trace).ok()?;
    let span = SpanId::from_hex(span).ok()?;
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED;
    let caller = SpanContext::new(trace, span, flags, true, TraceState::NONE);
    caller.is_valid().then_some(caller)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    fn caller(texts: &[&str]) -> Option<SpanContext> {
        let mut headers = HeaderMap::new();
        for text in texts {
            headers.append(TRACEPARENT, HeaderValue::from_str(text).unwrap());
        }
        caller_of(&headers)
    }

    #[test]
    fn a_caller_is_known_by_a_well_formed_header_alone() {
        let good = format!("00-{TRACE}-{SPAN}-01");
        let known = caller(&[&good]).unwrap();
        assert_eq!(
            (known.trace_id().to_string(), known.span_id().to_string()),
            (TRACE.into(), SPAN.into())
        );
        assert!(known.is_sampled() && known.is_remote());
        assert!(!caller(&[&format!("00-{TRACE}-{SPAN}-00")]).unwrap().is_sampled());
        assert!(caller(&[&format!("cc-{TRACE}-{SPAN}-01-more")]).unwrap().is_sampled());
        let (none, short) = ("0".repeat(32), &TRACE[1..]);
        for bad in [
            String::new(),
            "x".repeat(5000),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{none}-{SPAN}-01"),
            format!("00-{TRACE}-{}-01", &none[16..]),
            format!("00-{short}-{SPAN}-01"),
            format!("00-+{short}-{SPAN}-01"),
            good.to_uppercase(),
        ] {
            assert!(caller(&[&bad]).is_none(), "{bad}");
        }
        assert!(caller(&[&good, &good]).is_none() && caller(&[]).is_none());
    }

    #[test]
    fn a_path_is_cut_where_it_may_name_a_member() {
        assert_eq!(place_of("/graphql"), "/graphql");
        assert_eq!(place_of("/"), "/");
        assert_eq!(place_of("/members/mia-77"), "/members");
        assert_eq!(place_of("/mia-77"), "/…");
    }
}
