//! The needs of a client for a field. Every field of a query, a mutation or a subscription says
//! them in its `guard`, and a test holds them against a table: `tests/system/access`.

use async_graphql::{Context, Guard};
use engine::settings::MembersFor;

use super::request::{app, state};
use crate::access::scope::Scope;
use crate::error::{Error, Result};

/// The needs of a client for a field.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Needs<'m> {
    /// Nothing but that it may read at all.
    Nothing,
    /// A token with a scope.
    Scope(Scope),
    /// To search for members.
    Search,
    /// To see the friends of a member.
    FriendsOf(&'m str),
    /// To see who asks a member for its friendship.
    FriendRequestsOf(&'m str),
    /// To see the history of a member.
    HistoryOf(&'m str),
    /// To see the event ids of a member.
    EventIdsOf(&'m str),
}

impl Needs<'_> {
    /// Checks that the client has it.
    ///
    /// # Errors
    /// `UNAUTHENTICATED` without a token, `FORBIDDEN` with one that does not do.
    pub(crate) fn met(self, ctx: &Context<'_>) -> Result<()> {
        let (state, members) = (state(ctx), app(ctx).members);
        let is_open = members == MembersFor::Public;
        match self {
            Self::Nothing => Ok(()),
            Self::Scope(scope) => state.require(scope).map(drop),
            Self::FriendRequestsOf(member) => own_or(ctx, member, Scope::Friends),
            _ if is_open => Ok(()),
            Self::Search if members == MembersFor::Tokens => state.require(Scope::Read).map(drop),
            Self::Search => state.require(Scope::Moderate).map(drop),
            Self::FriendsOf(member) => own_or(ctx, member, Scope::Friends),
            Self::HistoryOf(member) => own_or(ctx, member, Scope::Moderate),
            Self::EventIdsOf(member) => own_or(ctx, member, Scope::Submit),
        }
    }
}

/// Checks that a token is the member's own, or that of a service with a scope.
fn own_or(ctx: &Context<'_>, member: &str, scope: Scope) -> Result<()> {
    let wanted = format!(
        "an access token of this member, or one of scope {} that is bound to no member",
        scope.name()
    );
    let Some(principal) = &state(ctx).principal else {
        let message = format!("this needs {wanted}: send it as \"Authorization: Bearer …\"");
        return Err(Error::unauthenticated(message));
    };
    match &principal.member {
        Some(own) if own == member => Ok(()),
        None if principal.may(scope) => Ok(()),
        _ => Err(Error::forbidden(format!("this needs {wanted}"))),
    }
}

impl Guard for Needs<'_> {
    async fn check(&self, ctx: &Context<'_>) -> async_graphql::Result<()> {
        Ok(self.met(ctx)?)
    }
}
