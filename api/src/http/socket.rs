//! WebSockets at `/graphql`, by the protocol graphql-transport-ws.
//!
//! async-graphql-axum speaks the protocol. It has no limits, and closes with codes that are not the
//! protocol's; so a session stands between it and the client, and passes on what is in order.
//!
//! | module | has |
//! |---|---|
//! | [`close`] | why a socket is closed, and the codes |
//! | [`session`] | a socket: its messages and its times |
//! | [`executor`] | the client of a socket, and the executor of its operations |
//! | [`message`] | the messages of client and server, as far as a session looks at them |

pub mod close;
mod entering;
pub(crate) mod executor;
mod message;
mod session;

use async_graphql_axum::GraphQLProtocol;
use axum::extract::{FromRequestParts, Request as HttpRequest, WebSocketUpgrade};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response as HttpResponse};

use super::execution::{REQUEST_POINTS, limited, refuse_login};
use super::response::{MediaType, refuse, refuse_for};
use super::serving::door::Caller;
use super::{Service, headers, login};
use crate::error::{Error, ErrorCode};
use crate::metrics::METRICS;
use session::Session;

/// The protocol.
const PROTOCOL: &str = "graphql-transport-ws";

/// The buffer that a socket reads by, in bytes.
const READ_BUFFER_BYTES: usize = 4 << 10;

/// The bytes of an answer's message besides the answer itself, at most.
const ENVELOPE_BYTES: usize = 16 << 10;

/// When a client may try again that found no place, in seconds.
const FULL_S: u64 = 5;

/// True if a request asks for a WebSocket.
pub fn is_asked_for(headers: &HeaderMap) -> bool {
    let upgrade = headers.get(header::UPGRADE).and_then(|value| value.to_str().ok());
    upgrade.is_some_and(|name| name.eq_ignore_ascii_case("websocket"))
}

/// Answers a request for a WebSocket, and serves it.
pub async fn upgrade(service: Service, request: HttpRequest) -> HttpResponse {
    match accept(service, request).await {
        Ok(answer) | Err(answer) => answer,
    }
}

async fn accept(service: Service, request: HttpRequest) -> Result<HttpResponse, HttpResponse> {
    let (mut parts, _) = request.into_parts();
    let refused =
        |status, message: &str| refuse(MediaType::Json, status, &Error::bad_input(message));
    let missing = || refused(StatusCode::INTERNAL_SERVER_ERROR, "the connection is unknown");
    let Caller { address, connection } = parts.extensions.get().cloned().ok_or_else(missing)?;
    if !headers::is_own_or_allowed_origin(&parts.headers, service.origins.as_ref()) {
        METRICS.live.refused_for_origin.inc();
        let error = Error::forbidden(
            "invalid Origin: expected this server's, or one of LAUREL_CORS_ORIGINS",
        );
        return Err(refuse(MediaType::Json, StatusCode::FORBIDDEN, &error));
    }
    let token = login::token_of(&parts.headers);
    let token = token.map_err(|error| refuse_login(MediaType::Json, &error))?;
    let principal = match token {
        Some(token) => login::principal(&service, address.0, Some(token)).await,
        // connection_init may have one.
        None => Ok(None),
    };
    let principal = principal.map_err(|error| refuse_login(MediaType::Json, &error))?;
    let client = login::client(principal.as_deref(), address.0);
    let paid = service.rates.account(&client).read(REQUEST_POINTS);
    paid.map_err(|wait| limited(MediaType::Json, wait))?;
    let token = token.map(str::to_owned);
    let unsupported = "invalid Sec-WebSocket-Protocol: expected graphql-transport-ws";
    if !offers_protocol(&parts.headers) {
        return Err(refused(StatusCode::BAD_REQUEST, unsupported));
    }
    // A client may offer older protocols, too.
    parts.headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
    let protocol = GraphQLProtocol::from_request_parts(&mut parts, &()).await;
    let protocol = protocol.map_err(|status| refused(status, unsupported))?;
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &()).await;
    let upgrade = upgrade.map_err(IntoResponse::into_response)?;
    let place = service.sockets.take(address).map_err(|error| no_place(&error))?;
    let message_bytes_max = service.live.socket_message_bytes_max as usize;
    let answer_bytes_max = service.live.push_bytes_max as usize + ENVELOPE_BYTES;
    let upgrade = upgrade
        .protocols([PROTOCOL])
        .max_message_size(message_bytes_max)
        .max_frame_size(message_bytes_max)
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(2 * answer_bytes_max);
    let session = Session::new(service, address.0, token, connection.stages.clone(), place);
    Ok(upgrade.on_upgrade(move |socket| session.serve(socket, protocol)))
}

fn offers_protocol(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let mut offered = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
    offered.any(|name| name.trim() == PROTOCOL)
}

/// Answers a client that finds no place for a socket.
pub fn no_place(error: &Error) -> HttpResponse {
    let status = match error.code {
        ErrorCode::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    refuse_for(MediaType::Json, status, error, FULL_S)
}
