//! The lake: every event in files beside SQL, whatever is killed, erased or slow.

mod erasures;
mod files;
mod store;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::analytics::{figures, run};

/// A deployment with two boards, one of them in two shards whose daily periods are sealed.
async fn start(sql: Sql) -> (Arc<Deployment>, Api) {
    let deployment = Deployment::new(sql, Redis::Own).await;
    let api = Api::start(&deployment).await;
    let windows = json!([{ "name": "daily", "retain": 1 }]);
    api.create_board(json!({ "slug": "b", "shards": 2, "windows": windows })).await;
    api.create_board(json!({ "slug": "c" })).await;
    (deployment, api)
}

/// Submits a score of each of some members on both boards, a commit for each.
async fn play(deployment: &Deployment, api: &Api, members: &[&str]) {
    for (index, member) in members.iter().enumerate() {
        for board in ["b", "c"] {
            let score = json!([{ "member": member, "score": index + 1 }]);
            let told = submit_durably(api, board, score).await;
            assert_eq!(told["accepted"], 1, "{told}");
        }
    }
    deployment.settle().await;
}

/// The URL of a directory of the test.
fn url(deployment: &Deployment) -> String {
    format!("file://{}", deployment.path("lake"))
}

/// Mirrors to the directory.
fn mirror(deployment: &Deployment) -> Value {
    figures(deployment, &["mirror", "--to", &url(deployment)])
}

/// Checks that the lake has each event once, up to some that are not mirrored yet.
fn check(deployment: &Deployment, lag: i64) -> Value {
    let (code, checked, error) = run(deployment, &["mirror", "--check", "--to", &url(deployment)]);
    assert_eq!((code, checked["lag"].as_i64()), (0, Some(lag)), "{checked} {error}");
    checked
}

/// The differences that a check finds.
fn differences(deployment: &Deployment) -> String {
    let (code, checked, error) = run(deployment, &["mirror", "--check", "--to", &url(deployment)]);
    assert_eq!(code, 3, "{checked} {error}");
    checked["differences"].to_string()
}

/// The files in the directory.
fn files(deployment: &Deployment) -> Vec<String> {
    fn walk(directory: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(directory).into_iter().flatten() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => walk(&path, found),
                false => found.push(path.to_str().unwrap().to_owned()),
            }
        }
    }
    let mut found = vec![];
    walk(Path::new(&deployment.path("lake")), &mut found);
    found.sort_unstable();
    found
}

/// The number of events in SQL.
async fn rows(deployment: &Deployment) -> i64 {
    deployment.number("SELECT CAST(COUNT(*) AS BIGINT) FROM score_event").await
}

/// The events of the files that SQL names.
async fn mirrored(deployment: &Deployment) -> i64 {
    deployment
        .number("SELECT CAST(COALESCE(SUM(events), 0) AS BIGINT) FROM mirror_file WHERE state = 'MIRRORED'")
        .await
}
