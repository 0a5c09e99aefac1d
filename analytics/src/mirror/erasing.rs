//! Files of the lake written again without the events of members that are being erased.

use anyhow::{Context, Result, ensure};
use engine::deployment::Deployment;
use engine::erasure::take_off_boards;
use engine::failpoint;
use engine::history::mirror;
use entity::member::erasure::{self as row, Model, Step};
use entity::mirror::{mirror_file, mirror_place};
use polars::prelude::{ChunkCompareEq, DataFrame};
use ranking::id::{BoardNo, MemberId, PartitionNo};
use tokio::task::block_in_place;
use tokio::time::Instant;

use super::file::{Content, read, write};
use super::place::Place;
use super::tidy;
use crate::archive::erasing::STEPS_TIMEOUT;
use crate::job::Job;

/// Takes the members of all erasures that are decided out of the lake. The caller has the lease of
/// the lake, and nothing is left of an earlier run.
///
/// # Errors
/// As [`clear`].
pub(super) async fn clear_all(deployment: &Deployment, place: &Place, job: &Job) -> Result<()> {
    for row in row::under_way(&deployment.db, i64::MAX).await? {
        if row.step == Step::Erasing {
            take_off_boards(deployment, &row, Instant::now() + STEPS_TIMEOUT).await?;
            clear_one(deployment, place, &row, job).await?;
        }
    }
    Ok(())
}

/// Takes a member that is off its boards out of the lake, if there is a lake.
///
/// # Errors
/// If the lake cannot be reached, a file of it is missing or altered, or SQL does not answer. Run
/// it again.
pub(crate) async fn clear(deployment: &Deployment, row: &Model) -> Result<()> {
    let Some(known) = mirror_place::find(&deployment.db).await? else { return Ok(()) };
    let job = Job::begin_in_turn(deployment, entity::job::MIRROR).await?;
    let cleared = async {
        let place = Place::new(&known.url, deployment.mirror.timeout())?;
        place.has_files(&deployment.identity).await?;
        tidy(deployment, &place).await?;
        clear_one(deployment, &place, row, &job).await?;
        anyhow::Ok("the lake has nothing of an erased member".to_owned())
    };
    let cleared = cleared.await.with_context(|| format!("the lake {} waits", known.url));
    job.end(cleared).await?;
    Ok(())
}

async fn clear_one(deployment: &Deployment, place: &Place, row: &Model, job: &Job) -> Result<()> {
    let member = row.member_id()?;
    if !mirror::is_in_the_way(&deployment.db, row, member.as_str()).await? {
        return Ok(());
    }
    let files = mirror::of_member(&deployment.db, member.as_str()).await?;
    job.stage("writing files of the lake again", files.len());
    let (mut again, checked) = (vec![], files.len());
    for former in files {
        let frame = read(place, &former).await?;
        if let Some(rest) = block_in_place(|| rest(&frame, &member))? {
            let written = write(deployment, place, content_of(&former, rest)?).await?;
            again.push((former, written));
            failpoint::hit("mirror-erased-file");
        }
        job.advance(1);
    }
    if let Err(error) = mirror::replace(deployment, row, &again, checked).await {
        // Their rows may be gone: this run may have been taken for dead.
        for (_, written) in &again {
            mirror::give_up(&deployment.db, written).await?;
        }
        tidy(deployment, place).await?;
        return Err(error.into());
    }
    failpoint::hit("mirror-switched");
    tidy(deployment, place).await?;
    Ok(())
}

/// The events of a file without the member's; `None` if it has none of the member.
fn rest(frame: &DataFrame, member: &MemberId) -> Result<Option<DataFrame>> {
    let is_own = frame.column("member")?.str()?.equal(member.as_str());
    ensure!(is_own.null_count() == 0, "an event of the lake has no member");
    Ok(if is_own.any() { Some(frame.filter(&!is_own)?) } else { None })
}

fn content_of(former: &mirror_file::Model, frame: DataFrame) -> Result<Content> {
    Ok(Content {
        board: BoardNo(former.board_no),
        partition: PartitionNo(former.partition.try_into()?),
        seqs: (former.first_seq, former.last_seq),
        frame,
    })
}
