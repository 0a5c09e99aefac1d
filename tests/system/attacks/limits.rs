//! Each limit of a request is a setting: a document that the usual limit lets pass is refused by a
//! lower one.

use reqwest::StatusCode;
use serde_json::{Value, json};
use tests::api::Api;
use tests::attack::request::{Attack, aliases};
use tests::attack::{Attacked, boards};
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::SUBMIT_SCORES;

/// A limit, lower than usual.
struct Lower {
    setting: &'static str,
    value: &'static str,
    /// A request beyond it, and within all others of [`lower`].
    beyond: Attack,
    /// A part of its error.
    says: &'static str,
}

/// The limits of a document.
fn lower() -> Vec<Lower> {
    let query = |text: String| Attack::query("a document", &text);
    let with = |text: &str, variables: Value| Attack::new("variables", text, variables);
    let raw = |body: String| Attack::raw("a body", body);
    let of_fields = |fields: String| query(format!("{{{fields}}}"));
    let of_board = |fields: &str| of_fields(format!("board(slug:\"big\"){{{fields}}}"));
    let lower = |setting, value, says, beyond| Lower { setting, value, beyond, says };
    let three = "query a{__typename} query b{__typename} query c{__typename}";
    let nest = format!("{}slug{}", "standings{board{".repeat(5), "}".repeat(10));
    let four = "query($a:String!$b:String!$c:String!$d:String!){members(keys:[$a,$b,$c,$d]){key}}";
    let keys = "query($k:[String!]!){members(keys:$k){key}}";
    let key = "query($k:String!){boards(first:100){nodes{standings{entry(member:$k){score}}}}}";
    let tops = |count| {
        of_board(&format!("standings{{{}}}", aliases(count, "top(first:1000){nodes{score value}}")))
    };
    vec![
        lower(
            "LAUREL_BODY_BYTES_MAX",
            "65536",
            "65536",
            raw(json!({ "query": "{__typename}" }).to_string() + &" ".repeat(70_000)),
        ),
        lower(
            "LAUREL_QUERY_BYTES_MAX",
            "8192",
            "8192",
            query("{a}".to_owned() + &" ".repeat(9000)),
        ),
        lower(
            "LAUREL_TOKENS_MAX",
            "500",
            "500",
            of_fields(format!("members(keys:[{}]){{key}}", "\"x\" ".repeat(600))),
        ),
        lower("LAUREL_SELECTIONS_MAX", "100", "100", of_fields("__typename ".repeat(150))),
        lower("LAUREL_OBJECTS_MAX", "15000", "objects", tops(9)),
        lower("LAUREL_ALIASES_MAX", "10", "aliases", of_fields(aliases(12, "__typename"))),
        lower(
            "LAUREL_DUPLICATES_MAX",
            "11",
            "more than 11 times",
            of_fields("board(slug:\"big\"){slug}".repeat(12)),
        ),
        lower(
            "LAUREL_DIRECTIVES_MAX",
            "5",
            "directives",
            of_fields("__typename@include(if:true) ".repeat(6)),
        ),
        lower(
            "LAUREL_OPERATIONS_MAX",
            "2",
            "operations",
            raw(json!({ "query": three, "operationName": "a" }).to_string()),
        ),
        lower("LAUREL_FIELD_LEVELS_MAX", "10", "10 levels of fields", of_board(&nest)),
        lower(
            "LAUREL_SCHEMA_LISTS_MAX",
            "1",
            "deeper than 1 levels",
            of_fields("__type(name:\"Board\"){fields{args{name}}}".to_owned()),
        ),
        lower(
            "LAUREL_VARIABLES_MAX",
            "3",
            "variables",
            with(four, json!({ "a": "x", "b": "x", "c": "x", "d": "x" })),
        ),
        lower(
            "LAUREL_VARIABLE_VALUES_MAX",
            "100",
            "values",
            with(keys, json!({ "k": vec!["x"; 150] })),
        ),
        lower(
            "LAUREL_STRING_BYTES_MAX",
            "1024",
            "1024",
            of_fields(format!("members(keys:[\"{}\"]){{key}}", "x".repeat(1500))),
        ),
        lower(
            "LAUREL_NAME_BYTES_MAX",
            "64",
            "64",
            of_fields(format!("{}:__typename", "x".repeat(100))),
        ),
        lower(
            "LAUREL_ARGUMENT_BYTES_MAX",
            "65536",
            "65536",
            with(key, json!({ "k": "x".repeat(1000) })),
        ),
        lower(
            "LAUREL_ANSWER_BYTES_MAX",
            "65536",
            "65536",
            of_fields(format!("__schema{{types{{{}}}}}", aliases(10, "description"))),
        ),
        lower("LAUREL_COST_MAX", "20000", "20000", tops(7)),
    ]
}

#[tokio::test]
async fn every_limit_of_a_document_is_a_setting() {
    let lower = lower();
    let settings: Vec<_> = lower.iter().map(|limit| (limit.setting, limit.value)).collect();
    let servers = [Attacked::start().await, Attacked::start_with(&settings).await];
    for server in &servers {
        boards::create(&server.api).await;
    }
    let [usual, strict] = servers;
    let mut findings = vec![];
    for Lower { setting, beyond, says, .. } in lower {
        let passed = usual.send(&beyond).await.unwrap();
        if passed.codes().iter().any(|code| code == "LIMIT_EXCEEDED") {
            findings.push(format!("{setting} is lower than usual: {}", passed.shown()));
        }
        let refused = strict.send(&beyond).await.unwrap();
        let is_refused = refused.status == StatusCode::PAYLOAD_TOO_LARGE
            || refused.codes().first().is_some_and(|code| code == "LIMIT_EXCEEDED");
        if !is_refused || !refused.shown().contains(says) {
            findings.push(format!("{setting} is not said to be beyond: {}", refused.shown()));
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[tokio::test]
async fn the_client_of_a_mutation_is_told_after_the_time_of_a_setting_and_the_score_counts() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Own).await;
    let first = Api::start(&deployment).await;
    first.create_board(json!({ "slug": "b" })).await;
    first.stop().await;
    // Without background work nothing becomes durable.
    let mut command = deployment.api(&["serve", "--no-workers"]);
    command.env("LAUREL_MUTATION_TIMEOUT_MS", "1000");
    let api = Api::start_command(&deployment, command).await;
    let scores: Value = json!([{ "member": "ann", "score": 1, "eventId": "e" }]);
    let submit = async |ack: &str| {
        let variables = json!({ "board": "b", "scores": scores, "ack": ack });
        api.ask(Some(api.token()), SUBMIT_SCORES, variables).await
    };
    let answer = submit("DURABLE").await;
    assert_eq!(answer.codes(), ["TIMEOUT"], "{}", answer.body);
    assert!(answer.message().contains("1000 ms"), "{}", answer.message());
    assert_eq!(submit("APPLIED").await.body["data"]["submitScores"]["duplicates"], 1);
}
