//! Amendments of a member's history on a board, and that history.

use serde_json::{Value, json};

use crate::api::connection::Connection;
use crate::api::{Answer, Api};
use crate::documents::{MEMBER_EVENTS, REMOVE_ENTRY, VOID_EVENT};

/// A member's history on a board.
pub fn member_events(board: &str, member: &str) -> Connection<'static> {
    Connection {
        text: MEMBER_EVENTS,
        variables: json!({ "board": board, "member": member }),
        pointer: "/member/events",
    }
}

/// A member's history on a board without writers, newest first, read in pages of several sizes both
/// ways.
pub async fn events(api: &Api, board: &str, member: &str) -> Vec<Value> {
    member_events(board, member).nodes(api).await
}

/// Removes a member from a board.
pub async fn remove(api: &Api, board: &str, member: &str) -> Value {
    let variables = json!({ "board": board, "member": member });
    api.data(REMOVE_ENTRY, variables).await["removeEntry"].take()
}

/// Voids an event.
pub async fn void(api: &Api, id: &str) -> Answer {
    let variables = json!({ "id": id });
    api.ask(Some(api.token()), VOID_EVENT, variables).await
}
