//! Tokens that are bound to boards, and the scopes and notes of tokens.

use std::sync::Arc;

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};
use tests::wait::until;

const CREATE: &str = "
    mutation($input: CreateAccessTokenInput!) { createAccessToken(input: $input) {
        token accessToken { id scopes boardIds lastUsedAt }
    } }";

const SUBMIT: &str = "
    mutation($board: String!) {
        submitScores(input: { board: $board, scores: [{ member: \"ann\", score: 1 }] }) { accepted }
    }";

const BOARDS: &str = "{ boards { totalCount nodes { slug } }
    member(key: \"ann\") { boards { nodes { slug } } } }";

/// A deployment with the boards `a` and `b`, which are public, and `p` and `q`, which are not; ann
/// has a score on all of them.
async fn start(sql: Sql) -> (Arc<Deployment>, Api) {
    let deployment = Deployment::new(sql, Redis::Private).await;
    let api = Api::start(&deployment).await;
    for (slug, visibility) in [("a", "PUBLIC"), ("b", "PUBLIC"), ("p", "PRIVATE"), ("q", "PRIVATE")]
    {
        api.create_board(json!({ "slug": slug, "visibility": visibility })).await;
        submit_durably(&api, slug, json!([{ "member": "ann", "score": 7 }])).await;
    }
    (deployment, api)
}

async fn submits(api: &Api, token: &str, board: &str) -> Value {
    let answer = api.ask(Some(token), SUBMIT, json!({ "board": board })).await;
    match answer.codes()[..] {
        [] => answer.body["data"]["submitScores"]["accepted"].clone(),
        [code] => json!(code),
        _ => panic!("{:?}", answer.body),
    }
}

/// Makes a token over GraphQL: its text and its fields.
async fn created(api: &Api, input: Value) -> (String, Value) {
    let mut payload = api.data(CREATE, json!({ "input": input })).await["createAccessToken"].take();
    (payload["token"].as_str().unwrap().to_owned(), payload["accessToken"].take())
}

async fn lists(sql: Sql) {
    let (deployment, api) = start(sql).await;
    let (graphql, fields) =
        created(&api, json!({ "scopes": ["SUBMIT"], "boards": ["p", "a", "p"] })).await;
    assert_eq!(fields["scopes"], json!(["READ", "SUBMIT"]));
    assert_eq!(fields["boardIds"], json!(["board:a.1", "board:p.3"]));
    let cli = deployment.new_token(&["--scope", "submit", "--boards", "a,p"]).await;
    for token in [graphql, cli] {
        let seen = api.ask(Some(&token), BOARDS, json!({})).await.body["data"].take();
        let nodes = json!([{ "slug": "a" }, { "slug": "p" }]);
        let expected = json!({
            "boards": { "totalCount": 2, "nodes": nodes },
            "member": { "boards": { "nodes": nodes } },
        });
        assert_eq!(seen, expected);
        for (board, answer) in
            [("a", json!(1)), ("p", json!(1)), ("b", json!("NOT_FOUND")), ("q", json!("NOT_FOUND"))]
        {
            assert_eq!(submits(&api, &token, board).await, answer, "{board}");
        }
    }
    let unlisted = deployment.new_token(&["--scope", "submit"]).await;
    assert_eq!(submits(&api, &unlisted, "b").await, 1);
    assert_eq!(submits(&api, &unlisted, "p").await, "NOT_FOUND");
}

#[tokio::test]
async fn a_token_with_boards_sees_and_writes_those_only() {
    for sql in Sql::all() {
        lists(sql).await;
    }
}

#[tokio::test]
async fn another_board_of_the_same_slug_is_not_among_a_token_s_boards() {
    let (deployment, api) = start(Sql::any()).await;
    let token = deployment.new_token(&["--scope", "submit", "--boards", "a,p"]).await;
    for slug in ["a", "p"] {
        assert_eq!(submits(&api, &token, slug).await, 1);
        api.delete_board(slug).await;
        api.create_board(json!({ "slug": slug })).await;
        assert_eq!(submits(&api, &token, slug).await, "NOT_FOUND", "{slug}");
        let text = format!("{{ board(slug: {slug:?}) {{ id }} }}");
        assert_eq!(
            api.ask(Some(&token), &text, json!({})).await.body["data"]["board"],
            Value::Null
        );
        let ask = format!("{{ board(slug: {slug:?}) {{ standings {{ size }} }} }}");
        let size = &api.data(&ask, json!({})).await["board"]["standings"]["size"];
        assert_eq!(*size, 0, "{slug}");
    }
}

#[tokio::test]
async fn tokens_that_would_mean_nothing_are_not_made() {
    let (deployment, api) = start(Sql::any()).await;
    let many: Vec<String> = (0..101).map(|number| format!("b{number}")).collect();
    for (input, code, argument) in [
        (json!({ "scopes": [] }), "BAD_USER_INPUT", "input.scopes"),
        (json!({ "scopes": ["ADMIN"], "member": "ann" }), "BAD_USER_INPUT", "input.member"),
        (json!({ "scopes": ["MODERATE"], "member": "ann" }), "BAD_USER_INPUT", "input.member"),
        (json!({ "scopes": ["ADMIN"], "boards": ["a"] }), "BAD_USER_INPUT", "input.boards"),
        (json!({ "scopes": ["READ"], "boards": [] }), "BAD_USER_INPUT", "input.boards"),
        (json!({ "scopes": ["READ"], "boards": ["a", "x"] }), "NOT_FOUND", "input.boards[1]"),
        (json!({ "scopes": ["READ"], "boards": ["\u{0}"] }), "NOT_FOUND", "input.boards[0]"),
        (json!({ "scopes": ["READ"], "boards": many }), "LIMIT_EXCEEDED", "input.boards"),
    ] {
        let body = api.query(CREATE, json!({ "input": input })).await;
        let extensions = &body["errors"][0]["extensions"];
        assert_eq!(
            (&extensions["code"], &extensions["argument"]),
            (&json!(code), &json!(argument))
        );
    }
    for arguments in [
        &["--scope", "admin", "--member", "ann"][..],
        &["--scope", "moderate,submit", "--member", "ann"],
        &["--scope", "admin", "--boards", "a"],
        &["--scope", "read", "--boards", "nonesuch"],
        &["--scope", "write"],
        &[],
    ] {
        let mut command = deployment.api(&[&["token", "create"], arguments].concat());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let is_said = said.contains("expected")
            || said.contains("possible values")
            || said.contains("required");
        assert!(!output.status.success() && is_said, "{arguments:?}: {said}");
    }
}

#[tokio::test]
async fn the_last_use_of_a_token_is_noted() {
    let (_deployment, api) = start(Sql::any()).await;
    let (token, fields) = created(&api, json!({ "scopes": ["READ", "FRIENDS"] })).await;
    assert_eq!(fields["scopes"], json!(["READ", "FRIENDS"]));
    assert_eq!((&fields["boardIds"], &fields["lastUsedAt"]), (&Value::Null, &Value::Null));
    let viewer = api.ask(Some(&token), "{ viewer { scopes } }", json!({})).await;
    assert_eq!(viewer.body["data"]["viewer"]["scopes"], json!(["READ", "FRIENDS"]));
    let text = "query($id: ID!) { node(id: $id) { ... on AccessToken { lastUsedAt } } }";
    let last_used = async || {
        let data = api.data(text, json!({ "id": fields["id"] })).await;
        data["node"]["lastUsedAt"].as_str().map(str::to_owned)
    };
    let first = until("the use is noted", last_used).await;
    // A second one within a minute is not.
    api.ask(Some(&token), "{ viewer { scopes } }", json!({})).await;
    assert_eq!(last_used().await, Some(first));
}

/// Takes back the step that gave tokens their rights, and applies it again.
async fn from_before(deployment: &Arc<Deployment>) {
    let is_applied = async || {
        let said = deployment.api_output(&["migrate", "status"]).await;
        let line = said.lines().find(|line| line.ends_with("_token_rights")).unwrap();
        line.starts_with("Applied")
    };
    while is_applied().await {
        deployment.api_output(&["migrate", "down", "--yes"]).await;
    }
    deployment.api_output(&["migrate", "up"]).await;
    assert!(is_applied().await);
}

#[tokio::test]
async fn tokens_of_before_keep_what_they_could() {
    for sql in Sql::all() {
        let (deployment, api) = start(sql).await;
        let submit = deployment.new_token(&["--scope", "submit"]).await;
        let read = deployment.new_token(&["--scope", "read"]).await;
        assert_eq!(submits(&api, &submit, "p").await, "NOT_FOUND");
        api.stop().await;
        from_before(&deployment).await;
        let api = Api::start(&deployment).await;
        let scopes = "{ viewer { scopes } }";
        for (token, expected) in
            [(&submit, json!(["READ", "SUBMIT", "FRIENDS"])), (&read, json!(["READ"]))]
        {
            let answer = api.ask(Some(token), scopes, json!({})).await;
            assert_eq!(answer.body["data"]["viewer"]["scopes"], expected);
            let seen = api.ask(Some(token), BOARDS, json!({})).await;
            assert_eq!(seen.body["data"]["boards"]["totalCount"], 4);
        }
        assert_eq!(submits(&api, &submit, "p").await, 1);
        assert_eq!(submits(&api, &read, "a").await, "FORBIDDEN");
    }
}
