//! A busy board that moves to other numbers of shards under steady load.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::json;
use tokio::time::{Duration, sleep};

use tests::api::Api;
use tests::api::listing::{check_all_time_in_sql, check_standings};
use tests::api::submission::{submit_events, try_submit};
use tests::boards::busy::{MEMBERS, busy_board, create_busy};
use tests::clock::now_ms;
use tests::deployment::{Deployment, Redis, Sql};
use tests::extent;
use tests::jobs::analytics::figures;
use tests::jobs::diff::check_diff;
use tests::jobs::reshard::{begin, check_recovered, end};
use tests::model::oracle::{Board, Event, Oracle, Verdict};
use tests::wait::until;

/// Sends scores until it is stopped, again where the outcome is unknown; returns those that count.
async fn write(
    api: &Api,
    board: &Board,
    name: &str,
    stop: &AtomicBool,
    sent: &AtomicUsize,
) -> Vec<Event> {
    let (mut counting, mut number) = (vec![], 0);
    while !stop.load(Ordering::SeqCst) {
        let batch: Vec<Event> = (0..10)
            .map(|_| {
                number += 1;
                let ago_ms = rand::random_range(0..9 * 86_400_000);
                Event {
                    member: format!("m{}", rand::random_range(0..MEMBERS)),
                    score: rand::random_range(1..100),
                    at_ms: now_ms() - ago_ms,
                    id: Some(format!("{name}{number}")),
                    metadata: None,
                }
            })
            .collect();
        let mut again = false;
        while let Some(outcomes) = try_submit(api, board, &batch).await {
            let is_known = |outcome: &_| {
                let known = [Ok(Verdict::Applied), Ok(Verdict::Duplicate)];
                known.contains(outcome)
            };
            let is_done = outcomes.iter().all(is_known);
            assert!(is_done || outcomes.iter().any(Result::is_err), "{outcomes:?}");
            if !again {
                let is_new = |outcome: &_| *outcome != Ok(Verdict::Duplicate);
                assert!(outcomes.iter().all(is_new), "{outcomes:?}");
            }
            if is_done {
                break;
            }
            again = true;
        }
        sent.fetch_add(1, Ordering::SeqCst);
        counting.extend(batch);
    }
    counting
}

/// Reads until it is stopped: the number of entries never goes down, as no member leaves.
async fn read(api: &Api, stop: &AtomicBool) -> usize {
    let text = "
        { board(slug: \"busy\") {
            standings { size } eu: standings(of: { window: \"7d\", segment: \"region:eu\" }) { size }
        } }";
    let (mut reads, mut last) = (0, [0, 0]);
    while !stop.load(Ordering::SeqCst) {
        let data = api.data(text, json!({})).await;
        let size = |name: &str| data["board"][name]["size"].as_i64().unwrap();
        let now = [size("standings"), size("eu")];
        assert!(now >= last && now[1] >= last[1], "{now:?} after {last:?}");
        last = now;
        reads += 1;
    }
    reads
}

async fn check_busy(sql: Sql) {
    let deployment = Deployment::new(sql, Redis::Own).await;
    let apis = [Api::start(&deployment).await, Api::start(&deployment).await];
    let board = busy_board();
    create_busy(&apis[0], &board).await;
    let (stop, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    let moves = async {
        for shards in [16, 4] {
            let before = sent.load(Ordering::SeqCst);
            until("there is load", async || {
                (sent.load(Ordering::SeqCst) > before + 20).then_some(())
            })
            .await;
            let mut moving = begin(&deployment, "busy", shards);
            // A move takes long on a busy machine.
            while moving.try_wait().unwrap().is_none() {
                sleep(Duration::from_millis(100)).await;
            }
            println!("to {shards}: {}", end(moving));
        }
        stop.store(true, Ordering::SeqCst);
    };
    let (a, b, c, reads, ()) = futures::join!(
        write(&apis[0], &board, "a", &stop, &sent),
        write(&apis[1], &board, "b", &stop, &sent),
        write(&apis[1], &board, "c", &stop, &sent),
        read(&apis[0], &stop),
        moves,
    );
    let accepted = [a, b, c].concat();
    println!("{} scores and {reads} reads beside the moves", accepted.len());
    let oracle = Oracle::of(board.clone(), accepted.clone());
    check_standings(&apis[0], &oracle).await;
    check_all_time_in_sql(&apis[0], &oracle).await;
    check_diff(&deployment);
    // Every process knows what any of them accepted.
    for batch in accepted.chunks(200) {
        let told = submit_events(&apis[1], &board, batch).await;
        assert!(told.iter().all(|verdict| *verdict == Verdict::Duplicate));
    }
    check_recovered(&deployment).await;
    for batch in accepted.chunks(200) {
        let told = submit_events(&apis[0], &board, batch).await;
        assert!(told.iter().all(|verdict| *verdict == Verdict::Duplicate));
    }
    check_standings(&apis[1], &oracle).await;
    figures(&deployment, &["rebuild", "--board", "busy"]);
    check_standings(&apis[0], &oracle).await;
    check_diff(&deployment);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_doubled_under_load_on_sqlite() {
    if let Some(sql) = extent::drawn(Sql::Sqlite) {
        check_busy(sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_doubled_under_load_on_postgres() {
    if let Some(sql) = extent::drawn(Sql::Postgres) {
        check_busy(sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_doubled_under_load_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_busy(sql).await;
    }
}
