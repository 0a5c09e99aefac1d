//! Access tokens: made, listed and revoked on the command line, and what they allow.

use serde_json::{Value, json};

use tests::api::Api;
use tests::boards::race::race;
use tests::deployment::{Deployment, Redis, Sql};
use tests::wait::until;

const SUBMIT: &str = "
    mutation($board: String!, $scores: [ScoreInput!]!) {
        submitScores(input: { board: $board, scores: $scores }) { accepted }
    }";

async fn submit(api: &Api, token: &str, board: &str, members: &[&str]) -> Value {
    let scores: Vec<Value> =
        members.iter().map(|member| json!({ "member": member, "score": 1 })).collect();
    let variables = json!({ "board": board, "scores": scores });
    let answer = api.ask(Some(token), SUBMIT, variables).await;
    match answer.codes()[..] {
        [] => answer.body["data"]["submitScores"]["accepted"].clone(),
        [code] => json!(code),
        _ => panic!("{:?}", answer.body),
    }
}

/// A token's id: the part between the underscores.
fn id_of(token: &str) -> &str {
    token.split('_').nth(1).unwrap()
}

#[tokio::test]
async fn a_member_s_token_submits_its_own_scores_where_the_board_allows_it() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    for (slug, open) in [("open", true), ("closed", false)] {
        let created = api.create_board(json!({ "slug": slug, "selfSubmit": open })).await;
        assert_eq!(created["selfSubmit"], open);
    }
    let token = deployment.new_token(&["--scope", "submit", "--member", "ann"]).await;
    assert_eq!(submit(&api, &token, "open", &["ann"]).await, 1);
    assert_eq!(submit(&api, &token, "open", &["bob"]).await, "FORBIDDEN");
    assert_eq!(submit(&api, &token, "open", &["ann", "bob"]).await, "FORBIDDEN");
    assert_eq!(submit(&api, &token, "closed", &["ann"]).await, "FORBIDDEN");
    let text = "{ viewer { scopes member { key entry(board: \"open\") { score } } } }";
    let viewer = api.ask(Some(&token), text, json!({})).await;
    let expected = json!({
        "scopes": ["READ", "SUBMIT"], "member": { "key": "ann", "entry": { "score": "1" } },
    });
    assert_eq!(viewer.body["data"]["viewer"], expected);
    let service = deployment.new_token(&["--scope", "submit"]).await;
    assert_eq!(submit(&api, &service, "closed", &["ann", "bob"]).await, 2);
}

#[tokio::test]
async fn a_revoked_token_stops_working_within_seconds() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let token = deployment.new_token(&["--scope", "read"]).await;
    let works =
        async || api.ask(Some(&token), "{ viewer { scopes } }", json!({})).await.codes().is_empty();
    assert!(works().await);
    let said = deployment.api_output(&["token", "revoke", id_of(&token)]).await;
    assert_eq!(said.trim(), format!("revoked {}", id_of(&token)));
    until("the token is refused", async || (!works().await).then_some(())).await;
    let mut unknown = deployment.api(&["token", "revoke", "nonesuch"]);
    assert!(!unknown.output().unwrap().status.success());
}

#[tokio::test]
async fn a_token_past_its_end_is_refused() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let token = deployment.new_token(&["--scope", "admin", "--expires", "1s"]).await;
    let status = until("the token is refused", async || {
        let answer = api.ask(Some(&token), "{ viewer { scopes } }", json!({})).await;
        (answer.codes() == ["EXPIRED_TOKEN"]).then_some(answer.status)
    })
    .await;
    assert_eq!(status, reqwest::StatusCode::UNAUTHORIZED);
    for bad in ["1", "d", "0d", "-1d", "1y", "99999d", "ä"] {
        let mut refused =
            deployment.api(&["token", "create", "--scope", "read", &format!("--expires={bad}")]);
        assert_eq!(refused.output().unwrap().status.code(), Some(2), "{bad}");
    }
}

#[tokio::test]
async fn the_list_of_tokens_shows_their_state_and_no_secret() {
    let deployment = Deployment::new(Sql::Postgres, Redis::Private).await;
    let admin = deployment.admin_token().await;
    let bound =
        deployment.new_token(&["--scope", "submit", "--member", "ann", "--expires", "30d"]).await;
    let gone = deployment.new_token(&["--scope", "read"]).await;
    deployment.api_output(&["token", "revoke", id_of(&gone)]).await;
    let list = deployment.api_output(&["token", "list"]).await;
    for (token, shows) in [
        (admin, ["admin", "does not expire"]),
        (&*bound, ["ann", "until "]),
        (&gone, ["read", "revoked"]),
    ] {
        let line = list.lines().find(|line| line.starts_with(id_of(token))).unwrap();
        assert!(shows.iter().all(|text| line.contains(text)), "{line}");
        assert!(!list.contains(token.rsplit('_').next().unwrap()), "{list}");
    }
    assert_eq!(list.lines().count(), 3);
}

#[tokio::test]
async fn without_public_reads_every_read_needs_a_token() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start_with(&deployment, &["--public-reads", "false"]).await;
    let text = "{ boards { totalCount } }";
    assert_eq!(api.ask(None, text, json!({})).await.codes(), ["UNAUTHENTICATED"]);
    assert_eq!(api.data(text, json!({})).await["boards"]["totalCount"], 0);
}

#[tokio::test]
async fn a_mutation_needs_a_token_of_its_scope() {
    let (deployment, api) = race().await;
    let submit = "
        mutation {
            submitScores(input: { board: \"race\", scores: [{ member: \"ann\", score: 1 }] }) {
                accepted
            }
        }";
    let create = "mutation { createBoard(input: { slug: \"other\" }) { board { id } } }";
    let upsert =
        "mutation { upsertMembers(input: { members: [{ key: \"ann\" }] }) { members { key } } }";
    let (reads, submits) = (
        deployment.new_token(&["--scope", "read"]).await,
        deployment.new_token(&["--scope", "submit"]).await,
    );
    for (token, text, code) in [
        (None, submit, "UNAUTHENTICATED"),
        (None, create, "UNAUTHENTICATED"),
        (None, upsert, "UNAUTHENTICATED"),
        (Some("laurel_0123456789ab_no"), submit, "UNAUTHENTICATED"),
        (Some("nonsense"), "{ viewer { scopes } }", "UNAUTHENTICATED"),
        (Some(reads.as_str()), submit, "FORBIDDEN"),
        (Some(submits.as_str()), create, "FORBIDDEN"),
        (Some(submits.as_str()), upsert, "FORBIDDEN"),
    ] {
        let answer = api.ask(token, text, json!({})).await;
        assert_eq!(answer.codes(), [code], "{text} with {token:?}: {:?}", answer.body);
    }
    let answer = api.ask(Some(&submits), submit, json!({})).await;
    assert_eq!(answer.body, json!({ "data": { "submitScores": { "accepted": 1 } } }));
}

#[tokio::test]
async fn the_scheme_of_a_token_may_be_of_any_case() {
    let (_deployment, api) = race().await;
    let client = reqwest::Client::new();
    for (scheme, status) in [("Bearer", 200), ("bearer", 200), ("BEARER", 200), ("Basic", 401)] {
        let request = client.post(format!("{}/graphql", api.url()));
        let request = request.header("authorization", format!("{scheme} {}", api.token()));
        let answer = request.json(&json!({ "query": "{ viewer { scopes } }" })).send().await;
        assert_eq!(answer.unwrap().status(), status, "{scheme}");
    }
}
