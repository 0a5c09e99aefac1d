//! Archive: moves old events from SQL to Parquet files and verifies the files before it deletes
//! rows.
//!
//! A file has events of one board, partition and month. SQL names it before the job writes it. The
//! job writes it beside its path, syncs it, renames it, reads it back and compares.
//!
//! One SQL transaction (the decision) then makes all files of a board part of the history and its
//! rows no part of it. Rows are deleted afterwards. So the history has every event once, wherever a
//! run ends: the next run removes the files of an undecided archive, and deletes the rows of a
//! decided one.

mod adding_up;
pub(crate) mod erasing;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use engine::deployment::Deployment;
use engine::deployment::checksum::Sum;
use engine::history::archive::{self, Plan, Span};
use entity::archive::archive_file;
use entity::board;
use entity::history::{commit, score_event};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use ranking::board::Board;
use ranking::id::MemberId;
use ranking::shard::shard_of;
use sea_orm::{ActiveValue::Set, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter};
use serde::Serialize;
use tokio::task::block_in_place;

use crate::chain::files;
use crate::diff::files::wrong;
use crate::frame::events::{self, Events};
use crate::frame::history::{self, HELD_MAX, Pages};
use crate::frame::parquet;
use crate::job::Job;
use crate::{display_path, find_boards};
use adding_up::SpanTotals;
use engine::failpoint;

/// Attempts to archive a board that changes during the work.
const ATTEMPTS_MAX: usize = 3;

/// Options of `archive`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Archive events that were earned and accepted before this: a date (in UTC), or an instant as
    /// in RFC 3339.
    #[arg(long, value_parser = parse_instant)]
    before: Timestamp,
    /// The board's slug; every board by default.
    #[arg(long)]
    pub(crate) board: Option<String>,
}

/// The outcome of an archive.
#[derive(Debug, Default, Serialize)]
pub struct ArchiveOutcome {
    events: usize,
    files: usize,
    bytes: u64,
    boards: usize,
    commits: u64,
    skipped: Vec<Skipped>,
    seconds: f64,
}

/// A board of which nothing was archived.
#[derive(Debug, Serialize)]
struct Skipped {
    board: String,
    reason: String,
}

impl fmt::Display for ArchiveOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Skipped { board, reason } in &self.skipped {
            writeln!(f, "{board}: nothing archived: {reason}")?;
        }
        let Self { events, files, bytes, boards, commits, seconds, .. } = self;
        write!(
            f,
            "archived {events} events of {boards} boards in {files} files ({bytes} bytes), and {commits} commits, in {seconds:.1} s"
        )
    }
}

/// Archives old events, after it has finished what an earlier run left.
///
/// # Errors
/// If another run holds the lock, the directory cannot be written, or a store does not answer. Run
/// it again.
pub async fn archive(deployment: &Deployment, arguments: &Arguments) -> Result<ArchiveOutcome> {
    let job = Job::begin(deployment, entity::job::ARCHIVE, None).await?;
    let outcome = run(deployment, arguments, &job).await;
    job.end(outcome).await
}

async fn run(deployment: &Deployment, arguments: &Arguments, job: &Job) -> Result<ArchiveOutcome> {
    let began = Instant::now();
    let _lock = lock(deployment)?;
    finish_earlier(deployment, job).await?;
    // No archive is decided while a member is being erased.
    erasing::finish(deployment, job).await?;
    let rows = find_boards(deployment, arguments.board.as_deref()).await?;
    let mut archived = ArchiveOutcome::default();
    let boards = rows.len();
    for (index, row) in rows.into_iter().enumerate() {
        job.part(index, boards);
        let mut attempts = 0;
        while !try_archive(deployment, row.no, arguments, &mut archived, job).await? {
            finish_earlier(deployment, job).await?;
            erasing::finish(deployment, job).await?;
            attempts += 1;
            ensure!(
                attempts < ATTEMPTS_MAX,
                "board {} keeps changing; nothing of it was archived, try again later",
                row.slug
            );
        }
    }
    archive::drop_superseded(deployment).await?;
    copy_missing(deployment).await?;
    job.stage("moving commits", 0);
    archived.commits = files::prune(deployment, arguments.before.as_millisecond()).await?;
    archived.seconds = began.elapsed().as_secs_f64();
    Ok(archived)
}

/// Locks the archive's directory against other runs for as long as the file is open.
fn lock(deployment: &Deployment) -> Result<File> {
    let directory = &deployment.archive_dir;
    let path = directory.join("lock");
    let open = || -> Result<File> {
        fs::create_dir_all(directory)?;
        Ok(File::options().create(true).truncate(false).write(true).open(&path)?)
    };
    let file = open().with_context(|| format!("{} cannot be opened", display_path(&path)))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            bail!("another archive is running in {}; wait until it ends", display_path(directory))
        }
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("{} cannot be locked", display_path(&path)))
        }
    }
}

/// Finishes archives that ended after their decision, and clears away those that ended before it.
async fn finish_earlier(deployment: &Deployment, job: &Job) -> Result<()> {
    for file in archive::of_deleted_boards(deployment).await? {
        let mut gone = BTreeMap::new();
        // A file that is lost leaves its events uncounted, which the diff names.
        if let Ok(events) = events_of(&deployment.archive_dir.join(&file.path)) {
            for event in events {
                *gone.entry((event.partition, event.seq)).or_default() += 1;
            }
        }
        files::abandon(deployment, &file, &gone).await?;
    }
    for file in archive::abandoned(deployment).await? {
        parquet::remove_from_archive(deployment, &file.path)?;
    }
    archive::forget(deployment).await?;
    files::clear_away(deployment).await?;
    drop_rows(deployment, job).await?;
    Ok(archive::drop_superseded(deployment).await?)
}

/// Copies the files of the archive that have no copy: the directory of copies may be new, or its
/// disk may have been away.
async fn copy_missing(deployment: &Deployment) -> Result<()> {
    // A disk that is not mounted has no directory.
    let copies = deployment.archive_copy_dir.as_ref().filter(|copies| copies.is_dir());
    let Some(copies) = copies else { return Ok(()) };
    for partition in deployment.partitions() {
        for file in archive_file::all_of_partition(&deployment.db, partition.no).await? {
            let (whole, copy) = (deployment.archive_dir.join(&file.path), copies.join(&file.path));
            if copy.exists() || block_in_place(|| wrong(&whole, &file)).is_some() {
                continue;
            }
            let meant = Sum { bytes: file.bytes.unsigned_abs(), sha256: file.sha256 };
            block_in_place(|| parquet::copy_durably(&whole, &copy, &meant))?;
        }
    }
    Ok(())
}

/// The events of a file.
fn events_of(path: &Path) -> Result<Vec<score_event::Model>> {
    events::rows(&parquet::read(path)?)
}

async fn drop_rows(deployment: &Deployment, job: &Job) -> Result<()> {
    for file in archive::undropped(deployment).await? {
        job.stage("deleting rows", file.events.unsigned_abs() as usize);
        let each = |rows: u64| {
            job.advance(rows as usize);
            failpoint::hit("rows-dropped");
        };
        archive::drop_events(deployment, &file, each).await?;
        failpoint::hit("file-dropped");
    }
    Ok(())
}

/// Archives what can be archived of a board; false if the board changed before the decision.
async fn try_archive(
    deployment: &Deployment,
    no: i64,
    arguments: &Arguments,
    archived: &mut ArchiveOutcome,
    job: &Job,
) -> Result<bool> {
    let living = || board::living().filter(board::Column::No.eq(no));
    let Some(row) = living().one(&deployment.db).await? else {
        return Ok(true);
    };
    // Past periods are sealed first: events of a period that is not sealed stay in SQL.
    engine::seal::seal_boards(deployment, vec![row], deployment.clock.now_ms()).await?;
    let Some(row) = living().one(&deployment.db).await? else {
        return Ok(true);
    };
    match archive::plan(deployment, &row, arguments.before.as_millisecond()).await? {
        Ok(plan) => archive_planned(deployment, &plan, archived, job).await,
        Err(reason) => {
            archived.skipped.push(Skipped { board: row.slug, reason });
            Ok(true)
        }
    }
}

async fn archive_planned(
    deployment: &Deployment,
    plan: &Plan,
    archived: &mut ArchiveOutcome,
    job: &Job,
) -> Result<bool> {
    if !archive::close(deployment, plan).await? {
        return Ok(false);
    }
    failpoint::hit("closed");
    let board = plan.row.to_ranking()?;
    let mut done = ArchiveOutcome::default();
    for span in &plan.spans {
        write_span(deployment, &board, span, &mut done, job).await?;
    }
    failpoint::hit("staged");
    if !archive::decide(deployment, plan).await? {
        return Ok(false);
    }
    failpoint::hit("decided");
    drop_rows(deployment, job).await?;
    archived.boards += 1;
    archived.events += done.events;
    archived.files += done.files;
    archived.bytes += done.bytes;
    Ok(true)
}

/// Writes a span's events to files, and stages their totals.
async fn write_span(
    deployment: &Deployment,
    board: &Board,
    span: &Span,
    done: &mut ArchiveOutcome,
    job: &Job,
) -> Result<()> {
    job.stage("archiving", 0);
    let mut adding_up = SpanTotals::begin(deployment, board, span).await?;
    let mut writing = Writing {
        deployment,
        board,
        span,
        events: Events::default(),
        month: String::new(),
        through_seq: span.after_seq,
        done,
    };
    let seqs = (span.after_seq, span.through_seq);
    let of_board = history::Span::new(board, span.partition, seqs);
    let mut pages = Pages::new(&of_board);
    while let Some(rows) = pages.next(deployment).await? {
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
            break;
        };
        let (db, partition) = (&deployment.db, span.partition);
        let times = commit::times(db, partition, first.seq, last.seq).await?;
        adding_up.take(deployment, &rows).await?;
        job.advance(rows.len());
        for row in rows {
            let times = times
                .get(&row.seq)
                .with_context(|| format!("commit {} of partition {partition} has no row; restore the table commit from a backup", row.seq))?;
            writing.push(row, times.accepted_at_ms).await?;
        }
    }
    writing.flush().await?;
    adding_up.stage(deployment).await
}

/// Writes the events of a span to files.
struct Writing<'a> {
    deployment: &'a Deployment,
    board: &'a Board,
    span: &'a Span,
    events: Events,
    month: String,
    /// The last seq that a file has.
    through_seq: i64,
    done: &'a mut ArchiveOutcome,
}

impl Writing<'_> {
    /// Adds an event. A file ends with its month or once it has `HELD_MAX` events, but never within
    /// a commit.
    async fn push(&mut self, row: score_event::Model, accepted_at_ms: i64) -> Result<()> {
        let is_next_commit = self.events.last_seq().is_some_and(|seq| seq != row.seq);
        let month = Timestamp::from_millisecond(accepted_at_ms)?.strftime("%Y-%m").to_string();
        if is_next_commit && (month != self.month || self.events.len() >= HELD_MAX) {
            self.flush().await?;
        }
        if self.events.len() == 0 {
            self.month = month;
        }
        let shard = shard_of(&MemberId::new(&row.member)?, self.board.rules.shards);
        self.events.push(row, shard, Some(accepted_at_ms));
        Ok(())
    }

    async fn flush(&mut self) -> Result<()> {
        let Some(last_seq) = self.events.last_seq() else {
            return Ok(());
        };
        let (partition, no) = (self.span.partition, self.board.no);
        let first_seq = self.through_seq + 1;
        let path =
            format!("board-{no}/{}/partition-{partition}-from-{first_seq}.parquet", self.month);
        let row = archive_file::Model {
            path: path.clone(),
            board_no: no.0,
            partition: partition.into(),
            month: self.month.clone(),
            first_seq,
            last_seq,
            events: 0,
            bytes: 0,
            sha256: String::new(),
            state: archive_file::State::Writing,
            created_at_ms: self.deployment.clock.now_ms(),
        };
        // SQL names the file before it exists, so that the next run knows what to remove after a
        // crash.
        archive_file::Entity::insert(row.into_active_model())
            .exec_without_returning(&self.deployment.db)
            .await
            .context("another archive is writing this board; wait until it ends")?;
        let mut frame = std::mem::take(&mut self.events).into_frame()?;
        let sum = parquet::write_to_archive(self.deployment, &path, &mut frame)?;
        let events = frame.height();
        let written = archive_file::ActiveModel {
            path: Set(path),
            events: Set(events as i64),
            bytes: Set(sum.bytes as i64),
            sha256: Set(sum.sha256),
            ..Default::default()
        };
        archive_file::Entity::update(written).exec_without_returning(&self.deployment.db).await?;
        failpoint::hit("file-named");
        self.through_seq = last_seq;
        self.done.events += events;
        self.done.files += 1;
        self.done.bytes += sum.bytes;
        Ok(())
    }
}

fn parse_instant(text: &str) -> Result<Timestamp, String> {
    let date = || {
        let date: Date = text.parse().ok()?;
        Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
    };
    text.parse().ok().or_else(date).ok_or_else(|| {
        "expected a date such as 2026-01-01 or an instant such as 2026-01-01T00:00:00Z".to_owned()
    })
}
