//! The log-in of the client of a socket.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use super::executor::Login;
use crate::error::ErrorCode;
use crate::http::Service;

/// A log-in by `connection_init`, or by the token of the upgrade.
pub(super) struct Entering {
    pub(super) service: Service,
    pub(super) address: IpAddr,
    pub(super) token: Option<String>,
    pub(super) login: Arc<Mutex<Option<Result<Login, ErrorCode>>>>,
}

impl Entering {
    /// Logs the client in, and tells the session.
    pub(super) async fn enter(
        self,
        payload: serde_json::Value,
    ) -> async_graphql::Result<async_graphql::Data> {
        let Self { service, address, token, login } = self;
        let entered = Login::enter(&service, address, &payload, token).await;
        let outcome = entered.clone().map_err(|error| error.code);
        *login.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        let mut data = async_graphql::Data::default();
        data.insert(entered?);
        Ok(data)
    }
}
