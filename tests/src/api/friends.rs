//! Members and their friendships.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::{Answer, Api};
use crate::deployment::{Deployment, Redis, Sql};

/// Starts a deployment and a process with these members.
pub async fn start_with_members(sql: Sql, members: &[&str]) -> (Arc<Deployment>, Api) {
    let deployment = Deployment::new(sql, Redis::Private).await;
    let api = Api::start(&deployment).await;
    upsert(&api, members).await;
    (deployment, api)
}

/// Creates members with these keys.
pub async fn upsert(api: &Api, members: &[&str]) {
    let input: Vec<Value> = members.iter().map(|key| json!({ "key": key })).collect();
    api.upsert_members(input).await;
}

/// Adds or removes a friendship, as the document says, with a token or without.
pub async fn try_change_friends(
    api: &Api,
    token: Option<&str>,
    text: &str,
    pair: (&str, &str),
) -> Answer {
    let variables = json!({ "member": pair.0, "friend": pair.1 });
    api.ask(token, text, variables).await
}

/// Adds or removes a friendship, which must succeed.
pub async fn change_friends(api: &Api, text: &str, pair: (&str, &str)) {
    let answer = try_change_friends(api, Some(api.token()), text, pair).await;
    let expected = json!({ "member": { "key": pair.0 }, "friend": { "key": pair.1 } });
    assert_eq!(answer.body, json!({ "data": { "change": expected } }));
}
