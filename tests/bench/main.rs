//! `make bench`: the cost of operations, against its own redis-server and SQLite file. It asserts
//! nothing about time, but for what attacks take of the processors.
//!
//! | module | has |
//! |---|---|
//! | [`cost`] | the cost of a submission, by the windows of its board |
//! | [`midnight`] | the latency of writers while every board's window rolls |
//! | [`serving`] | the rates of a server for GraphQL clients, beside Redis alone |
//! | [`peers`] | the rates of other libraries, and of SQL alone |
//! | [`history`] | rebuilds and diffs of millions of entries, beside polars, DuckDB and `RESTORE` |
//! | [`giant`] | one rebuild of a hundred million members |
//! | [`boards`] | many small boards: a server at rest, a recovery and a diff |
//! | [`persister`] | the persister on each database, beside multi-row inserts |
//! | [`import`] | imports of a whole history on each database, beside a bare COPY or inserts |
//! | [`folds`] | a history folded by polars, DataFusion, Sail and Spark |
//! | [`attacks`] | what each attack costs, and what it makes others wait |
//! | [`siege`] | what readers wait for beside a thousand hostile connections |
//! | [`live`] | subscribers of one board beside writers: commit to socket, memory of a socket |
//! | [`season`] | the end of a season of a million members |
//! | [`away`] | what readers wait for while Redis is away |
//! | [`versions`] | a request in several versions of the server, in turns |
//! | [`queues`] | scores from queues, beside `submitScores` |
//! | [`server`] | the server and its load generator |
//! | [`chart`] | latency over size, drawn |
//! | [`stores`] | the stores, opened in this process, and what Redis spent |
//! | [`machine`] | the machine and the versions of a measurement |
//! | [`figures`] | figures of several runs, their medians, the table and the file |
//!
//! Measurements are repeated in runs. In each run the variants take short turns, so that other load
//! on the machine hits all of them alike.

#![expect(
    clippy::unwrap_used,
    reason = "a surprise ends the measurement, and its location is the best message"
)]

mod attacks;
mod away;
mod boards;
mod chart;
mod cost;
mod figures;
mod folds;
mod giant;
mod history;
mod import;
mod live;
mod machine;
mod midnight;
mod peers;
mod persister;
mod queues;
mod season;
mod server;
mod serving;
mod siege;
mod stores;
mod versions;

use std::time::Instant;

use crate::figures::Figures;
use crate::stores::{PARTITIONS, Stores};

/// Runs of each measurement; figures are their medians.
const RUNS: usize = 3;

/// The scale of all counts: `BENCH_SCALE`, 1 unless it is set.
#[derive(Debug, Clone, Copy)]
struct Scale(f64);

impl Scale {
    fn from_environment() -> Self {
        let Ok(text) = std::env::var("BENCH_SCALE") else {
            return Self(1.0);
        };
        let scale = text.parse().ok().filter(|scale| (0.01..=10.0).contains(scale));
        Self(scale.expect("BENCH_SCALE is a number from 0.01 to 10"))
    }

    /// A count at this scale, but at least `least`.
    fn of(self, count: usize, least: usize) -> usize {
        ((count as f64 * self.0) as usize).max(least)
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let begun = Instant::now();
    let scale = Scale::from_environment();
    let mut figures = Figures::default();
    let stores = Stores::open(PARTITIONS).await;
    let machine = machine::describe(&stores, scale.0).await;
    // Arguments that cargo passes begin with a dash.
    let parts: Vec<String> =
        std::env::args().skip(1).filter(|part| !part.starts_with('-')).collect();
    let asked = |part: &str| parts.is_empty() || parts.iter().any(|asked| asked == part);
    if asked("windows") {
        cost::measure(&stores, scale, &mut figures).await;
    }
    stores.close().await;
    if asked("windows") {
        midnight::measure(Stores::open(PARTITIONS).await, scale, &mut figures).await;
    }
    if asked("serving") {
        serving::measure(Stores::open(PARTITIONS).await, scale, &mut figures).await;
    }
    if asked("peers") {
        peers::measure(Stores::open(PARTITIONS).await, scale, &mut figures).await;
    }
    if asked("history") {
        // At full scale only if it is asked for by name.
        let part = if parts.is_empty() { 0.1 } else { 1.0 };
        history::measure(Scale(scale.0 * part), &mut figures).await;
    }
    // Linux counts what a process takes.
    if asked("boards") && cfg!(target_os = "linux") {
        boards::measure(Stores::open(PARTITIONS).await, scale, &mut figures).await;
    }
    if asked("persister") {
        persister::measure(scale, &mut figures).await;
    }
    if asked("import") {
        import::measure(scale, &mut figures).await;
    }
    if asked("attacks") && cfg!(target_os = "linux") {
        attacks::measure(&mut figures).await;
    }
    if asked("siege") && cfg!(target_os = "linux") {
        siege::measure(scale, &mut figures).await;
    }
    if asked("live") && cfg!(target_os = "linux") {
        live::measure(scale, &mut figures).await;
    }
    if asked("season") {
        season::measure(scale, &mut figures).await;
    }
    if asked("away") {
        away::measure(scale, &mut figures).await;
    }
    if asked("queues") {
        queues::measure(scale, &mut figures).await;
    }
    // It compares programs that its environment names.
    if parts.iter().any(|part| part == "versions") && cfg!(target_os = "linux") {
        versions::measure().await;
    }
    // It needs engines that are large, so it must be asked for by name.
    if parts.iter().any(|part| part == "folds") {
        folds::measure(scale, &mut figures).await;
    }
    // It takes an hour and 40 GB of disk, so it must be asked for by name.
    if parts.iter().any(|part| part == "giant") {
        giant::measure(scale, &mut figures).await;
    }
    figures.print();
    let path = figures.write(&machine);
    println!("\n{} and {:.0} s in all", path.display(), begun.elapsed().as_secs_f64());
}
