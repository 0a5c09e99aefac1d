//! Members: their keys, names and regions.

use serde_json::{Value, json};

use tests::api::submission::submit;
use tests::boards::race::race;
use tests::wait::until;

#[tokio::test]
async fn a_member_comes_into_being_with_its_first_score() {
    let (_deployment, api) = race().await;
    let text = "
        query($key: String!) { member(key: $key) {
            id key name region createdAt entry(board: \"race\") { rank }
            entries(boards: [\"race\", \"none\"]) { rank } none: entry(board: \"none\") { rank }
        } }";
    assert_eq!(api.data(text, json!({ "key": "zoe" })).await, json!({ "member": null }));
    submit(&api, "race", json!([{ "member": "zoe", "score": 1 }])).await;
    let mut member = api.data(text, json!({ "key": "zoe" })).await["member"].take();
    member["createdAt"] = Value::Null;
    let expected = json!({
        "id": "member:zoe", "key": "zoe", "name": "zoe", "region": null, "createdAt": null,
        "entry": { "rank": 6 }, "entries": [{ "rank": 6 }, null], "none": null,
    });
    assert_eq!(member, expected);
    until("the member is in SQL", async || {
        let member = api.data(text, json!({ "key": "zoe" })).await;
        member["member"]["createdAt"].as_str().map(str::to_owned)
    })
    .await;
}

#[tokio::test]
async fn a_member_has_the_name_it_was_told() {
    let (_deployment, api) = race().await;
    let name = async |input: Value| api.upsert_members(input).await;
    let told =
        name(json!([{ "key": "ann", "name": "Ann B.", "region": "eu" }, { "key": "new" }])).await;
    assert_eq!(
        told,
        json!([
            { "key": "ann", "name": "Ann B.", "region": "eu" },
            { "key": "new", "name": "new", "region": null },
        ])
    );
    let told = name(json!([{ "key": "ann", "region": null }])).await;
    assert_eq!(told, json!([{ "key": "ann", "name": "Ann B.", "region": null }]));
    let text =
        "{ members(keys: [\"ann\", \"who\", \"new\"]) { name entry(board: \"race\") { rank } } }";
    let members = api.data(text, json!({})).await;
    assert_eq!(
        members["members"],
        json!([{ "name": "Ann B.", "entry": { "rank": 1 } }, null, { "name": "new", "entry": null }])
    );
}
