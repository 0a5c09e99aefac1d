//! The client of a socket, and the executor of its operations.

use std::future::pending;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_graphql::{Data, Request, Response};
use futures::StreamExt;
use futures::stream::BoxStream;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::access::{Principal, is_known};
use crate::error::{Error, Result};
use crate::http::operation::answers;
use crate::http::{Service, login, parameters};

/// How long a token is believed that was good, unless the process learns that it was revoked.
const TOKEN_AGE_MAX: Duration = Duration::from_secs(30);

/// The client of a socket.
#[derive(Debug, Clone)]
pub struct Login {
    address: IpAddr,
    token: Option<Arc<str>>,
    /// The principal of the token; `None` without one.
    pub principal: Option<Arc<Principal>>,
    /// Told when tokens are revoked; `None` for a client whose token cannot be.
    news: Option<watch::Receiver<u64>>,
}

/// Executes the operations of a socket.
#[derive(Clone)]
pub struct Executor {
    pub(super) service: Service,
}

impl Login {
    /// Logs a client in, by the token of `connection_init` or else by that of the upgrade.
    ///
    /// # Errors
    /// `UNAUTHENTICATED` for a token that is not good, `UNAVAILABLE` if it cannot be checked now.
    pub async fn enter(
        service: &Service,
        address: IpAddr,
        payload: &Value,
        of_upgrade: Option<String>,
    ) -> Result<Self> {
        let token = token_of(payload)?.or(of_upgrade.as_deref());
        Self::of_token(service, address, token).await
    }

    /// Logs a client in by a token, or without one.
    ///
    /// # Errors
    /// As [`Self::enter`].
    pub async fn of_token(service: &Service, address: IpAddr, token: Option<&str>) -> Result<Self> {
        // Before the check, so that none is missed.
        let news = service.app.access.follow();
        let principal = login::principal(service, address, token).await?;
        let is_own = is_known(principal.as_deref());
        let news = is_own.then_some(news);
        Ok(Self { address, token: token.map(Into::into), principal, news })
    }

    /// Waits until the token is revoked.
    pub async fn revoked(&mut self, service: &Service) {
        let (Some(news), Some(principal)) = (&mut self.news, &self.principal) else {
            return pending().await;
        };
        loop {
            if service.app.access.is_revoked(principal) || news.changed().await.is_err() {
                return;
            }
        }
    }

    /// When the token is to be looked at again; `None` without one.
    pub fn next_check(&self, now_ms: i64) -> Option<Instant> {
        let principal = self.principal.as_deref()?;
        let left_ms = principal.expires_at_ms.map(|end_ms| end_ms.saturating_sub(now_ms));
        let left = left_ms.map(|left_ms| Duration::from_millis(left_ms.max(0).unsigned_abs()));
        Some(Instant::now() + left.unwrap_or(TOKEN_AGE_MAX).min(TOKEN_AGE_MAX))
    }

    /// True if the token still grants what it did, or if that cannot be known now.
    pub async fn is_still_good(&self, service: &Service, address: IpAddr) -> bool {
        let Some(before) = &self.principal else { return true };
        let now_ms = service.app.deployment.clock.now_ms();
        if before.expires_at_ms.is_some_and(|end_ms| end_ms <= now_ms) {
            return false;
        }
        match login::principal(service, address, self.token.as_deref()).await {
            Ok(now) => now.is_some_and(|now| now == *before),
            Err(error) => !error.code.is_of_token(),
        }
    }
}

impl async_graphql::Executor for Executor {
    /// A socket asks for streams only.
    async fn execute(&self, request: Request) -> Response {
        let answer = self.execute_stream(request, None).next().await;
        answer.unwrap_or_default()
    }

    fn execute_stream(
        &self,
        request: Request,
        session_data: Option<Arc<Data>>,
    ) -> BoxStream<'static, Response> {
        let login = session_data
            .as_deref()
            .and_then(|data| data.get(&std::any::TypeId::of::<Login>())?.downcast_ref::<Login>());
        let Some(Login { address, principal, .. }) = login.cloned() else {
            return futures::stream::empty().boxed();
        };
        let client = login::client(principal.as_deref(), address);
        let bytes = request.query.len() + request.variables.to_string().len();
        let parameters = parameters::of_request(request);
        let answers = answers(self.service.clone(), client, principal, parameters, bytes);
        answers.map(|update| update.response()).boxed()
    }
}

/// The token in the payload of `connection_init`: `{"token": …}`, or as a header has it,
/// `{"Authorization": "Bearer …"}`; `None` without one.
///
/// # Errors
/// `UNAUTHENTICATED` if it is no text.
fn token_of(payload: &Value) -> Result<Option<&str>> {
    let text = |value: &'_ Value| -> Result<()> {
        match value {
            Value::String(_) => Ok(()),
            _ => Err(Error::unauthenticated("invalid token in connection_init: expected a string")),
        }
    };
    let given = |name: &str| payload.get(name).filter(|value| !value.is_null());
    if let Some(token) = given("token") {
        text(token)?;
        return Ok(token.as_str());
    }
    let Some(header) = given("Authorization").or_else(|| given("authorization")) else {
        return Ok(None);
    };
    text(header)?;
    header
        .as_str()
        .and_then(login::bearer)
        .map(Some)
        .ok_or_else(|| Error::unauthenticated("invalid Authorization: expected \"Bearer <token>\""))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::ErrorCode;

    #[test]
    fn a_token_comes_by_its_name_or_as_a_header_has_it() {
        let token = |payload: Value| token_of(&payload).map(|token| token.map(str::to_owned));
        assert_eq!(token(json!({ "token": "a" })).unwrap().as_deref(), Some("a"));
        let header = json!({ "Authorization": "Bearer a" });
        assert_eq!(token(header).unwrap().as_deref(), Some("a"));
        let lower = json!({ "authorization": "bearer a " });
        assert_eq!(token(lower).unwrap().as_deref(), Some("a"));
        for none in [json!(null), json!({}), json!({ "token": null }), json!("token"), json!([1])] {
            assert_eq!(token(none).unwrap(), None);
        }
        for wrong in [json!({ "token": 1 }), json!({ "Authorization": "Basic a" })] {
            assert_eq!(token(wrong).unwrap_err().code, ErrorCode::Unauthenticated);
        }
    }
}
