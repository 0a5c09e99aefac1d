//! The history of a board as a frame that is read when it is asked for, up to where SQL is level with the partitions' heads: the archive's files, and
//! what comes after them in SQL. Nothing of it is held in memory but its last part.

mod copy;

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use entity::deployment::Deployment;
use entity::recovery::settle;
use entity::{archive_file, archive_mark, score_event};
use polars::prelude::{
    DataFrame, Expr, IntoLazy, JoinArgs, JoinType, LazyFrame, NamedFrom, Series, UnionArgs, col,
    concat, lit,
};
use ranking::board::Board;
use ranking::commit::Head;
use ranking::id::{MemberId, Partition};
use ranking::roll::Rolls;
use ranking::shard::shard_of;
use sea_orm::{ColumnTrait, DbBackend, QueryFilter};
use tempfile::TempDir;

use crate::events::{self, AT_ONCE_MAX, Counted, Events};
use crate::job::Job;
use crate::{parquet, shown};

/// How many rows are read from SQL at once.
pub const ROWS_MAX: u64 = 20_000;

/// How many events are held in memory; more of them go to a file.
pub const HELD_MAX: usize = 200_000;

/// How often a history is read again because its board was archived meanwhile.
const ATTEMPTS_MAX: usize = 5;

/// The history of a board, and the heads of the partitions that it lies in.
pub struct History {
    /// What of it is folded.
    pub counted: Counted,
    /// The heads.
    pub heads: BTreeMap<Partition, Head>,
    /// How far the partitions are archived.
    pub marks: BTreeMap<Partition, archive_mark::Model>,
    /// Where what is not held in memory lies, as long as this is there.
    _spool: TempDir,
}

/// Waits until SQL is level with the heads of the partitions that the board's history lies in, persisting what is left in their logs, and reads the events up to there.
///
/// # Errors
/// What the stores say; where a file of the archive is not there, or not as it was.
pub async fn read(deployment: &Deployment, board: &Board, job: &Job) -> Result<History> {
    let mut heads = BTreeMap::new();
    for partition in deployment.store.partitions().of_history(board) {
        let seq = settle(deployment, partition).await?;
        let head = deployment.store.log_after(partition, seq, 1).await?.head;
        heads.insert(partition, head);
    }
    for (&partition, head) in &heads {
        // Whatever is committed from here on is past the history that is read.
        settle_to(deployment, partition, head).await?;
    }
    let spool = tempfile::Builder::new()
        .prefix("laurel-history-")
        .tempdir()
        .context("there is no room for temporary files")?;
    for _ in 0..ATTEMPTS_MAX {
        let marks = marks(deployment, board).await?;
        let mut parts = vec![];
        for mark in marks.values() {
            job.stage("checking the archive", 0);
            parts.extend(archived(deployment, board, mark).await?);
        }
        job.stage("reading history", 0);
        let mut reading = Reading {
            spool: &spool,
            held: Events::default(),
            parts,
        };
        for (&partition, head) in &heads {
            let after_seq = marks[&partition].archived_seq;
            let span = (after_seq, head.seq as i64);
            reading
                .read(deployment, board, partition, span, job)
                .await?;
        }
        // Rows go only after a mark has moved past them.
        if self::marks(deployment, board).await? == marks {
            return Ok(History {
                counted: Counted::of(reading.finish()?, &board.layouts, AT_ONCE_MAX)?,
                heads,
                marks,
                _spool: spool,
            });
        }
    }
    bail!("the board is archived all the while; try again later")
}

/// How far the partitions of a board are archived.
///
/// # Errors
/// What SQL says.
pub async fn marks(
    deployment: &Deployment,
    board: &Board,
) -> Result<BTreeMap<Partition, archive_mark::Model>> {
    let mut marks = BTreeMap::new();
    for partition in deployment.store.partitions().of_history(board) {
        let mark = archive_mark::of(&deployment.db, board.no, partition).await?;
        marks.insert(partition, mark);
    }
    Ok(marks)
}

/// The archive's files of a partition's history of a board, up to a mark. They are checked: every byte of them is as it was, and no seq is
/// missing between them or twice there.
///
/// # Errors
/// Names the file that is not there, or not as it was.
pub async fn archived(
    deployment: &Deployment,
    board: &Board,
    mark: &archive_mark::Model,
) -> Result<Vec<LazyFrame>> {
    let partition = Partition(mark.partition.try_into()?);
    let files = archive_file::of_partition(&deployment.db, board.no, partition).await?;
    let (mut parts, mut through_seq) = (vec![], 0);
    for file in files
        .iter()
        .filter(|file| file.first_seq <= mark.archived_seq)
    {
        let path = deployment.archive_dir.join(&file.path);
        let sum = parquet::sum(&path).context(
            "a file of the archive is missing; put it back from a backup. Nothing was changed",
        )?;
        ensure!(
            (sum.bytes, &sum.sha256) == (file.bytes.unsigned_abs(), &file.sha256),
            "the archive file {} is not as it was written: {} bytes with SHA-256 {} are accepted; put it back from a backup. Nothing was changed",
            shown(&path),
            file.bytes,
            file.sha256
        );
        ensure!(
            file.first_seq == through_seq + 1,
            "the archive of board {} has nothing of partition {partition} from seq {} to {}; put the rows of archive_file back from a backup. Nothing was changed",
            board.no,
            through_seq + 1,
            file.first_seq - 1
        );
        through_seq = file.last_seq;
        parts.push(parquet::scan(&path)?);
    }
    ensure!(
        through_seq == mark.archived_seq,
        "the archive of board {} ends at seq {through_seq} in partition {partition}, and is to reach to {}; put the rows of archive_file back from a backup. Nothing was changed",
        board.no,
        mark.archived_seq
    );
    Ok(parts)
}

/// The archived events of a board that have the same as a row of `keys` in all of its columns, and all archived voids, in no order.
///
/// # Errors
/// As [`archived`].
pub async fn archived_with(
    deployment: &Deployment,
    board: &Board,
    marks: &BTreeMap<Partition, archive_mark::Model>,
    keys: &DataFrame,
) -> Result<Vec<score_event::Model>> {
    let names = keys.get_column_names();
    let on: Vec<Expr> = names.into_iter().map(|name| col(name.clone())).collect();
    let mut rows = vec![];
    for mark in marks.values() {
        for part in archived(deployment, board, mark).await? {
            let is_void = col("kind").eq(lit("VOID"));
            let voids = events::in_parts(part.clone().filter(is_void.clone()))?;
            let semi = JoinArgs::new(JoinType::Semi);
            let others = part.filter(is_void.not());
            let others = others.join(keys.clone().lazy(), &on, &on, semi);
            rows.extend(events::rows(&voids)?);
            rows.extend(events::rows(&events::in_parts(others)?)?);
        }
    }
    Ok(rows)
}

/// A frame of texts.
///
/// # Errors
/// What polars says.
pub fn keys(columns: Vec<(&str, Vec<String>)>) -> Result<DataFrame> {
    let column = |(name, values): (&str, Vec<String>)| Series::new(name.into(), values).into();
    Ok(DataFrame::new_infer_height(
        columns.into_iter().map(column).collect(),
    )?)
}

/// A history, being read from SQL.
struct Reading<'a> {
    spool: &'a TempDir,
    held: Events,
    parts: Vec<LazyFrame>,
}

impl Reading<'_> {
    /// Reads the events after one seq, up to another.
    async fn read(
        &mut self,
        deployment: &Deployment,
        board: &Board,
        partition: Partition,
        (after_seq, through_seq): (i64, i64),
        job: &Job,
    ) -> Result<()> {
        if deployment.db.get_database_backend() == DbBackend::Postgres {
            let span = (after_seq, through_seq);
            return copy::copy(&deployment.db, board, partition, span, |row| {
                job.advance(1);
                self.push(board, row)
            })
            .await;
        }
        let mut pages = Pages::new(board, partition, after_seq, through_seq);
        while let Some(rows) = pages.next(deployment).await? {
            job.advance(rows.len());
            for row in rows {
                self.push(board, row)?;
            }
        }
        Ok(())
    }

    fn push(&mut self, board: &Board, row: score_event::Model) -> Result<()> {
        let shard = shard_of(&MemberId::new(&row.member)?, board.rules.shards);
        self.held.push(row, shard, None);
        if self.held.len() < HELD_MAX {
            return Ok(());
        }
        let mut frame = std::mem::take(&mut self.held).into_frame()?;
        let path = self
            .spool
            .path()
            .join(format!("{}.parquet", self.parts.len()));
        parquet::write(&std::fs::File::create(&path)?, &mut frame)
            .with_context(|| format!("{} cannot be written", shown(&path)))?;
        self.parts.push(parquet::scan(&path)?);
        Ok(())
    }

    fn finish(mut self) -> Result<LazyFrame> {
        self.parts.push(self.held.into_frame()?.lazy());
        Ok(concat(self.parts, UnionArgs::default())?)
    }
}

/// A partition's history of a board, page by page.
pub struct Pages<'a> {
    board: &'a Board,
    partition: Partition,
    last: (i64, i32),
    through_seq: i64,
}

impl<'a> Pages<'a> {
    /// The events after one seq, up to another.
    pub fn new(board: &'a Board, partition: Partition, after_seq: i64, through_seq: i64) -> Self {
        Self {
            board,
            partition,
            last: (after_seq, i32::MAX),
            through_seq,
        }
    }

    /// The next ones; `None` at the end.
    ///
    /// # Errors
    /// What SQL says.
    pub async fn next(
        &mut self,
        deployment: &Deployment,
    ) -> Result<Option<Vec<score_event::Model>>> {
        let rows = score_event::page_after(self.partition, self.last, ROWS_MAX)
            .filter(score_event::Column::BoardNo.eq(self.board.no.0))
            .filter(score_event::Column::Seq.lte(self.through_seq))
            .all(&deployment.db)
            .await
            .context("the history cannot be read")?;
        Ok(rows
            .last()
            .map(|row| (row.seq, row.event_index))
            .map(|last| {
                self.last = last;
                rows
            }))
    }
}

/// How far a board's rolling windows have got in each of its partitions.
///
/// # Errors
/// What Redis says.
pub async fn rolls(deployment: &Deployment, board: &Board) -> Result<BTreeMap<Partition, Rolls>> {
    let now_ms = deployment.clock.now_ms();
    let mut rolls = BTreeMap::new();
    for partition in deployment.store.partitions().of_board(board) {
        let (_, marks) = deployment.store.rolls(partition, board.no).await?;
        rolls.insert(partition, Rolls { marks, now_ms });
    }
    Ok(rolls)
}

/// The latest instant that any of them has got to.
pub fn through_ms(rolls: &BTreeMap<Partition, Rolls>, now_ms: i64) -> i64 {
    let marks = rolls.values().flat_map(|rolls| rolls.marks.values());
    marks.map(|mark| mark.begun_ms).fold(now_ms, i64::max)
}

/// Waits until SQL has a partition's history up to a head.
///
/// # Errors
/// What the stores say; where Redis has gone back behind that head.
pub async fn settle_to(deployment: &Deployment, partition: Partition, head: &Head) -> Result<()> {
    let seq = settle(deployment, partition).await?;
    ensure!(
        seq >= head.seq,
        "Redis lost commits of partition {partition} meanwhile, and was recovered; try again"
    );
    Ok(())
}
