//! Moves of a board to another number of shards.

use std::collections::BTreeMap;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::api::Api;
use crate::api::playthrough::check;
use crate::deployment::Deployment;
use crate::jobs::analytics::figures;
use crate::jobs::diff::check_diff;
use crate::model::history::History;

/// Starts a move.
pub fn begin(deployment: &Deployment, slug: &str, shards: u16) -> Child {
    let shards = shards.to_string();
    let arguments = ["rebuild", "--json", "--board", slug, "--shards", &*shards];
    let mut command = deployment.analytics_command(&arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Waits until a move has succeeded, and returns the figures of the job.
pub fn end(child: Child) -> Value {
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Moves a board without load.
pub fn reshard(deployment: &Deployment, slug: &str, shards: u16) -> Value {
    end(begin(deployment, slug, shards))
}

/// All sorted sets of standings, with their members and doubles, except those of rolling windows,
/// which gain a set each day.
async fn dump(deployment: &Deployment) -> BTreeMap<String, Vec<(String, String)>> {
    let mut redis = deployment.redis().await;
    let keys: Vec<String> =
        redis::cmd("KEYS").arg("laurel:{*}:z:*").query_async(&mut redis).await.unwrap();
    let mut sets = BTreeMap::new();
    for key in keys {
        if key.contains(":7d:") {
            continue;
        }
        let entries: Vec<(String, String)> = redis::cmd("ZRANGE")
            .arg(&key)
            .arg(0)
            .arg(-1)
            .arg("WITHSCORES")
            .query_async(&mut redis)
            .await
            .unwrap();
        sets.insert(key, entries);
    }
    sets
}

/// Lets recovery load all partitions, and compares them with their earlier state.
pub async fn check_recovered(deployment: &Deployment) {
    let before = dump(deployment).await;
    deployment.flush_redis().await;
    figures(deployment, &["restore"]);
    assert_eq!(dump(deployment).await, before);
}

/// A board's number of shards.
pub async fn shards_of(deployment: &Deployment, slug: &str) -> i64 {
    let select = format!("SELECT CAST(shards AS BIGINT) FROM board WHERE slug = '{slug}'");
    deployment.number(&select).await
}

/// Checks that recovery and rebuild lead to the same standings.
pub async fn check_anew(deployment: &Deployment, api: &Api, history: &History) {
    check_recovered(deployment).await;
    check(api, history).await;
    figures(deployment, &["rebuild", "--board", &history.board.slug]);
    check(api, history).await;
    check_diff(deployment);
}
