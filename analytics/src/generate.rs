//! Generate: writes synthetic events to a file, for tests and benchmarks. A seed gives the same
//! events on every machine.
//!
//! Rows come in the order in which the events would arrive. Members follow Zipf's law. Activity has
//! nights, days and bursts. Ties abound: scores are few and often round, and some events are draws
//! (two members, one score, one instant). Some events come late, and some scores are negative.

mod activity;
mod random;
mod zipf;

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use polars::prelude::{
    Column, DataFrame, DataType, Int64Chunked, IntoSeries, NamedFrom, Schema, Series,
    StringChunkedBuilder, TimeUnit, TimeZone,
};
use serde::Serialize;

use crate::file::frame_file::{CsvTexts, FrameFile, INSTANT};
use crate::job::Job;
use crate::job::stop::Stop;
use crate::{display_path, print_outcome};
use activity::Activity;
use random::Random;
use zipf::Zipf;

/// Events held at once; in Parquet, the rows of a row group.
const CHUNK: u64 = 1 << 17;

/// How late a late event may be, in milliseconds: three days.
const LATE_MS_MAX: u64 = 3 * 24 * 3_600_000;

/// One in this many events is the other side of a draw.
const DRAWS: u64 = 8;

/// The latest instant at which a file may begin, in Unix milliseconds: its last day is before the
/// year 9000.
const START_MS_MAX: i64 = 221_000_000_000_000;

/// Options of `generate`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The number of members that may occur; the most active ones have the smallest numbers.
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    members: u64,
    /// The number of events.
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=10_000_000_000))]
    events: u64,
    /// The file: .csv, .ndjson or .parquet. An existing file is replaced.
    #[arg(long)]
    out: PathBuf,
    /// The seed: the same seed and arguments give the same events.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The first instant.
    #[arg(long, default_value = "2025-01-01T00:00:00Z")]
    start: Timestamp,
    /// The number of days (of 24 hours) over which the events are spread.
    #[arg(long, default_value_t = 30, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=3660))]
    days: u32,
    /// The share of events that come up to three days late, among later ones: 0 to 1.
    #[arg(long, default_value_t = 0.01, value_parser = share)]
    late: f64,
    /// The share of events with a negative score, -1 to -100: 0 to 1. Other scores are 1 to 1,000.
    /// A board with policy SUM needs a negative minScore to take them.
    #[arg(long, default_value_t = 0.0, value_parser = share)]
    negative: f64,
}

/// The outcome of `generate`.
#[derive(Debug, Serialize)]
pub struct Generated {
    events: u64,
    file: String,
    seconds: f64,
}

impl fmt::Display for Generated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { events, file, seconds } = self;
        write!(f, "wrote {events} events to {file} in {seconds:.1} s")
    }
}

/// Generates a file; a signal stops it, and then no file is left.
///
/// # Errors
/// As [`generate`], or if it was stopped.
pub async fn generate_until(mut stop: Stop, arguments: Arguments, json: bool) -> Result<ExitCode> {
    let is_stopped = Arc::new(AtomicBool::new(false));
    let mut generating = tokio::task::spawn_blocking({
        let is_stopped = is_stopped.clone();
        move || generate(&arguments, &is_stopped)
    });
    let generated = tokio::select! {
        generated = &mut generating => generated??,
        why = stop.wait() => {
            is_stopped.store(true, Ordering::Relaxed);
            // It ends by itself, and removes the file that it began.
            let _ = generating.await;
            bail!(why)
        }
    };
    print_outcome(json, &generated)?;
    Ok(ExitCode::SUCCESS)
}

/// Generates a file. Leaves none if `is_stopped` is set before the file is whole.
///
/// # Errors
/// If the file cannot be written, or the job was stopped.
pub fn generate(arguments: &Arguments, is_stopped: &AtomicBool) -> Result<Generated> {
    let (began, job) = (Instant::now(), Job::unrecorded()?);
    let start_ms = arguments.start.as_millisecond();
    if !(0..=START_MS_MAX).contains(&start_ms) {
        bail!("invalid --start {}: expected a time from 1970 to the year 8970", arguments.start);
    }
    let mut events = Events::new(arguments, start_ms);
    let mut file = FrameFile::create(&arguments.out, &schema(), CsvTexts::Exact)?;
    job.stage("generating", usize::try_from(arguments.events)?);
    let mut left = arguments.events;
    while left > 0 {
        if is_stopped.load(Ordering::Relaxed) {
            bail!("stopped");
        }
        let count = left.min(CHUNK);
        file.write(&events.frame(count)?)?;
        job.advance(usize::try_from(count)?);
        left -= count;
    }
    file.finish()?;
    Ok(Generated {
        events: arguments.events,
        file: display_path(&arguments.out),
        seconds: began.elapsed().as_secs_f64(),
    })
}

fn share(text: &str) -> Result<f64> {
    let share = text.parse::<f64>().ok();
    let share = share.filter(|share| (0.0..=1.0).contains(share));
    share.with_context(|| format!("invalid share {text:?}: expected 0 to 1, as in 0.05"))
}

fn schema() -> Schema {
    Schema::from_iter([
        ("member".into(), DataType::String),
        ("score".into(), DataType::Int64),
        ("at".into(), INSTANT),
    ])
}

/// The events, in the order of their arrival.
struct Events {
    random: Random,
    zipf: Zipf,
    activity: Activity,
    start_ms: i64,
    late: f64,
    negative: f64,
    /// The number of digits in a member's number.
    digits: usize,
    last: (i64, i64),
}

impl Events {
    fn new(arguments: &Arguments, start_ms: i64) -> Self {
        let mut random = Random::new(arguments.seed);
        Self {
            zipf: Zipf::new(arguments.members),
            activity: Activity::new(&mut random, arguments.days, arguments.events),
            random,
            start_ms,
            late: arguments.late,
            negative: arguments.negative,
            digits: arguments.members.to_string().len(),
            last: (1, start_ms),
        }
    }

    /// The next `count` events.
    fn frame(&mut self, count: u64) -> Result<DataFrame> {
        use std::fmt::Write;
        let rows = usize::try_from(count)?;
        let mut members = StringChunkedBuilder::new("member".into(), rows);
        let (mut scores, mut instants) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        let mut member = String::new();
        for _ in 0..count {
            let number = self.zipf.sample(&mut self.random);
            member.clear();
            write!(member, "m{number:0width$}", width = self.digits)?;
            members.append_value(&member);
            let (score, at_ms) = self.score_and_instant();
            scores.push(score);
            instants.push(at_ms);
        }
        let instants = Int64Chunked::from_vec("at".into(), instants);
        let instants = instants.into_datetime(TimeUnit::Milliseconds, Some(TimeZone::UTC));
        let columns: Vec<Column> = vec![
            members.finish().into_series().into(),
            Series::new("score".into(), scores).into(),
            instants.into_series().into(),
        ];
        Ok(DataFrame::new(rows, columns)?)
    }

    fn score_and_instant(&mut self) -> (i64, i64) {
        let arrived_ms = self.start_ms + self.activity.next_ms();
        let random = &mut self.random;
        if random.below(DRAWS) == 0 {
            return self.last;
        }
        let score = if random.unit() < self.negative {
            -1 - random.below(100) as i64
        } else if random.below(2) == 0 {
            10 * (1 + random.below(100) as i64)
        } else {
            1 + random.below(1000) as i64
        };
        let at_ms = if random.unit() < self.late {
            (arrived_ms - random.below(LATE_MS_MAX) as i64).max(self.start_ms)
        } else {
            arrived_ms
        };
        self.last = (score, at_ms);
        self.last
    }
}
