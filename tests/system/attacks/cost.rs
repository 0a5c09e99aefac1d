//! Queries that ask for much: each costs about what it is charged for, and none more than a second.

use std::collections::BTreeMap;

use entity::member::visibility::{self, Visibility};
use entity::sql::begin;
use serde_json::json;
use tests::api::submission::submit_durably;
use tests::attack::cost::{bombs, friends, rows};
use tests::attack::request::{Attack, aliases};
use tests::attack::{Attacked, boards};
use tests::wait::until;

#[tokio::test]
async fn no_query_costs_more_than_a_second() {
    let server = Attacked::start().await;
    boards::build(&server.api).await;
    server.withstands(&[rows(), bombs()].concat()).await;
}

#[tokio::test]
async fn friends_whom_their_friends_alone_see_cost_little() {
    let server = Attacked::start().await;
    boards::build(&server.api).await;
    let deployment = server.api.deployment();
    let db = deployment.sql().await;
    let hidden: BTreeMap<String, Visibility> =
        (1..=boards::FRIENDS[0]).map(|no| (boards::key(no), Visibility::Friends)).collect();
    let transaction = begin(&db).await.unwrap();
    visibility::set(&transaction, &hidden).await.unwrap();
    transaction.commit().await.unwrap();
    db.close().await.unwrap();
    until("the members are hidden", async || {
        let answer = server.api.ask(None, "{ member(key: \"m05000\") { name } }", json!({})).await;
        answer.body["data"]["member"]["name"].is_null().then_some(())
    })
    .await;
    let own = deployment.new_token(&["--scope", "read", "--member", &boards::key(0)]).await;
    let asked: Vec<_> = friends().into_iter().map(|attack| attack.with_token(&own)).collect();
    server.withstands(&asked).await;
}

#[tokio::test]
async fn a_row_costs_its_bytes() {
    let server = Attacked::start().await;
    let attributes: Vec<_> = (0..8)
        .map(|number| json!({ "name": format!("a{number}"), "value": "v".repeat(60) }))
        .collect();
    let members = json!([{ "key": "short" }, { "key": "long", "attributes": attributes }]);
    let upsert = "mutation($m: [MemberInput!]!) { upsertMembers(input: { members: $m }) { members { key } } }";
    server.api.data(upsert, json!({ "m": members })).await;
    let cost = async |member: &str| {
        let fields = aliases(100, &format!("member(key: \"{member}\") {{ key }}"));
        let attack = Attack::query("a member under many names", &format!("{{ {fields} }}"));
        server.send(&attack).await.unwrap().points().unwrap()
    };
    // A point for 64 bytes.
    let (short, long) = (cost("short").await, cost("long").await);
    assert!(long >= short + 100 * 8 * 60 / 64, "{short} and {long} points");
}

#[tokio::test]
async fn metadata_costs_its_bytes() {
    let server = Attacked::start().await;
    server.api.create_board(json!({ "slug": "b", "metadata": true })).await;
    let score = |member: &str, bytes: usize| json!({ "member": member, "score": 1, "metadata": { "text": "t".repeat(bytes) } });
    submit_durably(&server.api, "b", json!([score("short", 1), score("long", 960)])).await;
    let cost = async |member: &str| {
        let fields = aliases(50, "metadata");
        let query =
            format!("{{board(slug:\"b\"){{standings{{entry(member:\"{member}\"){{{fields}}}}}}}}}");
        let reply = server.send(&Attack::query("metadata under many names", &query)).await.unwrap();
        assert!(reply.codes().is_empty(), "{}", reply.shown());
        reply.points().unwrap()
    };
    let (short, long) = (cost("short").await, cost("long").await);
    assert!(long >= short + 50 * 960 / 64, "{short} and {long} points");
}
