//! The principal behind a token, for requests and sockets alike.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, header};
use tokio::time::sleep;

use super::Service;
use super::rates::Client;
use crate::access::Principal;
use crate::error::{Error, Result};

/// How long a token that is not known waits for its check at an address of many failed ones.
const FAILED_TOKENS_DELAY: Duration = Duration::from_millis(500);

/// The points that a failing token costs its address, as SQL looked for it: ten times those of a
/// request.
const FAILED_TOKEN_POINTS: u64 = 200;

/// The token of an `Authorization` header; `None` without one.
///
/// # Errors
/// `UNAUTHENTICATED` for another scheme.
pub fn token_of(headers: &HeaderMap) -> Result<Option<&str>> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    value
        .to_str()
        .ok()
        .and_then(bearer)
        .map(Some)
        .ok_or_else(|| Error::unauthenticated("invalid Authorization: expected \"Bearer <token>\""))
}

/// The token in the text `Bearer <token>`.
pub fn bearer(text: &str) -> Option<&str> {
    let (_, token) =
        text.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))?;
    Some(token.trim())
}

/// The client of a principal, or of an address without one.
pub fn client(principal: Option<&Principal>, address: IpAddr) -> Client {
    match principal {
        Some(principal) if principal.is_player => Client::Player(principal.id.clone()),
        Some(principal) => Client::Token(principal.id.clone()),
        None => Client::at(address),
    }
}

/// The principal of a token from an address; `None` without a token, where reads are public.
///
/// # Errors
/// `UNAUTHENTICATED` or `EXPIRED_TOKEN` if the token is not good, or if one is needed;
/// `UNAVAILABLE` if SQL does not answer and the token is not remembered.
pub async fn principal(
    service: &Service,
    address: IpAddr,
    token: Option<&str>,
) -> Result<Option<Arc<Principal>>> {
    let app = &service.app;
    let Some(token) = token else {
        return match app.public_reads {
            true => Ok(None),
            false => Err(Error::unauthenticated("this server needs an access token for reads too")),
        };
    };
    let now_ms = app.deployment.clock.now_ms();
    if let Some(principal) = app.access.cached(token, now_ms).await {
        return Ok(Some(principal));
    }
    if service.rates.has_failed_tokens(address) && !app.access.remembers(token, now_ms).await {
        // Others may share the address, so that a good token is only late, and only at first.
        sleep(FAILED_TOKENS_DELAY).await;
    }
    let checked = Box::pin(app.access.check(&app.deployment.lookups, token, now_ms)).await;
    if checked.as_ref().is_err_and(|error| error.code.is_of_token()) {
        service.rates.token_failed(address);
        service.rates.account(&Client::at(address)).read_more(FAILED_TOKEN_POINTS);
    }
    checked.map(Some)
}
