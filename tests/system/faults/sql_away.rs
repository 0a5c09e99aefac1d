//! SQL stopped, silent or read-only under a running server: reads and scores go on, nothing is
//! refused that counts, and the log is caught up by itself.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use engine::job::{self, Begun};
use entity::sql::begin;
use reqwest::StatusCode;
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::{submit, submit_durably};
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::SUBMIT_SCORES;
use tests::jobs::diff::check_diff;
use tests::servers::postgres::{Postgres, send};
use tests::servers::program::signal;
use tests::servers::sql_node::SqlNode;
use tests::wait::{PATIENCE, until};

const EVENTS: &str = "SELECT CAST(COUNT(*) AS BIGINT) FROM score_event";

const RANK: &str = "
    { board(slug: \"b\") { standings { entry(member: \"ann\") { score member { key name } } } } }";

/// The usual time after which SQL counts as away.
const SOON_AWAY: (&str, &str) = ("LAUREL_SQL_LOOKUP_TIMEOUT_MS", "1000");

/// Longer than a checked access token is good without SQL.
const AWAY: Duration = Duration::from_secs(8);

/// The longest time of one request while SQL is known to be away. A debug program on a busy machine
/// needs some of it.
const SLOWEST: Duration = Duration::from_secs(1);

/// The longest time in which a process ends.
const STOP_MAX: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy)]
enum Away {
    Stopped,
    Silent,
    ReadOnly,
}

impl Away {
    async fn start(self, server: &mut SqlNode, deployment: &Deployment) {
        match self {
            Self::Stopped => server.kill(),
            Self::Silent => server.signal_all("STOP"),
            Self::ReadOnly => set_read_only(deployment, "on").await,
        }
    }

    async fn end(self, server: &mut SqlNode, deployment: &Deployment) {
        match self {
            Self::Stopped => server.launch(),
            Self::Silent => server.signal_all("CONT"),
            Self::ReadOnly => set_read_only(deployment, "off").await,
        }
    }
}

async fn set_read_only(deployment: &Deployment, state: &str) {
    let db = deployment.sql().await;
    let set = format!("ALTER SYSTEM SET default_transaction_read_only = {state}");
    db.execute_unprepared(&set).await.unwrap();
    db.execute_unprepared("SELECT pg_reload_conf()").await.unwrap();
    db.close().await.unwrap();
}

fn score(id: &str) -> Value {
    json!([{ "member": "ann", "score": 1, "eventId": id }])
}

/// The status and text of `/readyz`, and how long they took.
async fn readiness(api: &Api) -> (StatusCode, String, Duration) {
    let began = Instant::now();
    let answer = reqwest::get(format!("{}/readyz", api.url())).await.unwrap();
    (answer.status(), answer.text().await.unwrap(), began.elapsed())
}

/// A board with segments and a member in one, and a server that has seen both.
async fn start(server: &Postgres) -> Api {
    start_on(server.new_database().await).await
}

async fn start_on(database_url: String) -> Api {
    let deployment = Deployment::on_database(database_url, Redis::Own);
    let api = Api::start_with_settings(&deployment, &[SOON_AWAY]).await;
    api.create_board(json!({ "slug": "b", "policy": "SUM", "segmentBy": ["region"] })).await;
    api.upsert_members(json!([{ "key": "ann", "region": "eu" }])).await;
    assert_eq!(submit_durably(&api, "b", score("first")).await["accepted"], 1);
    api
}

/// Takes away the server of a deployment in each of these ways, while members go on.
async fn check_goes_on(mut server: SqlNode, ways: &[Away]) {
    let api = start_on(server.url(server.port())).await;
    let deployment = api.deployment().clone();
    let mut sent = 1;
    for &away in ways {
        away.start(&mut server, &deployment).await;
        let (began, mut slowest) = (Instant::now(), Duration::ZERO);
        while began.elapsed() < AWAY {
            let asked = Instant::now();
            let told = submit(&api, "b", score(&format!("{sent}"))).await;
            assert_eq!(told["accepted"], 1, "{away:?}: {told}");
            sent += 1;
            let read = api.data(RANK, json!({})).await;
            let entry = &read["board"]["standings"]["entry"];
            assert_eq!(entry["score"], sent.to_string(), "{away:?}");
            assert_eq!(entry["member"]["key"], "ann");
            // The first requests learn that SQL is away.
            if began.elapsed() > AWAY / 2 {
                slowest = slowest.max(asked.elapsed());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(slowest < SLOWEST, "{away:?}: {slowest:?}");
        if !matches!(away, Away::ReadOnly) {
            let (status, text, took) = readiness(&api).await;
            assert_eq!(status, StatusCode::OK, "{text}");
            assert!(text.starts_with("degraded\n") && text.contains("database"), "{text}");
            assert!(took < Duration::from_millis(500), "{took:?}");
            // A token that no request of this process has had cannot be checked.
            let asked = Instant::now();
            let strange = api.ask(Some("laurel_strange_token"), RANK, json!({})).await;
            assert_eq!(strange.codes(), ["UNAVAILABLE"]);
            assert!(asked.elapsed() < SLOWEST, "{:?}", asked.elapsed());
        }
        let durable = format!("durable-{away:?}");
        let told = submit_durably(&api, "b", score(&durable)).await;
        assert_eq!(told["results"][0]["status"], "UNKNOWN", "{away:?}: {told}");
        sent += 1;

        away.end(&mut server, &deployment).await;
        until("SQL has every score", async || {
            (deployment.number(EVENTS).await == sent).then_some(())
        })
        .await;
        let told = submit_durably(&api, "b", score(&durable)).await;
        assert_eq!(told["duplicates"], 1, "{away:?}: {told}");
        until("it is ready again", async || {
            readiness(&api).await.1.starts_with("ready\n").then_some(())
        })
        .await;
        check_diff(&deployment);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_postgresql_reads_and_scores_go_on_and_are_caught_up() {
    let server = SqlNode::postgres(|_| ());
    check_goes_on(server, &[Away::Stopped, Away::Silent, Away::ReadOnly]).await;
}

/// An account that administers MariaDB writes though others may only read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_mariadb_reads_and_scores_go_on_and_are_caught_up() {
    if Sql::mariadb().is_some() {
        check_goes_on(SqlNode::mariadb(), &[Away::Stopped, Away::Silent]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_score_that_counts_is_rejected_while_sql_comes_and_goes() {
    let server = Postgres::start(None);
    let api = start(&server).await;
    let deployment = api.deployment().clone();
    let (mut handed_out, mut rejected) = (1, vec![]);
    for round in 0..2 {
        server.stop();
        let senders = (0..6).map(|sender| {
            let (api, ids) = (&api, format!("{round}-{sender}"));
            async move {
                let mut told = vec![];
                for number in 0..3 {
                    let variables = json!({
                        "board": "b", "scores": score(&format!("{ids}-{number}")), "ack": "DURABLE",
                    });
                    let data = api.data(SUBMIT_SCORES, variables).await;
                    told.push(data["submitScores"]["results"][0].clone());
                }
                told
            }
        });
        let restart = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            tokio::task::block_in_place(|| server.start_again());
            tokio::time::sleep(Duration::from_millis(700)).await;
            tokio::task::block_in_place(|| server.stop());
            tokio::task::block_in_place(|| server.start_again());
        };
        let (told, ()) = tokio::join!(futures::future::join_all(senders), restart);
        for told in told.into_iter().flatten() {
            handed_out += 1;
            if told["status"] == "REJECTED" {
                rejected.push(told);
            }
        }
    }
    assert!(rejected.is_empty(), "{rejected:?}");
    until("SQL has every score", async || {
        (deployment.number(EVENTS).await == handed_out).then_some(())
    })
    .await;
    check_diff(&deployment);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_falls_silent_amid_a_statement_is_given_up() {
    let server = Postgres::start(None);
    let api = start(&server).await;
    let deployment = api.deployment().clone();
    let db = deployment.sql().await;
    let lock = begin(&db).await.unwrap();
    lock.execute_unprepared("LOCK TABLE log_cursor IN ACCESS EXCLUSIVE MODE").await.unwrap();
    assert_eq!(submit(&api, "b", score("second")).await["accepted"], 1);
    let waiting = "SELECT CAST(pid AS TEXT) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let silent: Vec<String> = until("the persister waits for the lock", async || {
        let pids: BTreeSet<String> = deployment.column(waiting).await.into_iter().collect();
        // One reads for the persister, others for what watches SQL.
        tokio::time::sleep(Duration::from_millis(500)).await;
        (!pids.is_empty()).then(|| pids.into_iter().collect())
    })
    .await;
    let more: Vec<String> = deployment.column(waiting).await;
    send("STOP", &silent);
    send("STOP", &more);
    lock.rollback().await.unwrap();
    let began = Instant::now();
    while deployment.number(EVENTS).await < 2 {
        assert!(began.elapsed() < 2 * PATIENCE, "the persister has not gone on");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    send("CONT", &silent);
    send("CONT", &more);
    assert_eq!(submit_durably(&api, "b", score("third")).await["accepted"], 1);
    db.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_board_that_another_process_changed_is_not_called_gone_without_sql() {
    let server = Postgres::start(None);
    let api = start(&server).await;
    let other = Api::start(api.deployment()).await;
    // The first process has the board as it was.
    other.update_board(json!({ "slug": "b", "windows": [{ "name": "daily" }] })).await;
    server.stop();
    let told = submit(&api, "b", score("late")).await;
    let result = &told["results"][0];
    // It may know the change already, and on a busy machine the answer may come too late.
    if result["status"] != "APPLIED" && result["status"] != "UNKNOWN" {
        assert_eq!(result["status"], "REJECTED", "{told}");
        assert_eq!(result["error"]["code"], "UNAVAILABLE", "{told}");
    }
    server.start_again();
    until("the score is taken", async || {
        let told = submit(&api, "b", score("late")).await;
        (told["accepted"] == 1 || told["duplicates"] == 1).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_stays_in_sight_after_its_connections_fell_silent() {
    let server = Postgres::start(None);
    let api = start(&server).await;
    let deployment = api.deployment().clone();
    let db = deployment.sql().await;
    let lock = begin(&db).await.unwrap();
    let tables = "LOCK TABLE process, deployment IN ACCESS EXCLUSIVE MODE";
    lock.execute_unprepared(tables).await.unwrap();
    let waiting = |what: &str| {
        format!(
            "SELECT CAST(pid AS TEXT) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '{what}'"
        )
    };
    let (beats, notes) = (waiting(r#"INSERT INTO "process"%"#), waiting(r#"%"deployment"%"#));
    let silent: Vec<String> = until("a heartbeat and a note wait for the lock", async || {
        let beats: Vec<String> = deployment.column(&beats).await;
        let notes: Vec<String> = deployment.column(&notes).await;
        (!beats.is_empty() && !notes.is_empty()).then(|| [beats, notes].concat())
    })
    .await;
    send("STOP", &silent);
    lock.rollback().await.unwrap();
    let seen = async |column: &str| deployment.number(&format!("SELECT MAX({column}")).await;
    let (beat, note) = ("heartbeat_at_ms) FROM process", "redis_seen_at_ms) FROM deployment");
    let before = (seen(beat).await, seen(note).await);
    until("both go on", async || {
        (seen(beat).await > before.0 && seen(note).await > before.1).then_some(())
    })
    .await;
    send("CONT", &silent);
    db.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_keeps_its_lease_after_its_connection_fell_silent() {
    let server = Postgres::start(None);
    let deployment = Deployment::on_database(server.new_database().await, Redis::Own);
    let stores = deployment.open_stores().await;
    let begun = job::begin(&stores.db, &stores.clock, entity::job::IMPORT, None).await.unwrap();
    let Begun::Running(running) = begun else { panic!("no other job is running") };
    let db = deployment.sql().await;
    let lock = begin(&db).await.unwrap();
    lock.execute_unprepared("LOCK TABLE job IN SHARE ROW EXCLUSIVE MODE").await.unwrap();
    running.progressed(0.5);
    let waiting = r#"SELECT CAST(pid AS TEXT) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'
            AND query LIKE 'UPDATE "job"%'"#;
    let silent: Vec<String> = until("a heartbeat waits for the lock", async || {
        let waiting: Vec<String> = deployment.column(waiting).await;
        (!waiting.is_empty()).then_some(waiting)
    })
    .await;
    send("STOP", &silent);
    lock.rollback().await.unwrap();
    let seen = async || deployment.number("SELECT heartbeat_at_ms FROM job").await;
    let before = seen().await;
    until("the heartbeats go on", async || (seen().await > before).then_some(())).await;
    send("CONT", &silent);
    running.end(Ok("done")).await.unwrap();
    stores.close().await;
    db.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_ends_in_ten_seconds_while_a_store_is_silent() {
    let server = Postgres::start(None);
    let api = start(&server).await;
    server.silence();
    for number in 0..20 {
        submit(&api, "b", score(&number.to_string())).await;
    }
    check_that_it_stops(api).await;
    server.speak();

    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    let redis = deployment.redis_pid().await;
    signal("STOP", redis);
    check_that_it_stops(api).await;
    signal("CONT", redis);
}

async fn check_that_it_stops(api: Api) {
    let began = Instant::now();
    signal("TERM", api.pid());
    let status = api.wait_until_stopped().await;
    assert!(began.elapsed() <= STOP_MAX + SLOWEST, "it stopped after {:?}", began.elapsed());
    assert!(status.success(), "{status}");
}
