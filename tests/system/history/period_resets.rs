//! The reset of a period: its scores are voided, in steps, in every window.

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::{events, remove, void};
use tests::api::submission::{submit, submit_durably};
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::{MERGE_MEMBERS, RESET_BOARD, RESET_PERIOD};
use tests::jobs::diff::check_diff;

const ENTRIES: &str = "
    query($board: String!, $of: StandingsOf!) { board(slug: $board) { standings(of: $of) {
        size top(first: 200) { nodes { rank score reachedAt member { key } } }
    } } }";

/// The standings that are compared: of all windows, and of each period of days that has scores.
fn choices() -> Vec<Value> {
    let days = ["2025-09-01", "2025-09-02", "2025-09-03"].into_iter();
    let daily = days.map(|day| json!({ "window": "daily", "period": day }));
    let others = [("weekly", "2025-W36"), ("monthly", "2025-09")];
    let others = others.map(|(window, period)| json!({ "window": window, "period": period }));
    daily.chain(others).chain([json!({ "window": "all" })]).collect()
}

async fn standings(api: &Api, board: &str) -> Vec<Value> {
    let mut found = vec![];
    for of in choices() {
        let variables = json!({ "board": board, "of": of });
        found.push(api.data(ENTRIES, variables).await["board"]["standings"].take());
    }
    found
}

async fn new_board(api: &Api, slug: &str, policy: &str) {
    let windows = ["daily", "weekly", "monthly", "7d"].map(|name| json!({ "name": name }));
    api.create_board(json!({
        "slug": slug, "windows": windows, "policy": policy, "shards": 4, "timeZone": "Asia/Tokyo",
    }))
    .await;
}

/// Some scores of three days of Tokyo, of 40 members.
fn scores(rng: &mut StdRng, count: usize) -> Vec<Value> {
    let start: jiff::Timestamp = "2025-08-31T15:00:00Z".parse().unwrap();
    let score = |no| {
        let second = rng.random_range(0..3 * 86_400);
        let at = start + jiff::SignedDuration::from_secs(second);
        let member = format!("m{:02}", rng.random_range(0..40));
        let score = rng.random_range(1..100);
        let id = format!("e{no}");
        json!({ "member": member, "score": score, "at": at.to_string(), "eventId": id })
    };
    (0..count).map(score).collect()
}

/// True if a score is of the second day.
fn is_reset(score: &Value) -> bool {
    let at = score["at"].as_str().unwrap();
    ("2025-09-01T15:00:00Z".."2025-09-02T15:00:00Z").contains(&at)
}

async fn submit_all(api: &Api, board: &str, scores: &[Value]) {
    for some in scores.chunks(1000) {
        let told = submit_durably(api, board, json!(some)).await;
        assert_eq!(told["accepted"], some.len(), "{told}");
    }
}

async fn reset(api: &Api, of: Value, after: Value) -> Value {
    let input = json!({ "board": "b", "of": of, "after": after });
    api.data(RESET_PERIOD, json!({ "input": input })).await["resetPeriod"].take()
}

#[tokio::test]
async fn a_period_that_is_reset_leaves_what_other_scores_alone_make() {
    for (sql, policy) in Sql::all().into_iter().zip(["SUM", "BEST", "LATEST"]) {
        let deployment = Deployment::new(sql, Redis::Private).await;
        let api = Api::start(&deployment).await;
        for slug in ["b", "expected"] {
            new_board(&api, slug, policy).await;
        }
        let all = scores(&mut StdRng::seed_from_u64(7), 3600);
        submit_all(&api, "b", &all).await;
        let left: Vec<Value> = all.iter().filter(|score| !is_reset(score)).cloned().collect();
        submit_all(&api, "expected", &left).await;
        // One score of the period no longer counts.
        let of_day = all.iter().find(|score| is_reset(score)).unwrap();
        let member = of_day["member"].as_str().unwrap();
        let listed = events(&api, "b", member).await;
        let listed = listed.iter().find(|event| event["eventId"] == of_day["eventId"]).unwrap();
        assert_eq!(void(&api, listed["id"].as_str().unwrap()).await.codes(), [""; 0]);

        let of = json!({ "window": "daily", "period": "2025-09-02" });
        let first = reset(&api, of.clone(), Value::Null).await;
        assert_eq!(first["hasMore"], true);
        let second = reset(&api, of.clone(), first["endCursor"].clone()).await;
        assert_eq!(second["hasMore"], false);
        let voided = [first, second].map(|step| step["voided"].as_u64().unwrap());
        assert_eq!(voided.iter().sum::<u64>() as usize, all.len() - left.len() - 1);
        let again = reset(&api, of.clone(), Value::Null).await;
        assert_eq!(again["standings"]["size"], 0);
        assert_eq!((&again["voided"], &again["hasMore"]), (&json!(0), &json!(true)));
        assert_eq!(standings(&api, "b").await, standings(&api, "expected").await);
        check_diff(&deployment);

        // The event id may be sent again, and counts.
        let told = submit(&api, "b", json!([of_day])).await;
        assert_eq!(told["accepted"], 1, "{told}");
        let told = submit(&api, "expected", json!([of_day])).await;
        assert_eq!(told["accepted"], 1, "{told}");
        assert_eq!(standings(&api, "b").await, standings(&api, "expected").await);
    }
}

#[tokio::test]
async fn a_reset_passes_removed_and_merged_members_and_later_scores() {
    let (deployment, api) = small_board().await;
    remove(&api, "b", "ann").await;
    let merged = json!({ "source": "bob", "target": "cy" });
    api.data(MERGE_MEMBERS, merged).await;
    let of = json!({ "window": "daily" });
    let first = reset(&api, of.clone(), Value::Null).await;
    // Ann's score would come back if her removal was voided, and bob's is a copy of cy now.
    assert_eq!(first["voided"], 3);
    submit_durably(&api, "b", json!([{ "member": "dee", "score": 4 }])).await;
    let later = reset(&api, of, first["endCursor"].clone()).await;
    assert_eq!((&later["voided"], &later["hasMore"]), (&json!(0), &json!(false)));
    let variables = json!({ "board": "b", "of": {} });
    let left = api.data(ENTRIES, variables).await["board"]["standings"]["top"]["nodes"].take();
    assert_eq!(left[0]["member"]["key"], "dee");
    assert_eq!(left.as_array().unwrap().len(), 1);
    check_diff(&deployment);
}

#[tokio::test]
async fn a_reset_of_a_period_says_what_it_would_accept() {
    let (deployment, api) = small_board().await;
    for (input, argument) in [
        (json!({ "of": { "window": "all" } }), "input.of.window"),
        (json!({ "of": { "window": "7d" } }), "input.of.window"),
        (json!({ "of": {} }), "input.of.window"),
        (json!({ "of": { "window": "daily", "period": "2025-13-01" } }), "input.of.period"),
        (json!({ "of": { "window": "daily", "segment": "eu" } }), "input.of.segment"),
        (json!({ "of": { "window": "daily" }, "after": "x" }), "input.after"),
        (json!({ "of": { "window": "daily" }, "after": "1/2/3" }), "input.after"),
    ] {
        let mut whole = input.clone();
        whole["board"] = json!("b");
        let answer = api.ask(Some(api.token()), RESET_PERIOD, json!({ "input": whole })).await;
        assert_eq!(answer.codes(), ["BAD_USER_INPUT"], "{input}");
        assert_eq!(answer.body["errors"][0]["extensions"]["argument"], argument);
    }
    let input = json!({ "board": "b", "of": { "window": "hourly" } });
    let answer = api.ask(Some(api.token()), RESET_PERIOD, json!({ "input": input })).await;
    assert_eq!(answer.codes(), ["WINDOW_NOT_FOUND"]);
    let token = deployment.new_token(&["--scope", "submit"]).await;
    let input = json!({ "board": "b", "of": { "window": "daily" } });
    let answer = api.ask(Some(&token), RESET_PERIOD, json!({ "input": input })).await;
    assert_eq!(answer.codes(), ["FORBIDDEN"]);
    let whole = api.data(RESET_BOARD, json!({ "input": { "board": "b" } })).await;
    assert_eq!(whole["resetBoard"]["removed"], 3);
}

/// A board on which three members scored today.
async fn small_board() -> (Arc<Deployment>, Api) {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    new_board(&api, "b", "SUM").await;
    let today = ["ann", "bob", "cy"].map(|member| json!({ "member": member, "score": 3 }));
    assert_eq!(submit_durably(&api, "b", json!(today)).await["accepted"], 3);
    (deployment, api)
}
