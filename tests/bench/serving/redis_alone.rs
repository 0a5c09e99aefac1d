//! Redis without a server before it: writes, reads, and the commands that a read needs.

use std::time::{Duration, Instant};

use rand::RngExt;
use ranking::board::Board;
use ranking::standings_id::StandingsId;

use super::{MEMBERS, READING, WRITING, name};
use crate::figures::quantile;
use crate::stores::Stores;

/// Events a second that Redis takes as three variadic ZADD and one XADD for each hundred.
pub(super) async fn blind_writes(stores: &Stores) -> f64 {
    let end = Instant::now() + Duration::from_secs(WRITING.seconds);
    let writers = (0..WRITING.connections).map(|_| {
        let mut redis = stores.redis();
        async move {
            let mut rng = rand::rng();
            let mut written = 0_u64;
            while Instant::now() < end {
                let mut pipe = redis::pipe();
                for window in ["all", "daily", "weekly"] {
                    pipe.cmd("ZADD").arg(format!("blind:{window}"));
                    for _ in 0..100 {
                        let (score, member): (u32, _) =
                            (rng.random_range(0..1_000_000), name(rng.random_range(0..MEMBERS)));
                        pipe.arg(score).arg(member);
                    }
                }
                let payload = "x".repeat(6000);
                pipe.cmd("XADD")
                    .arg("blind:log")
                    .arg("MAXLEN")
                    .arg("~")
                    .arg(1000)
                    .arg("*")
                    .arg("c")
                    .arg(payload);
                let _: Vec<redis::Value> = pipe.query_async(&mut redis).await.unwrap();
                written += 100;
            }
            written
        }
    });
    let began = Instant::now();
    let written: u64 = futures::future::join_all(writers).await.iter().sum();
    written as f64 / began.elapsed().as_secs_f64()
}

/// The key of a board's all-time standings in its first partition.
pub(super) fn key_of(stores: &Stores, board: &Board) -> String {
    let store = &stores.deployment.store;
    let id = StandingsId::all_time(board, String::new());
    store.keys().standings(store.partitions().of(board, 0), &id)
}

/// The rate of a command by redis-benchmark.
pub(super) async fn redis_benchmark(stores: &Stores, command: &[&str]) -> f64 {
    let mut program = tokio::process::Command::new("redis-benchmark");
    program.arg("-s").arg(stores.socket());
    program.args(["-c", "64", "-n", "20000", "--csv"]).args(command);
    let output = program.output().await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    // "test","rps",… and one line of them.
    let rate = text.lines().last().and_then(|line| line.rsplit("\",\"").nth(6));
    rate.and_then(|rate| rate.parse().ok()).unwrap_or_else(|| panic!("{text}"))
}

/// The rate and the p50 in ms of `once` by 64 readers, each on its own connection.
pub(super) async fn raw(
    stores: &Stores,
    once: impl AsyncFn(&mut redis::aio::MultiplexedConnection, &mut rand::rngs::ThreadRng, &str),
    key: &str,
) -> (f64, f64) {
    let end = Instant::now() + Duration::from_secs(READING.seconds);
    let once = &once;
    let mut connections = vec![];
    for _ in 0..READING.connections {
        connections.push(stores.connect().await);
    }
    let began = Instant::now();
    let readers = connections.into_iter().map(|mut redis| async move {
        let mut rng = rand::rng();
        let mut times_ms = vec![];
        while Instant::now() < end {
            let began = Instant::now();
            once(&mut redis, &mut rng, key).await;
            times_ms.push(began.elapsed().as_secs_f64() * 1000.0);
        }
        times_ms
    });
    let times_ms = futures::future::join_all(readers).await;
    let mut times_ms: Vec<f64> = times_ms.into_iter().flatten().collect();
    let rate = times_ms.len() as f64 / began.elapsed().as_secs_f64();
    (rate, quantile(&mut times_ms, 0.5))
}
