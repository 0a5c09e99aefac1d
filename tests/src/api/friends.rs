//! Members and their friendships.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::{Answer, Api};
use crate::deployment::{Deployment, Redis, Sql};

pub async fn named(sql: Sql, members: &[&str]) -> (Arc<Deployment>, Api) {
    let deployment = Deployment::new(sql, Redis::Private).await;
    let api = Api::start(&deployment).await;
    upsert(&api, members).await;
    (deployment, api)
}

pub async fn upsert(api: &Api, members: &[&str]) {
    let input: Vec<Value> = members.iter().map(|key| json!({ "key": key })).collect();
    api.upsert_members(input).await;
}

pub async fn change(api: &Api, token: Option<&str>, text: &str, pair: (&str, &str)) -> Answer {
    let variables = json!({ "member": pair.0, "friend": pair.1 });
    api.ask(token, text, variables).await
}

pub async fn changed(api: &Api, text: &str, pair: (&str, &str)) {
    let answer = change(api, Some(api.token()), text, pair).await;
    let expected = json!({ "member": { "key": pair.0 }, "friend": { "key": pair.1 } });
    assert_eq!(answer.body, json!({ "data": { "change": expected } }));
}
