//! A process at rest: what it asks of SQL and Redis does not grow with the number of boards.

use std::time::{Duration, Instant};

use sea_orm::ConnectionTrait;
use serde_json::json;
use tokio::time::sleep;

use tests::api::Api;
use tests::api::submission::submit_durably;
use tests::clock::{DAY_MS, now_ms};
use tests::deployment::{Deployment, Redis};
use tests::servers::command_counts::counts;
use tests::servers::postgres::Postgres;

/// The boards of the two measurements.
const FEW: usize = 2;
const MANY: usize = 200;

/// How long a process is at rest before it is measured, and while it is. PostgreSQL counts what a
/// connection did up to ten seconds later.
const REST: Duration = Duration::from_secs(15);

const HOUR_MS: i64 = 3_600_000;

/// Stops autovacuum, whose transactions PostgreSQL counts as if a process had asked for them.
const NO_AUTOVACUUM: [&str; 2] = ["ALTER SYSTEM SET autovacuum = off", "SELECT pg_reload_conf()"];

/// The most measurements until a process is at rest.
const MEASUREMENTS_MAX: usize = 4;

/// The questions of a process in a second.
#[derive(Debug)]
struct Asked {
    /// Statements of SQL, each a transaction of its own.
    statements: f64,
    /// Rows of `board` that SQL went through.
    rows: f64,
    /// Commands of Redis.
    commands: f64,
    /// Those that read the marks of rolling windows.
    marks: f64,
}

async fn totals(deployment: &Deployment) -> [i64; 4] {
    let statements = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
    let rows = "SELECT CAST(COALESCE(seq_tup_read, 0) + COALESCE(idx_tup_fetch, 0) AS BIGINT)
        FROM pg_stat_user_tables WHERE relname = 'board'";
    let commands = counts(deployment).await;
    [
        deployment.number(statements).await,
        deployment.number(rows).await,
        commands.values().sum::<usize>() as i64,
        commands.get("hgetall").copied().unwrap_or(0) as i64,
    ]
}

/// Measures the process of a deployment with boards that have scores in periods to roll and seal.
async fn at_rest(deployment: &Deployment) -> Asked {
    sleep(REST).await;
    let (before, began) = (totals(deployment).await, Instant::now());
    sleep(REST).await;
    let (after, seconds) = (totals(deployment).await, began.elapsed().as_secs_f64());
    let [statements, rows, commands, marks] =
        [0, 1, 2, 3].map(|place| (after[place] - before[place]) as f64 / seconds);
    Asked { statements, rows, commands, marks }
}

/// Measures until the process is at rest. On a busy machine a start, and the work of new boards,
/// take their time.
async fn until_at_rest(deployment: &Deployment, rests: impl Fn(&Asked) -> bool) -> Asked {
    let mut measured = vec![];
    while measured.len() < MEASUREMENTS_MAX {
        let asked = at_rest(deployment).await;
        if rests(&asked) {
            return asked;
        }
        measured.push(asked);
    }
    panic!("{measured:?}");
}

/// A time zone whose next and last midnight are hours away: at midnight all boards roll and seal.
fn zone() -> &'static str {
    match now_ms() % DAY_MS / HOUR_MS {
        6..18 => "UTC",
        // Nine hours ahead, the whole year.
        _ => "Asia/Tokyo",
    }
}

async fn create(api: &Api, zone: &str, from: usize, to: usize) {
    for number in from..to {
        let (slug, windows) = (
            format!("b{number}"),
            json!([{ "name": "daily", "retain": 1 }, { "name": "7d" }, { "name": "weekly" }]),
        );
        let board = json!({ "slug": slug, "timeZone": zone, "windows": windows });
        api.create_board(board).await;
        submit_durably(api, &slug, json!([{ "member": "m", "score": 1 }])).await;
    }
}

#[tokio::test]
async fn a_process_at_rest_asks_no_more_of_its_stores_the_more_boards_there_are() {
    let server = Postgres::start(None);
    let deployment = Deployment::on_database(server.new_database().await, Redis::Own);
    let db = deployment.sql().await;
    for statement in NO_AUTOVACUUM {
        db.execute_unprepared(statement).await.unwrap();
    }
    db.close().await.unwrap();
    let api = Api::start(&deployment).await;
    let zone = zone();
    create(&api, zone, 0, FEW).await;
    // The measurement itself asks a little.
    let rests = |asked: &Asked| asked.statements < 5.0 && asked.rows < 10.0 && asked.marks < 1.0;
    let few = until_at_rest(&deployment, rests).await;
    create(&api, zone, FEW, MANY).await;
    let rests_alike = |many: &Asked| {
        rests(many)
            && many.statements < few.statements + 1.0
            && many.commands < 1.2 * few.commands + 10.0
    };
    until_at_rest(&deployment, rests_alike).await;
}
