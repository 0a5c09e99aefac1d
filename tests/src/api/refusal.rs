//! Requests that are refused.

use serde_json::Value;

use crate::api::Api;

/// Sends a request that must be refused with this code and a message that contains these words.
pub async fn check(api: &Api, text: &str, variables: Value, code: &str, says: &str) {
    let answer = api.ask(Some(api.token()), text, variables).await;
    let body = &answer.body;
    assert!(body["errors"].is_array(), "{text} was accepted: {body}");
    assert_eq!(answer.codes(), [code], "{text}: {body}");
    assert!(answer.message().contains(says), "{text}: {body}");
}
