//! A disk that is full for a while, as the limit of a file's size: scores go on being ranked, none
//! is confirmed that a crash would lose, and the log is caught up by itself.

use std::collections::BTreeSet;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::{submit, submit_durably};
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::diff::check_diff;
use tests::wait::until;

/// The scores of one request.
const SCORES: usize = 50;

/// How often the disk is full.
const ROUNDS: usize = 3;

/// The scores of a request, with the ids of their events.
fn scores(request: &str) -> (Vec<String>, Value) {
    let ids: Vec<String> = (0..SCORES).map(|number| format!("{request}-{number}")).collect();
    let score = |id: &String| json!({ "member": format!("m{id}"), "score": 1, "eventId": id });
    let scores = ids.iter().map(score).collect();
    (ids, scores)
}

/// Limits the files that a process may write.
fn limit(api: &Api, bytes: Option<u64>) {
    let pid = Pid::from_raw(i32::try_from(api.pid()).unwrap());
    prlimit(pid, Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}

/// Submits until SQL confirms; returns the ids.
async fn confirmed(api: &Api, request: &str) -> Vec<String> {
    let (ids, scores) = scores(request);
    until("SQL confirms the scores", async || {
        let told = submit_durably(api, "b", scores.clone()).await;
        let results = told["results"].as_array().unwrap().iter();
        results
            .clone()
            .all(|result| {
                assert_ne!(result["status"], "REJECTED", "{result}");
                result["status"] != "UNKNOWN"
            })
            .then_some(())
    })
    .await;
    ids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_confirmed_after_a_full_disk_outlives_a_crash() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Own).await;
    let mut durable = BTreeSet::new();
    for round in 0..ROUNDS {
        let api = Api::start(&deployment).await;
        if round == 0 {
            api.create_board(json!({ "slug": "b", "policy": "SUM", "shards": 4 })).await;
        }
        durable.extend(confirmed(&api, &format!("before-{round}")).await);
        let log = std::fs::metadata(deployment.path("test.sqlite-wal")).unwrap().len();
        limit(&api, Some(log));
        for number in 0..10 {
            let (_, scores) = scores(&format!("full-{round}-{number}"));
            assert_eq!(submit(&api, "b", scores).await["accepted"], SCORES);
        }
        let (_, scores) = scores(&format!("durable-{round}"));
        let told = submit_durably(&api, "b", scores).await;
        assert_eq!(told["results"][0]["status"], "UNKNOWN", "{told}");
        limit(&api, None);
        durable.extend(confirmed(&api, &format!("durable-{round}")).await);
        for number in 0..5 {
            durable.extend(confirmed(&api, &format!("after-{round}-{number}")).await);
        }
        // Dropped, it is killed.
        drop(api);
        let there: BTreeSet<String> =
            deployment.column("SELECT event_id FROM score_event").await.into_iter().collect();
        let lost: Vec<&String> = durable.difference(&there).collect();
        assert!(lost.is_empty(), "confirmed and lost: {lost:?}");
    }
    let api = Api::start(&deployment).await;
    confirmed(&api, "last").await;
    check_diff(&deployment);
    let events = "SELECT CAST(COUNT(*) AS BIGINT) FROM score_event";
    let requests = ROUNDS * (1 + 10 + 1 + 5) + 1;
    assert_eq!(deployment.number(events).await, (requests * SCORES) as i64);
}
