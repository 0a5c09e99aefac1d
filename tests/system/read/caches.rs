//! Caches of first pages and whole answers: they never hide a process's own writes, and those of
//! other processes for a moment only.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::sleep;

use tests::api::Api;
use tests::api::amendment::{remove, void};
use tests::api::submission::{submit, submit_durably};
use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::command_counts::{counts, reset_counts};
use tests::wait::until;

/// Answers to tokens are kept, too, as by default.
const TOKEN_ANSWERS: &str = "--token-answers=on";

/// How long Redis is silent while equal requests arrive.
const PAUSE: Duration = Duration::from_millis(600);

const TOP: &str = "
    { board(slug: \"b\") {
        title standings { size top(first: 3) { totalCount nodes { score member { key name } } } }
    } }";

/// A board with one entry, served by a process that does the background work.
async fn board() -> (Arc<Deployment>, Api) {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start_with(&deployment, &[TOKEN_ANSWERS]).await;
    api.create_board(json!({ "slug": "b", "windows": [{ "name": "daily" }, { "name": "7d" }] }))
        .await;
    submit_durably(&api, "b", json!([{ "member": "ann", "score": 1, "eventId": "first" }])).await;
    (deployment, api)
}

/// The board as a client without a token sees it.
async fn seen(api: &Api, text: &str) -> Value {
    let answer = api.ask(None, text, json!({})).await;
    assert_eq!(answer.body.get("errors"), None, "{text}");
    answer.body["data"]["board"].clone()
}

/// The scores on top, as seen with a token or without.
async fn scores(api: &Api, token: Option<&str>, window: &str) -> Vec<String> {
    let text = format!(
        "{{ board(slug: \"b\") {{ standings(of: {{ window: \"{window}\" }}) {{ top(first: 3) {{ nodes {{ score }} }} }} }} }}"
    );
    let answer = api.ask(token, &text, json!({})).await;
    let nodes = &answer.body["data"]["board"]["standings"]["top"]["nodes"];
    tests::api::connection::texts(nodes.as_array().unwrap(), "/score")
}

#[tokio::test]
async fn a_process_own_writes_show_at_once() {
    let (_deployment, api) = board().await;
    let both = [None, Some(api.token())];
    for round in 2..60 {
        submit(&api, "b", json!([{ "member": "ann", "score": 1 }])).await;
        for (token, window) in both.into_iter().zip(["all", "daily"]) {
            assert_eq!(scores(&api, token, window).await, [round.to_string()]);
        }
        assert_eq!(scores(&api, None, "7d").await, [round.to_string()]);
    }
    // One event voided, another board's title, a member's name, a removal.
    let events = "{ member(key: \"ann\") { events(board: \"b\", last: 1) { nodes { id } } } }";
    let id = until("SQL has the last event", async || {
        let data = api.data(events, json!({})).await;
        let id = data.pointer("/member/events/nodes/0/id").cloned();
        id.filter(Value::is_string)
    })
    .await;
    assert_eq!(void(&api, id.as_str().unwrap()).await.codes(), [""; 0]);
    for token in both {
        assert_eq!(scores(&api, token, "all").await, ["58"]);
    }
    for round in 0..20 {
        let title = format!("round {round}");
        let change = "mutation($title: String!) {
            updateBoard(input: { slug: \"b\", title: $title }) { board { id } }
            upsertMembers(input: { members: [{ key: \"ann\", name: $title }] }) { members { key } }
        }";
        api.data(change, json!({ "title": title })).await;
        let board = seen(&api, TOP).await;
        assert_eq!(board["title"], title);
        let member = &board["standings"]["top"]["nodes"][0]["member"];
        assert_eq!(member["name"], title);
    }
    remove(&api, "b", "ann").await;
    for (token, window) in both.into_iter().zip(["all", "7d"]) {
        assert_eq!(scores(&api, token, window).await, [""; 0]);
    }
}

#[tokio::test]
async fn a_write_is_seen_by_every_later_request_beside_many_others() {
    let (_deployment, api) = board().await;
    let asking = async |token: Option<&str>| {
        let mut last = 0;
        while last < 40 {
            let score = scores(&api, token, "all").await[0].parse().unwrap();
            assert!(score >= last, "{score} after {last}");
            last = score;
        }
    };
    let writing = async {
        for round in 2..=40 {
            submit(&api, "b", json!([{ "member": "ann", "score": 1 }])).await;
            // A fetch that began before the write is under way now.
            for token in [None, Some(api.token())] {
                assert_eq!(scores(&api, token, "all").await, [round.to_string()]);
            }
        }
    };
    let askers = join_all((0..16).map(|n| asking((n % 2 == 0).then_some(api.token()))));
    futures::join!(writing, askers);
}

#[tokio::test]
async fn another_process_write_shows_in_a_moment() {
    let (deployment, api) = board().await;
    let other = Api::start_with(&deployment, &["--no-workers", TOKEN_ANSWERS]).await;
    for round in 2..6 {
        assert_eq!(seen(&other, TOP).await["standings"]["size"], 1);
        submit(&api, "b", json!([{ "member": "ann", "score": 1 }])).await;
        for token in [None, Some(api.token())] {
            until("the other process shows it", async || {
                let scores = scores(&other, token, "all").await;
                (scores == [round.to_string()]).then_some(())
            })
            .await;
        }
    }
}

#[tokio::test]
async fn what_is_private_is_not_in_the_shared_cache() {
    let (deployment, api) = board().await;
    let other = Api::start_with(&deployment, &["--no-workers", TOKEN_ANSWERS]).await;
    let shown = |to: &'static str| api.update_board(json!({ "slug": "b", "visibility": to }));
    let viewer = "{ viewer { scopes } board(slug: \"b\") { id } }";
    for _ in 0..5 {
        assert_eq!(seen(&api, TOP).await["standings"]["size"], 1);
        assert_ne!(seen(&other, TOP).await, Value::Null);
        shown("PRIVATE").await;
        // An answer for a token is for no other client.
        for _ in 0..2 {
            assert_eq!(api.data(TOP, json!({})).await["board"]["title"], "b");
            assert_eq!(api.data(viewer, json!({})).await["viewer"]["scopes"][4], "ADMIN");
            assert_eq!(seen(&api, TOP).await, Value::Null);
            let answer = api.ask(None, viewer, json!({})).await;
            assert_eq!(answer.body["data"], json!({ "viewer": null, "board": null }));
        }
        until("the other process knows", async || seen(&other, TOP).await.is_null().then_some(()))
            .await;
        shown("PUBLIC").await;
        until("the other process knows again", async || {
            (!seen(&other, TOP).await.is_null()).then_some(())
        })
        .await;
    }
    // An invalid token is refused, whatever the caches have.
    assert_eq!(seen(&api, TOP).await["standings"]["size"], 1);
    let refused = api.ask(Some("none"), TOP, json!({})).await;
    assert_eq!(refused.codes(), ["UNAUTHENTICATED"]);
}

#[tokio::test]
async fn an_answer_to_a_token_is_kept_for_that_token_alone() {
    let (deployment, api) = board().await;
    let size = "{ board(slug: \"b\") { standings { size } } }";
    until("some of many equal questions are answered from memory", async || {
        reset_counts(&deployment).await;
        for _ in 0..20 {
            assert_eq!(api.data(size, json!({})).await["board"]["standings"]["size"], 1);
        }
        (counts(&deployment).await["zcard"] < 20).then_some(())
    })
    .await;
    api.update_board(json!({ "slug": "b", "visibility": "PRIVATE" })).await;
    api.create_board(json!({ "slug": "other" })).await;
    let of_other = ["--scope", "read", "--boards", "other"];
    let other = deployment.new_token(&of_other).await;
    for _ in 0..20 {
        assert_eq!(api.data(size, json!({})).await["board"]["standings"]["size"], 1);
        let hidden = api.ask(Some(&other), size, json!({})).await;
        assert_eq!(hidden.body["data"], json!({ "board": null }));
    }
}

#[tokio::test]
async fn a_server_that_requires_tokens_does_not_answer_from_memory() {
    let (deployment, _api) = board().await;
    let closed = ["--no-workers", "--public-reads", "false", TOKEN_ANSWERS];
    let api = Api::start_with(&deployment, &closed).await;
    for _ in 0..3 {
        assert_eq!(api.data(TOP, json!({})).await["board"]["title"], "b");
        let refused = api.ask(None, TOP, json!({})).await;
        assert_eq!(refused.codes(), ["UNAUTHENTICATED"]);
    }
}

#[tokio::test]
async fn what_has_errors_or_a_private_field_is_not_kept() {
    let (deployment, api) = board().await;
    for text in [
        "{ board(slug: \"b\") { standings { size entryAt(rank: 0) { rank } } } }",
        "{ board(slug: \"b\") { standings { size } } viewer { scopes } }",
    ] {
        reset_counts(&deployment).await;
        for _ in 0..20 {
            let answer = api.ask(None, text, json!({})).await;
            assert_eq!(answer.body["data"]["board"]["standings"]["size"], 1);
        }
        let counts = counts(&deployment).await;
        assert_eq!(counts.get("zcard"), Some(&20), "{text}");
    }
}

#[tokio::test]
async fn a_hundred_equal_requests_at_once_are_one_fetch() {
    let (deployment, first) = board().await;
    let nothing = "--answer-cache-bytes=0 --page-cache-bytes=0";
    for settings in ["--cache-age-ms=250", "--cache-age-ms=0", nothing] {
        let mut arguments = vec!["--no-workers", TOKEN_ANSWERS];
        arguments.extend(settings.split(' '));
        let api = Api::start_with(&deployment, &arguments).await;
        // Each in a window of its own, so that neither finds the other's page.
        for (token, window) in [(None, "all"), (Some(first.token()), "daily")] {
            let told = until("a hundred requests arrive in time", async || {
                reset_counts(&deployment).await;
                let began = Instant::now();
                // So that all of them wait for the same fetch; after a longer one they would be
                // answered from SQL.
                let pause =
                    redis::cmd("CLIENT").arg("PAUSE").arg(PAUSE.as_millis() as u64).to_owned();
                let () = pause.query_async(&mut deployment.redis().await).await.unwrap();
                let answers = join_all((0..100).map(|_| scores(&api, token, window))).await;
                assert!(answers.iter().all(|scores| *scores == ["1"]));
                let counts = counts(&deployment).await;
                let fetches = counts.get("zrange").copied().unwrap_or(0);
                if began.elapsed() < PAUSE + Duration::from_millis(150) {
                    return Some((fetches, counts));
                }
                // The machine is busy, and some arrived after the pause: they wait for other
                // fetches. The page of now may not answer the next round.
                sleep(Duration::from_millis(500)).await;
                None
            });
            let (fetches, counts) = told.await;
            if settings == nothing {
                assert_eq!(fetches, 100, "{counts:?}");
            } else {
                // A second one for requests that came during the first, and some for those that
                // came after the pause.
                let range = 1..=8;
                assert!(range.contains(&fetches), "{range:?}: {counts:?}");
            }
        }
    }
}

#[tokio::test]
async fn at_age_0_another_process_write_shows_at_once_while_many_ask() {
    let (deployment, api) = board().await;
    let arguments = ["--no-workers", "--cache-age-ms=0", TOKEN_ANSWERS];
    let other = Api::start_with(&deployment, &arguments).await;
    let is_over = AtomicBool::new(false);
    let asking = async || {
        while !is_over.load(Ordering::Relaxed) {
            scores(&other, None, "all").await;
        }
    };
    let writing = async {
        for round in 2..40 {
            submit(&api, "b", json!([{ "member": "ann", "score": 1 }])).await;
            for token in [None, Some(api.token())] {
                assert_eq!(scores(&other, token, "all").await, [round.to_string()]);
            }
        }
        is_over.store(true, Ordering::Relaxed);
    };
    futures::join!(writing, join_all((0..16).map(|_| asking())));
}

#[tokio::test]
async fn what_would_be_refused_is_refused_beside_what_is_kept() {
    let (_deployment, api) = board().await;
    let page = "
        query Q($n: Int!) { board(slug: \"b\") { standings { top(first: $n) { nodes {
            rank
        } } } } }
        query R { __typename }";
    let client = reqwest::Client::new();
    let ask = async |name: Value, variables: Value, accept: &str| {
        let body = json!({ "query": page, "operationName": name, "variables": variables });
        let url = format!("{}/graphql", api.url());
        let request = client.post(url).json(&body).header("accept", accept);
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        (status, answer.json::<Value>().await.unwrap())
    };
    let graphql = "application/graphql-response+json";
    for _ in 0..3 {
        let (status, body) = ask(json!("Q"), json!({ "n": 1 }), graphql).await;
        assert_eq!(
            (status, &body["data"]["board"]["standings"]["top"]["nodes"]),
            (200, &json!([{ "rank": 1 }]))
        );
        let (_, other) = ask(json!("R"), json!({ "n": 1 }), graphql).await;
        assert_eq!(other["data"], json!({ "__typename": "Query" }));
        for (name, variables, accept, expected) in [
            (json!("Q"), json!({}), graphql, 400),
            (json!("Q"), json!({ "n": null }), graphql, 400),
            (json!(null), json!({ "n": 1 }), graphql, 400),
            (json!("S"), json!({ "n": 1 }), graphql, 400),
            (json!("Q"), json!({ "n": 1 }), "text/html", 406),
            (json!("Q"), json!({ "n": 1001 }), graphql, 200),
        ] {
            let (status, body) = ask(name, variables, accept).await;
            assert_eq!(status, expected, "{body}");
            assert!(body["errors"].is_array(), "{body}");
        }
    }
}
