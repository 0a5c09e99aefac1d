//! A board's history as a lazy frame, up to where SQL is level with the partitions' heads: the
//! archive's files, and the later events in SQL. If there are more events than `AT_ONCE_MAX`,
//! memory holds only the last part.

mod copy;
mod span;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use engine::deployment::Deployment;
use engine::partition::Partition;
use entity::archive::{archive_file, archive_mark};
use entity::history::score_event;
use entity::{Error, board};
use polars::prelude::{
    DataFrame, Expr, IntoLazy, JoinArgs, JoinType, LazyFrame, NamedFrom, Series, UnionArgs, col,
    concat, lit,
};
use ranking::board::Board;
use ranking::commit::Head;
use ranking::id::{MemberId, PartitionNo};
use ranking::shard::{Partitions, shard_of};
use ranking::window::roll::Rolls;
use sea_orm::{DatabaseConnection, DbBackend};
use tempfile::TempDir;
use tokio::task::block_in_place;

use crate::display_path;
use crate::frame::counted::{AT_ONCE_MAX, Counted, in_parts, is_kind};
use crate::frame::events::{self, Events};
use crate::frame::parquet;
use crate::job::Job;
pub(crate) use span::spans;
pub use span::{Pages, Span};

/// Events held in memory; more of them go to a file.
pub const HELD_MAX: usize = 200_000;

/// Attempts to read a history while its board is being archived.
const ATTEMPTS_MAX: usize = 5;

/// The history of a board.
pub struct History {
    /// The events that a fold counts.
    pub counted: Counted,
    /// How far each partition is archived.
    pub marks: BTreeMap<PartitionNo, archive_mark::Model>,
    /// The archive's files up to those marks.
    pub archived: Vec<LazyFrame>,
    /// The directory of the events that are not held in memory.
    _spool: TempDir,
}

/// Waits until SQL is level with the heads of the board's partitions, persisting the rest of their
/// logs, and reads the events up to there.
///
/// # Errors
/// If a file of the archive is missing or altered, or a store does not answer.
pub async fn read(deployment: &Deployment, board: &Board, job: &Job) -> Result<History> {
    read_in(deployment, board, &deployment.partitions_of(board), job).await
}

/// As [`read`], for some of the board's partitions.
pub async fn read_in(
    deployment: &Deployment,
    board: &Board,
    partitions: &[Partition<'_>],
    job: &Job,
) -> Result<History> {
    let heads = heads(deployment, partitions).await?;
    read_to(deployment, board, heads, job).await
}

/// Waits until SQL is level with the heads of some partitions, and returns these.
pub async fn heads(
    deployment: &Deployment,
    partitions: &[Partition<'_>],
) -> Result<BTreeMap<PartitionNo, Head>> {
    let mut heads = BTreeMap::new();
    for &partition in partitions {
        let seq = partition.settle().await?;
        let head = partition.store.log_after(partition.no, seq, 1).await?.head;
        heads.insert(partition.no, head);
    }
    for (&partition, head) in &heads {
        // Commits from here on are past the history that is read.
        deployment.partition(partition).settle_to(head.seq).await?;
    }
    Ok(heads)
}

/// Reads the events of some of a board's partitions, up to commits that SQL has.
pub async fn read_to(
    deployment: &Deployment,
    board: &Board,
    heads: BTreeMap<PartitionNo, Head>,
    job: &Job,
) -> Result<History> {
    let spool = tempfile::Builder::new()
        .prefix("laurel-history-")
        .tempdir()
        .context("a temporary directory cannot be created")?;
    for _ in 0..ATTEMPTS_MAX {
        let marks = marks_of(deployment, board, heads.keys()).await?;
        let (mut parts, mut files) = (vec![], vec![]);
        for (partition, mark) in &marks {
            job.stage("checking the archive", 0);
            let through_seq = heads[partition].seq as i64;
            for file in archived(deployment, board, mark).await? {
                parts.push(match mark.archived_seq > through_seq {
                    // The board was archived past the head since.
                    true => file.clone().filter(col("seq").lt_eq(lit(through_seq))),
                    false => file.clone(),
                });
                files.push(file);
            }
        }
        job.stage("reading history", 0);
        let mut reading = Reading {
            spool: &spool,
            held: Events::default(),
            parts,
            board,
            partitions: deployment.store.partitions(),
            meant: heads.keys().copied().collect(),
        };
        for span in spans(deployment, board, &heads, &marks) {
            reading.read(deployment, &span, job).await?;
        }
        check_layout(&deployment.db, board).await?;
        // Rows are deleted only after a mark has moved past them.
        if marks_of(deployment, board, heads.keys()).await? == marks {
            return Ok(History {
                counted: block_in_place(|| {
                    Counted::of(reading.finish()?, &board.layouts, AT_ONCE_MAX)
                })?,
                marks,
                archived: files,
                _spool: spool,
            });
        }
    }
    bail!("the board keeps being archived; try again later")
}

/// Checks that a board still has the numbers of shards that `board` names.
///
/// # Errors
/// `Overtaken` if the board has moved since.
pub async fn check_layout(db: &DatabaseConnection, board: &Board) -> Result<()> {
    check_layouts(db, [board]).await
}

/// As [`check_layout`], for some boards.
///
/// # Errors
/// As [`check_layout`].
pub async fn check_layouts<'a>(
    db: &DatabaseConnection,
    boards: impl IntoIterator<Item = &'a Board>,
) -> Result<()> {
    let boards: BTreeMap<i64, &Board> =
        boards.into_iter().map(|board| (board.no.0, board)).collect();
    let numbers: Vec<i64> = boards.keys().copied().collect();
    for row in board::of_numbers(db, &numbers).await? {
        let board = boards[&row.no];
        ensure!(
            row.to_ranking()?.layouts.former == board.layouts.former,
            Error::Overtaken(format!("board {} moved to another number of shards", board.no))
        );
    }
    Ok(())
}

/// The archive marks of a board's partitions.
pub async fn marks(
    deployment: &Deployment,
    board: &Board,
) -> Result<BTreeMap<PartitionNo, archive_mark::Model>> {
    let partitions = deployment.store.partitions().of_board(board);
    marks_of(deployment, board, &partitions).await
}

async fn marks_of(
    deployment: &Deployment,
    board: &Board,
    partitions: impl IntoIterator<Item = &PartitionNo>,
) -> Result<BTreeMap<PartitionNo, archive_mark::Model>> {
    let mut marks = BTreeMap::new();
    for &partition in partitions {
        let mark = archive_mark::of(&deployment.db, board.no, partition).await?;
        marks.insert(partition, mark);
    }
    Ok(marks)
}

/// The archive's files of a board's partition, up to a mark. Checks that every byte is as it was
/// written, and that the files have each seq once.
///
/// # Errors
/// If a file is missing or altered; the message names it.
pub async fn archived(
    deployment: &Deployment,
    board: &Board,
    mark: &archive_mark::Model,
) -> Result<Vec<LazyFrame>> {
    let partition = PartitionNo(mark.partition.try_into()?);
    let files = archive_file::of_partition(&deployment.db, board.no, partition).await?;
    let (mut parts, mut through_seq) = (vec![], 0);
    for file in files.iter().filter(|file| file.first_seq <= mark.archived_seq) {
        let path = deployment.archive_dir.join(&file.path);
        let sum = parquet::sum(&path).context(
            "a file of the archive is missing; restore it from a backup (its partition was not changed)",
        )?;
        ensure!(
            (sum.bytes, &sum.sha256) == (file.bytes.unsigned_abs(), &file.sha256),
            "the archive file {} is not as it was written: expected {} bytes with SHA-256 {}; restore it from a backup (its partition was not changed)",
            display_path(&path),
            file.bytes,
            file.sha256
        );
        ensure!(
            file.first_seq == through_seq + 1,
            "the archive of board {} has no file of partition {partition} for seqs {} to {}; restore the table archive_file from a backup (that partition was not changed)",
            board.no,
            through_seq + 1,
            file.first_seq - 1
        );
        through_seq = file.last_seq;
        parts.push(parquet::scan_events(&path)?);
    }
    ensure!(
        through_seq == mark.archived_seq,
        "the archive of board {} ends at seq {through_seq} in partition {partition}, expected {}; restore the table archive_file from a backup (that partition was not changed)",
        board.no,
        mark.archived_seq
    );
    Ok(parts)
}

/// The archived events of a board that equal a row of `keys` in all of its columns, and all
/// archived voids, in no order.
///
/// # Errors
/// As [`archived`].
pub async fn archived_with(
    deployment: &Deployment,
    board: &Board,
    marks: &BTreeMap<PartitionNo, archive_mark::Model>,
    keys: &DataFrame,
) -> Result<Vec<score_event::Model>> {
    let names = keys.get_column_names();
    let on: Vec<Expr> = names.into_iter().map(|name| col(name.clone())).collect();
    let mut rows = vec![];
    for mark in marks.values() {
        for part in archived(deployment, board, mark).await? {
            let is_void = is_kind(score_event::Kind::Void);
            let voids = in_parts(part.clone().filter(is_void.clone()))?;
            let semi = JoinArgs::new(JoinType::Semi);
            let others = part.filter(is_void.not());
            let others = others.join(keys.clone().lazy(), &on, &on, semi);
            rows.extend(events::rows(&voids)?);
            rows.extend(events::rows(&in_parts(others)?)?);
        }
    }
    Ok(rows)
}

/// A frame of text columns.
pub fn keys(columns: Vec<(&str, Vec<String>)>) -> Result<DataFrame> {
    let column = |(name, values): (&str, Vec<String>)| Series::new(name.into(), values).into();
    Ok(DataFrame::new_infer_height(columns.into_iter().map(column).collect())?)
}

/// A history that is being read from SQL.
struct Reading<'a> {
    spool: &'a TempDir,
    held: Events,
    parts: Vec<LazyFrame>,
    board: &'a Board,
    partitions: Partitions,
    /// The partitions whose members' events are read.
    meant: BTreeSet<PartitionNo>,
}

impl Reading<'_> {
    async fn read(&mut self, deployment: &Deployment, span: &Span, job: &Job) -> Result<()> {
        each(deployment, span, |row| {
            job.advance(1);
            self.push(row)
        })
        .await
    }

    fn push(&mut self, mut row: score_event::Model) -> Result<()> {
        // No fold looks at these.
        row.salt = vec![];
        row.metadata = None;
        row.origin = None;
        let (board, member) = (self.board, MemberId::new(&row.member)?);
        // Before a move, the partition had events of other members too.
        let is_meant = || self.meant.contains(&self.partitions.of_member(board, &member));
        if board.has_moved() && !is_meant() {
            return Ok(());
        }
        let shard = shard_of(&member, board.rules.shards);
        self.held.push(row, shard, None);
        if self.held.len() < HELD_MAX {
            return Ok(());
        }
        let mut frame = std::mem::take(&mut self.held).into_frame()?;
        let path = self.spool.path().join(format!("{}.parquet", self.parts.len()));
        parquet::write(&std::fs::File::create(&path)?, &mut frame)
            .with_context(|| format!("{} cannot be written", display_path(&path)))?;
        self.parts.push(parquet::scan_events(&path)?);
        Ok(())
    }

    fn finish(mut self) -> Result<LazyFrame> {
        self.parts.push(self.held.into_frame()?.lazy());
        Ok(concat(self.parts, UnionArgs::default())?)
    }
}

/// Hands the events of a span to `take`, in order. They may lack what no fold looks at.
///
/// # Errors
/// If SQL does not answer, and those of `take`.
pub(crate) async fn each(
    deployment: &Deployment,
    span: &Span,
    mut take: impl FnMut(score_event::Model) -> Result<()>,
) -> Result<()> {
    if deployment.db.get_database_backend() == DbBackend::Postgres {
        return copy::copy(&deployment.db, span, take).await;
    }
    let mut pages = Pages::new(span);
    while let Some(rows) = pages.next(deployment).await? {
        rows.into_iter().try_for_each(&mut take)?;
    }
    Ok(())
}

/// The latest instant that a rolling window has reached, or `now_ms` if that is later.
pub fn through_ms(rolls: &BTreeMap<PartitionNo, Rolls>, now_ms: i64) -> i64 {
    let marks = rolls.values().flat_map(|rolls| rolls.marks.values());
    marks.map(|mark| mark.begun_ms).fold(now_ms, i64::max)
}
