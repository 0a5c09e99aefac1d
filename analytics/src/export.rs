//! Export: writes standings of any size to a file, in rank order, holding a page at a time.
//!
//! While writers are active, each page is of its own moment. A member that moves from one page to
//! the next may be listed twice, or not at all.

pub(crate) mod choice;

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::ValueEnum;
use engine::deployment::Deployment;
use engine::read::reader::Reader;
use entity::board;
use polars::prelude::{
    Column, DataFrame, DataType, Int64Chunked, IntoSeries, NamedFrom, NewChunkedArray, Schema,
    Series, TimeUnit, TimeZone,
};
use ranking::board::TieBreak;
use ranking::board::rules::Rules;
use ranking::metadata::Metadata;
use ranking::score;
use ranking::score::rank_key::RankKey;
use ranking::store::read::{RankedEntry, Standings};
use serde::Serialize;

use crate::display_path;
use crate::export::choice::StandingsArguments;
use crate::file::format::FileFormat;
use crate::file::frame_file::{CsvTexts, FrameFile, INSTANT};
use crate::frame::events::METADATA;
use crate::job::Job;

/// Rows that are gathered before they are written; in Parquet, the rows of a row group.
const ROWS: usize = 100_000;

/// Entries of a page: the command that reads them keeps Redis busy for some milliseconds.
const PAGE: usize = 4000;

/// How long a page waits for level partitions, and for rolling windows that lag behind.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Options of `export`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    pub choice: StandingsArguments,
    /// How to rank equal scores.
    #[arg(long, value_enum, ignore_case = true, default_value_t = RankMethod::Ordinal)]
    method: RankMethod,
    /// The file: .csv, .ndjson or .parquet, with rank, member, score (an exact decimal, as text)
    /// reached_at, and metadata (the text of a JSON object) if the board keeps some. An existing
    /// file is replaced.
    #[arg(long)]
    out: PathBuf,
    /// In a .csv file, put an apostrophe before a text that a spreadsheet would take for a formula.
    /// Numbers stay as they are.
    #[arg(long)]
    safe_csv: bool,
}

impl Arguments {
    fn csv_texts(&self) -> Result<CsvTexts> {
        if !self.safe_csv {
            return Ok(CsvTexts::Exact);
        }
        let is_csv = FileFormat::of_output(&self.out)? == FileFormat::Csv;
        ensure!(
            is_csv,
            "invalid --safe-csv with --out {}: expected a .csv file",
            display_path(&self.out)
        );
        Ok(CsvTexts::Safe)
    }
}

/// How to rank equal scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RankMethod {
    /// 1234: every entry has its own rank.
    Ordinal,
    /// 1224: equal scores share the rank of the first of them.
    Competition,
    /// 1223: equal scores share a rank, and the next score has the next rank.
    Dense,
}

/// The outcome of an export.
#[derive(Debug, Serialize)]
pub struct Exported {
    entries: u64,
    period: String,
    file: String,
    seconds: f64,
}

impl fmt::Display for Exported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { entries, period, file, seconds } = self;
        write!(f, "exported {entries} entries of the period {period} to {file} in {seconds:.1} s")
    }
}

/// Exports the standings of a board's segment, window and period.
///
/// # Errors
/// If the board has no such standings, a store does not answer, or the file cannot be written. No
/// file is left then.
pub async fn export(
    deployment: &Deployment,
    row: &board::Model,
    arguments: &Arguments,
) -> Result<Exported> {
    let (began, now_ms) = (Instant::now(), deployment.clock.now_ms());
    let (board, choice) = (row.to_ranking()?, &arguments.choice);
    let (id, period) = choice.resolve(row, &board, now_ms)?;
    let label = period.label.clone();
    let reader = Reader::new(deployment, READ_TIMEOUT);
    let standings = Standings::new(&deployment.store, &board, id, period);
    let mut file =
        FrameFile::create(&arguments.out, &schema(board.has_metadata), arguments.csv_texts()?)?;
    let job = Job::unrecorded()?;
    job.stage("exporting", 0);
    let mut ranks = Ranks::new(arguments.method);
    let mut rows = Rows::of(board.has_metadata);
    let mut last = None;
    loop {
        // A member that moves from one page to the next may be in both, or in neither.
        let page = reader.page_after(&standings, last.as_ref(), PAGE).await?;
        let Some(end) = page.last() else { break };
        last = Some(end.clone());
        let metadata = reader.metadata(&board, &standings, &page).await?;
        for (entry, metadata) in page.iter().zip(metadata) {
            let rank = ranks.next(&standings, entry.key);
            rows.push(rank, (entry, metadata), &standings, now_ms);
        }
        job.advance(page.len());
        if rows.rank.len() >= ROWS {
            let full = std::mem::replace(&mut rows, Rows::of(board.has_metadata));
            file.write(&full.into_frame()?)?;
        }
    }
    if !rows.rank.is_empty() {
        file.write(&rows.into_frame()?)?;
    }
    file.finish()?;
    Ok(Exported {
        entries: ranks.passed,
        period: label,
        file: display_path(&arguments.out),
        seconds: began.elapsed().as_secs_f64(),
    })
}

fn schema(has_metadata: bool) -> Schema {
    let columns = [
        ("rank".into(), DataType::Int64),
        ("member".into(), DataType::String),
        ("score".into(), DataType::String),
        ("reached_at".into(), INSTANT),
        (METADATA.into(), DataType::String),
    ];
    let count = columns.len() - usize::from(!has_metadata);
    columns.into_iter().take(count).collect()
}

/// Counts ranks from one entry to the next.
struct Ranks {
    method: RankMethod,
    /// The number of entries passed.
    passed: u64,
    /// The number of scores passed, including the present one, and the rank of its first entry.
    scores: u64,
    first: u64,
    score: Option<RankKey>,
}

impl Ranks {
    fn new(method: RankMethod) -> Self {
        Self { method, passed: 0, scores: 0, first: 0, score: None }
    }

    /// The rank of the next entry.
    fn next(&mut self, standings: &Standings, key: RankKey) -> u64 {
        let layout = standings.rules.layout(standings.id.window);
        let score = Some(layout.first_of_score(key));
        self.passed += 1;
        if score != self.score {
            self.score = score;
            self.scores += 1;
            self.first = self.passed;
        }
        match self.method {
            RankMethod::Ordinal => self.passed,
            RankMethod::Competition => self.first,
            RankMethod::Dense => self.scores,
        }
    }
}

/// Rows that are not yet in the file.
#[derive(Default)]
struct Rows {
    rank: Vec<i64>,
    member: Vec<String>,
    score: Vec<String>,
    reached_at: Vec<Option<i64>>,
    /// `None` if the board keeps none.
    metadata: Option<Vec<Option<String>>>,
}

impl Rows {
    fn of(has_metadata: bool) -> Self {
        Self { metadata: has_metadata.then(Vec::new), ..Self::default() }
    }

    fn push(
        &mut self,
        rank: u64,
        (entry, metadata): (&RankedEntry, Option<Metadata>),
        standings: &Standings,
        now_ms: i64,
    ) {
        let (rules, window): (&Rules, _) = (&standings.rules, standings.id.window);
        let state = rules.state(window, &standings.period, entry.key);
        self.rank.push(rank as i64);
        self.member.push(entry.member.to_string());
        self.score.push(score::format_in(window, state.score, rules.decimals, now_ms));
        let is_timed = rules.ties(window) != TieBreak::Member;
        self.reached_at.push(is_timed.then(|| state.tick * i64::from(rules.tick_ms)));
        if let Some(texts) = &mut self.metadata {
            texts.push(metadata.map(|metadata| metadata.to_string()));
        }
    }

    fn into_frame(self) -> Result<DataFrame> {
        let reached_at =
            Int64Chunked::from_iter_options("reached_at".into(), self.reached_at.into_iter());
        let reached_at = reached_at.into_datetime(TimeUnit::Milliseconds, Some(TimeZone::UTC));
        let mut columns: Vec<Column> = vec![
            Series::new("rank".into(), self.rank).into(),
            Series::new("member".into(), self.member).into(),
            Series::new("score".into(), self.score).into(),
            reached_at.into_series().into(),
        ];
        if let Some(texts) = self.metadata {
            columns.push(Series::new(METADATA.into(), texts).into());
        }
        Ok(DataFrame::new_infer_height(columns)?)
    }
}
