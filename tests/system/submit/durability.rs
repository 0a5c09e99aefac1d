//! `ack: DURABLE`: the answer that SQL has the score.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::{submit, submit_durably};
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::seal::wait_until_dropped;
use tests::wait::until;

const COUNT: &str =
    "SELECT CAST(COUNT(*) AS BIGINT) FROM score_event JOIN \"commit\" USING (\"partition\", seq)";

#[tokio::test]
async fn a_durable_answer_comes_when_sql_has_the_commit() {
    for sql in Sql::all() {
        let deployment = Deployment::new(sql, Redis::Private).await;
        let api = Api::start(&deployment).await;
        api.create_board(json!({ "slug": "b", "shards": 4 })).await;
        for round in 1..=10 {
            let scores: Vec<_> = (0..5)
                .map(|member| {
                    json!({
                        "member": format!("m{member}"), "score": 1, "eventId": format!("e{round}"),
                    })
                })
                .collect();
            let told = submit_durably(&api, "b", json!(scores)).await;
            assert_eq!(told["accepted"], 5);
            assert_eq!(deployment.number(COUNT).await, 5 * round);
            let told = submit_durably(&api, "b", json!(scores)).await;
            assert_eq!(told["duplicates"], 5);
        }
    }
}

#[tokio::test]
async fn without_background_work_a_durable_answer_is_unknown_and_never_applied() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let first = Api::start(&deployment).await;
    first.create_board(json!({ "slug": "b", "shards": 4 })).await;
    first.stop().await;
    let api = Api::start_with(&deployment, &["--no-workers"]).await;
    let event = json!([{ "member": "ann", "score": 1, "eventId": "e" }]);
    let told = submit_durably(&api, "b", event.clone()).await;
    let result = &told["results"][0];
    assert_eq!(
        (&result["status"], &result["error"]["code"]),
        (&json!("UNKNOWN"), &json!("TIMEOUT"))
    );
    assert_eq!(deployment.number(COUNT).await, 0);
    // The score is ranked, as its message says, and counts once after the background work.
    assert_eq!(submit(&api, "b", event.clone()).await["duplicates"], 1);
    let worker = Api::start(&deployment).await;
    assert_eq!(submit_durably(&worker, "b", event).await["duplicates"], 1);
    assert_eq!(deployment.number(COUNT).await, 1);
}

#[tokio::test]
async fn an_applied_score_is_in_sql_moments_later() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "shards": 4 })).await;
    submit(&api, "b", json!([{ "member": "ann", "score": 1 }])).await;
    until("the score is in SQL", async || (deployment.number(COUNT).await == 1).then_some(()))
        .await;
}

/// The readers of one sealed day, each of whom asks again and again.
const READERS: usize = 64;

/// The longest time of a durable score beside them, where programs are not optimized.
const SLOWEST: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_of_a_sealed_day_keep_no_score_from_sql() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let settings = [("LAUREL_CACHE_AGE_MS", "0"), ("LAUREL_READ_RATE", "0")];
    let api = Api::start_with_settings(&deployment, &settings).await;
    let windows = json!([{ "name": "daily", "retain": 0 }]);
    api.create_board(json!({ "slug": "b", "windows": windows })).await;
    for part in 0..5 {
        let member = |number: usize| {
            let key = format!("m{part}-{number}");
            json!({ "member": key, "score": number, "at": "2025-03-04T12:00:00Z" })
        };
        let scores: Vec<Value> = (0..1000).map(member).collect();
        assert_eq!(submit_durably(&api, "b", json!(scores)).await["accepted"], 1000);
    }
    wait_until_dropped(&api, "b").await;
    let read =
        "{ board(slug: \"b\") { standings(of: { window: \"daily\", period: \"2025-03-04\" }) {
        size top(first: 10) { nodes { rank } }
    } } }";
    let stop = AtomicBool::new(false);
    let readers = (0..READERS).map(|_| {
        let (api, stop) = (&api, &stop);
        async move {
            while !stop.load(Ordering::Relaxed) {
                let answer = api.ask(None, read, json!({})).await;
                let size = &answer.body["data"]["board"]["standings"]["size"];
                assert!(size.is_null() || *size == 5000, "{:?}", answer.body);
            }
        }
    });
    let writer = async {
        for number in 0..10 {
            let began = Instant::now();
            let scores = json!([{ "member": "ann", "score": number }]);
            let told = submit_durably(&api, "b", scores).await;
            assert_eq!(told["results"][0]["status"], "APPLIED", "{told}");
            assert!(began.elapsed() < SLOWEST, "{:?}", began.elapsed());
        }
        stop.store(true, Ordering::Relaxed);
    };
    tokio::join!(futures::future::join_all(readers), writer);
}
