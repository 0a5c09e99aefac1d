//! Mirrors to a directory: each event once, also beside the archive, and whenever a run is killed.

use std::fs;
use std::process::Stdio;

use sea_orm::ConnectionTrait;
use serde_json::json;

use super::{check, differences, files, mirror, mirrored, play, rows, start, url};
use tests::api::Api;
use tests::api::metrics::metrics_of;
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::analytics::run;
use tests::jobs::archive::{age, archive, delete};
use tests::jobs::seal::wait_until_dropped;
use tests::servers::program::signal;
use tests::wait::until;

/// Every step after which a mirror can be killed.
const STEPS: [&str; 9] = [
    "mirror-begun",
    "mirror-named",
    "mirror-put",
    "mirror-put:2",
    "mirror-verified",
    "mirror-decided",
    "mirror-decided:2",
    "mirror-decided:3",
    "mirror-begun:2",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_event_is_in_the_lake_once_and_none_leaves_sql() {
    for sql in Sql::all() {
        let (deployment, api) = start(sql).await;
        play(&deployment, &api, &["ann", "bob", "cid", "dan"]).await;
        let first = mirror(&deployment);
        assert_eq!((&first["events"], &first["lag"]), (&json!(8), &json!(0)), "{sql:?} {first}");
        assert_eq!(rows(&deployment).await, 8);
        assert_eq!(check(&deployment, 0)["events"], 8, "{sql:?}");
        assert_eq!(mirror(&deployment)["events"], 0, "{sql:?}: each event once");
        play(&deployment, &api, &["eve", "ann"]).await;
        assert_eq!(check(&deployment, 4)["events"], 8, "{sql:?}");
        assert_eq!(mirror(&deployment)["events"], 4, "{sql:?}");
        assert_eq!(check(&deployment, 0)["events"], 12, "{sql:?}");
        assert_eq!(rows(&deployment).await, 12);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_run_goes_on_whenever_a_mirror_is_killed() {
    let all = Sql::all();
    for (turn, &sql) in all.iter().enumerate() {
        let (deployment, api) = start(sql).await;
        for step in STEPS.iter().skip(turn).step_by(all.len()) {
            play(&deployment, &api, &["ann", "bob", "cid"]).await;
            let mut command = deployment.analytics_command(&["mirror", "--to", &url(&deployment)]);
            let killed = command.env("CRASH_AT", step).output().unwrap();
            assert_eq!(killed.status.code(), None, "{step}: {killed:?}");
            mirror(&deployment);
            let events = rows(&deployment).await;
            assert_eq!(check(&deployment, 0)["events"], events, "{sql:?} {step}");
            assert_eq!(mirrored(&deployment).await, events, "{sql:?} {step}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_that_wakes_up_late_takes_nothing_from_the_next_one() {
    // It stands still at a step, and the next one runs as far as to another, or to its end. A
    // process that stands still may hold the lock of SQLite.
    let cases = [
        ("mirror-named", None),
        ("mirror-named", Some("mirror-put:2")),
        ("mirror-put", None),
        ("mirror-verified", Some("mirror-decided")),
        ("mirror-verified:2", Some("mirror-named")),
        ("mirror-taken", None),
    ];
    let (deployment, api) = start(Sql::Postgres).await;
    for (step, next_step) in cases {
        play(&deployment, &api, &["ann", "bob", "cid"]).await;
        let arguments = ["mirror", "--to", &url(&deployment)];
        let spawn = |step: Option<&str>| {
            let mut command = deployment.analytics_command(&arguments);
            command.stdout(Stdio::null());
            command.env("STOP_AT", step.unwrap_or_default()).spawn().unwrap()
        };
        let stands_still = async |pid: u32| {
            until("it stands still", async || {
                let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
                assert!(!state.contains(") Z "), "{step} {next_step:?}: it ended before");
                state.contains(") T ").then_some(())
            })
            .await;
            let db = deployment.sql().await;
            let gone = "UPDATE job SET heartbeat_at_ms = 0 WHERE running IS NOT NULL";
            db.execute_unprepared(gone).await.unwrap();
            db.close().await.unwrap();
        };
        if step == "mirror-taken" {
            let mut killed = deployment.analytics_command(&arguments);
            assert!(!killed.env("CRASH_AT", "mirror-put").output().unwrap().status.success());
        }
        let mut late = spawn(Some(step));
        stands_still(late.id()).await;
        let mut next = spawn(next_step);
        match next_step {
            Some(_) => stands_still(next.id()).await,
            None => assert!(next.wait().unwrap().success()),
        }
        signal("CONT", late.id());
        // It may find its file taken, and say so.
        late.wait().unwrap();
        if next_step.is_some() {
            signal("CONT", next.id());
            next.wait().unwrap();
        }
        mirror(&deployment);
        let events = rows(&deployment).await;
        assert_eq!(check(&deployment, 0)["events"], events, "{step} {next_step:?}");
        assert_eq!(mirrored(&deployment).await, events, "{step} {next_step:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_that_the_archive_has_taken_are_copied_from_it() {
    let (deployment, api) = start(Sql::any()).await;
    let old = async |run: usize| {
        for member in ["ann", "bob", "cid"] {
            let at = format!("2025-03-{:02}T12:00:00Z", 1 + run);
            let score = json!([{ "member": member, "score": run + 1, "at": at }]);
            submit_durably(&api, "b", score).await;
        }
        wait_until_dropped(&api, "b").await;
        age(&deployment, 100).await;
    };
    old(0).await;
    assert_eq!(archive(&deployment, &["--board", "b"])["events"], 3);
    assert_eq!(mirror(&deployment)["events"], 3, "whole files");
    old(1).await;
    // The lake has a part of the next file of the archive.
    assert_eq!(mirror(&deployment)["events"], 3);
    old(2).await;
    assert_eq!(archive(&deployment, &["--board", "b"])["events"], 6);
    assert_eq!(rows(&deployment).await, 0);
    assert_eq!(mirror(&deployment)["events"], 3, "the rest of a file");
    assert_eq!(check(&deployment, 0)["events"], 9);
    let (code, found, error) = run(&deployment, &["diff", "--full"]);
    assert_eq!(code, 0, "{found} {error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_names_each_file_that_is_not_as_it_was_written() {
    let (deployment, api) = start(Sql::any()).await;
    play(&deployment, &api, &["ann", "bob", "cid", "dan"]).await;
    mirror(&deployment);
    let there = files(&deployment);
    let bytes = fs::read(&there[0]).unwrap();
    let mut altered = bytes.clone();
    altered[bytes.len() / 2] ^= 1;
    fs::write(&there[0], &altered).unwrap();
    assert!(differences(&deployment).contains("was altered"));
    fs::remove_file(&there[0]).unwrap();
    assert!(differences(&deployment).contains("is missing"));
    fs::write(&there[0], &bytes).unwrap();
    let strange = there[0].replace(".parquet", "-x.parquet");
    fs::write(&strange, &bytes).unwrap();
    assert!(differences(&deployment).contains("SQL does not name this file"));
    fs::remove_file(&strange).unwrap();
    check(&deployment, 0);
    let db = deployment.sql().await;
    db.execute_unprepared(
        "DELETE FROM mirror_file WHERE path = (SELECT MIN(path) FROM mirror_file)",
    )
    .await
    .unwrap();
    db.close().await.unwrap();
    assert!(differences(&deployment).contains("expected"));
    let restarted = run(&deployment, &["mirror", "--restart", "--to", &url(&deployment)]);
    assert_eq!((restarted.0, &restarted.1["events"]), (0, &json!(8)), "{restarted:?}");
    check(&deployment, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_a_deleted_board_go_with_the_next_run() {
    let (deployment, api) = start(Sql::any()).await;
    play(&deployment, &api, &["ann", "bob"]).await;
    mirror(&deployment);
    let before = files(&deployment).len();
    delete(&deployment, &api, "c").await;
    let after = mirror(&deployment);
    assert!(after["removed"].as_u64() >= Some(1), "{after}");
    assert!(files(&deployment).len() < before);
    assert_eq!(check(&deployment, 0)["events"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lake_stays_in_one_place_and_belongs_to_one_database() {
    let (deployment, api) = start(Sql::any()).await;
    play(&deployment, &api, &["ann"]).await;
    let says = |arguments: &[&str], expected: &str| {
        let (code, _, error) = run(&deployment, arguments);
        assert!(code == 1 && error.contains(expected), "{arguments:?}: {error}");
    };
    says(&["mirror"], "LAUREL_MIRROR");
    says(&["mirror", "--to", "ftp://x/y"], "expected file:///directory");
    says(&["mirror", "--to", "s3://key:cret@b/x"], "credentials by the environment");
    mirror(&deployment);
    let other = format!("file://{}", deployment.path("other"));
    says(&["mirror", "--to", &other], "--restart");
    // As after a restored backup, which has no rows of the lake.
    let db = deployment.sql().await;
    for table in ["mirror_file", "mirror_mark", "mirror_place"] {
        db.execute_unprepared(&format!("DELETE FROM {table}")).await.unwrap();
    }
    db.close().await.unwrap();
    says(&["mirror", "--to", &url(&deployment)], "SQL does not name");
    let restarted = run(&deployment, &["mirror", "--restart", "--to", &url(&deployment)]);
    assert_eq!((restarted.0, &restarted.1["events"]), (0, &json!(2)), "{restarted:?}");
    let moved = run(&deployment, &["mirror", "--restart", "--to", &other]);
    assert_eq!((moved.0, &moved.1["events"]), (0, &json!(2)), "{moved:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_background_work_mirrors() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let lake = url(&deployment);
    let settings = [("LAUREL_MIRROR", &*lake), ("LAUREL_MIRROR_MINUTES", "1")];
    let api = Api::start_with_settings(&deployment, &settings).await;
    api.create_board(json!({ "slug": "b" })).await;
    submit_durably(&api, "b", json!([{ "member": "ann", "score": 1 }])).await;
    // The first run may have come before the score; the next is due a minute later.
    let db = deployment.sql().await;
    until("the server mirrors", async || {
        db.execute_unprepared(
            "UPDATE job SET finished_at_ms = 1 WHERE kind = 'MIRROR' AND finished_at_ms > 1",
        )
        .await
        .unwrap();
        (mirrored(&deployment).await == 1).then_some(())
    })
    .await;
    // The lake has the event before the job is done.
    let began = "SELECT COALESCE(max(started_at_ms), -1) FROM job
        WHERE kind = 'MIRROR' AND state = 'DONE'";
    until("the metric says when", async || {
        let told = metrics_of(&api).await["laurel_mirror_timestamp_seconds"];
        ((told * 1000.0).round() as i64 == deployment.number(began).await).then_some(())
    })
    .await;
    db.close().await.unwrap();
}
