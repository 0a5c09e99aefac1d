//! The sight of members: a client that does not see a member gets no name of it, and finds none by
//! its key.
//!
//! While everyone is public, nothing is asked. Otherwise the process knows the members who are not,
//! and SQL is asked for the friends of the client alone, once a request, if a member appears whom
//! only friends see.

use std::sync::Arc;

use async_graphql::Context;
use entity::board::seen::Seen;
use entity::member::hidden::Viewer;
use entity::member::visibility::Visibility;
use ranking::id::MemberId;

use super::request::{RequestState, app, state};
use crate::access::Principal;
use crate::access::scope::Scope;
use crate::app::App;
use crate::error::Result;

/// The sight of a member, without SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sight {
    Shown,
    /// If the member that the client is is a friend.
    ToFriends,
    Hidden,
}

/// True if a client sees all members: a moderator or an administrator that is bound to none.
fn sees_all(principal: Option<&Principal>) -> bool {
    principal.is_some_and(|principal| principal.member.is_none() && principal.may(Scope::Moderate))
}

fn sight(app: &App, state: &RequestState, key: &str) -> Sight {
    if app.visibilities.are_all_public() {
        return Sight::Shown;
    }
    let principal = state.principal.as_deref();
    let own = principal.and_then(|principal| principal.member.as_deref());
    if own == Some(key) || sees_all(principal) {
        return Sight::Shown;
    }
    match app.visibilities.of(key) {
        Some(Visibility::Public) => Sight::Shown,
        Some(Visibility::Friends) if own.is_some() => Sight::ToFriends,
        _ => Sight::Hidden,
    }
}

/// True if a member is hidden from the client. It costs no points, as these would tell a stranger
/// that there is such a member.
pub(crate) async fn is_hidden(ctx: &Context<'_>, key: &str) -> bool {
    hides(app(ctx), state(ctx), key).await
}

async fn hides(app: &App, state: &RequestState, key: &str) -> bool {
    match sight(app, state, key) {
        Sight::Shown => false,
        Sight::Hidden => true,
        // In a box, as few fields wait for it.
        Sight::ToFriends => !is_among(&Box::pin(own_friends(state)).await, key),
    }
}

/// For each of some members, true if it is hidden from the client.
pub(crate) async fn hidden_among(
    app: &App,
    state: &RequestState,
    keys: impl Iterator<Item = &str>,
) -> Vec<bool> {
    let mut friends = None;
    let mut hidden = vec![];
    for key in keys {
        hidden.push(match sight(app, state, key) {
            Sight::Shown => false,
            Sight::Hidden => true,
            Sight::ToFriends => {
                let friends = match &friends {
                    Some(friends) => friends,
                    None => friends.insert(own_friends(state).await),
                };
                !is_among(friends, key)
            }
        });
    }
    hidden
}

/// The client, if a search may find members whom it does not see.
///
/// # Errors
/// `UNAVAILABLE` if SQL must be asked and does not answer.
pub(crate) async fn searcher(app: &App, state: &RequestState) -> Result<Option<Viewer>> {
    let of_boards = state.viewer(app).await?;
    if sees_everyone(app, state) {
        return Ok(of_boards);
    }
    let member = state.principal.as_ref().and_then(|principal| principal.member.clone());
    // By boards no member is hidden from it.
    let viewer = of_boards.unwrap_or(Viewer { seen: Seen::All, member, sees_hidden: false });
    Ok(Some(Viewer { sees_hidden: false, ..viewer }))
}

/// True if no member is hidden from the client.
pub(crate) fn sees_everyone(app: &App, state: &RequestState) -> bool {
    app.visibilities.are_all_public() || sees_all(state.principal.as_deref())
}

/// The friends of the member that the client is, ordered by key; none if SQL does not tell.
async fn own_friends(state: &RequestState) -> Arc<[MemberId]> {
    let own = state.principal.as_ref().and_then(|principal| principal.member.as_deref());
    let Some(own) = own.and_then(|own| MemberId::new(own).ok()) else {
        return Arc::default();
    };
    let Ok((friends, good_until)) = state.loaders.friends(own).await else {
        return Arc::default();
    };
    state.good_until.limit(good_until);
    friends
}

fn is_among(friends: &[MemberId], key: &str) -> bool {
    friends.binary_search_by(|friend| friend.as_str().cmp(key)).is_ok()
}
