//! Friendship by consent: requests, their answers and their limits.

use std::sync::Arc;

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::friends::upsert;
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::{MERGE_MEMBERS, SET_VISIBILITY};

const ASK: &str = "
    mutation($member: String!, $friend: String!) {
        addFriend(input: { member: $member, friend: $friend }) { state friend { key } }
    }";

const END: &str = "
    mutation($member: String!, $friend: String!) {
        removeFriend(input: { member: $member, friend: $friend }) { friend { key } }
    }";

const BOTH: &str = "
    query($key: String!) { member(key: $key) {
        friends { nodes { key } }
        friendRequests(first: 2) { totalCount nodes { key } pageInfo { hasNextPage endCursor } }
    } }";

async fn start(sql: Sql) -> (Arc<Deployment>, Api) {
    let deployment = Deployment::new(sql, Redis::Private).await;
    let settings = [("LAUREL_FRIENDSHIPS", "mutual-consent")];
    let api = Api::start_with_settings(&deployment, &settings).await;
    upsert(&api, &["ann", "bob", "cy", "dee"]).await;
    (deployment, api)
}

async fn own(deployment: &Arc<Deployment>, member: &str) -> String {
    deployment.new_token(&["--scope", "friends", "--member", member]).await
}

/// The answer to a change of a friendship: the state or the code.
async fn change(api: &Api, token: &str, text: &str, pair: [&str; 2]) -> String {
    let variables = json!({ "member": pair[0], "friend": pair[1] });
    let answer = api.ask(Some(token), text, variables).await;
    let state = &answer.body["data"]["addFriend"]["state"];
    match answer.codes().first() {
        Some(code) => (*code).to_owned(),
        None => state.as_str().unwrap_or_default().to_owned(),
    }
}

/// The friends of a member and those who ask it.
async fn both(api: &Api, key: &str) -> [String; 2] {
    let member = api.data(BOTH, json!({ "key": key })).await["member"].take();
    ["friends", "friendRequests"].map(|field| {
        let nodes = member[field]["nodes"].as_array().unwrap();
        let keys = nodes.iter().map(|node| node["key"].as_str().unwrap());
        keys.collect::<Vec<_>>().join(" ")
    })
}

async fn takes_two(sql: Sql) {
    let (deployment, api) = start(sql).await;
    let (ann, bob) = (own(&deployment, "ann").await, own(&deployment, "bob").await);
    for _ in 0..2 {
        assert_eq!(change(&api, &ann, ASK, ["ann", "bob"]).await, "REQUESTED");
    }
    assert_eq!(both(&api, "bob").await, ["", "ann"]);
    assert_eq!(both(&api, "ann").await, ["", ""]);
    // It is taken back, declined, and accepted.
    assert_eq!(change(&api, &ann, END, ["ann", "bob"]).await, "");
    assert_eq!(both(&api, "bob").await, ["", ""]);
    assert_eq!(change(&api, &ann, ASK, ["ann", "bob"]).await, "REQUESTED");
    assert_eq!(change(&api, &bob, END, ["bob", "ann"]).await, "");
    assert_eq!(both(&api, "bob").await, ["", ""]);
    assert_eq!(change(&api, &ann, ASK, ["ann", "bob"]).await, "REQUESTED");
    assert_eq!(change(&api, &bob, ASK, ["bob", "ann"]).await, "FRIENDS");
    assert_eq!(change(&api, &ann, ASK, ["ann", "bob"]).await, "FRIENDS");
    assert_eq!(both(&api, "ann").await, ["bob", ""]);
    assert_eq!(both(&api, "bob").await, ["ann", ""]);
    // A service needs no consent, and its friendship answers a request.
    let service = deployment.new_token(&["--scope", "friends"]).await;
    assert_eq!(change(&api, &ann, ASK, ["ann", "cy"]).await, "REQUESTED");
    assert_eq!(change(&api, &service, ASK, ["cy", "ann"]).await, "FRIENDS");
    assert_eq!(both(&api, "cy").await, ["ann", ""]);
    assert_eq!(deployment.number("SELECT CAST(COUNT(*) AS BIGINT) FROM friend_request").await, 0);
    // Of two who ask at once, one finds the request of the other.
    for _ in 0..5 {
        change(&api, &service, END, ["ann", "bob"]).await;
        let asked = tokio::join!(
            change(&api, &ann, ASK, ["ann", "bob"]),
            change(&api, &bob, ASK, ["bob", "ann"]),
        );
        let asked = [asked.0.as_str(), asked.1.as_str()];
        assert!(asked.contains(&"FRIENDS"), "{asked:?}");
        assert_eq!(both(&api, "ann").await, ["bob cy", ""]);
        assert_eq!(
            deployment.number("SELECT CAST(COUNT(*) AS BIGINT) FROM friend_request").await,
            0
        );
    }
}

#[tokio::test]
async fn a_friendship_takes_two() {
    for sql in Sql::all() {
        takes_two(sql).await;
    }
}

#[tokio::test]
async fn who_asks_shows_itself_to_the_one_asked_alone() {
    let (deployment, api) = start(Sql::any()).await;
    let (ann, bob) = (own(&deployment, "ann").await, own(&deployment, "bob").await);
    let cy = own(&deployment, "cy").await;
    for visibility in ["FRIENDS", "HIDDEN"] {
        let variables = json!({ "member": "ann", "visibility": visibility });
        api.data(SET_VISIBILITY, variables).await;
        assert_eq!(change(&api, &bob, ASK, ["bob", "ann"]).await, "NOT_FOUND");
        assert_eq!(change(&api, &bob, END, ["bob", "ann"]).await, "NOT_FOUND");
        assert_eq!(change(&api, &ann, ASK, ["ann", "bob"]).await, "REQUESTED");
        let asked = "{ member(key: \"bob\") { friendRequests { nodes { key name } } } }";
        let asked = api.ask(Some(&bob), asked, json!({})).await.body;
        let nodes = &asked["data"]["member"]["friendRequests"]["nodes"];
        assert_eq!(*nodes, json!([{ "key": "ann", "name": "ann" }]), "{asked}");
        assert_eq!(change(&api, &cy, ASK, ["cy", "ann"]).await, "NOT_FOUND");
        // A request alone makes no friend who sees it.
        let member = "{ member(key: \"ann\") { key } }";
        let is_seen =
            async || !api.ask(Some(&bob), member, json!({})).await.body["data"]["member"].is_null();
        assert!(!is_seen().await);
        assert_eq!(change(&api, &bob, ASK, ["bob", "ann"]).await, "FRIENDS");
        assert_eq!(is_seen().await, visibility == "FRIENDS");
        assert_eq!(change(&api, &bob, END, ["bob", "ann"]).await, "");
        assert!(!is_seen().await);
    }
}

#[tokio::test]
async fn requests_are_listed_limited_and_merged() {
    let (deployment, api) = start(Sql::Postgres).await;
    let (ann, bob) = (own(&deployment, "ann").await, own(&deployment, "bob").await);
    let others: Vec<String> = (0..1001).map(|number| format!("m{number:04}")).collect();
    let keys: Vec<&str> = others.iter().map(String::as_str).collect();
    for keys in keys.chunks(1000) {
        upsert(&api, keys).await;
    }
    let sql = deployment.sql().await;
    let insert = async |asker: &str, asked: &str| {
        let insert = format!(
            "INSERT INTO friend_request SELECT LEAST({asker}, {asked}), GREATEST({asker}, {asked}), \
             {asker}, {asked}, 0 FROM member WHERE key LIKE 'm0%'"
        );
        sea_orm::ConnectionTrait::execute_unprepared(&sql, &insert).await.unwrap();
    };
    insert("'ann'", "key").await;
    assert_eq!(change(&api, &ann, ASK, ["ann", "bob"]).await, "LIMIT_EXCEEDED");
    assert_eq!(change(&api, &ann, END, ["ann", "m0007"]).await, "");
    assert_eq!(change(&api, &ann, ASK, ["ann", "bob"]).await, "REQUESTED");
    insert("key", "'cy'").await;
    assert_eq!(change(&api, &bob, ASK, ["bob", "cy"]).await, "LIMIT_EXCEEDED");
    let page = async |after: Option<&str>| {
        let text = "query($after: String) { member(key: \"cy\") {
            friendRequests(first: 600, after: $after) {
                totalCount nodes { key } pageInfo { hasNextPage endCursor } } } }";
        api.data(text, json!({ "after": after })).await["member"]["friendRequests"].take()
    };
    let first = page(None).await;
    assert_eq!(first["totalCount"], 1000);
    assert_eq!(first["pageInfo"]["hasNextPage"], true);
    let second = page(first["pageInfo"]["endCursor"].as_str()).await;
    let nodes = |page: &Value| page["nodes"].as_array().unwrap().clone();
    let listed = [nodes(&first), nodes(&second)].concat();
    let listed: Vec<&str> = listed.iter().map(|node| node["key"].as_str().unwrap()).collect();
    assert_eq!(listed, keys[..1000]);
    // The requests of the target stay, and those of the source are given as far as there is room.
    let dee = own(&deployment, "dee").await;
    assert_eq!(change(&api, &dee, ASK, ["dee", "m0003"]).await, "REQUESTED");
    api.data(MERGE_MEMBERS, json!({ "source": "cy", "target": "dee" })).await;
    let count =
        |of: &str| format!("SELECT CAST(COUNT(*) AS BIGINT) FROM friend_request WHERE {of}");
    assert_eq!(deployment.number(&count("asked = 'cy' OR asker = 'cy'")).await, 0);
    assert_eq!(deployment.number(&count("asked = 'dee'")).await, 999);
    assert_eq!(deployment.number(&count("asker = 'dee'")).await, 1);
}
