//! Jobs: one of a kind at a time, known to be dead when their processes are, stopped cleanly, and
//! listed.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use engine::job::{self, Begun, Running};
use entity::deployment::clock::Clock;
use entity::job::{Model, State};
use sea_orm::{ConnectionTrait, DatabaseConnection, EntityTrait, Statement};
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::connection::Connection;
use tests::api::submission::submit_durably;
use tests::clock::now_ms;
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::analytics::run;
use tests::servers::program::signal;
use tests::wait::until;

/// A deployment with the boards "a" and "b" with the numbers 1 and 2, the second one private.
async fn two_boards(sql: Sql) -> (Arc<Deployment>, Api) {
    let deployment = Deployment::new(sql, Redis::Private).await;
    let api = Api::start(&deployment).await;
    for (slug, visibility) in [("a", "PUBLIC"), ("b", "PRIVATE")] {
        api.create_board(json!({ "slug": slug, "visibility": visibility })).await;
    }
    (deployment, api)
}

async fn execute(db: &DatabaseConnection, statement: &str) -> u64 {
    let statement = Statement::from_string(db.get_database_backend(), statement);
    db.execute_raw(statement).await.unwrap().rows_affected()
}

async fn begun(db: &DatabaseConnection, kind: &str, board_no: Option<i64>) -> Running {
    match job::begin(db, &Clock::default(), kind, board_no).await.unwrap() {
        Begun::Running(running) => running,
        Begun::Taken(other) => panic!("{other}"),
    }
}

async fn taken(db: &DatabaseConnection, kind: &str, board_no: Option<i64>) -> Model {
    match job::begin(db, &Clock::default(), kind, board_no).await.unwrap() {
        Begun::Running(_) => panic!("{kind} of {board_no:?} has begun"),
        Begun::Taken(other) => *other,
    }
}

async fn jobs(db: &DatabaseConnection) -> Vec<Model> {
    entity::job::Entity::find().all(db).await.unwrap()
}

#[tokio::test]
async fn one_job_of_a_kind_is_running_on_a_board() {
    for sql in Sql::all() {
        let (deployment, _api) = two_boards(sql).await;
        let db = &deployment.sql().await;
        let rebuild = begun(db, "REBUILD", Some(1)).await;
        // Rebuilds and restores of a board are one kind.
        for kind in ["REBUILD", "RESTORE"] {
            let other = taken(db, kind, Some(1)).await;
            assert_eq!((other.kind.as_str(), other.board_no), ("REBUILD", Some(1)));
            let told = other.to_string();
            assert!(told.contains("REBUILD (job 1) of board no 1"), "{told}");
        }
        let others = [
            begun(db, "DIFF", Some(1)).await,
            begun(db, "REBUILD", Some(2)).await,
            begun(db, "RESTORE", None).await,
        ];
        taken(db, "RESTORE", None).await;
        rebuild.end(Err("tired")).await.unwrap();
        let restore = begun(db, "RESTORE", Some(1)).await;
        restore.end(Ok("done")).await.unwrap();
        for other in others {
            other.end(Ok("done")).await.unwrap();
        }
        let jobs = jobs(db).await;
        let states: Vec<State> = jobs.iter().map(|job| job.state).collect();
        assert_eq!(states, [State::Failed, State::Done, State::Done, State::Done, State::Done]);
        let left = jobs.iter().filter(|job| job.running.is_some() || job.holder.is_some());
        assert_eq!(left.count(), 0);
        assert!(jobs.iter().all(|job| job.finished_at_ms >= Some(job.started_at_ms)));
        assert_eq!(jobs[1].progress, 1.0);
    }
}

#[tokio::test]
async fn of_many_who_begin_at_once_one_does() {
    for sql in Sql::all() {
        let (deployment, _api) = two_boards(sql).await;
        let db = &deployment.sql().await;
        let clock = Clock::default();
        let all = (0..20).map(|_| job::begin(db, &clock, "SEAL", None));
        let all = futures::future::join_all(all).await;
        let is_running = |begun: &&entity::Result<Begun>| matches!(begun, Ok(Begun::Running(_)));
        assert_eq!(all.iter().filter(is_running).count(), 1);
        assert!(all.iter().all(Result::is_ok));
        assert_eq!(jobs(db).await.len(), 1);
    }
}

#[tokio::test]
async fn a_job_that_is_silent_is_taken_for_dead_and_stays_so() {
    for sql in Sql::all() {
        let (deployment, _api) = two_boards(sql).await;
        let db = &deployment.sql().await;
        let silent = begun(db, "IMPORT", None).await;
        let at_ms = now_ms() - job::LEASE_MS;
        let silence = |at_ms: i64| format!("UPDATE job SET heartbeat_at_ms = {at_ms}");
        execute(db, &silence(at_ms + 5000)).await;
        taken(db, "IMPORT", None).await;
        execute(db, &silence(at_ms - 5000)).await;
        let next = begun(db, "IMPORT", None).await;
        // The silent job wakes up, and changes nothing.
        silent.end(Ok("done")).await.unwrap();
        next.end(Ok("done")).await.unwrap();
        let jobs = jobs(db).await;
        let said = |job: &Model| (job.state, job.summary.clone().unwrap());
        assert_eq!(
            jobs.iter().map(said).collect::<Vec<_>>(),
            [
                (State::Failed, "its process ended without a word".into()),
                (State::Done, "done".to_owned())
            ]
        );
    }
}

#[tokio::test]
async fn what_dead_processes_left_is_ended_by_the_api() {
    let (deployment, _api) = two_boards(Sql::any()).await;
    let db = &deployment.sql().await;
    let _living = begun(db, "ROLL", None).await;
    // A dropped job does not renew its lease.
    drop(begun(db, "DIFF", Some(1)).await);
    execute(db, "UPDATE job SET heartbeat_at_ms = 1 WHERE kind = 'DIFF'").await;
    until("the API notices", async || {
        let jobs = jobs(db).await;
        (jobs[1].state == State::Failed).then_some(())
    })
    .await;
    assert_eq!(jobs(db).await[0].state, State::Running);
}

#[tokio::test]
async fn a_command_says_which_job_is_in_its_way_and_a_seal_waits() {
    let (deployment, _api) = two_boards(Sql::any()).await;
    let db = &deployment.sql().await;
    let rebuild = begun(db, "REBUILD", Some(1)).await;
    let (code, _, error) = run(&deployment, &["restore", "--board", "a"]);
    assert_eq!(code, 1);
    assert!(error.contains("REBUILD (job 1) of board no 1"), "{error}");
    assert_eq!(run(&deployment, &["rebuild", "--board", "b"]).0, 0);
    rebuild.end(Ok("done")).await.unwrap();
    assert_eq!(run(&deployment, &["restore", "--board", "a"]).0, 0);
    for kind in ["SEAL", "ROLL"] {
        let other = begun(db, kind, None).await;
        let waiting = start(&deployment, &[&kind.to_lowercase()]);
        tokio::time::sleep(Duration::from_millis(300)).await;
        other.end(Ok("done")).await.unwrap();
        let output =
            tokio::task::spawn_blocking(|| waiting.wait_with_output().unwrap()).await.unwrap();
        assert_eq!(output.status.code(), Some(0));
        let last = jobs(db).await.pop().unwrap();
        assert_eq!((last.kind.as_str(), last.state), (kind, State::Done));
    }
}

/// Starts a command of `analytics`.
fn start(deployment: &Deployment, arguments: &[&str]) -> Child {
    piped(deployment.analytics_command(arguments)).spawn().unwrap()
}

fn piped(mut command: Command) -> Command {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[tokio::test]
async fn a_command_that_is_stopped_says_so_and_leaves_nothing() {
    let (deployment, _api) = two_boards(Sql::any()).await;
    let (dir, temporary) = (deployment.path("out"), deployment.path("temporary"));
    for path in [&dir, &temporary] {
        std::fs::create_dir(path).unwrap();
    }
    let files = |dir: &str| std::fs::read_dir(dir).unwrap().count();
    let file = format!("{dir}/events.csv");
    let members = ["--members", "5000", "--out", &file];
    let generating = [&["generate", "--events", "100000000"], &members[..]].concat();
    for (name, pause_ms) in [("INT", 0), ("INT", 300), ("TERM", 300)] {
        let child = start(&deployment, &generating);
        until("it writes", async || (files(&dir) > 0).then_some(())).await;
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        signal(name, child.id());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(files(&dir), 0, "{name}");
    }

    let (code, _, error) =
        run(&deployment, &[&["generate", "--events", "150000"], &members[..]].concat());
    assert_eq!(code, 0, "{error}");
    let db = &deployment.sql().await;
    for (state, name) in [("stopped by the user", "INT"), ("stopped by a signal", "TERM")] {
        let mut command = deployment.analytics_command(&["import", "--board", "a", &file]);
        command.env("TMPDIR", &temporary);
        let child = piped(command).spawn().unwrap();
        let mut progress = 0.0;
        until("it has got somewhere", async || {
            let job = jobs(db).await.pop().filter(|job| job.state == State::Running)?;
            assert!((progress..1.0).contains(&job.progress), "{job:?}");
            progress = job.progress;
            (progress > 0.0 && job.summary.is_some()).then_some(())
        })
        .await;
        signal(name, child.id());
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(state), "{error}");
        let job = jobs(db).await.pop().unwrap();
        assert_eq!((job.state, job.summary.as_deref()), (State::Failed, Some(state)));
        assert_eq!(files(&temporary), 0);
    }

    // A killed job cannot report; the next one does not wait for its lease.
    let child = start(&deployment, &["import", "--board", "a", &file]);
    until("it has begun", async || {
        let job = jobs(db).await.pop()?;
        (job.state == State::Running).then_some(())
    })
    .await;
    signal("KILL", child.id());
    child.wait_with_output().unwrap();
    let next = begun(db, "IMPORT", Some(1)).await;
    next.end(Ok("done")).await.unwrap();
}

const JOBS: &str = "query($board: String, $kind: JobKind, $first: Int, $after: String) {
    jobs(board: $board, kind: $kind, first: $first, after: $after) {
        totalCount pageInfo { hasNextPage hasPreviousPage endCursor }
        nodes { id kind board { slug } state progress startedAt finishedAt summary }
    }
}";

#[tokio::test]
async fn jobs_are_listed_newest_first_for_admins_alone() {
    let (deployment, api) = two_boards(Sql::any()).await;
    let db = &deployment.sql().await;
    for (kind, board_no) in
        [("REBUILD", Some(1)), ("DIFF", None), ("FUTURE", Some(2)), ("DIFF", Some(2))]
    {
        let job = begun(db, kind, board_no).await;
        job.end(Ok("figures")).await.unwrap();
    }
    let running = begun(db, "ARCHIVE", None).await;
    running.at_stage("writing".into());
    running.progressed(0.25);
    running.progressed(0.125);

    let ids = |data: &Value| -> Vec<String> {
        let nodes = data["jobs"]["nodes"].as_array().unwrap().iter();
        nodes.map(|job| job["id"].as_str().unwrap().replace("job:", "")).collect()
    };
    let all = api.data(JOBS, json!({})).await;
    assert_eq!(ids(&all), ["5", "4", "3", "2", "1"]);
    assert_eq!(all["jobs"]["totalCount"], 5);
    let kinds = all["jobs"]["nodes"].as_array().unwrap();
    let kinds: Vec<&Value> = kinds.iter().map(|job| &job["kind"]).collect();
    assert_eq!(json!(kinds), json!(["ARCHIVE", "DIFF", "OTHER", "DIFF", "REBUILD"]));
    let last = &all["jobs"]["nodes"][4];
    assert_eq!(
        (&last["board"]["slug"], &last["state"], &last["progress"], &last["summary"]),
        (&json!("a"), &json!("DONE"), &json!(1.0), &json!("figures"))
    );
    assert!(last["finishedAt"].as_str() >= last["startedAt"].as_str());
    for (variables, expected) in [
        (json!({ "board": "b" }), &["4", "3"][..]),
        (json!({ "kind": "DIFF" }), &["4", "2"]),
        (json!({ "kind": "OTHER" }), &["3"]),
        (json!({ "kind": "DIFF", "board": "b" }), &["4"]),
        (json!({ "kind": "SEAL" }), &[]),
    ] {
        let listed = api.data(JOBS, variables.clone()).await;
        assert_eq!(ids(&listed), expected, "{variables}");
        assert_eq!(listed["jobs"]["totalCount"], expected.len(), "{variables}");
    }
    let walked = Connection { text: JOBS, variables: json!({}), pointer: "/jobs" };
    let walked = walked.forward(&api, 2).await;
    assert_eq!(json!(walked), all["jobs"]["nodes"]);

    until("progress is written", async || {
        let job = api
            .data("{ node(id: \"job:5\") { ... on Job { progress summary state } } }", json!({}))
            .await["node"]
            .take();
        assert_eq!(job["state"], "RUNNING");
        (job["progress"] == 0.25 && job["summary"] == "writing").then_some(())
    })
    .await;
    running.end(Ok("done")).await.unwrap();
    let gone = api.data("{ node(id: \"job:99\") { id } }", json!({})).await;
    assert_eq!(gone["node"], Value::Null);
    check_refusals(&deployment, &api).await;
}

/// Checks that invalid lists of jobs, and lists for others than admins, are refused.
async fn check_refusals(deployment: &Arc<Deployment>, api: &Api) {
    for (variables, code) in [
        (json!({ "board": "nowhere" }), "NOT_FOUND"),
        (json!({ "after": "x" }), "BAD_USER_INPUT"),
        (json!({ "first": -1 }), "BAD_USER_INPUT"),
        (json!({ "first": 1001 }), "LIMIT_EXCEEDED"),
    ] {
        let refused = api.ask(Some(api.token()), JOBS, variables).await;
        assert_eq!(refused.codes(), [code]);
    }
    let submit = deployment.new_token(&["--scope", "submit"]).await;
    for query in [
        "{ jobs { nodes { id } } }",
        "{ integrityRuns { nodes { id } } }",
        "{ integrityRun(id: \"1\") { id } }",
        "{ node(id: \"job:1\") { id } }",
        "{ node(id: \"integrityRun:1\") { id } }",
    ] {
        let refused = api.ask(Some(&submit), query, json!({})).await;
        assert_eq!(refused.codes(), ["FORBIDDEN"], "{query}");
        let refused = api.ask(None, query, json!({})).await;
        assert_eq!(refused.codes(), ["UNAUTHENTICATED"], "{query}");
    }
}

#[tokio::test]
async fn the_job_of_a_deleted_board_is_there_without_it() {
    let (_deployment, api) = two_boards(Sql::any()).await;
    submit_durably(&api, "a", json!([{ "member": "m", "score": 1 }])).await;
    let deployment = api.deployment();
    assert_eq!(run(deployment, &["rebuild", "--board", "a"]).0, 0);
    api.delete_board("a").await;
    let all = api.data(JOBS, json!({})).await;
    let job = &all["jobs"]["nodes"][0];
    assert_eq!((&job["kind"], &job["board"]), (&json!("REBUILD"), &Value::Null));
}
