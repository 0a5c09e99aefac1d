//! The circle of a webhook as the last look left it, and the events that tell of it.

use serde_json::Value;

use tests::api::Api;
use tests::api::submission::submit_durably;
use tests::deployment::Deployment;
use tests::receiver::Receiver;
use tests::wait::until;

pub(super) const KIND: &str = "laurel.overtaken.v1";

/// The members of a circle in their order.
pub(super) async fn order(deployment: &Deployment, webhook: &str) -> Vec<String> {
    let id = webhook.trim_start_matches("webhook:");
    let select =
        format!("SELECT COALESCE(places, '[]') FROM webhook_circle WHERE webhook = '{id}'");
    let places: Vec<String> = deployment.column(&select).await;
    let places: Vec<(Option<String>, i64, u64)> = serde_json::from_str(&places[0]).unwrap();
    places.into_iter().map(|(member, ..)| member.unwrap_or_default()).collect()
}

/// Waits until a look has left a circle in this order.
pub(super) async fn wait_for_order(deployment: &Deployment, webhook: &str, expected: &[&str]) {
    until(&format!("the circle is {expected:?}"), async || {
        (order(deployment, webhook).await == expected).then_some(())
    })
    .await;
}

/// Submits scores of members to the board `b`, in one commit for each shard.
pub(super) async fn submit(api: &Api, scores: &[(&str, i64)]) {
    let of =
        |(member, score): &(&str, i64)| serde_json::json!({ "member": member, "score": score });
    let scores: Vec<Value> = scores.iter().map(of).collect();
    let told = submit_durably(api, "b", Value::from(scores.clone())).await;
    assert_eq!(told["accepted"], scores.len(), "{told}");
}

/// The passes that a receiver was told of, in order: who, by whom, the nearest first.
pub(super) fn passes(receiver: &Receiver) -> Vec<(String, Vec<String>)> {
    let key = |value: &Value| value["member"].as_str().unwrap_or("none").to_owned();
    let data = receiver.data(KIND);
    let pass = |data: &Value| {
        assert_eq!(
            (&data["board"], &data["byCount"]),
            (&"b".into(), &{ data["by"].as_array().unwrap().len().into() })
        );
        (key(data), data["by"].as_array().unwrap().iter().map(key).collect())
    };
    data.iter().map(pass).collect()
}

/// Waits until a receiver was told of so many, and compares all that it was told.
pub(super) async fn wait_for_passes(receiver: &Receiver, expected: &[(&str, &[&str])]) {
    receiver.wait_for(expected.len()).await;
    let told = passes(receiver);
    let told: Vec<(&str, Vec<&str>)> = told
        .iter()
        .map(|(member, by)| (member.as_str(), by.iter().map(String::as_str).collect()))
        .collect();
    let expected: Vec<(&str, Vec<&str>)> =
        expected.iter().map(|(member, by)| (*member, by.to_vec())).collect();
    assert_eq!(told, expected);
}
