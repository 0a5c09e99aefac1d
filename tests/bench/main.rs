//! `make bench`: what things cost, against a redis-server and a SQLite file of its own. It asserts nothing about time.
//!
//! | module | has |
//! |---|---|
//! | [`cost`] | what a submission costs, by the windows of its board |
//! | [`midnight`] | what writers feel while every board's window is moved on |
//! | [`serving`] | what a server does for GraphQL clients, beside Redis alone |
//! | [`peers`] | what other libraries and SQL alone do |
//! | [`history`] | a rebuild and a diff of millions of entries, beside polars, DuckDB and bare loading |
//! | [`server`] | the server and what loads it |
//! | [`chart`] | latency over size, drawn |
//! | [`stores`] | the stores, opened in this process, and what Redis spent |
//! | [`machine`] | where and with what it was measured |
//! | [`figures`] | numbers of several runs, their medians, the table and the file |
//!
//! Everything is done in runs. In each run the variants take short turns, so that whatever else the machine does hits all of them alike.

#![expect(
    clippy::unwrap_used,
    reason = "where a measurement meets a surprise it ends, and the place is its best message"
)]

mod chart;
mod cost;
mod figures;
mod giant;
mod history;
mod machine;
mod midnight;
mod peers;
mod server;
mod serving;
mod stores;

use std::path::PathBuf;
use std::time::Instant;

use crate::figures::Figures;
use crate::stores::{PARTITIONS, Stores};

/// How often everything is measured; medians are of so many.
const RUNS: usize = 3;

/// How much of everything there is: `BENCH_SCALE`, 1 unless it is set.
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

    /// So many at this scale, and at least `least`.
    fn of(self, count: usize, least: usize) -> usize {
        ((count as f64 * self.0) as usize).max(least)
    }
}

/// Where this package lies, as cargo says it now: where checkouts share a target directory this may have been built in another one.
fn package() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR");
    package.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into()).into()
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let begun = Instant::now();
    let scale = Scale::from_environment();
    let mut figures = Figures::default();
    let stores = Stores::open(PARTITIONS).await;
    let machine = machine::describe(&stores, scale.0).await;
    // What cargo passes begins with a dash.
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
        // Whoever asks for it alone has the time for all of it.
        let part = if parts.is_empty() { 0.1 } else { 1.0 };
        history::measure(Scale(scale.0 * part), &mut figures).await;
    }
    // It takes an hour and 40 GB of disk: only whoever asks for it.
    if parts.iter().any(|part| part == "giant") {
        giant::measure(scale, &mut figures).await;
    }
    figures.print();
    let path = figures.write(&machine);
    println!("\n{} and {:.0} s in all", path.display(), begun.elapsed().as_secs_f64());
}
