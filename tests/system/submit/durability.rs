//! `ack: DURABLE`: the answer that SQL has the score.

use serde_json::json;

use tests::api::Api;
use tests::api::submission::{submit, submit_durably};
use tests::deployment::{Deployment, Redis, Sql};
use tests::wait::until;

const COUNT: &str =
    "SELECT CAST(COUNT(*) AS BIGINT) FROM score_event JOIN \"commit\" USING (partition, seq)";

#[tokio::test]
async fn a_durable_answer_comes_when_sql_has_the_commit() {
    for sql in [Sql::Sqlite, Sql::Postgres] {
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
    let deployment = Deployment::new(Sql::Sqlite, Redis::Own).await;
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
    let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "shards": 4 })).await;
    submit(&api, "b", json!([{ "member": "ann", "score": 1 }])).await;
    until("the score is in SQL", async || (deployment.number(COUNT).await == 1).then_some(()))
        .await;
}
