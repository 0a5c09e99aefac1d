//! The audit log: each act leaves a row, which tells who did what, and no secret.

use std::collections::BTreeSet;

use sea_orm::ConnectionTrait;
use serde_json::{Value, json};

use super::matrix::{OF_NEW_BOARDS, document, start, table};
use tests::api::Api;
use tests::api::amendment::{events, remove, void};
use tests::api::audit::{AUDIT_LOG, acts, value};
use tests::api::moderation::{BAN_MEMBER, ban, lift};
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::{CREATE_BOARD, REMOVE_ENTRIES, SET_VISIBILITY};
use tests::model::schema::Schema;

const CREATE_TOKEN: &str = "
    mutation { createAccessToken(input: { scopes: [MODERATE], name: \"night watch\" }) {
        token accessToken { id }
    } }";

const REVOKE: &str = "
    mutation($id: ID!) { revokeAccessToken(input: { id: $id }) { accessToken { revokedAt } } }";

/// The fields of some acts.
fn fields(acts: &[Value], names: &[&str]) -> Vec<Value> {
    let of = |act: &Value| names.iter().map(|name| act[*name].clone()).collect::<Value>();
    acts.iter().map(of).collect()
}

#[tokio::test]
async fn every_mutation_of_administrators_and_moderators_leaves_one_row() {
    let api = start().await;
    let schema = Schema::of(&api).await;
    let table = table();
    let read = api.deployment().new_token(&["--scope", "read"]).await;
    let count = "SELECT CAST(COUNT(*) AS BIGINT) FROM audit_log";
    let (mut findings, mut names) = (vec![], BTreeSet::new());
    for field in schema.fields("Mutation") {
        let who = table[format!("Mutation.{}", field.name).as_str()];
        if !who.split(", ").any(|item| ["admin", "moderate"].contains(&item)) {
            continue;
        }
        names.insert(field.name.as_str());
        let is_of_new = OF_NEW_BOARDS.contains(&format!("Mutation.{}", field.name).as_str());
        let board = if is_of_new { "new" } else { "open" };
        let text = document(&schema, "Mutation", field, board);
        let before = api.deployment().number(count).await;
        let refused = api.ask(Some(&read), &text, json!({})).await;
        assert_eq!(refused.codes(), ["FORBIDDEN"], "{text}");
        let answer = api.ask(Some(api.token()), &text, json!({})).await;
        let rows = api.deployment().number(count).await - before;
        let newest = acts(&api, json!({})).await.remove(0);
        let expected = match answer.codes().first() {
            Some(code) => json!([field.name, "FAILED", code]),
            None => json!([field.name, "DONE", null]),
        };
        if rows != 1
            || fields(std::slice::from_ref(&newest), &["act", "outcome", "error"]) != [expected]
        {
            findings.push(format!("{} left {rows} rows: {newest}: {}", field.name, answer.body));
        }
    }
    assert!(findings.is_empty(), "{findings:#?}");
    assert!(names.contains("createBoard") && names.contains("voidEvent"), "{names:?}");
}

/// A day of an administrator and a moderator.
async fn day(sql: Sql) {
    let deployment = Deployment::new(sql, Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "title": "Before" })).await;
    api.update_board(json!({ "slug": "b", "title": "After" })).await;
    let members: Vec<Value> = (0..30).map(|no| json!({ "key": format!("m{no}") })).collect();
    api.upsert_members(members).await;
    let hidden = |member: &str| json!({ "member": member, "visibility": "HIDDEN" });
    api.data(SET_VISIBILITY, hidden("m1")).await;
    // A game's own server is no administrator.
    let game = deployment.new_token(&["--scope", "friends"]).await;
    assert_eq!(api.ask(Some(&game), SET_VISIBILITY, hidden("m2")).await.codes(), [""; 0]);
    let scores = json!([
        { "member": "ann", "score": 7 },
        { "member": "bob", "score": 8, "eventId": "secret of bob" },
    ]);
    submit_durably(&api, "b", scores).await;
    ban(&api, "ann", Some("b")).await;
    lift(&api, "ann", Some("b")).await;
    remove(&api, "b", "ann").await;
    let event = events(&api, "b", "bob").await.remove(0)["id"].as_str().unwrap().to_owned();
    void(&api, &event).await;
    let taken = api.ask(Some(api.token()), CREATE_BOARD, json!({ "input": { "slug": "b" } })).await;
    assert_eq!(taken.codes(), ["ALREADY_EXISTS"]);
    let dry = json!({ "board": "b", "filter": { "minScore": 0 }, "dryRun": true });
    api.data(REMOVE_ENTRIES, json!({ "input": dry })).await;
    let made = api.data(CREATE_TOKEN, json!({})).await["createAccessToken"].take();
    let token = made["token"].as_str().unwrap();
    let by_moderator = json!({ "input": { "member": "cy", "board": "b", "reason": "a bot" } });
    assert_eq!(api.ask(Some(token), BAN_MEMBER, by_moderator).await.codes(), [""; 0]);
    api.data(REVOKE, json!({ "id": made["accessToken"]["id"] })).await;
    let cli = deployment.new_token(&["--scope", "read"]).await;
    deployment.api_output(&["token", "revoke", cli.split('_').nth(1).unwrap()]).await;
    assert!(deployment.analytics(&["rebuild", "--board", "b"]).status.success());
    assert!(!deployment.analytics(&["rebuild", "--board", "none"]).status.success());
    assert!(deployment.analytics(&["diff"]).status.success());
    let all = acts(&api, json!({})).await;
    let expected = json!([
        ["laurel rebuild", "none", null, "FAILED"],
        ["laurel rebuild", "b", null, "DONE"],
        ["laurel token revoke", null, null, "DONE"],
        ["laurel token create", null, null, "DONE"],
        ["revokeAccessToken", null, null, "DONE"],
        ["banMember", "b", "cy", "DONE"],
        ["createAccessToken", null, null, "DONE"],
        ["createBoard", "b", null, "FAILED"],
        ["voidEvent", "b", "bob", "DONE"],
        ["removeEntry", "b", "ann", "DONE"],
        ["liftBan", "b", "ann", "DONE"],
        ["banMember", "b", "ann", "DONE"],
        ["laurel token create", null, null, "DONE"],
        ["setVisibility", null, "m1", "DONE"],
        ["upsertMembers", null, null, "DONE"],
        ["updateBoard", "b", null, "DONE"],
        ["createBoard", "b", null, "DONE"],
        ["laurel token create", null, null, "DONE"],
    ]);
    assert_eq!(json!(fields(&all, &["act", "board", "member", "outcome"])), expected);
    check_values(&all, &made);
    check_secrets(&deployment, &[token, &cli, api.token()], "secret of bob").await;
    check_filters(&api, &all).await;
}

/// Checks what the acts of the day say.
fn check_values(all: &[Value], made: &Value) {
    let of = |act: &str, outcome: &str| {
        all.iter().find(|each| each["act"] == act && each["outcome"] == outcome).unwrap()
    };
    let update = of("updateBoard", "DONE");
    assert_eq!(value(update, "before"), json!({ "title": "Before" }));
    assert_eq!(value(update, "after"), json!({ "title": "After" }));
    assert_eq!(value(of("createBoard", "DONE"), "after")["policy"], "SUM");
    let members = value(of("upsertMembers", "DONE"), "after");
    assert_eq!(members["count"], 30);
    assert_eq!(members["members"].as_array().unwrap().len(), 20);
    let moderator = all.iter().find(|each| each["member"] == "cy").unwrap();
    assert_eq!(moderator["actor"], made["accessToken"]["id"]);
    assert_eq!(moderator["actorName"], "night watch");
    assert_eq!(value(moderator, "after")["reason"], "a bot");
    assert_eq!(value(of("liftBan", "DONE"), "before")["reason"], "a bot");
    assert_eq!(value(of("voidEvent", "DONE"), "before")["score"], "8");
    assert_eq!(of("createBoard", "FAILED")["error"], "ALREADY_EXISTS");
    let command = of("laurel rebuild", "FAILED");
    assert!(command["actor"].as_str().unwrap().starts_with("user:"), "{command}");
    assert!(command["error"].as_str().unwrap().contains("unknown board"), "{command}");
}

/// Checks that the log has nothing of the secrets of tokens, and no event id of a client.
async fn check_secrets(deployment: &Deployment, tokens: &[&str], event_id: &str) {
    let rows: Vec<String> = deployment
        .column(
            "SELECT COALESCE(\"before\", '') || COALESCE(\"after\", '') || actor || \
            COALESCE(actor_name, '') || COALESCE(error, '') FROM audit_log",
        )
        .await;
    let hashes: Vec<String> = deployment.column("SELECT hash FROM access_token").await;
    let secrets = tokens.iter().map(|token| token.rsplit('_').next().unwrap().to_owned());
    for secret in secrets.chain(hashes).chain([event_id.to_owned()]) {
        assert!(rows.iter().all(|row| !row.contains(&secret)), "{secret}: {rows:?}");
    }
}

/// Checks filters, and pages both ways.
async fn check_filters(api: &Api, all: &[Value]) {
    for (filter, name) in [
        (json!({ "board": "b" }), "board"),
        (json!({ "member": "ann" }), "member"),
        (json!({ "act": "banMember" }), "act"),
        (json!({ "actor": all[5]["actor"] }), "actor"),
        (json!({ "board": "b", "act": "createBoard" }), "board"),
    ] {
        let matches = |act: &&Value| {
            let given = filter.as_object().unwrap();
            given.iter().all(|(name, value)| act[name] == *value)
        };
        let expected: Vec<Value> = all.iter().filter(matches).cloned().collect();
        assert!(!expected.is_empty(), "{name}");
        assert_eq!(acts(api, filter.clone()).await, expected, "{filter}");
    }
    let middle = &all[7]["at"];
    let since = acts(api, json!({ "since": middle })).await;
    let until = acts(api, json!({ "until": middle })).await;
    assert!(since.contains(&all[7]) && !until.contains(&all[7]));
    assert_eq!([since, until].concat(), all);
    let (mut forward, mut after) = (vec![], Value::Null);
    let (mut backward, mut before) = (vec![], Value::Null);
    for _ in 0..all.len() {
        let page = api.data(AUDIT_LOG, json!({ "first": 3, "after": after })).await;
        forward.extend(page["auditLog"]["nodes"].as_array().unwrap().iter().cloned());
        after = page["auditLog"]["pageInfo"]["endCursor"].clone();
        if page["auditLog"]["pageInfo"]["hasNextPage"] == false {
            break;
        }
    }
    for _ in 0..all.len() {
        let page = api.data(AUDIT_LOG, json!({ "last": 5, "before": before })).await;
        backward.splice(0..0, page["auditLog"]["nodes"].as_array().unwrap().iter().cloned());
        before = page["auditLog"]["pageInfo"]["startCursor"].clone();
        if page["auditLog"]["pageInfo"]["hasPreviousPage"] == false {
            break;
        }
    }
    assert_eq!((&forward[..], &backward[..]), (all, all));
    for (filter, says) in [
        (json!({ "board": "B" }), "slug"),
        (json!({ "member": "" }), "member"),
        (json!({ "act": "\u{202E}" }), "expected 1 to"),
    ] {
        let answer = api.ask(Some(api.token()), AUDIT_LOG, json!({ "filter": filter })).await;
        assert_eq!(answer.codes(), ["BAD_USER_INPUT"], "{}", answer.body);
        assert!(answer.message().contains(says), "{}", answer.message());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_tells_the_day_of_an_administrator_and_a_moderator() {
    for sql in Sql::all() {
        day(sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_act_without_a_row_has_no_effect() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    submit_durably(&api, "b", json!([{ "member": "ann", "score": 7 }])).await;
    let db = deployment.sql().await;
    let full = "CREATE TRIGGER full BEFORE INSERT ON audit_log
        BEGIN SELECT RAISE(ABORT, 'the log is full'); END";
    db.execute_unprepared(full).await.unwrap();
    db.close().await.unwrap();
    let state = async || {
        let mut rows: Vec<String> = vec![];
        for select in [
            "SELECT slug || title || COALESCE(deleted_at_ms, '') FROM board",
            "SELECT key || COALESCE(name, '') FROM member",
            "SELECT id || COALESCE(revoked_at_ms, '') FROM access_token",
            "SELECT member || bans || step FROM member_ban",
            "SELECT member || score FROM standing",
            "SELECT member || member FROM score_event",
        ] {
            rows.extend(deployment.column::<String>(select).await);
        }
        rows
    };
    let before = state().await;
    for act in [
        "createBoard(input: { slug: \"c\" }) { board { id } }",
        "updateBoard(input: { slug: \"b\", title: \"x\" }) { board { id } }",
        "deleteBoard(input: { slug: \"b\" }) { deletedBoardId }",
        "upsertMembers(input: { members: [{ key: \"ann\", name: \"x\" }] }) { members { key } }",
        "createAccessToken(input: { scopes: [READ] }) { token }",
        "banMember(input: { member: \"ann\" }) { banned }",
        "removeEntry(input: { board: \"b\", member: \"ann\" }) { removed }",
        "resetBoard(input: { board: \"b\" }) { removed }",
        "mergeMembers(input: { source: \"ann\", target: \"bob\" }) { merged }",
    ] {
        let answer = api.query(&format!("mutation {{ {act} }}"), json!({})).await;
        assert!(answer["errors"][0]["message"].is_string(), "{act}: {answer}");
        deployment.settle().await;
        assert_eq!(state().await, before, "{act}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_act_that_was_cut_short_has_begun() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    let killed = Api::start_with_settings(&deployment, &[("CRASH_AT", "ban-recorded")]).await;
    let input = json!({ "input": { "member": "ann", "board": "b" } });
    assert!(killed.try_ask(Some(killed.token()), BAN_MEMBER, input).await.is_err());
    let newest = acts(&api, json!({ "act": "banMember" })).await;
    assert_eq!(fields(&newest, &["outcome", "member", "board"]), [json!(["BEGUN", "ann", "b"])]);
}
