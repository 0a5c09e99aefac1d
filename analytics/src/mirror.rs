//! The lake: copies of all events as Parquet files, in a directory or on an object store, partition
//! by partition. The events stay in SQL or in the archive.
//!
//! A file has events of one board and partition. SQL names it before it exists. The job puts it,
//! reads it back and compares. One SQL transaction then makes it part of the lake, so the lake has
//! each event once, wherever a run ends.

mod check;
pub(crate) mod erasing;
mod file;
mod place;

use std::fmt;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use engine::deployment::Deployment;
use engine::failpoint;
use engine::history::mirror::{self, Decided, Reach};
use entity::archive::archive_file;
use entity::history::commit;
use entity::member::erasure;
use entity::mirror::{mirror_file, mirror_mark, mirror_place};
use polars::prelude::{IntoLazy, col, lit};
use ranking::board::Board;
use ranking::id::{MemberId, PartitionNo};
use ranking::shard::shard_of;
use serde::Serialize;
use tokio::task::block_in_place;

use check::check;
use file::Content;
use place::Place;

use crate::diff::files::wrong;
use crate::frame::events::Events;
use crate::frame::history::{HELD_MAX, Pages, Span};
use crate::frame::parquet;
use crate::job::Job;
use crate::{DIFFERENCES, display_path, find_boards, print_outcome};

/// Attempts to mirror a partition of a board that is archived during the work.
const ATTEMPTS_MAX: usize = 3;

/// Options of `mirror`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The place of the lake: file:///directory, s3://bucket/path, gs://bucket/path or
    /// az://container/path. By default that of LAUREL_MIRROR.
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    /// Writes nothing: reads every file back, and compares it with SQL. Exit status 3 if they
    /// differ.
    #[arg(long, conflicts_with = "restart")]
    pub(crate) check: bool,
    /// Removes all files of this deployment from the place, and mirrors the history from its
    /// beginning. Files at a former place stay there.
    #[arg(long)]
    restart: bool,
}

/// The outcome of a mirror.
#[derive(Debug, Default, Serialize)]
pub struct Mirrored {
    events: u64,
    files: usize,
    bytes: u64,
    /// The files that were removed: of deleted boards, or of a run that ended early.
    removed: usize,
    /// Events that SQL had got meanwhile, or that wait for something.
    lag: u64,
    /// Why it ended early.
    waits: Option<String>,
    seconds: f64,
}

impl fmt::Display for Mirrored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { events, files, bytes, removed, lag, waits, seconds } = self;
        if let Some(why) = waits {
            writeln!(f, "ended early: {why}")?;
        }
        write!(
            f,
            "mirrored {events} events in {files} files ({bytes} bytes), and removed {removed} files, in {seconds:.1} s; not yet mirrored: {lag} events"
        )
    }
}

/// Mirrors the events that the lake lacks, after it has finished what an earlier run left; or
/// compares the lake with SQL.
///
/// # Errors
/// If another run is under way, the place does not answer, or a store does not. Run it again.
pub async fn run(deployment: &Deployment, arguments: &Arguments, json: bool) -> Result<ExitCode> {
    if arguments.check {
        let checked = check(deployment, arguments).await?;
        print_outcome(json, &checked)?;
        return Ok(if checked.is_clean() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(DIFFERENCES)
        });
    }
    let job = Job::begin(deployment, entity::job::MIRROR, None).await?;
    let outcome = mirror(deployment, arguments, &job).await;
    print_outcome(json, &job.end(outcome).await?)?;
    Ok(ExitCode::SUCCESS)
}

async fn mirror(deployment: &Deployment, arguments: &Arguments, job: &Job) -> Result<Mirrored> {
    let began = Instant::now();
    let mut mirrored = Mirrored::default();
    let place = begin(deployment, arguments, &mut mirrored).await?;
    mirrored.removed += tidy(deployment, &place).await?;
    erasing::clear_all(deployment, &place, job).await?;
    let boards = find_boards(deployment, None).await?;
    let count = boards.len();
    'boards: for (index, row) in boards.into_iter().enumerate() {
        job.part(index, count);
        let board = row.to_ranking()?;
        for partition in partitions_of(deployment, &board) {
            if erasure::is_under_way(&deployment.db).await? {
                mirrored.waits = Some("a member is being erased; run this again".to_owned());
                break 'boards;
            }
            let of = Mirroring { deployment, place: &place, board: &board, partition, job };
            of.mirror(&mut mirrored).await?;
        }
    }
    // Files of a board that was deleted, or that an erasure overtook.
    mirrored.removed += tidy(deployment, &place).await?;
    mirrored.lag = lag(deployment).await?;
    mirrored.seconds = began.elapsed().as_secs_f64();
    Ok(mirrored)
}

/// The partitions that have events of a board. One that moved has some in others than now.
fn partitions_of(deployment: &Deployment, board: &Board) -> Vec<PartitionNo> {
    match board.has_moved() {
        true => deployment.partitions().map(|partition| partition.no).collect(),
        false => deployment.store.partitions().of_board(board).into_iter().collect(),
    }
}

/// The number of events that are not in the lake yet.
async fn lag(deployment: &Deployment) -> Result<u64> {
    let mut lag = 0;
    for row in find_boards(deployment, None).await? {
        let board = row.to_ranking()?;
        for partition in partitions_of(deployment, &board) {
            let after_seq = mirror_mark::mirrored_seq(&deployment.db, board.no, partition).await?;
            let seqs = (after_seq, i64::MAX);
            lag += mirror::count(&deployment.db, board.no, partition, seqs).await?;
        }
    }
    Ok(lag)
}

/// The URL that the arguments or the settings name.
fn url_of<'a>(deployment: &'a Deployment, arguments: &'a Arguments) -> Option<&'a str> {
    arguments.to.as_deref().or(deployment.mirror.mirror.as_deref())
}

/// The place of the lake, which begins here if there is none.
async fn begin(
    deployment: &Deployment,
    arguments: &Arguments,
    mirrored: &mut Mirrored,
) -> Result<Place> {
    let url = url_of(deployment, arguments)
        .context("no lake: expected its place in LAUREL_MIRROR or by --to")?;
    let place = Place::new(url, deployment.mirror.timeout())?;
    let known = mirror_place::find(&deployment.db).await?;
    match &known {
        Some(_) if !arguments.restart => check_place(deployment, &place).await?,
        _ => place.make(&deployment.identity)?,
    }
    let has_files = place.has_files(&deployment.identity).await?;
    if arguments.restart {
        mirrored.removed += restart(deployment, &place).await?;
    }
    ensure!(
        known.is_some() || !has_files || arguments.restart,
        "{} has files of this deployment that SQL does not name, as after a restored backup: expected an empty place, or --restart, which removes them",
        place.url
    );
    mirror_place::begin(&deployment.db, &place.url, deployment.clock.now_ms()).await?;
    Ok(place)
}

/// Checks that a place is that of the lake.
async fn check_place(deployment: &Deployment, place: &Place) -> Result<()> {
    let known = mirror_place::find(&deployment.db).await?;
    let known = known.with_context(|| format!("nothing was mirrored to {} yet", place.url))?;
    ensure!(
        known.url == place.url,
        "the lake is in {}, not in {}: expected that place, or --restart, which begins at another one and leaves the files of the former",
        known.url,
        place.url
    );
    Ok(())
}

/// Removes all files of this deployment from a place, and forgets the lake.
async fn restart(deployment: &Deployment, place: &Place) -> Result<usize> {
    let paths = place.list(&deployment.identity).await?;
    for path in &paths {
        place.remove(path).await?;
    }
    failpoint::hit("mirror-cleared");
    mirror::forget_all(deployment).await?;
    Ok(paths.len())
}

/// Removes the files that are not part of the lake. No other run is under way, unless it was taken
/// for dead.
async fn tidy(deployment: &Deployment, place: &Place) -> Result<usize> {
    let mut removed = 0;
    for file in mirror::due(&deployment.db).await? {
        if !mirror::take(&deployment.db, &file).await? {
            continue;
        }
        failpoint::hit("mirror-taken");
        place.remove(&file.path).await?;
        failpoint::hit("mirror-removed");
        mirror::forget(&deployment.db, &file).await?;
        removed += 1;
    }
    mirror::forget_reading(&deployment.db).await?;
    Ok(removed)
}

/// The work on a board's partition.
struct Mirroring<'a> {
    deployment: &'a Deployment,
    place: &'a Place,
    board: &'a Board,
    partition: PartitionNo,
    job: &'a Job,
}

impl Mirroring<'_> {
    /// Mirrors the events that the lake lacks.
    async fn mirror(&self, mirrored: &mut Mirrored) -> Result<()> {
        for _ in 0..ATTEMPTS_MAX {
            let (deployment, board) = (self.deployment, self.board.no);
            let Some(reach) = mirror::begin(deployment, board, self.partition).await? else {
                return Ok(());
            };
            failpoint::hit("mirror-begun");
            match self.reach(&reach, mirrored).await? {
                Decided::Mirrored => return Ok(()),
                Decided::Erasing | Decided::Deleted => {
                    mirrored.removed += tidy(deployment, self.place).await?;
                    return Ok(());
                }
                Decided::Overtaken => mirrored.removed += tidy(deployment, self.place).await?,
            }
        }
        bail!("board {} keeps being archived; try again later", self.board.no)
    }

    async fn reach(&self, reach: &Reach, mirrored: &mut Mirrored) -> Result<Decided> {
        self.job.stage("mirroring", 0);
        let mut after_seq = reach.after_seq;
        if reach.archived_seq > after_seq {
            match self.archived(reach, mirrored).await? {
                (Decided::Mirrored, last_seq) => after_seq = last_seq,
                (other, _) => return Ok(other),
            }
        }
        let seqs = (after_seq, reach.through_seq);
        let of_board = Span::new(self.board, self.partition, seqs);
        let (mut pages, mut held) = (Pages::new(&of_board), Events::default());
        while let Some(rows) = pages.next(self.deployment).await? {
            let (Some(first), Some(last)) = (rows.first(), rows.last()) else { break };
            let (db, no) = (&self.deployment.db, self.partition);
            let times = commit::times(db, no, first.seq, last.seq).await?;
            self.job.advance(rows.len());
            for row in rows {
                // Never within a commit: the mark is a seq.
                let is_next = held.last_seq().is_some_and(|seq| seq != row.seq);
                if is_next && held.len() >= failpoint::batch_size(HELD_MAX) {
                    let full = std::mem::take(&mut held);
                    match self.write(reach, &mut after_seq, full, mirrored).await? {
                        Decided::Mirrored => {}
                        other => return Ok(other),
                    }
                }
                // The commit of an event that was archived or erased since may be gone.
                let Some(times) = times.get(&row.seq) else { return Ok(Decided::Overtaken) };
                let shard = shard_of(&MemberId::new(&row.member)?, self.board.rules.shards);
                held.push(row, shard, Some(times.accepted_at_ms));
            }
        }
        match self.write(reach, &mut after_seq, held, mirrored).await? {
            Decided::Mirrored => {}
            other => return Ok(other),
        }
        mirror::end(self.deployment, reach, after_seq).await?;
        Ok(Decided::Mirrored)
    }

    /// Writes events of SQL to a file, and decides it.
    async fn write(
        &self,
        reach: &Reach,
        after_seq: &mut i64,
        events: Events,
        mirrored: &mut Mirrored,
    ) -> Result<Decided> {
        let Some(last_seq) = events.last_seq() else { return Ok(Decided::Mirrored) };
        let content = self.content((*after_seq + 1, last_seq), events.into_frame()?);
        let file = file::write(self.deployment, self.place, content).await?;
        let decided = self.decide(reach, &file, mirrored).await?;
        *after_seq = last_seq;
        Ok(decided)
    }

    fn content(&self, seqs: (i64, i64), frame: polars::prelude::DataFrame) -> Content {
        Content { board: self.board.no, partition: self.partition, seqs, frame }
    }

    async fn decide(
        &self,
        reach: &Reach,
        file: &mirror_file::Model,
        mirrored: &mut Mirrored,
    ) -> Result<Decided> {
        let decided = mirror::decide(self.deployment, reach, file).await?;
        failpoint::hit("mirror-decided");
        if decided != Decided::Mirrored {
            mirror::give_up(&self.deployment.db, file).await?;
            return Ok(decided);
        }
        mirrored.events += file.events.unsigned_abs();
        mirrored.files += 1;
        mirrored.bytes += file.bytes.unsigned_abs();
        Ok(decided)
    }

    /// Copies files of the archive, whose events have left SQL. One of which the lake has a part
    /// is written again without it. Returns the last seq that the lake has then.
    async fn archived(&self, reach: &Reach, mirrored: &mut Mirrored) -> Result<(Decided, i64)> {
        let db = &self.deployment.db;
        let files = archive_file::of_partition(db, self.board.no, self.partition).await?;
        let mut after_seq = reach.after_seq;
        for former in files.iter().filter(|file| file.last_seq > reach.after_seq) {
            let path = self.deployment.archive_dir.join(&former.path);
            if let Some(wrong) = block_in_place(|| wrong(&path, former)) {
                bail!(
                    "{}: {wrong}; a mirror runs where the archive is (LAUREL_ARCHIVE_DIR)",
                    display_path(&path)
                );
            }
            let seqs = (after_seq + 1, former.last_seq);
            let file = if former.first_seq > after_seq {
                let bytes = block_in_place(|| std::fs::read(&path))
                    .with_context(|| format!("{} cannot be read", display_path(&path)))?;
                let events = (former.events.unsigned_abs() as usize, bytes);
                let of = (self.board.no, self.partition, seqs);
                file::adopt(self.deployment, self.place, of, events).await?
            } else {
                let later = block_in_place(|| {
                    let lacking = col("seq").gt(lit(after_seq));
                    anyhow::Ok(parquet::read(&path)?.lazy().filter(lacking).collect()?)
                })?;
                file::write(self.deployment, self.place, self.content(seqs, later)).await?
            };
            match self.decide(reach, &file, mirrored).await? {
                Decided::Mirrored => after_seq = former.last_seq,
                other => return Ok((other, after_seq)),
            }
        }
        Ok((Decided::Mirrored, after_seq))
    }
}
