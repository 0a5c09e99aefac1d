//! The state of one request: its instant, its principal, its look-ups.

use std::sync::Arc;

use async_graphql::Context;
use entity::board::seen::Seen;
use entity::member::hidden::Viewer;

use super::change::Changes;
use crate::access::Principal;
use crate::access::scope::Scope;
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

    /// The boards that the client sees.
    pub fn seen(&self) -> &Seen {
        self.principal.as_ref().map_or(&Seen::Public, |principal| &principal.seen)
    }

    /// The client, if some members may be hidden from it by their boards.
    ///
    /// # Errors
    /// `UNAVAILABLE` if SQL must be asked and does not answer.
    pub async fn viewer(&self, app: &App) -> Result<Option<Viewer>> {
        if *self.seen() == Seen::All || !app.private_boards.exist(app.lookups()).await? {
            return Ok(None);
        }
        let member = self.principal.as_ref().and_then(|principal| principal.member.clone());
        Ok(Some(Viewer { seen: self.seen().clone(), member, sees_hidden: true }))
    }

    /// Spends points on work that is about to be done, beyond what the text of the query costs, and
    /// waits for a turn if that makes the request a heavy one.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` if the request would cost more than one may.
    pub async fn spend(&self, points: u64) -> Result<()> {
        self.budget.spend(points)?;
        self.budget.turn().await;
        Ok(())
    }

    /// As [`Self::spend`], on work that is done: beyond the budget all of it is spent.
    ///
    /// # Errors
    /// As [`Self::spend`].
    pub async fn owe(&self, points: u64) -> Result<()> {
        self.budget.owe(points)?;
        self.budget.turn().await;
        Ok(())
    }

    /// Checks that the client has a scope.
    ///
    /// # Errors
    /// `UNAUTHENTICATED` without a token, `FORBIDDEN` with one of other scopes.
    pub fn require(&self, scope: Scope) -> Result<&Principal> {
        let missing = || {
            Error::unauthenticated(format!(
                "this needs an access token with scope {}: send it as \"Authorization: Bearer …\"",
                scope.name()
            ))
        };
        let principal = self.principal.as_deref().ok_or_else(missing)?;
        if principal.may(scope) {
            return Ok(principal);
        }
        let others = principal.scopes.words();
        Err(Error::forbidden(format!(
            "this needs an access token with scope {}; yours has {others}",
            scope.name()
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
