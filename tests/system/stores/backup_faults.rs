//! Backups in trouble: a table that is read late, an apply that fails half-way or is killed, a
//! directory of second copies that is not empty, and a lost file of the archive.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use entity::sql::begin;
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use tests::api::Api;
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::archive::{archive, archived, check_files, delete, paths};
use tests::wait::until;

use super::backup::{apply, run};

/// A table that a backup reads after those of members, and before those of scores. No score needs
/// it.
const LOCK: &str = "LOCK TABLE friendship IN ACCESS EXCLUSIVE MODE";

/// The number of statements that wait for it.
const WAITING: &str = "SELECT CAST(COUNT(*) AS BIGINT) FROM pg_locks WHERE NOT granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND relation = CAST('friendship' AS regclass)";

/// Submits a score, and waits until SQL has it.
async fn submit(api: &Api, event_id: &str) {
    let score = json!([{ "member": event_id, "score": 1, "eventId": event_id }]);
    let told = submit_durably(api, "b", score).await;
    assert_eq!(told["accepted"], 1, "{told}");
}

/// The number of a deployment's scores with an event id.
async fn scores(deployment: &Deployment, event_id: &str) -> i64 {
    let count = "SELECT CAST(COUNT(*) AS BIGINT) FROM score_event WHERE event_id =";
    deployment.number(&format!("{count} '{event_id}'")).await
}

#[tokio::test]
async fn all_tables_of_a_backup_are_of_one_moment() {
    let deployment = Deployment::new(Sql::Postgres, Redis::Own).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    submit(&api, "before").await;
    let db = deployment.sql().await;
    let holding = begin(&db).await.unwrap();
    holding.execute_unprepared(LOCK).await.unwrap();
    let path = deployment.path("backup");
    let submitting = async {
        until("the backup waits for the table", async || {
            (deployment.number(WAITING).await > 0).then_some(())
        })
        .await;
        submit(&api, "between").await;
        holding.rollback().await.unwrap();
    };
    let arguments = ["backup", "create", &*path];
    let (said, ()) = tokio::join!(deployment.api_output(&arguments), submitting);
    assert!(said.contains("is a backup"), "{said}");

    let other = Deployment::new(Sql::Postgres, Redis::Own).await;
    let output = apply(&other, &path).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (event_id, there, copied) in [("before", 1, 1), ("between", 1, 0)] {
        let counts = (scores(&deployment, event_id).await, scores(&other, event_id).await);
        assert_eq!(counts, (there, copied), "{event_id}");
    }
}

/// Changes the rows that a backup's last table must have, and the manifest's hash with them; the
/// manifest.
fn expect_more_rows(path: &str, more: i64) -> Value {
    let file = Path::new(path).join("manifest.json");
    let mut manifest: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let rows = &mut manifest["tables"].as_array_mut().unwrap().last_mut().unwrap()["rows"];
    *rows = json!(rows.as_i64().unwrap() + more);
    let text = manifest.to_string();
    fs::write(&file, &text).unwrap();
    let hash: String = Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
    let line = format!("{hash}  manifest.json\n");
    fs::write(Path::new(path).join("manifest.sha256"), line).unwrap();
    manifest
}

/// The command that applies a backup with second copies of the archive.
fn apply_command(deployment: &Arc<Deployment>, path: &str, copies: &str) -> Command {
    let mut command = deployment.api(&["backup", "apply", path]);
    command.env("LAUREL_ARCHIVE_COPY_DIR", copies);
    command
}

async fn apply_with_copies(deployment: &Arc<Deployment>, path: &str, copies: &str) -> Output {
    run(apply_command(deployment, path, copies)).await
}

/// The number of tables, or on MariaDB of deployments: its tables stay, without rows.
async fn tables(deployment: &Deployment, sql: Sql) -> i64 {
    let count = match sql {
        Sql::Postgres => {
            "SELECT CAST(COUNT(*) AS BIGINT) FROM information_schema.tables
                WHERE table_schema = current_schema()"
        }
        Sql::Sqlite => "SELECT COUNT(*) FROM sqlite_master",
        Sql::Mariadb => "SELECT COUNT(*) FROM deployment",
    };
    deployment.number(count).await
}

/// Checks that an apply failed with these words, and left no table and no file of the archive.
async fn check_failed(other: &Deployment, sql: Sql, output: &Output, words: &str) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains(words), "{error}");
    assert!(!other.archive_dir().exists(), "{error}");
    assert_eq!(tables(other, sql).await, 0, "{error}");
}

async fn check_half_way(sql: Sql) {
    let (deployment, api) = archived(sql).await;
    drop(api);
    let path = deployment.path("backup");
    deployment.api_output(&["backup", "create", &path]).await;
    let other = Deployment::new(sql, Redis::Own).await;
    let copies = other.path("copies");

    // The last table fails: the archive is copied by then, and most rows are inserted.
    expect_more_rows(&path, 1);
    let output = apply_with_copies(&other, &path, &copies).await;
    check_failed(&other, sql, &output, "rows: expected").await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("archive: ") && said.contains("score_event: "), "{said}");
    assert!(!Path::new(&copies).exists());
    let manifest = expect_more_rows(&path, -1);

    let stranger = Path::new(&copies).join("of-another");
    fs::create_dir(&copies).unwrap();
    fs::write(&stranger, "").unwrap();
    let output = apply_with_copies(&other, &path, &copies).await;
    check_failed(&other, sql, &output, "expected an empty database").await;
    assert!(stranger.exists());
    fs::remove_file(stranger).unwrap();

    let output = apply_with_copies(&other, &path, &copies).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    check_files(&other).await;
    let files = manifest["archive"].as_array().unwrap();
    assert!(!files.is_empty());
    for file in files {
        let file = file["path"].as_str().unwrap();
        let whole = fs::read(other.archive_dir().join(file)).unwrap();
        assert!(whole == fs::read(Path::new(&copies).join(file)).unwrap(), "{file}");
    }
}

#[tokio::test]
async fn an_apply_that_fails_half_way_leaves_empty_stores_on_sqlite() {
    check_half_way(Sql::Sqlite).await;
}

#[tokio::test]
async fn an_apply_that_fails_half_way_leaves_empty_stores_on_postgresql() {
    check_half_way(Sql::Postgres).await;
}

#[tokio::test]
async fn an_apply_that_fails_half_way_leaves_no_row_on_mariadb() {
    check_half_way(Sql::Mariadb).await;
}

/// MariaDB keeps the tables of an apply that was killed, in which a command can make a token.
#[tokio::test]
async fn tables_of_mariadb_that_have_a_token_alone_are_not_empty() {
    let (deployment, api) = archived(Sql::Mariadb).await;
    drop(api);
    let path = deployment.path("backup");
    deployment.api_output(&["backup", "create", &path]).await;
    let other = Deployment::new(Sql::Mariadb, Redis::Own).await;
    other.admin_token().await;
    let applied = apply(&other, &path).await;
    let said = String::from_utf8_lossy(&applied.stderr);
    assert_eq!(applied.status.code(), Some(1), "{said}");
    let words = "there is an access token in the database: expected an empty database";
    assert!(said.contains(words), "{said}");
}

/// A backup that is killed has not its name yet, and none that was killed before its manifest
/// applies. The next command needs no clearing.
#[tokio::test]
async fn a_backup_that_is_killed_is_none_and_the_next_one_is_whole() {
    let (deployment, api) = archived(Sql::Sqlite).await;
    drop(api);
    let path = deployment.path("backup");
    let directory = Path::new(&path).parent().unwrap().to_owned();
    for step in ["backup-read", "backup-written"] {
        let mut command = deployment.api(&["backup", "create", &path]);
        command.env("CRASH_AT", step);
        let killed = run(command).await;
        let said = String::from_utf8_lossy(&killed.stderr);
        assert_eq!(killed.status.code(), None, "{step}: {said}");
        assert!(!Path::new(&path).exists(), "{step}: {said}");
        let mut left = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
        let left = left.find(|path| path.extension().is_some_and(|end| end == "partial")).unwrap();
        let other = Deployment::new(Sql::Sqlite, Redis::Own).await;
        let applied = apply(&other, left.to_str().unwrap()).await;
        let said = String::from_utf8_lossy(&applied.stderr);
        // One that only lacked its name is whole.
        assert_eq!(applied.status.success(), step == "backup-written", "{step}: {said}");
        assert!(applied.status.success() || said.contains("manifest.json"), "{step}: {said}");
        fs::remove_dir_all(left).unwrap();
    }
    deployment.api_output(&["backup", "create", &path]).await;
    let other = Deployment::new(Sql::Sqlite, Redis::Own).await;
    let applied = apply(&other, &path).await;
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    check_files(&other).await;
}

/// Follows the page about backups after a kill: the database is empty, so the files are deleted,
/// and the backup is applied again.
async fn check_killed(sql: Sql) {
    let (deployment, api) = archived(sql).await;
    drop(api);
    let path = deployment.path("backup");
    deployment.api_output(&["backup", "create", &path]).await;
    for step in ["backup-copied", "backup-inserted"] {
        let other = Deployment::new(sql, Redis::Own).await;
        let copies = other.path("copies");
        let mut command = apply_command(&other, &path, &copies);
        command.env("CRASH_AT", step);
        let killed = run(command).await;
        assert_eq!(
            killed.status.code(),
            None,
            "{step}: {}",
            String::from_utf8_lossy(&killed.stderr)
        );
        assert_eq!(tables(&other, sql).await, 0, "{step}");
        let output = apply_with_copies(&other, &path, &copies).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("expected an empty database"), "{step}: {said}");
        for place in [other.archive_dir(), Path::new(&copies).to_owned()] {
            fs::remove_dir_all(place).unwrap();
        }
        let output = apply_with_copies(&other, &path, &copies).await;
        assert!(output.status.success(), "{step}: {}", String::from_utf8_lossy(&output.stderr));
        check_files(&other).await;
    }
}

#[tokio::test]
async fn an_apply_that_is_killed_leaves_no_rows_on_sqlite() {
    check_killed(Sql::Sqlite).await;
}

#[tokio::test]
async fn an_apply_that_is_killed_leaves_no_rows_on_postgresql() {
    check_killed(Sql::Postgres).await;
}

#[tokio::test]
async fn an_apply_that_is_killed_leaves_no_rows_on_mariadb() {
    check_killed(Sql::Mariadb).await;
}

#[tokio::test]
async fn a_lost_file_is_left_out_only_if_it_is_of_a_deleted_board() {
    let (deployment, api) = archived(Sql::Sqlite).await;
    let files = paths(&deployment);
    assert!(files.len() > 1, "{files:?}");
    let (lost, aside) = (deployment.archive_dir().join(&files[0]), deployment.path("aside"));
    fs::rename(&lost, &aside).unwrap();
    let path = deployment.path("backup");
    let create = || run(deployment.api(&["backup", "create", &path]));
    let output = create().await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("the file {} of the archive is missing", files[0])), "{said}");
    assert!(!Path::new(&path).exists());

    fs::rename(&aside, &lost).unwrap();
    delete(&deployment, &api, "b").await;
    fs::remove_file(&lost).unwrap();
    let output = create().await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(&format!("left out: {}", files[0])), "{said}");
    let manifest = fs::read_to_string(Path::new(&path).join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    let listed = manifest["archive"].as_array().unwrap();
    let listed = |path: &str| listed.iter().any(|file| file["path"] == path);
    assert!(!listed(&files[0]) && files[1..].iter().all(|path| listed(path)), "{manifest}");

    let other = Deployment::new(Sql::Sqlite, Redis::Own).await;
    let output = apply(&other, &path).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let copied = Api::spawn(&other, &[], api.token().to_owned()).await;
    copied.wait_until_ready().await;
    // The next archive clears away what is left of the board, there as here.
    for deployment in [&deployment, &other] {
        archive(deployment, &[]);
        check_files(deployment).await;
        assert_eq!(deployment.number("SELECT COUNT(*) FROM archive_file").await, 0);
    }
}
