//! The daily diff: once a day in the whole deployment, made up for if missed, retried a few times,
//! and never without its program.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use entity::job::schedule::{AGAIN_MS, ATTEMPTS_MAX, finish, last_due_ms, take};
use sea_orm::ConnectionTrait;
use serde_json::json;

use tests::api::Api;
use tests::api::metrics::metrics_of;
use tests::api::submission::submit_durably;
use tests::clock::{DAY_MS, now_ms};
use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::program::{self, signal};
use tests::wait::until;

#[tokio::test]
async fn what_is_due_is_done_once_each_day_however_many_ask() {
    for sql in Sql::all() {
        let deployment = Deployment::new(sql, Redis::Private).await;
        let _api = Api::start(&deployment).await;
        let stores = deployment.open_stores().await;
        let db = &stores.db;
        stores.clock.set(20_000 * DAY_MS + 4 * 3_600_000);
        for _ in 0..3 {
            let now_ms = stores.clock.now_ms();
            let due_ms = last_due_ms(210, now_ms);
            let all = (0..10).map(|_| take(db, "DIFF", due_ms, now_ms));
            let all = futures::future::join_all(all).await;
            let taken = all.into_iter().filter(|taken| *taken.as_ref().unwrap());
            assert_eq!(taken.count(), 1);
            finish(db, "DIFF", due_ms).await.unwrap();
            assert!(!take(db, "DIFF", due_ms, now_ms + DAY_MS / 2).await.unwrap());
            // The clock of another process is a day late.
            assert!(!take(db, "DIFF", due_ms - DAY_MS, now_ms).await.unwrap());
            stores.clock.set(now_ms + DAY_MS);
        }
    }
}

#[tokio::test]
async fn what_failed_is_tried_again_a_few_times_and_not_at_once() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let _api = Api::start(&deployment).await;
    let stores = deployment.open_stores().await;
    let (db, due_ms) = (&stores.db, 20_000 * DAY_MS);
    let mut now_ms = due_ms;
    for _ in 0..ATTEMPTS_MAX {
        assert!(take(db, "DIFF", due_ms, now_ms).await.unwrap());
        assert!(!take(db, "DIFF", due_ms, now_ms + AGAIN_MS - 1).await.unwrap());
        now_ms += AGAIN_MS;
    }
    assert!(!take(db, "DIFF", due_ms, now_ms + AGAIN_MS).await.unwrap());
    assert!(take(db, "DIFF", due_ms + DAY_MS, due_ms + DAY_MS).await.unwrap());
}

/// A deployment from before today, with two boards and an entry.
async fn old() -> (Arc<Deployment>, Api) {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    for slug in ["a", "b"] {
        api.create_board(json!({ "slug": slug })).await;
    }
    submit_durably(&api, "b", json!([{ "member": "m", "score": 1 }])).await;
    let db = deployment.sql().await;
    db.execute_unprepared("UPDATE deployment SET created_at_ms = 0").await.unwrap();
    (deployment, api)
}

async fn count(deployment: &Deployment, of: &str) -> i64 {
    let select = format!("SELECT CAST(COUNT(*) AS BIGINT) FROM {of}");
    deployment.number(&select).await
}

#[tokio::test]
async fn a_server_compares_what_it_missed_once_and_says_how_it_was() {
    let (deployment, first) = old().await;
    assert_eq!(metrics_of(&first).await["laurel_integrity_schedule{state=\"off\"}"], 1.0);
    // At any time of day, the last diff was missed. One of the two processes makes up for it.
    let arguments = ["--diff-at", "00:00"];
    let apis = [
        Api::start_with(&deployment, &arguments).await,
        Api::start_with(&deployment, &arguments).await,
    ];
    let clean = "laurel_integrity_last_run{outcome=\"clean\"}";
    let measured = until("the diff is through", async || {
        let measured = metrics_of(&apis[0]).await;
        (measured[clean] == 1.0).then_some(measured)
    })
    .await;
    assert_eq!(measured["laurel_integrity_findings"], 0.0);
    assert_eq!(measured["laurel_integrity_checked"], 1.0);
    assert_eq!(measured["laurel_integrity_schedule{state=\"on\"}"], 1.0);
    let age = now_ms() as f64 / 1000.0 - measured["laurel_integrity_last_clean_timestamp_seconds"];
    assert!((0.0..120.0).contains(&age), "{age}");
    until("it is noted", async || {
        (count(&deployment, "schedule WHERE finished").await == 1).then_some(())
    })
    .await;
    // A process that starts later does not do it a second time.
    drop(apis);
    let api = Api::start_with(&deployment, &arguments).await;
    until("it looked", async || (metrics_of(&api).await[clean] == 1.0).then_some(())).await;
    assert_eq!(count(&deployment, "integrity_run").await, 1);
    assert_eq!(count(&deployment, "job WHERE kind = 'DIFF'").await, 1);
}

/// Writes a program that takes the place of the batch jobs.
fn program(deployment: &Deployment, script: &str) -> String {
    let path = deployment.path("analytics.sh");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[tokio::test]
async fn the_program_stops_with_its_server_even_a_killed_one() {
    for name in ["TERM", "KILL"] {
        let (deployment, _first) = old().await;
        let (begun, ended) = (deployment.path("begun"), deployment.path("ended"));
        // Like the real program, it stops when its standard input closes.
        let script = format!(
            "echo \"$@ $LAUREL_DATABASE_URL\" > {begun}.new; mv {begun}.new {begun}; cat; echo ended > {ended}"
        );
        let script = program(&deployment, &script);
        let arguments = ["--diff-at", "00:00", "--analytics", &script];
        let api = Api::start_with(&deployment, &arguments).await;
        let told = until("it has begun", async || std::fs::read_to_string(&begun).ok()).await;
        let database = deployment.database_url();
        assert_eq!(told.trim(), format!("diff --json --stop-with-stdin {database}"));
        signal(name, api.pid());
        until("it ends", async || std::fs::read(&ended).ok()).await;
        api.wait_until_stopped().await;
        assert_eq!(count(&deployment, "schedule WHERE NOT finished").await, 1);
        if name == "TERM" {
            std::fs::remove_file(&begun).unwrap();
            let _next = Api::start_with(&deployment, &arguments).await;
            until("the next start makes up for it", async || std::fs::read(&begun).ok()).await;
        }
    }
}

#[tokio::test]
async fn a_program_that_fails_is_no_done_diff() {
    let (deployment, _first) = old().await;
    let script = program(&deployment, "echo 'no such luck' >&2; exit 1");
    let arguments = ["--diff-at", "00:00", "--analytics", &script];
    let api = Api::start_with(&deployment, &arguments).await;
    until("it was tried", async || (count(&deployment, "schedule").await == 1).then_some(())).await;
    until("the log says why", async || api.log().contains("no such luck").then_some(())).await;
    assert_eq!(count(&deployment, "schedule WHERE NOT finished AND attempts = 1").await, 1);
}

#[tokio::test]
async fn a_server_without_the_program_says_so_once_and_goes_on() {
    let (deployment, _first) = old().await;
    // A copy of the server without the program of batch jobs beside it.
    let alone = deployment.path("api");
    std::fs::copy(program::api().get_program(), &alone).unwrap();
    let (token, arguments) = (deployment.admin_token().await.to_owned(), ["--diff-at", "00:00"]);
    let api = Api::spawn_program(&deployment, &alone, &arguments, token).await;
    api.wait_until_ready().await;
    let measured = metrics_of(&api).await;
    assert_eq!(measured["laurel_integrity_schedule{state=\"no_program\"}"], 1.0);
    assert_eq!(measured["laurel_integrity_last_run{outcome=\"none\"}"], 1.0);
    assert_eq!(api.log().matches("make analytics").count(), 1);
}

#[test]
fn a_time_of_day_that_is_none_and_a_program_that_is_not_there_stop_the_start() {
    let dir = tempfile::tempdir().unwrap();
    for (name, value) in [
        ("LAUREL_DIFF_AT", "25:00"),
        ("LAUREL_DIFF_AT", "daily"),
        ("LAUREL_ANALYTICS", "/nowhere/analytics"),
    ] {
        for command in ["serve", "worker"] {
            let output = program::api()
                .arg(command)
                .env("LAUREL_DATA_DIR", dir.path())
                .env("LAUREL_LISTEN", "127.0.0.1:0")
                .env(name, value)
                .output()
                .unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success());
            assert!(error.contains(name) && error.contains("expected"), "{error}");
        }
    }
}
