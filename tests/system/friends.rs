//! Friendships: made, ended and listed.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::{Answer, Api};
use crate::connection::{Connection, texts};
use crate::deployment::{Deployment, Redis, Sql};
use crate::friend_ranks::STANDING;
use crate::load::submit;
use crate::wait::until;

const UPSERT: &str =
    "mutation($input: [MemberInput!]!) { upsertMembers(input: $input) { members { key } } }";

pub(crate) const ADD: &str = "mutation($member: String!, $friend: String!) { change: addFriend(member: $member, friend: $friend) { member { key } friend { key } } }";

const REMOVE: &str = "mutation($member: String!, $friend: String!) { change: removeFriend(member: $member, friend: $friend) { member { key } friend { key } } }";

const FRIENDS: &str = "query($member: String!, $first: Int, $after: String, $last: Int, $before: String) { member(key: $member) {
    friends(first: $first, after: $after, last: $last, before: $before) {
        totalCount pageInfo { hasNextPage hasPreviousPage startCursor endCursor } nodes { key } } } }";

pub(crate) async fn named(sql: Sql, members: &[&str]) -> (Arc<Deployment>, Api) {
    let deployment = Deployment::new(sql, Redis::Private).await;
    let api = Api::start(&deployment).await;
    upsert(&api, members).await;
    (deployment, api)
}

pub(crate) async fn upsert(api: &Api, members: &[&str]) {
    let input: Vec<Value> = members.iter().map(|key| json!({ "key": key })).collect();
    api.data(UPSERT, json!({ "input": input })).await;
}

async fn change(api: &Api, token: Option<&str>, text: &str, pair: (&str, &str)) -> Answer {
    let variables = json!({ "member": pair.0, "friend": pair.1 });
    api.ask(token, text, variables).await
}

pub(crate) async fn changed(api: &Api, text: &str, pair: (&str, &str)) {
    let answer = change(api, Some(api.token()), text, pair).await;
    let expected = json!({ "member": { "key": pair.0 }, "friend": { "key": pair.1 } });
    assert_eq!(answer.body, json!({ "data": { "change": expected } }));
}

/// A member's friends, by pages of several sizes both ways.
async fn friends(api: &Api, member: &str) -> Vec<String> {
    let connection = Connection {
        text: FRIENDS,
        variables: json!({ "member": member }),
        pointer: "/member/friends",
    };
    texts(&connection.nodes(api).await, "/key")
}

#[tokio::test]
async fn a_friendship_is_mutual_and_made_and_ended_once() {
    for sql in [Sql::Sqlite, Sql::Postgres] {
        let (deployment, api) = named(sql, &["ann", "bob", "cy"]).await;
        let count = "SELECT CAST(COUNT(*) AS BIGINT) FROM friendship";
        for pair in [("ann", "bob"), ("ann", "bob"), ("bob", "ann")] {
            changed(&api, ADD, pair).await;
            assert_eq!(friends(&api, "ann").await, ["bob"]);
            assert_eq!(friends(&api, "bob").await, ["ann"]);
            assert_eq!(deployment.number(count).await, 1);
        }
        changed(&api, ADD, ("cy", "ann")).await;
        assert_eq!(friends(&api, "ann").await, ["bob", "cy"]);
        for pair in [("bob", "ann"), ("ann", "bob"), ("bob", "cy")] {
            changed(&api, REMOVE, pair).await;
            assert_eq!(friends(&api, "ann").await, ["cy"]);
            assert_eq!(friends(&api, "bob").await, [""; 0]);
        }
        assert_eq!(deployment.number(count).await, 1);
    }
}

#[tokio::test]
async fn a_friendship_is_between_two_members_that_there_are() {
    let (_deployment, api) = named(Sql::Sqlite, &["ann", "bob"]).await;
    let long = "x".repeat(129);
    for text in [ADD, REMOVE] {
        for (member, friend, code) in [
            ("ann", "ann", "BAD_USER_INPUT"),
            ("nobody", "nobody", "BAD_USER_INPUT"),
            ("ann", "nobody", "NOT_FOUND"),
            ("nobody", "ann", "NOT_FOUND"),
            ("ann", "", "BAD_USER_INPUT"),
            ("", "ann", "BAD_USER_INPUT"),
            ("ann", &long, "BAD_USER_INPUT"),
            (&long, "ann", "BAD_USER_INPUT"),
            ("ann", "b\nob", "BAD_USER_INPUT"),
        ] {
            let answer = change(&api, Some(api.token()), text, (member, friend)).await;
            assert_eq!(answer.codes(), [code], "{member:?} {friend:?}: {}", answer.body);
        }
    }
    let variables = json!({ "slug": "b", "window": "all", "member": long });
    api.data("mutation { createBoard(input: { slug: \"b\" }) { board { id } } }", json!({})).await;
    let answer = api.ask(Some(api.token()), STANDING, variables).await;
    assert_eq!(answer.codes(), ["BAD_USER_INPUT"]);
}

#[tokio::test]
async fn who_has_only_just_scored_can_have_friends() {
    for sql in [Sql::Sqlite, Sql::Postgres] {
        let (_deployment, api) = named(sql, &["ann"]).await;
        api.data("mutation { createBoard(input: { slug: \"b\" }) { board { id } } }", json!({}))
            .await;
        for round in 0..10 {
            let key = format!("m{round}");
            submit(&api, "b", json!([{ "member": key, "score": 1 }])).await;
            changed(&api, ADD, ("ann", &key)).await;
        }
        assert_eq!(friends(&api, "ann").await.len(), 10);
    }
}

#[tokio::test]
async fn a_token_changes_the_friendships_that_are_its_own() {
    let (deployment, api) = named(Sql::Sqlite, &["ann", "bob", "cy"]).await;
    let read = deployment.new_token(&["--scope", "read"]).await;
    let own = deployment.new_token(&["--scope", "submit", "--member", "ann"]).await;
    let service = deployment.new_token(&["--scope", "submit"]).await;
    let reads_own = deployment.new_token(&["--scope", "read", "--member", "ann"]).await;
    for text in [ADD, REMOVE] {
        for (token, pair, codes) in [
            (None, ("ann", "bob"), &["UNAUTHENTICATED"][..]),
            (Some("laurel_no_token"), ("ann", "bob"), &["UNAUTHENTICATED"]),
            (Some(&*read), ("ann", "bob"), &["FORBIDDEN"]),
            (Some(&*reads_own), ("ann", "bob"), &["FORBIDDEN"]),
            (Some(&*own), ("bob", "ann"), &["FORBIDDEN"]),
            (Some(&*own), ("bob", "cy"), &["FORBIDDEN"]),
            (Some(&*own), ("ann", "bob"), &[]),
            (Some(&*service), ("bob", "cy"), &[]),
        ] {
            assert_eq!(change(&api, token, text, pair).await.codes(), codes, "{token:?} {pair:?}");
        }
        let expected: &[&str] = if text == ADD { &["ann", "cy"] } else { &[] };
        assert_eq!(friends(&api, "bob").await, expected);
    }
}

#[tokio::test]
async fn friends_are_listed_by_key_in_pages() {
    let mut members: Vec<String> = (0..25).map(|number| format!("m{number}")).collect();
    members.extend(["é", "Z", "\u{fffd}", "\u{1f3c6}", "a b", "'\"\\"].map(str::to_owned));
    let names: Vec<&str> = members.iter().map(String::as_str).collect();
    let (_deployment, api) = named(Sql::Postgres, &names).await;
    upsert(&api, &["me"]).await;
    for name in &names {
        changed(&api, ADD, ("me", name)).await;
    }
    members.sort_unstable();
    assert_eq!(friends(&api, "me").await, members);
    assert_eq!(friends(&api, "Z").await, ["me"]);
}

#[tokio::test]
async fn a_change_of_friends_shows_at_once_here_and_soon_elsewhere() {
    let (deployment, api) = named(Sql::Sqlite, &["ann", "bob"]).await;
    let other = Api::start(&deployment).await;
    api.data("mutation { createBoard(input: { slug: \"b\" }) { board { id } } }", json!({})).await;
    submit(&api, "b", json!([{ "member": "ann", "score": 1 }, { "member": "bob", "score": 2 }]))
        .await;
    let among = async |api: &Api| {
        let variables = json!({ "slug": "b", "window": "all", "member": "ann" });
        let data = api.data(STANDING, variables).await;
        data["board"]["standings"]["friends"]["totalCount"].as_i64().unwrap()
    };
    for _ in 0..5 {
        for (text, friends_of_ann, count) in [(ADD, vec!["bob"], 2), (REMOVE, vec![], 1)] {
            changed(&api, text, ("ann", "bob")).await;
            assert_eq!(friends(&api, "ann").await, friends_of_ann);
            assert_eq!(among(&api).await, count);
            until("another process knows", async || (among(&other).await == count).then_some(()))
                .await;
        }
    }
}
