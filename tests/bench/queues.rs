//! Scores from queues: messages a second through `laurel ingest`, single and in arrays, beside
//! `submitScores` in the same batches.

use std::time::Instant;

use serde_json::{Value, json};

use crate::Scale;
use crate::figures::Figures;
use tests::api::Api;
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};
use tests::queue::{Kind, Queue, Sent, ingest_from};

/// The scores of each measurement.
const SCORES: usize = 50_000;

/// The scores of a batch, and of an array.
const BATCH: usize = 1000;

/// The members who have them.
const MEMBERS: usize = 5000;

/// Measures one broker after the other, on one server.
pub(crate) async fn measure(scale: Scale, figures: &mut Figures) {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "policy": "SUM", "windows": [{ "name": "daily" }] }))
        .await;
    let count = scale.of(SCORES, BATCH) / BATCH * BATCH;
    let mut begun = 0;
    let mut scores = |count: usize| -> Vec<Value> {
        begun += count;
        let numbers = begun - count..begun;
        let score = |number: usize| {
            let member = format!("m{}", number % MEMBERS);
            json!({ "member": member, "score": 1, "eventId": format!("e{number}") })
        };
        numbers.map(score).collect()
    };
    let began = Instant::now();
    for batch in scores(count).chunks(BATCH) {
        submit_durably(&api, "b", json!(batch)).await;
    }
    let rate = |began: Instant| count as f64 / began.elapsed().as_secs_f64();
    figures.add("scores in batches of 1,000", "1/s", "submitScores", rate(began));
    let kinds = [
        (Kind::Nats, "NATS"),
        (Kind::Kafka, "Kafka's mock cluster"),
        (Kind::RabbitMq, "RabbitMQ's quorum queue"),
        (Kind::RabbitMqStream, "RabbitMQ's stream"),
    ];
    for (kind, name) in kinds {
        let queue = Queue::start(kind, &deployment).await;
        let from = match kind {
            Kind::RabbitMqStream => format!("{}&source=scores", queue.url()),
            _ => queue.url(),
        };
        let single: Vec<Sent> =
            scores(count).iter().map(|score| Sent::from(score.to_string())).collect();
        let arrays: Vec<Sent> =
            scores(count).chunks(BATCH).map(|batch| Sent::from(json!(batch).to_string())).collect();
        for (messages, what) in
            [(single, "messages of one score"), (arrays, "scores in messages of 1,000")]
        {
            queue.publish(&messages).await;
            let mut command = ingest_from(&from, &deployment, api.url(), api.token());
            let few = if messages.len() < count { "4" } else { "1000" };
            command.args(["--once", "--board", "b", "--batch", few]).env("LAUREL_LOG", "warn");
            let began = Instant::now();
            let output = tokio::task::spawn_blocking(move || command.output().unwrap());
            let told = output.await.unwrap();
            let told = String::from_utf8(told.stdout).unwrap();
            assert!(told.contains(&format!("{count} scores applied")), "{told}");
            figures.add(what, "1/s", name, rate(began));
        }
    }
}
