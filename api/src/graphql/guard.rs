//! The needs of a client for a field. Every field of a query, a mutation or a subscription says
//! them in its `guard`, and a test holds them against a table: `tests/system/access`.

use async_graphql::{Context, Guard};

use super::request::state;
use crate::access::scope::Scope;
use crate::error::Result;

/// The needs of a client for a field.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Needs {
    /// Nothing but that it may read at all.
    Nothing,
    /// A token with a scope.
    Scope(Scope),
}

impl Needs {
    /// Checks that the client has it.
    ///
    /// # Errors
    /// `UNAUTHENTICATED` without a token, `FORBIDDEN` with one that does not do.
    pub(crate) fn met(self, ctx: &Context<'_>) -> Result<()> {
        match self {
            Self::Nothing => Ok(()),
            Self::Scope(scope) => state(ctx).require(scope).map(drop),
        }
    }
}

impl Guard for Needs {
    async fn check(&self, ctx: &Context<'_>) -> async_graphql::Result<()> {
        Ok(self.met(ctx)?)
    }
}
