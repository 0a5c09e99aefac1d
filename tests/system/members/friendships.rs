//! Friendships: made, ended and listed.

use entity::member::friend_request::{self, Asked};
use entity::member::friendship;
use serde_json::json;

use tests::api::Api;
use tests::api::connection::{Connection, texts};
use tests::api::friends::{change_friends, start_with_members, try_change_friends, upsert};
use tests::api::submission::submit;
use tests::deployment::Sql;
use tests::documents::{ADD_FRIEND, RANKED_FRIENDS, REMOVE_FRIEND};
use tests::wait::until;

const FRIENDS: &str = "
    query($member: String!, $first: Int, $after: String, $last: Int, $before: String) {
        member(key: $member) {
            friends(first: $first, after: $after, last: $last, before: $before) {
                totalCount pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
                nodes { key }
            }
        }
    }";

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
    for sql in Sql::all() {
        let (deployment, api) = start_with_members(sql, &["ann", "bob", "cy"]).await;
        let count = "SELECT CAST(COUNT(*) AS BIGINT) FROM friendship";
        for pair in [("ann", "bob"), ("ann", "bob"), ("bob", "ann")] {
            change_friends(&api, ADD_FRIEND, pair).await;
            assert_eq!(friends(&api, "ann").await, ["bob"]);
            assert_eq!(friends(&api, "bob").await, ["ann"]);
            assert_eq!(deployment.number(count).await, 1);
        }
        change_friends(&api, ADD_FRIEND, ("cy", "ann")).await;
        assert_eq!(friends(&api, "ann").await, ["bob", "cy"]);
        for pair in [("bob", "ann"), ("ann", "bob"), ("bob", "cy")] {
            change_friends(&api, REMOVE_FRIEND, pair).await;
            assert_eq!(friends(&api, "ann").await, ["cy"]);
            assert_eq!(friends(&api, "bob").await, [""; 0]);
        }
        assert_eq!(deployment.number(count).await, 1);
    }
}

/// The limit is smaller than that of the API, which the engine hands over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn friendships_that_are_made_at_the_same_time_stay_within_the_limit() {
    const LIMIT: u64 = 5;
    let keys: Vec<String> = (0..16).map(|number| format!("m{number:02}")).collect();
    for sql in Sql::all() {
        let members: Vec<&str> = keys.iter().map(String::as_str).chain(["ann"]).collect();
        let (deployment, api) = start_with_members(sql, &members).await;
        let stores = deployment.open_stores().await;
        let db = &stores.db;
        let made = futures::future::join_all(keys.iter().map(async |key| {
            let asked = friend_request::ask(db, (key, "ann"), 0, LIMIT).await.unwrap();
            assert_eq!(asked, Asked::Waits);
            let full = friendship::insert(db, ("ann", key), 0, LIMIT).await.unwrap();
            assert!(full.is_none_or(|full| full == "ann"), "{full:?}");
            full.is_none()
        }));
        let made = made.await.into_iter().filter(|made| *made).count() as u64;
        assert_eq!(made, LIMIT);
        assert_eq!(friends(&api, "ann").await.len() as u64, LIMIT);
        stores.close().await;
    }
}

#[tokio::test]
async fn a_friendship_is_between_two_members_that_there_are() {
    let (_deployment, api) = start_with_members(Sql::any(), &["ann", "bob"]).await;
    let long = "x".repeat(129);
    for text in [ADD_FRIEND, REMOVE_FRIEND] {
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
            let answer = try_change_friends(&api, Some(api.token()), text, (member, friend)).await;
            assert_eq!(answer.codes(), [code], "{member:?} {friend:?}: {}", answer.body);
        }
    }
    let variables = json!({ "slug": "b", "window": "all", "member": long });
    api.create_board(json!({ "slug": "b" })).await;
    let answer = api.ask(Some(api.token()), RANKED_FRIENDS, variables).await;
    assert_eq!(answer.codes(), ["BAD_USER_INPUT"]);
}

#[tokio::test]
async fn a_member_that_has_only_just_scored_can_have_friends() {
    for sql in Sql::all() {
        let (_deployment, api) = start_with_members(sql, &["ann"]).await;
        api.create_board(json!({ "slug": "b" })).await;
        for round in 0..10 {
            let key = format!("m{round}");
            submit(&api, "b", json!([{ "member": key, "score": 1 }])).await;
            change_friends(&api, ADD_FRIEND, ("ann", &key)).await;
        }
        assert_eq!(friends(&api, "ann").await.len(), 10);
    }
}

#[tokio::test]
async fn a_token_changes_the_friendships_that_are_its_own() {
    let (deployment, api) = start_with_members(Sql::any(), &["ann", "bob", "cy"]).await;
    let read = deployment.new_token(&["--scope", "read"]).await;
    let own = deployment.new_token(&["--scope", "friends", "--member", "ann"]).await;
    let service = deployment.new_token(&["--scope", "friends"]).await;
    let submits = deployment.new_token(&["--scope", "submit,moderate"]).await;
    let reads_own = deployment.new_token(&["--scope", "read", "--member", "ann"]).await;
    for text in [ADD_FRIEND, REMOVE_FRIEND] {
        for (token, pair, codes) in [
            (None, ("ann", "bob"), &["UNAUTHENTICATED"][..]),
            (Some("laurel_no_token"), ("ann", "bob"), &["UNAUTHENTICATED"]),
            (Some(&*read), ("ann", "bob"), &["FORBIDDEN"]),
            (Some(&*reads_own), ("ann", "bob"), &["FORBIDDEN"]),
            (Some(&*submits), ("ann", "bob"), &["FORBIDDEN"]),
            (Some(&*own), ("bob", "ann"), &["FORBIDDEN"]),
            (Some(&*own), ("bob", "cy"), &["FORBIDDEN"]),
            (Some(&*own), ("ann", "bob"), &[]),
            (Some(&*service), ("bob", "cy"), &[]),
        ] {
            assert_eq!(
                try_change_friends(&api, token, text, pair).await.codes(),
                codes,
                "{token:?} {pair:?}"
            );
        }
        let expected: &[&str] = if text == ADD_FRIEND { &["ann", "cy"] } else { &[] };
        assert_eq!(friends(&api, "bob").await, expected);
    }
}

#[tokio::test]
async fn friends_are_listed_by_key_in_pages() {
    let mut members: Vec<String> = (0..25).map(|number| format!("m{number}")).collect();
    members.extend(["é", "Z", "\u{fffd}", "\u{1f3c6}", "a b", "'\"\\"].map(str::to_owned));
    let names: Vec<&str> = members.iter().map(String::as_str).collect();
    let (_deployment, api) = start_with_members(Sql::Postgres, &names).await;
    upsert(&api, &["me"]).await;
    for name in &names {
        change_friends(&api, ADD_FRIEND, ("me", name)).await;
    }
    members.sort_unstable();
    assert_eq!(friends(&api, "me").await, members);
    assert_eq!(friends(&api, "Z").await, ["me"]);
}

#[tokio::test]
async fn a_change_of_friends_shows_at_once_here_and_soon_elsewhere() {
    let (deployment, api) = start_with_members(Sql::any(), &["ann", "bob"]).await;
    let other = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    submit(&api, "b", json!([{ "member": "ann", "score": 1 }, { "member": "bob", "score": 2 }]))
        .await;
    let among = async |api: &Api| {
        let variables = json!({ "slug": "b", "window": "all", "member": "ann" });
        let data = api.data(RANKED_FRIENDS, variables).await;
        data["board"]["standings"]["friends"]["totalCount"].as_i64().unwrap()
    };
    for _ in 0..5 {
        for (text, friends_of_ann, count) in
            [(ADD_FRIEND, vec!["bob"], 2), (REMOVE_FRIEND, vec![], 1)]
        {
            change_friends(&api, text, ("ann", "bob")).await;
            assert_eq!(friends(&api, "ann").await, friends_of_ann);
            assert_eq!(among(&api).await, count);
            until("another process knows", async || (among(&other).await == count).then_some(()))
                .await;
        }
    }
}
