//! Backups: made under load, applied elsewhere, refused where they do not belong or are damaged.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::archive::{archived, check_files};
use tests::wait::until;

/// The scores that are durable before a backup begins under load.
const BEFORE: usize = 5;

/// A score of a steady writer.
fn score(number: usize) -> Value {
    json!({ "member": format!("w{}", number % 7), "score": 1000 + number, "eventId": format!("load{number}") })
}

/// Makes a backup while a client submits scores; returns how many were durable before it began.
async fn back_up_under_load(api: &Api, path: &str) -> usize {
    let (stop, durable) = (AtomicBool::new(false), AtomicUsize::new(0));
    let writing = async {
        while !stop.load(Ordering::Relaxed) {
            let number = durable.load(Ordering::Relaxed);
            let told = submit_durably(api, "b", json!([score(number)])).await;
            assert_eq!(told["accepted"], 1, "{told}");
            durable.store(number + 1, Ordering::Relaxed);
        }
    };
    let backing_up = async {
        let before = until("scores are durable", async || {
            let count = durable.load(Ordering::Relaxed);
            (count >= BEFORE).then_some(count)
        })
        .await;
        let said = api.deployment().api_output(&["backup", "create", path]).await;
        assert!(said.contains("is a backup"), "{said}");
        stop.store(true, Ordering::Relaxed);
        before
    };
    let (before, ()) = tokio::join!(backing_up, writing);
    before
}

/// Runs a command to its end.
pub(super) async fn run(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// Applies a backup; the outcome.
pub(super) async fn apply(deployment: &Arc<Deployment>, path: &str) -> Output {
    run(deployment.api(&["backup", "apply", path])).await
}

/// Applies a backup, which must be refused with these words.
async fn check_refused(deployment: &Arc<Deployment>, path: &str, words: &str) {
    let output = apply(deployment, path).await;
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains(words), "{error}");
}

/// Checks that a directory and all in it is for its user alone.
fn check_private(path: &Path) {
    let mode = fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| check_private(&entry.unwrap().path()));
    }
}

/// The number of rows of a table.
async fn count(deployment: &Deployment, table: &str) -> i64 {
    deployment.number(&format!("SELECT CAST(COUNT(*) AS BIGINT) FROM {table}")).await
}

async fn check_backup(sql: Sql) {
    let (deployment, api) = archived(sql).await;
    let path = deployment.path("backup");
    let before = back_up_under_load(&api, &path).await;
    check_private(Path::new(&path));
    let token = api.token().to_owned();
    drop(api);

    let other = Deployment::new(sql, Redis::Own).await;
    let output = apply(&other, &path).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    check_files(&other).await;
    for table in ["board", "archive_file", "archived_entry", "access_token"] {
        assert_eq!(count(&other, table).await, count(&deployment, table).await, "{table}");
    }
    assert_eq!(count(&other, "process").await, 0);
    // The token of before is good, and each score that was durable counts once.
    let api = Api::spawn(&other, &[], token).await;
    api.wait_until_ready().await;
    let again = submit_durably(&api, "b", (0..before).map(score).collect()).await;
    assert_eq!(again["duplicates"], before, "{again}");
    let later = submit_durably(&api, "b", json!([score(100_000)])).await;
    assert_eq!(later["accepted"], 1, "{later}");
    let board = api.create_board(json!({ "slug": "later" })).await;
    assert_eq!(board["slug"], "later");
    let output = other.analytics(&["diff", "--full"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&output.stderr));

    let rows = count(&other, "score_event").await;
    check_refused(&other, &path, "expected an empty database").await;
    assert_eq!(count(&other, "score_event").await, rows);
}

#[tokio::test]
async fn a_backup_under_load_is_applied_elsewhere_on_sqlite() {
    check_backup(Sql::Sqlite).await;
}

#[tokio::test]
async fn a_backup_under_load_is_applied_elsewhere_on_postgresql() {
    check_backup(Sql::Postgres).await;
}

#[tokio::test]
async fn a_backup_under_load_is_applied_elsewhere_on_mariadb() {
    check_backup(Sql::Mariadb).await;
}

#[tokio::test]
async fn a_damaged_backup_is_refused_before_anything_is_made() {
    let (deployment, api) = archived(Sql::Sqlite).await;
    drop(api);
    let path = deployment.path("backup");
    deployment.api_output(&["backup", "create", &path]).await;
    let mut command = deployment.api(&["backup", "create", &path]);
    assert_eq!(command.output().unwrap().status.code(), Some(1), "a backup was overwritten");
    let manifest = fs::read_to_string(Path::new(&path).join("manifest.json")).unwrap();
    let listed: Value = serde_json::from_str(&manifest).unwrap();

    // Every table is there, but those of the processes and the lake, and the counter of triggers.
    let names = listed["tables"].as_array().unwrap().iter();
    let names: BTreeSet<String> =
        names.map(|table| table["name"].as_str().unwrap().to_owned()).collect();
    let tables: Vec<String> = deployment
        .column("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        .await;
    let mut tables: BTreeSet<String> = tables.into_iter().collect();
    let lake = ["mirror_place", "mirror_mark", "mirror_file"];
    for left_out in lake.into_iter().chain(["process", "board_change", "seaql_migrations"]) {
        assert!(tables.remove(left_out), "{left_out}");
    }
    assert_eq!(names, tables);

    let other = Deployment::new(Sql::Sqlite, Redis::Private).await;
    let archived = listed["archive"][0]["path"].as_str().unwrap();
    for (file, words) in [
        ("tables/score_event.ndjson.gz", "was altered"),
        (&*format!("archive/{archived}"), "was altered"),
        ("manifest.json", "manifest.json was altered"),
    ] {
        let file = Path::new(&path).join(file);
        let whole = fs::read(&file).unwrap();
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 1;
        fs::write(&file, flipped).unwrap();
        check_refused(&other, &path, words).await;
        fs::write(&file, whole).unwrap();
    }
    // A backup without its manifest did not get to its end.
    let moved = deployment.path("manifest");
    fs::rename(Path::new(&path).join("manifest.json"), &moved).unwrap();
    check_refused(&other, &path, "not a whole backup").await;
    assert!(!Path::new(&other.path("data")).exists());
    assert!(!Path::new(&other.path("test.sqlite")).exists());
    fs::rename(&moved, Path::new(&path).join("manifest.json")).unwrap();
    let output = apply(&other, &path).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
