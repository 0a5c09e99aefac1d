//! A board that is deleted, and checks of what remains of it.

use std::sync::Arc;

use redis::AsyncCommands;
use serde_json::{Value, json};

use crate::api::Api;
use crate::api::submission::submit_durably;
use crate::deployment::{Deployment, Redis, Sql};
use crate::wait::until;

/// The number of the board that has the slug now.
pub async fn board_no(deployment: &Deployment) -> i64 {
    deployment.number("SELECT no FROM board WHERE slug = 'b'").await
}

/// Checks that nothing but its row is left of a board.
pub async fn check_gone(deployment: &Deployment, no: i64) {
    for table in ["score_event", "standing"] {
        let count = format!("SELECT CAST(COUNT(*) AS BIGINT) FROM {table} WHERE board_no = {no}");
        assert_eq!(deployment.number(&count).await, 0, "{table}");
    }
    assert_eq!(keys(deployment, no).await, [""; 0]);
}

/// The Redis keys of a board's standings and periods, staged ones too.
pub async fn keys(deployment: &Deployment, no: i64) -> Vec<String> {
    let mut redis = deployment.redis().await;
    let mut keys: Vec<String> = vec![];
    for pattern in ["z:", "periods:", "stage:*:"] {
        let pattern = format!("laurel:*:{pattern}{no}.*");
        keys.extend(redis.keys::<_, Vec<String>>(pattern).await.unwrap());
    }
    keys
}

/// A board with members in every shard.
pub async fn filled(sql: Sql, redis: Redis) -> (Arc<Deployment>, Api) {
    let deployment = Deployment::new(sql, redis).await;
    let api = Api::start(&deployment).await;
    fill(&api, 100).await;
    (deployment, api)
}

/// Creates the board.
pub async fn create(api: &Api) {
    api.create_board(json!({ "slug": "b", "shards": 4, "windows": [{ "name": "daily" }] })).await;
}

/// Creates the board, and gives each of so many members a score.
pub async fn fill(api: &Api, members: i64) {
    create(api).await;
    let score = |number: i64| {
        json!({
            "member": format!("m{number}"), "score": number, "eventId": "e",
            "at": "2025-09-03T12:00:00Z",
        })
    };
    let scores: Vec<Value> = (1..=members).map(score).collect();
    assert_eq!(submit_durably(api, "b", json!(scores)).await["accepted"], members);
}

/// Checks that each old board is marked as deleted in as many partitions as it has shards.
pub async fn check_marks(deployment: &Deployment, old: &[i64]) {
    let mut redis = deployment.redis().await;
    let keys: Vec<String> = redis.keys("laurel:*:gen").await.unwrap();
    for no in old {
        let mut marked = 0;
        for key in &keys {
            let mark: Option<String> = redis.hget(key, no).await.unwrap();
            marked += usize::from(mark.as_deref() == Some("deleted"));
        }
        assert!(marked >= 4, "{no} is marked in {marked} partitions");
    }
}

/// Waits until the background work has purged a deleted board.
pub async fn wait_until_purged(deployment: &Deployment, no: i64) {
    let purged = format!(
        "SELECT CAST(COUNT(*) AS BIGINT) FROM board WHERE no = {no} AND purged_at_ms IS NOT NULL"
    );
    until("the background work has finished the deletion", async || {
        (deployment.number(&purged).await == 1).then_some(())
    })
    .await;
}
