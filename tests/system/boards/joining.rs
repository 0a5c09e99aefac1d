//! Boards that members join: who has not may not submit, and the number of entrants has a limit.

use std::sync::Arc;

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::{merge, remove};
use tests::api::submission::{submit, submit_durably};
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::analytics::{figures, run};
use tests::jobs::diff::check_diff;
use tests::jobs::reshard::reshard;
use tests::servers::postgres::Postgres;
use tests::wait::until;

/// Sends a mutation of a member, `joinBoard` or `leaveBoard`: what it tells, or the code and the
/// argument of its error.
async fn change(api: &Api, token: &str, mutation: &str, member: &str) -> Value {
    let field = if mutation == "joinBoard" { "joined" } else { "left" };
    let kind = format!("{}{}Input", mutation[..1].to_uppercase(), &mutation[1..]);
    let text = format!("mutation($input: {kind}!) {{ {mutation}(input: $input) {{ {field} }} }}");
    let input = json!({ "input": { "board": "b", "member": member } });
    let mut answer = api.ask(Some(token), &text, input).await;
    match answer.codes()[..] {
        [] => answer.body["data"][mutation][field].take(),
        [code] => {
            json!([code, answer.body["errors"][0]["extensions"]["argument"]])
        }
        _ => panic!("{:?}", answer.body),
    }
}

async fn join(api: &Api, member: &str) -> Value {
    change(api, api.token(), "joinBoard", member).await
}

async fn leave(api: &Api, member: &str) -> Value {
    change(api, api.token(), "leaveBoard", member).await
}

/// The entrants of the board: their number, their limit, and whether a member is one of them.
async fn entrants(api: &Api, member: &str) -> Value {
    let text = "
        query($member: String!) { board(slug: \"b\") { entrants {
            count max includes(member: $member)
        } } }";
    let answer = api.data(text, json!({ "member": member })).await;
    let told = &answer["board"]["entrants"];
    json!([told["count"], told["max"], told["includes"]])
}

/// The status of a score of each member, or the code of its refusal.
async fn submitted(api: &Api, members: &[&str]) -> Value {
    let score = |member: &&str| json!({ "member": member, "score": 1 });
    let told = submit(api, "b", members.iter().map(score).collect()).await;
    let results = told["results"].as_array().unwrap().iter();
    let each = results.map(|result| match &result["error"]["code"] {
        Value::Null => result["status"].clone(),
        code => code.clone(),
    });
    each.collect()
}

async fn check_joining(sql: Sql) {
    let deployment = Deployment::new(sql, Redis::Own).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "joining": true, "entrantsMax": 2, "shards": 4 })).await;
    assert_eq!(submitted(&api, &["ann"]).await, json!(["NOT_JOINED"]));
    assert_eq!(entrants(&api, "ann").await, json!([0, 2, false]));
    assert_eq!(join(&api, "ann").await, true);
    assert_eq!(join(&api, "ann").await, false);
    assert_eq!(submitted(&api, &["bob", "ann"]).await, json!(["NOT_JOINED", "APPLIED"]));
    assert_eq!(join(&api, "bob").await, true);
    assert_eq!(join(&api, "cid").await, json!(["ENTRANTS_FULL", null]));
    assert_eq!(join(&api, "bob").await, false);
    assert_eq!(entrants(&api, "bob").await, json!([2, 2, true]));
    // Leaving makes room, until the first score.
    assert_eq!(leave(&api, "ann").await, json!(["BAD_USER_INPUT", "input.member"]));
    assert_eq!(leave(&api, "cid").await, false);
    assert_eq!(leave(&api, "bob").await, true);
    assert_eq!(leave(&api, "bob").await, false);
    assert_eq!(submitted(&api, &["bob"]).await, json!(["NOT_JOINED"]));
    assert_eq!(entrants(&api, "bob").await, json!([1, 2, false]));
    assert_eq!(join(&api, "cid").await, true);
    assert_eq!(join(&api, "bob").await, json!(["ENTRANTS_FULL", null]));
    // Another limit, and who joins again is in again.
    api.update_board(json!({ "slug": "b", "entrantsMax": null })).await;
    assert_eq!(join(&api, "bob").await, true);
    assert_eq!(entrants(&api, "bob").await, json!([3, null, true]));
    assert_eq!(submitted(&api, &["bob", "cid"]).await, json!(["APPLIED", "APPLIED"]));
    remove(&api, "b", "cid").await;
    assert_eq!(leave(&api, "cid").await, true);
    deployment.settle().await;
    for how in ["flush", "restore", "shards", "moved flush"] {
        match how {
            "flush" | "moved flush" => deployment.flush_redis().await,
            "restore" => drop(figures(&deployment, &["restore"])),
            _ => drop(reshard(&deployment, "b", 16)),
        }
        let told = until("the partitions are loaded", async || {
            let told = submitted(&api, &["ann", "bob", "cid"]).await;
            (told[0] != "UNAVAILABLE").then_some(told)
        })
        .await;
        assert_eq!(told, json!(["APPLIED", "APPLIED", "NOT_JOINED"]), "after {how}");
    }
    check_diff(&deployment);
    check_import(&deployment).await;
    api.delete_board("b").await;
    assert_eq!(deployment.number("SELECT CAST(COUNT(*) AS BIGINT) FROM entrant").await, 0);
    let keys: Vec<String> = deployment.ask_redis(&["KEYS", "laurel:*entrants*"]).await;
    assert_eq!(keys, [""; 0]);
}

/// Rows of a file count for entrants only.
async fn check_import(deployment: &Deployment) {
    let file = deployment.new_file("scores.csv");
    let at = "2026-01-02T03:04:05Z";
    std::fs::write(&file, format!("board,member,score,at,event_id\nb,ann,1,{at},i1\n")).unwrap();
    let path = file.to_str().unwrap();
    forget(deployment, "ann").await;
    let (status, _, error) = run(deployment, &["import", path]);
    assert_eq!(status, 0, "{error}");
    std::fs::write(&file, format!("board,member,score,at,event_id\nb,zoe,1,{at},i1\n")).unwrap();
    let (status, _, error) = run(deployment, &["import", path]);
    assert_eq!(status, 1, "{error}");
    assert!(error.contains("has not joined this board"), "{error}");
}

/// Lets Redis forget that a member joined.
async fn forget(deployment: &Deployment, member: &str) {
    let keys: Vec<String> = deployment.ask_redis(&["KEYS", "laurel:*entrants*"]).await;
    let mut forgotten = 0;
    for key in keys {
        forgotten += deployment.ask_redis::<i64>(&["HDEL", &key, member]).await;
    }
    assert_eq!(forgotten, 1);
}

#[tokio::test]
async fn only_members_who_joined_submit_on_sqlite() {
    check_joining(Sql::Sqlite).await;
}

#[tokio::test]
async fn only_members_who_joined_submit_on_postgres() {
    check_joining(Sql::Postgres).await;
}

#[tokio::test]
async fn only_members_who_joined_submit_on_mariadb() {
    check_joining(Sql::Mariadb).await;
}

/// Members join through several processes at once, some of them twice.
async fn check_race(sql: Sql) {
    let deployment = Deployment::new(sql, Redis::Private).await;
    let apis =
        futures::join!(Api::start(&deployment), Api::start(&deployment), Api::start(&deployment));
    let apis = [apis.0, apis.1, apis.2];
    apis[0].create_board(json!({ "slug": "b", "joining": true, "entrantsMax": 15 })).await;
    let joins = (0..60).map(async |number: usize| {
        let (api, member) = (&apis[number % apis.len()], format!("m{}", number % 40));
        join(api, &member).await
    });
    let told = futures::future::join_all(joins).await;
    assert_eq!(told.iter().filter(|told| **told == true).count(), 15, "{told:?}");
    assert!(told.iter().all(|told| told.is_boolean() || told[0] == "ENTRANTS_FULL"), "{told:?}");
    assert_eq!(entrants(&apis[1], "m0").await[0], 15);
    let rows = "SELECT CAST(COUNT(*) AS BIGINT) FROM entrant";
    assert_eq!(deployment.number(rows).await, 15);
    // Some leave while they submit: who has left has no score, and who has a score has not left.
    let members: Vec<String> = deployment.column("SELECT member FROM entrant").await;
    let races = members.iter().enumerate().map(async |(number, member)| {
        let (api, other) = (&apis[number % apis.len()], &apis[(number + 1) % apis.len()]);
        let names = [member.as_str()];
        let (left, told) = futures::join!(leave(api, member), submitted(other, &names));
        (left, told[0].clone())
    });
    let told = futures::future::join_all(races).await;
    for outcome in &told {
        let stays = outcome == &(json!(["BAD_USER_INPUT", "input.member"]), json!("APPLIED"));
        assert!(stays || outcome == &(json!(true), json!("NOT_JOINED")), "{outcome:?}");
    }
    let left = told.iter().filter(|(left, _)| *left == true).count() as i64;
    assert_eq!(deployment.number(rows).await, 15 - left);
    assert_eq!(deployment.number("SELECT entrants FROM board").await, 15 - left);
    check_diff(&deployment);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_of_entrants_is_exact_at_any_number_of_processes() {
    for sql in Sql::all() {
        check_race(sql).await;
    }
}

#[tokio::test]
async fn a_submission_asks_sql_only_if_redis_does_not_know() {
    let server = Postgres::start(None);
    let deployment: Arc<Deployment> =
        Deployment::on_database(server.new_database().await, Redis::Own);
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "joining": true })).await;
    for member in ["ann", "bob"] {
        assert_eq!(join(&api, member).await, true);
    }
    // As if the process had ended between the two stores.
    forget(&deployment, "bob").await;
    assert_eq!(submitted(&api, &["bob"]).await, json!(["APPLIED"]));
    forget(&deployment, "bob").await;
    let told = submit_durably(&api, "b", json!([{ "member": "ann", "score": 1 }])).await;
    assert_eq!(told["accepted"], 1);
    server.stop();
    let told = submitted(&api, &["ann", "bob"]).await;
    assert_eq!(told, json!(["APPLIED", "UNAVAILABLE"]));
    server.start_again();
    until("SQL knows who joined", async || {
        (submitted(&api, &["bob", "cid"]).await == json!(["APPLIED", "NOT_JOINED"])).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_member_s_token_joins_for_that_member_alone() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "joining": true, "selfSubmit": true })).await;
    let own = deployment.new_token(&["--scope", "submit", "--member", "ann"]).await;
    let service = deployment.new_token(&["--scope", "submit"]).await;
    for mutation in ["joinBoard", "leaveBoard"] {
        assert_eq!(change(&api, &own, mutation, "ann").await, true);
        assert_eq!(change(&api, &own, mutation, "bob").await, json!(["FORBIDDEN", null]));
        assert_eq!(change(&api, &service, mutation, "ann").await, json!(["FORBIDDEN", null]));
    }
}

#[tokio::test]
async fn what_does_not_fit_is_refused() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let text =
        "mutation($input: CreateBoardInput!) { createBoard(input: $input) { board { slug } } }";
    for (joining, max, code) in [
        (false, 5, "BAD_USER_INPUT"),
        (true, 0, "BAD_USER_INPUT"),
        (true, 1_000_000_001, "LIMIT_EXCEEDED"),
    ] {
        let input = json!({ "slug": "b", "joining": joining, "entrantsMax": max });
        let answer = api.ask(Some(api.token()), text, json!({ "input": input })).await;
        assert_eq!(answer.codes(), [code]);
        let argument = &answer.body["errors"][0]["extensions"]["argument"];
        assert_eq!(argument, "input.entrantsMax");
    }
    api.create_board(json!({ "slug": "b" })).await;
    assert_eq!(join(&api, "ann").await, json!(["BAD_USER_INPUT", "input.board"]));
    assert_eq!(join(&api, "a\nb").await, json!(["BAD_USER_INPUT", "input.member"]));
    let told = api.data("{ board(slug: \"b\") { entrants { count } } }", json!({})).await;
    assert_eq!(told["board"]["entrants"], Value::Null);
    api.delete_board("b").await;
    assert_eq!(join(&api, "ann").await, json!(["NOT_FOUND", "input.board"]));
}

#[tokio::test]
async fn a_merge_gives_the_place_of_the_source_to_the_target() {
    for sql in Sql::all() {
        let deployment = Deployment::new(sql, Redis::Own).await;
        let api = Api::start(&deployment).await;
        api.create_board(json!({ "slug": "b", "joining": true, "entrantsMax": 2 })).await;
        for member in ["ann", "bob"] {
            assert_eq!(join(&api, member).await, true);
        }
        assert_eq!(submitted(&api, &["ann", "bob"]).await, json!(["APPLIED", "APPLIED"]));
        // A new key takes the place of the old one.
        merge(&api, "ann", "new").await;
        assert_eq!(entrants(&api, "ann").await, json!([2, 2, false]));
        assert_eq!(entrants(&api, "new").await, json!([2, 2, true]));
        assert_eq!(submitted(&api, &["new"]).await, json!(["APPLIED"]));
        assert_eq!(join(&api, "ann").await[0], "MEMBER_MERGED");
        // Two that have joined are one.
        merge(&api, "bob", "new").await;
        assert_eq!(entrants(&api, "new").await, json!([1, 2, true]));
        assert_eq!(join(&api, "cid").await, true);
        assert_eq!(join(&api, "dan").await[0], "ENTRANTS_FULL");
        deployment.flush_redis().await;
        assert_eq!(submitted(&api, &["new", "cid"]).await, json!(["APPLIED", "APPLIED"]));
        check_diff(&deployment);
    }
}
