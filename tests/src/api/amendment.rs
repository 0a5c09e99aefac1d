//! Amendments of a member's history on a board, and that history.

use serde_json::{Value, json};

use crate::api::connection::Connection;
use crate::api::{Answer, Api};
use crate::documents::{MEMBER_EVENTS, MERGE_MEMBERS, REMOVE_ENTRY, VOID_EVENT};

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

/// Merges a member into another one. The merge must be over at once.
pub async fn merge(api: &Api, source: &str, target: &str) {
    let variables = json!({ "source": source, "target": target });
    let merged = &api.data(MERGE_MEMBERS, variables).await["mergeMembers"];
    let expected = json!({
        "merged": true, "source": { "key": source, "mergedInto": { "key": target } },
        "target": { "key": target, "mergedInto": null },
    });
    assert_eq!(*merged, expected);
}

/// Voids an event.
pub async fn void(api: &Api, id: &str) -> Answer {
    let variables = json!({ "id": id });
    api.ask(Some(api.token()), VOID_EVENT, variables).await
}
