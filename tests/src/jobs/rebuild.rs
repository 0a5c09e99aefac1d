//! Rebuilds, and standings that need one.

use std::sync::Arc;

use sea_orm::{ConnectionTrait, Statement};
use serde_json::Value;

use crate::deployment::Deployment;
use crate::jobs::analytics::output_beside;

/// Rebuilds a board, and returns the figures of the job.
pub async fn rebuild(deployment: &Arc<Deployment>, slug: &str) -> Value {
    let output = output_beside(deployment, &["rebuild", "--json", "--board", slug]).await;
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{slug}: {error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Adds a member without events to all standings of a board, in Redis and in SQL.
pub async fn corrupt(deployment: &Deployment, slug: &str) {
    let mut redis = deployment.redis().await;
    let no = deployment.number(&format!("SELECT no FROM board WHERE slug = '{slug}'")).await;
    let keys: Vec<String> =
        redis::cmd("KEYS").arg(format!("laurel:*:z:{no}.*")).query_async(&mut redis).await.unwrap();
    assert!(!keys.is_empty());
    for key in &keys {
        let add = redis::cmd("ZADD").arg(key).arg("1.5").arg("nobody").clone();
        let () = add.query_async(&mut redis).await.unwrap();
    }
    // A period without events.
    let stray = keys[0].rsplit_once(':').unwrap().0.to_owned() + ":1999-01-01";
    let add = redis::cmd("ZADD").arg(stray).arg("1.5").arg("a").clone();
    let () = add.query_async(&mut redis).await.unwrap();
    let db = deployment.sql().await;
    for statement in [
        "INSERT INTO member (\"key\", created_at_ms) SELECT 'nobody', 0 WHERE NOT EXISTS (SELECT 1 \
            FROM member WHERE \"key\" = 'nobody')"
            .to_owned(),
        format!(
            "INSERT INTO standing (board_no, segment, member, score, rank_key, \"partition\", seq) \
            SELECT board_no, segment, 'nobody', score, rank_key, \"partition\", seq FROM standing \
            WHERE board_no = {no} ORDER BY member LIMIT 1"
        ),
    ] {
        db.execute_raw(Statement::from_string(db.get_database_backend(), statement)).await.unwrap();
    }
    db.close().await.unwrap();
}

/// The keys of staged standings, and their times to live in milliseconds.
pub async fn stages(deployment: &Deployment) -> Vec<(String, i64)> {
    let mut redis = deployment.redis().await;
    let keys: Vec<String> =
        redis::cmd("KEYS").arg("laurel:*:stage:*").query_async(&mut redis).await.unwrap();
    let mut stages = vec![];
    for key in keys {
        let lives_ms: i64 = redis::cmd("PTTL").arg(&key).query_async(&mut redis).await.unwrap();
        stages.push((key, lives_ms));
    }
    stages
}
