//! A log that SQL does not drain: at its limit the partition refuses submissions, and goes on once
//! SQL has caught up.

use engine::deployment::Deployment as Stores;
use engine::settings::stores::Missing;
use engine::settings::{Settings, SqlSettings};
use ranking::id::PartitionNo;

use entity::sql::begin;
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};
use tests::api::Api;
use tests::boards::in_process::{point, submit_at, summing_board};
use tests::clock::now_ms;
use tests::deployment::{Deployment, Redis, Sql};

const ALL: PartitionNo = PartitionNo(0);

async fn open(deployment: &Deployment, limits: impl Fn(&mut Settings)) -> Stores {
    let mut settings = Settings {
        sql: SqlSettings::new(deployment.new_file("data"), None),
        partitions: Some(1),
        ..deployment.settings()
    };
    limits(&mut settings);
    let db = settings.connect_sql(Missing::Create).await.unwrap();
    let stores = settings.open(db).await.unwrap();
    stores.partition(ALL).recover().await.unwrap();
    stores
}

/// Submits batches of so many scores until the log is full; returns the number of batches. SQL gets
/// them afterwards, and the next batch is accepted.
async fn fill(stores: &Stores, scores: usize) -> usize {
    let board = summing_board(stores, "b", &[]).await;
    let batch = || (0..scores).map(|member| point(&board, &format!("m{member}"), None)).collect();
    let mut accepted = 0;
    let refused = loop {
        match submit_at(stores, batch(), now_ms()).await {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
    };
    assert!(refused.to_string().contains("is full"), "{refused}");
    assert!(matches!(refused, entity::Error::Ranking(ranking::Error::Overloaded(_))));
    let seq = stores.store.heads().await.unwrap()[0].as_ref().unwrap().seq;
    assert_eq!(seq, accepted as u64, "nothing of a refused batch is written");
    for _ in 0..2 {
        stores.partition(ALL).settle_to(seq).await.unwrap();
        submit_at(stores, batch(), now_ms()).await.unwrap();
    }
    accepted
}

#[tokio::test]
async fn a_log_is_full_at_its_number_of_commits() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let stores = open(&deployment, |settings| settings.log_commits_max = 20).await;
    assert_eq!(fill(&stores, 1).await, 20);
    stores.close().await;
}

#[tokio::test]
async fn a_log_is_full_at_its_bytes() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let stores = open(&deployment, |settings| settings.log_bytes_max = 1 << 20).await;
    let batches = fill(&stores, 1000).await;
    // A score takes 40 to 200 bytes in the log.
    assert!((5..=27).contains(&batches), "{batches} batches of 1,000 scores in 1 MiB");
    stores.close().await;
}

#[tokio::test]
async fn a_client_learns_that_a_log_is_full() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let limits = [("LAUREL_LOG_COMMITS_MAX", "3"), ("LAUREL_PARTITIONS", "1")];
    let api = Api::start_with_settings(&deployment, &limits).await;
    api.create_board(json!({ "slug": "b" })).await;
    let db = deployment.sql().await;
    let locked = begin(&db).await.unwrap();
    locked.execute_unprepared("UPDATE log_cursor SET seq = seq").await.unwrap();
    let text =
        "mutation { submitScores(input: { board: \"b\", scores: [{ member: \"a\", score: 1 }] }) {
        results { status error { code message } }
    } }";
    let mut refused = Value::Null;
    for _ in 0..10 {
        let mut answer = api.ask(Some(api.token()), text, json!({})).await;
        let result = answer.body["data"]["submitScores"]["results"][0].take();
        if result["status"] != "APPLIED" {
            refused = result["error"].clone();
        }
    }
    locked.rollback().await.unwrap();
    assert_eq!(refused["code"], "UNAVAILABLE", "{refused}");
    let message = refused["message"].as_str().unwrap();
    assert!(message.starts_with("the log of partition 0 is full"), "{message}");
    db.close().await.unwrap();
}

#[tokio::test]
async fn a_full_log_is_trimmed_after_a_persister_that_died_before_it_trimmed() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let stores = open(&deployment, |settings| settings.log_commits_max = 3).await;
    let board = summing_board(&stores, "b", &[]).await;
    let score = || vec![point(&board, "ann", None)];
    for _ in 0..3 {
        submit_at(&stores, score(), now_ms()).await.unwrap();
    }
    let (mut redis, log) = (deployment.redis().await, stores.store.keys().log(ALL));
    let dump: Vec<u8> = redis::cmd("DUMP").arg(&log).query_async(&mut redis).await.unwrap();
    stores.partition(ALL).settle().await.unwrap();
    let mut restore = redis::cmd("RESTORE");
    restore.arg(&log).arg(0).arg(dump).arg("REPLACE");
    let () = restore.query_async(&mut redis).await.unwrap();
    let refused = submit_at(&stores, score(), now_ms()).await.unwrap_err().to_string();
    assert!(refused.contains("is full"), "{refused}");
    stores.partition(ALL).settle().await.unwrap();
    submit_at(&stores, score(), now_ms()).await.unwrap();
    stores.close().await;
}
