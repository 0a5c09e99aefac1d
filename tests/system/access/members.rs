//! Privacy of members: searches, friends, histories and event ids by the setting, and members who
//! are on private boards alone.

use std::sync::Arc;

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::friends::change_friends;
use tests::api::submission::{submit, submit_durably};
use tests::api::subscriber::Subscriber;
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::ADD_FRIEND;

/// The four columns of the table, each with a query; the last one asks for an event id.
const COLUMNS: [&str; 4] = [
    "{ searchMembers(prefix: \"a\") { nodes { key } } }",
    "{ member(key: \"ann\") { friends { nodes { key } } } }",
    "{ member(key: \"ann\") { events(board: \"open\") { nodes { kind } } } }",
    "{ member(key: \"ann\") { events(board: \"open\") { nodes { eventId } } } }",
];

/// Each value with the clients that may, by column.
const TABLE: [(&str, [&[&str]; 4]); 3] = [
    ("public", [ALL, ALL, ALL, ALL]),
    (
        "tokens",
        [
            &["read", "friends", "moderate", "admin", "own", "other"],
            &["friends", "admin", "own"],
            &["moderate", "admin", "own"],
            &["moderate", "admin", "own"],
        ],
    ),
    (
        "self",
        [
            &["moderate", "admin"],
            &["friends", "admin", "own"],
            &["moderate", "admin", "own"],
            &["admin", "own"],
        ],
    ),
];

const ALL: &[&str] = &["none", "read", "friends", "moderate", "admin", "own", "other"];

const FIND: &str = "
    query($key: String!) {
        member(key: $key) { name } members(keys: [$key]) { name }
        searchMembers(prefix: $key) { totalCount nodes { key } }
    }";

async fn start(sql: Sql, members: &str) -> (Arc<Deployment>, Api) {
    let deployment = Deployment::new(sql, Redis::Private).await;
    let api = Api::start_with_settings(&deployment, &[("LAUREL_MEMBERS", members)]).await;
    for (slug, visibility) in [("open", "PUBLIC"), ("shut", "PRIVATE")] {
        api.create_board(json!({ "slug": slug, "visibility": visibility })).await;
    }
    let scores = ["ann", "bob"]
        .map(|member| json!({ "member": member, "score": 1, "eventId": format!("{member}-1") }));
    submit_durably(&api, "open", json!(scores)).await;
    change_friends(&api, ADD_FRIEND, ("ann", "bob")).await;
    (deployment, api)
}

#[tokio::test]
async fn the_setting_says_who_sees_what_of_members() {
    for (setting, columns) in TABLE {
        let (deployment, api) = start(Sql::any(), setting).await;
        for client in ALL {
            let arguments: &[&str] = match *client {
                "none" => &[],
                "own" => &["--scope", "read", "--member", "ann"],
                "other" => &["--scope", "read,submit,friends", "--member", "bob"],
                scope => &["--scope", scope],
            };
            let token = match arguments.is_empty() {
                true => None,
                false => Some(deployment.new_token(arguments).await),
            };
            for (text, may) in COLUMNS.into_iter().zip(columns) {
                let answer = api.ask(token.as_deref(), text, json!({})).await;
                let is_shown = match text.contains("eventId") {
                    true => answer.body.to_string().contains("ann-1"),
                    false => answer.codes().is_empty(),
                };
                assert_eq!(is_shown, may.contains(client), "{setting} {client} {text}: {answer:?}");
            }
        }
    }
}

/// The client sees a member by its key, and by a search where it may search.
async fn sees(api: &Api, token: Option<&str>, key: &str) -> bool {
    let body = api.ask(token, FIND, json!({ "key": key })).await.body;
    let data = &body["data"];
    let is_seen = !data["member"].is_null();
    assert_eq!(data["members"][0].is_null(), !is_seen, "{body}");
    if body.get("errors").is_none() {
        let found = u64::from(is_seen);
        assert_eq!(data["searchMembers"]["totalCount"], found, "{body}");
        assert_eq!(data["searchMembers"]["nodes"].as_array().unwrap().len() as u64, found);
    }
    is_seen
}

async fn hides(sql: Sql) {
    let (deployment, api) = start(sql, "tokens").await;
    // Whatever SQL has already.
    for submitted in ["now", "settled"] {
        let key = format!("zoe-{submitted}");
        let score = json!([{ "member": key, "score": 1 }]);
        match submitted {
            "now" => drop(submit(&api, "shut", score).await),
            _ => drop(submit_durably(&api, "shut", score).await),
        }
        let new = |arguments: &'static [&'static str]| deployment.new_token(arguments);
        let of_board = new(&["--scope", "read", "--boards", "shut"]).await;
        let of_other = new(&["--scope", "read", "--boards", "open"]).await;
        let service = new(&["--scope", "read"]).await;
        assert!(sees(&api, Some(&of_board), &key).await, "{key}");
        assert!(sees(&api, Some(api.token()), &key).await, "{key}");
        for token in [None, Some(&*service), Some(&*of_other)] {
            assert!(!sees(&api, token, &key).await, "{key} {token:?}");
            let text = format!("{{ node(id: \"member:{key}\") {{ id }} }}");
            assert_eq!(api.ask(token, &text, json!({})).await.body["data"]["node"], Value::Null);
            assert!(sees(&api, token, "bob").await);
        }
    }
    let own = deployment.new_token(&["--scope", "read", "--member", "zoe-settled"]).await;
    assert!(sees(&api, Some(&own), "zoe-settled").await);
    assert!(!sees(&api, Some(&own), "zoe-now").await);
    submit_durably(&api, "open", json!([{ "member": "zoe-now", "score": 1 }])).await;
    assert!(sees(&api, None, "zoe-now").await);
    // Members who are on no board are not hidden.
    api.upsert_members(json!([{ "key": "new" }])).await;
    assert!(sees(&api, None, "new").await);
}

#[tokio::test]
async fn members_of_private_boards_alone_are_not_seen_by_others() {
    for sql in Sql::all() {
        hides(sql).await;
    }
}

#[tokio::test]
async fn a_subscription_shows_friends_to_the_member_itself_alone() {
    let (deployment, api) = start(Sql::any(), "tokens").await;
    let text = "subscription { entry(board: \"open\", member: \"ann\") {
        score member { friends { totalCount } } } }";
    for (member, expected) in [("bob", Value::Null), ("ann", json!({ "totalCount": 1 }))] {
        let token = deployment.new_token(&["--scope", "read", "--member", member]).await;
        let mut socket = Subscriber::connect(&api, Some(&token)).await;
        socket.subscribe("1", text, json!({})).await;
        let payload = socket.next().await["payload"].take();
        assert_eq!(payload["data"]["entry"]["member"]["friends"], expected, "{member}: {payload}");
    }
}

#[tokio::test]
async fn a_search_looks_at_a_bounded_number_of_members_that_are_not_shown() {
    const SEARCH: &str = "query($prefix: String!, $first: Int!) {
        searchMembers(prefix: $prefix, first: $first) { pageInfo { hasNextPage } nodes { key } }
    }";
    for sql in Sql::all() {
        let (deployment, api) = start(sql, "tokens").await;
        // One of a hundred is on a public board, too.
        let scores: Vec<Value> =
            (0..2300).map(|no| json!({ "member": format!("h{no:04}"), "score": 1 })).collect();
        for some in scores.chunks(1000) {
            submit_durably(&api, "shut", json!(some)).await;
        }
        let shown: Vec<Value> = scores.iter().step_by(100).take(15).cloned().collect();
        submit_durably(&api, "open", json!(shown)).await;
        let token = deployment.new_token(&["--scope", "read"]).await;
        let search = async |prefix: &str, first: i32| {
            let variables = json!({ "prefix": prefix, "first": first });
            api.ask(Some(&token), SEARCH, variables).await
        };
        let expected: Vec<Value> =
            shown.iter().map(|score| json!({ "key": score["member"] })).collect();
        let page = search("h", 10).await;
        let found = &page.body["data"]["searchMembers"];
        assert_eq!(found["nodes"], json!(expected[..10]), "{}", page.body);
        assert_eq!(found["pageInfo"]["hasNextPage"], true);
        let page = search("h", 100).await;
        assert_eq!(page.codes(), ["LIMIT_EXCEEDED"], "{}", page.body);
        assert!(page.message().contains("expected a longer prefix"), "{}", page.body);
        let page = search("h0", 100).await;
        assert_eq!(page.body["data"]["searchMembers"]["nodes"], json!(expected[..10]));
        assert_eq!(page.body["data"]["searchMembers"]["pageInfo"]["hasNextPage"], false);
    }
}
