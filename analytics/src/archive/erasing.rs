//! Files written again without the events of members that are being erased.
//!
//! SQL names each new file before it exists, as an archive does. One transaction then makes all new
//! files of a board's partition part of the history in place of the former ones, which go at once,
//! or at the next run if this one ends early.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use engine::deployment::Deployment;
use engine::erasure::{self, Erased};
use engine::failpoint;
use engine::history::archive::erasing::{self, Again, Place};
use engine::merge::ArchivedEvents;
use entity::archive::archive_file;
use entity::member::erasure::{self as row, Model, Step};
use polars::prelude::{BooleanChunked, ChunkCompareEq, DataFrame};
use ranking::id::{BoardNo, MemberId, PartitionNo};
use sea_orm::{EntityTrait, IntoActiveModel};
use serde::Serialize;
use tokio::task::block_in_place;

use super::{finish_earlier, lock};
use crate::chain::files;
use crate::diff::files::wrong;
use crate::display_path;
use crate::frame::{events, parquet};
use crate::job::Job;
use crate::mirror;

/// How long the steps of an erasure beside those of its files may take.
pub(crate) const STEPS_TIMEOUT: Duration = Duration::from_secs(600);

/// The events of a member in files, by partition and seq.
type Gone = BTreeMap<(i32, i64), u32>;

/// The outcome of `erase-files`.
#[derive(Debug, Default, Serialize)]
pub struct ErasedFromFiles {
    /// The erasures that were finished.
    erasures: usize,
    /// The files that were written again.
    files: usize,
    /// The events that these lack now.
    events: u64,
    seconds: f64,
}

impl fmt::Display for ErasedFromFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { erasures, files, events, seconds } = self;
        write!(
            f,
            "finished {erasures} erasures: wrote {files} files again without {events} events, in {seconds:.1} s"
        )
    }
}

/// Finishes the erasures under way, as a job, after it has finished what an earlier archive left.
///
/// # Errors
/// As [`finish`]; if another run holds the lock of the archive's directory.
pub async fn erase_files(deployment: &Deployment) -> Result<ErasedFromFiles> {
    let job = Job::begin_in_turn(deployment, entity::job::ARCHIVE).await?;
    let began = Instant::now();
    let run = async {
        let _lock = lock(deployment)?;
        finish_earlier(deployment, &job).await?;
        let erased = finish(deployment, &job).await?;
        anyhow::Ok(ErasedFromFiles { seconds: began.elapsed().as_secs_f64(), ..erased })
    };
    let outcome = run.await;
    job.end(outcome).await
}

/// Finishes the erasures under way. The caller holds the lock of the archive's directory, and
/// nothing is left of an earlier archive.
///
/// # Errors
/// If a file is missing or altered, the directory cannot be written, or a store does not answer.
/// Run it again.
pub(super) async fn finish(deployment: &Deployment, job: &Job) -> Result<ErasedFromFiles> {
    let mut erased = ErasedFromFiles::default();
    for row in row::under_way(&deployment.db, i64::MAX).await? {
        let id = row.id.clone();
        let finished = finish_one(deployment, row, job, &mut erased).await;
        erased.erasures += usize::from(finished.with_context(|| format!("erasure {id} waits"))?);
    }
    Ok(erased)
}

/// Finishes an erasure. Returns false if other work is left of it.
async fn finish_one(
    deployment: &Deployment,
    row: Model,
    job: &Job,
    erased: &mut ErasedFromFiles,
) -> Result<bool> {
    let deadline = || tokio::time::Instant::now() + STEPS_TIMEOUT;
    let member = row.member_id()?;
    let archived = archived_of(deployment, &row, &member).await?;
    let row = match erasure::go_on(deployment, row, Some(&archived), deadline()).await {
        Ok(Erased::UnderWay(row)) if row.step == Step::Erasing => row,
        Ok(erased) => return Ok(matches!(erased, Erased::Done(_))),
        Err(error) => {
            // It is not decided yet, or refused: the client that began it learns why.
            eprintln!("an erasure does not begin: {error}");
            return Ok(false);
        }
    };
    drop(archived);
    // Before the events: a rebuild that reads some of the files finds the removals in SQL.
    erasure::take_off_boards(deployment, &row, deadline()).await?;
    mirror::erasing::clear(deployment, &row).await?;
    for place in erasing::places(&deployment.db, member.as_str()).await? {
        let rewriting = Rewriting { deployment, row: &row, member: &member, place };
        rewriting.write_again(job, erased).await?;
        finish_earlier(deployment, job).await?;
    }
    let now = erasure::go_on(deployment, row, None, deadline()).await?;
    Ok(matches!(now, Erased::Done(_)))
}

/// The archived events of a member whose scores are to stay; none of another one, as nothing needs
/// them. The member is held, and no archive is decided meanwhile.
async fn archived_of(
    deployment: &Deployment,
    row: &Model,
    member: &MemberId,
) -> Result<ArchivedEvents> {
    let mut archived = ArchivedEvents::new();
    if row.target.is_none() {
        return Ok(archived);
    }
    for place in erasing::places(&deployment.db, member.as_str()).await? {
        let (board, partition) =
            (BoardNo(place.board_no), PartitionNo(place.partition.try_into()?));
        let of_board = archived.entry(board).or_default();
        for file in archive_file::of_partition(&deployment.db, board, partition).await? {
            let (frame, is_own) = block_in_place(|| read(deployment, &file, member))?;
            for event in events::rows(&frame.filter(&is_own)?)? {
                of_board.push((event.place()?, event.to_ranking()?));
            }
        }
    }
    Ok(archived)
}

/// The events of a file, and which of them are a member's.
fn read(
    deployment: &Deployment,
    file: &archive_file::Model,
    member: &MemberId,
) -> Result<(DataFrame, BooleanChunked)> {
    let path = deployment.archive_dir.join(&file.path);
    if let Some(wrong) = wrong(&path, file) {
        bail!("{}: {wrong}", display_path(&path));
    }
    let frame = parquet::read(&path)?;
    let is_own = frame.column("member")?.str()?.equal(member.as_str());
    ensure!(is_own.null_count() == 0, "{}: an event has no member", display_path(&path));
    Ok((frame, is_own))
}

/// The files of a board's partition, for an erasure.
struct Rewriting<'a> {
    deployment: &'a Deployment,
    row: &'a Model,
    member: &'a MemberId,
    place: Place,
}

impl Rewriting<'_> {
    /// Writes the files again that have events of the member, oldest first, and puts them in the
    /// place of the former ones.
    async fn write_again(&self, job: &Job, erased: &mut ErasedFromFiles) -> Result<()> {
        let Self { deployment, place, .. } = *self;
        let partition = PartitionNo(place.partition.try_into()?);
        let board = BoardNo(place.board_no);
        let files = archive_file::of_partition(&deployment.db, board, partition).await?;
        job.stage("writing files again", files.len());
        let (mut again, mut gone) = (vec![], Gone::new());
        for former in files {
            if let Some(mut rest) = block_in_place(|| self.rest(&former, &mut gone))? {
                let written = self.write(&former, &mut rest).await?;
                again.push(Again { former, written });
                failpoint::hit("erased-file");
            }
            job.advance(1);
        }
        let commits = files::count_gone(deployment, place.partition, &gone).await?;
        failpoint::hit("erased-files");
        let of_member = (self.row, self.member.as_str(), place);
        erasing::replace(deployment, of_member, &again, &gone, &commits).await?;
        failpoint::hit("erased-switched");
        erased.files += again.len();
        erased.events += gone.values().map(|&events| u64::from(events)).sum::<u64>();
        files::remove_former(deployment, &commits)
    }

    /// The events of a file without the member's, which are added to `gone`; `None` if it has none
    /// of the member.
    fn rest(&self, former: &archive_file::Model, gone: &mut Gone) -> Result<Option<DataFrame>> {
        let (frame, is_own) = read(self.deployment, former, self.member)?;
        if !is_own.any() {
            return Ok(None);
        }
        for event in events::rows(&frame.filter(&is_own)?)? {
            *gone.entry((event.partition, event.seq)).or_default() += 1;
        }
        Ok(Some(frame.filter(&!is_own)?))
    }

    /// Writes what takes the place of a file, and returns its row.
    async fn write(
        &self,
        former: &archive_file::Model,
        rest: &mut DataFrame,
    ) -> Result<archive_file::Model> {
        let (deployment, path) = (self.deployment, files::other_path(&former.path));
        let named = Again::named(former, path.clone(), deployment.clock.now_ms());
        archive_file::Entity::insert(named.clone().into_active_model())
            .exec_without_returning(&deployment.db)
            .await
            .context("another program is writing this file; wait until it ends")?;
        let sum = block_in_place(|| parquet::write_to_archive(deployment, &path, rest))?;
        Ok(archive_file::Model {
            events: rest.height() as i64,
            bytes: sum.bytes as i64,
            sha256: sum.sha256,
            ..named
        })
    }
}
