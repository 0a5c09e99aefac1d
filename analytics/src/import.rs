//! Import: submits events from a file by the ordinary path. It is idempotent against the whole
//! history: events that the history has are skipped.
//!
//! All rows are checked before any is written, ranges included: the file is first folded in memory
//! onto the present standings.

mod attributes;
mod bulk;
mod input_file;
mod known;
mod rows;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use engine::board::entrants;
use engine::deployment::Deployment;
use engine::partition::Partition;
use engine::partition::submit::Prepared;
use entity::board;
use ranking::board::Board;
use ranking::board::fair_play::FairPlay;
use ranking::commit::COMMIT_EVENTS_MAX;
use ranking::id::{BoardNo, MemberId, PartitionNo};
use ranking::score::rank_key::RankKey;
use ranking::standings_id::StandingsId;
use ranking::submission::batch::Batch;
use ranking::submission::{FoldOutcome, FoldedBatch, StandingsChange, Submission, Verdict};
use serde::Serialize;

use crate::display_path;
use crate::file::format::FileFormat;
use crate::job::Job;
use attributes::{set_segments, write_regions};
use bulk::reused;
use known::known_events;
use rows::{BadRow, Row, Rows, read_rows};

/// How long the job tries to submit one batch.
const SUBMIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Members whose attributes one SELECT reads: SQLite takes 32,766 parameters.
const MEMBERS_MAX: usize = 1000;

/// Bad rows that are printed.
const PRINTED_MAX: usize = 20;

/// Options of `import`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The board's slug, for files without a column board.
    #[arg(long)]
    pub(crate) board: Option<String>,
    /// Writes the history of a board that has none yet straight to the database, which is faster
    /// and takes memory for one partition's entries. The partitions of the board take no other
    /// scores meanwhile, one after the other.
    #[arg(long, requires = "board")]
    bulk: bool,
    /// The column of the score.
    #[arg(long, default_value = "score")]
    score_column: String,
    /// Import the good rows, and write the bad ones, with their lines and reasons, to this CSV
    /// file.
    #[arg(long)]
    skip_bad: Option<PathBuf>,
    /// The most rows of the file, 1 to 1,000,000,000; each takes some 650 bytes of memory, but
    /// for --bulk. By default 100,000,000, and in Parquet no more than the file has bytes.
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    rows_max: Option<u64>,
    /// The file: .ndjson (an object per line), .parquet, or CSV by any other name. Columns: member,
    /// score, at (RFC 3339, Unix seconds, or in Parquet a timestamp, taken as UTC if it has no
    /// zone), and optionally board, event_id, region, metadata (a JSON object, or its text; for a
    /// board that keeps metadata). Scores are exact: a number of more than 15
    /// digits must be text. A regular file: no directory, pipe or device.
    file: PathBuf,
}

/// The outcome of an import.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Imported {
    accepted: usize,
    known: usize,
    bad: usize,
    seconds: f64,
}

impl fmt::Display for Imported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { accepted, known, bad, seconds } = self;
        write!(
            f,
            "imported {accepted} events, skipped {known} that the history holds and {bad} bad rows, in {seconds:.1} s"
        )
    }
}

/// Imports a file.
///
/// # Errors
/// If the file cannot be read, a row is bad and `--skip-bad` is not given, or a store does not
/// answer.
pub async fn import(deployment: &Deployment, arguments: &Arguments) -> Result<Imported> {
    let board = match &arguments.board {
        Some(slug) => board::of_slug(&deployment.db, slug).await?,
        None => None,
    };
    let job = Job::begin(deployment, entity::job::IMPORT, board.map(|row| row.no)).await?;
    let outcome = match arguments.bulk {
        true => bulk::run(deployment, arguments, &job).await,
        false => run(deployment, arguments, &job).await,
    };
    job.end(outcome).await
}

async fn run(deployment: &Deployment, arguments: &Arguments, job: &Job) -> Result<Imported> {
    let began = Instant::now();
    let now_ms = deployment.clock.now_ms();
    let rows = board::living().all(&deployment.db).await?;
    let mut segmented = HashMap::new();
    for row in &rows {
        let segment_by = row.segment_attributes()?;
        if !segment_by.is_empty() {
            segmented.insert(BoardNo(row.no), segment_by);
        }
    }
    let boards = rows.iter().map(importing).collect::<Result<_>>()?;
    job.stage("reading", 0);
    let Rows { good: mut rows, mut bad } = read_rows(arguments, &boards, now_ms)?;
    set_segments(deployment, &mut rows, &segmented).await?;
    for partition in deployment.partitions() {
        partition.settle().await?;
    }
    let known = drop_known(deployment, &mut rows, &mut bad).await?;
    job.stage("checking", rows.len());
    tell_entrants(deployment, &rows).await?;
    let batches = batches(deployment, &rows);
    let refused = simulate(&batches, &rows, now_ms, job).await?;
    bad.extend(
        refused
            .iter()
            .map(|(&index, reason)| BadRow { line: rows[index].line, reason: reason.clone() }),
    );
    bad.sort_by_key(|row| row.line);
    report_bad_rows(arguments, &bad)?;
    job.stage("importing", rows.len());
    let mut imported = Imported { known, bad: bad.len(), ..Imported::default() };
    write_regions(deployment, &rows, &refused).await?;
    for (partition, indices) in &batches {
        let submissions: Vec<Submission> = indices
            .iter()
            .filter(|index| !refused.contains_key(index))
            .map(|&index| rows[index].submission.clone())
            .collect();
        if submissions.is_empty() {
            continue;
        }
        let deadline = tokio::time::Instant::now() + SUBMIT_TIMEOUT;
        let prepared = Prepared::new(submissions, deployment.clock.now_ms());
        let submitted = partition.submit(prepared, None, deadline).await?;
        for verdict in submitted.verdicts {
            match verdict {
                Verdict::Accepted { .. } => imported.accepted += 1,
                Verdict::Duplicate { .. } | Verdict::Taken { .. } => imported.known += 1,
                Verdict::Quarantined { message, .. } => bail!(
                    "a member was banned during the import, and a row is refused now: {message}; import again"
                ),
                Verdict::Rejected(error) => bail!(
                    "another client wrote to this board during the import, and a row is refused now: {error}; import again"
                ),
            }
        }
        job.advance(indices.len());
        partition.settle().await?;
    }
    imported.seconds = began.elapsed().as_secs_f64();
    Ok(imported)
}

/// The slug of a board, and its rules for imported events: they are late by nature, and the limits
/// of fair play are for players, so neither applies.
fn importing(row: &board::Model) -> Result<(String, Board)> {
    let mut board = row.to_ranking()?;
    board.admission.lateness_max_ms = None;
    board.fair_play = FairPlay::default();
    Ok((row.slug.clone(), board))
}

/// Drops rows whose event id is in the history or in an earlier row; the same id with other content
/// makes a bad row. Returns the number of rows dropped.
async fn drop_known(
    deployment: &Deployment,
    rows: &mut Vec<Row>,
    bad: &mut Vec<BadRow>,
) -> Result<usize> {
    let mut known = known_events(deployment, rows).await?;
    let before = rows.len() + bad.len();
    rows.retain(|Row { line, submission, .. }| {
        let id = submission.event_id.as_ref().map(ToString::to_string).unwrap_or_default();
        let metadata = submission.metadata.as_ref().map(ToString::to_string);
        let content = (submission.score, submission.at_ms.unwrap_or_default(), metadata);
        match known.entry((submission.board.no, submission.member.to_string(), id)) {
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(content);
                true
            }
            std::collections::hash_map::Entry::Occupied(first) => {
                if *first.get() != content {
                    bad.push(BadRow { line: *line, reason: reused(&first.key().2) });
                }
                false
            }
        }
    });
    Ok(before - rows.len() - bad.len())
}

/// Tells the partitions which members have joined the boards that one must join: a partition may
/// not know yet, and no process asks SQL again for a row.
async fn tell_entrants(deployment: &Deployment, rows: &[Row]) -> Result<()> {
    let mut members: BTreeMap<BoardNo, (&Board, BTreeSet<&MemberId>)> = BTreeMap::new();
    for Row { submission, .. } in rows.iter().filter(|row| row.submission.board.is_joined) {
        let of_board = members.entry(submission.board.no);
        of_board.or_insert((&submission.board, BTreeSet::new())).1.insert(&submission.member);
    }
    for (board, members) in members.into_values() {
        let members: Vec<MemberId> = members.into_iter().cloned().collect();
        for some in members.chunks(COMMIT_EVENTS_MAX) {
            entrants::ask(deployment, board, some).await?;
        }
    }
    Ok(())
}

/// Indices of rows by partition, in file order, in batches of at most one commit.
fn batches<'a>(deployment: &'a Deployment, rows: &[Row]) -> Vec<(Partition<'a>, Vec<usize>)> {
    let mut by_partition: BTreeMap<PartitionNo, Vec<usize>> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        let partition =
            deployment.store.partitions().of_member(&row.submission.board, &row.submission.member);
        by_partition.entry(partition).or_default().push(index);
    }
    by_partition
        .into_iter()
        .flat_map(|(partition, indices)| {
            indices
                .chunks(COMMIT_EVENTS_MAX)
                .map(|chunk| (deployment.partition(partition), chunk.to_vec()))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Folds the rows onto the present standings without writing. Returns the rows that would be
/// refused, with the reason.
async fn simulate(
    batches: &[(Partition<'_>, Vec<usize>)],
    rows: &[Row],
    now_ms: i64,
    job: &Job,
) -> Result<BTreeMap<usize, String>> {
    let mut refused = BTreeMap::new();
    let mut written: HashMap<(StandingsId, MemberId), RankKey> = HashMap::new();
    for (partition, indices) in batches {
        let submissions = indices.iter().map(|&index| rows[index].submission.clone());
        let batch = Batch::new(submissions.collect(), now_ms);
        let folded = fold_after(*partition, batch, now_ms, &written).await?;
        for StandingsChange { id, entries, .. } in folded.changes {
            written.extend(
                entries.into_iter().filter_map(|(member, key)| Some(((id.clone(), member), key?))),
            );
        }
        for (&index, verdict) in indices.iter().zip(folded.verdicts) {
            match verdict {
                Verdict::Rejected(error) => drop(refused.insert(index, error.to_string())),
                Verdict::Quarantined { message, .. } => drop(refused.insert(index, message)),
                Verdict::Accepted { .. } | Verdict::Duplicate { .. } | Verdict::Taken { .. } => {}
            }
        }
        job.advance(indices.len());
    }
    Ok(refused)
}

/// Folds a batch as if the batches that wrote the keys in `written` were committed.
async fn fold_after(
    partition: Partition<'_>,
    mut batch: Batch,
    now_ms: i64,
    written: &HashMap<(StandingsId, MemberId), RankKey>,
) -> Result<FoldedBatch> {
    loop {
        let mut snapshot = partition.snapshot(batch.wanted()).await?;
        for ((id, members), keys) in batch.wanted().standings.iter().zip(&mut snapshot.keys) {
            for (member, key) in members.iter().zip(keys) {
                if let Some(later) = written.get(&(id.clone(), member.clone())) {
                    *key = Ok(Some(*later));
                }
            }
        }
        // The commit is not written.
        match batch.fold(&snapshot, [0; 32])? {
            FoldOutcome::FoldedBatch(folded) => return Ok(folded),
            FoldOutcome::Again(again) => batch = again,
            FoldOutcome::Roll(boards) => {
                for board in boards {
                    engine::roll::roll_board(partition.deployment, &board, now_ms).await?;
                }
            }
        }
    }
}

/// Fails if there are bad rows, or writes them to the file of `--skip-bad`.
fn report_bad_rows(arguments: &Arguments, bad: &[BadRow]) -> Result<()> {
    if bad.is_empty() {
        return Ok(());
    }
    let word = FileFormat::of_input(&arguments.file).row_word();
    let Some(path) = &arguments.skip_bad else {
        let mut lines: Vec<String> = bad
            .iter()
            .take(PRINTED_MAX)
            .map(|row| format!("  {word} {}: {}", row.line, row.reason))
            .collect();
        if bad.len() > PRINTED_MAX {
            lines.push(format!("  … and {} more", bad.len() - PRINTED_MAX));
        }
        bail!(
            "{} bad rows; nothing was written (--skip-bad FILE puts them aside)\n{}",
            bad.len(),
            lines.join("\n")
        );
    };
    let mut writer = csv::Writer::from_path(path)
        .with_context(|| format!("{} cannot be written", display_path(path)))?;
    writer.write_record([word, "reason"])?;
    for row in bad {
        writer.write_record([row.line.to_string(), row.reason.clone()])?;
    }
    Ok(writer.flush()?)
}
