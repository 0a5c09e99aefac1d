//! The state of one request: its instant, its principal, its look-ups.

use std::sync::Arc;

use async_graphql::Context;

use super::change::Changes;
use crate::access::{Principal, Scope, is_known};
use crate::app::{App, SharedApp};
use crate::cache::shared::GoodUntil;
use crate::error::{Error, Result};
use crate::http::admission::Budget;
use crate::loader::Loaders;

/// The state of one request.
pub struct RequestState {
    /// The instant that the whole request is answered for, in Unix milliseconds.
    pub now_ms: i64,
    /// The principal; `None` without a token.
    pub principal: Option<Arc<Principal>>,
    /// The instant until which everything that the request used is good.
    pub good_until: GoodUntil,
    /// The look-ups of the request.
    pub loaders: Loaders,
    /// The points that the request may still spend.
    pub budget: Arc<Budget>,
    /// The changes that the request makes.
    pub changes: Arc<Changes>,
}

impl RequestState {
    /// The id of the client's token; empty without one.
    pub fn client(&self) -> Arc<str> {
        self.principal.as_ref().map(|principal| principal.id.clone()).unwrap_or_default()
    }

    /// True if the client may read boards that are not public.
    pub fn reads_private(&self) -> bool {
        is_known(self.principal.as_deref())
    }

    /// Spends points on work that is about to be done, beyond what the text of the query costs.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` if the request would cost more than one may.
    pub fn spend(&self, points: u64) -> Result<()> {
        self.budget.spend(points)
    }

    /// Checks that the client may moderate: release, void, ban.
    ///
    /// # Errors
    /// As [`Self::require`].
    pub fn require_moderator(&self) -> Result<&Principal> {
        self.require(Scope::Admin)
    }

    /// Checks that the client has a scope.
    ///
    /// # Errors
    /// `UNAUTHENTICATED` without a token, `FORBIDDEN` with one of a lesser scope.
    pub fn require(&self, scope: Scope) -> Result<&Principal> {
        let missing = || {
            Error::unauthenticated(format!(
                "this needs an access token with scope {}: send it as \"Authorization: Bearer …\"",
                scope.name()
            ))
        };
        let principal = self.principal.as_deref().ok_or_else(missing)?;
        if principal.scope >= scope {
            return Ok(principal);
        }
        Err(Error::forbidden(format!(
            "this needs an access token with scope {}; yours has {}",
            scope.name(),
            principal.scope.name()
        )))
    }
}

/// The application behind a request.
pub(crate) fn app<'c>(ctx: &Context<'c>) -> &'c App {
    ctx.data_unchecked::<SharedApp>()
}

/// The state of the request.
pub(crate) fn state<'c>(ctx: &Context<'c>) -> &'c RequestState {
    ctx.data_unchecked::<RequestState>()
}
