//! The lake compared with SQL: every file is read back.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Instant;

use anyhow::{Context, Result};
use engine::deployment::Deployment;
use engine::history::mirror;
use entity::archive::{archive_file, archive_mark};
use entity::member::erasure;
use entity::mirror::{mirror_file, mirror_mark};
use ranking::board::Board;
use ranking::id::PartitionNo;
use sea_orm::EntityTrait;
use serde::Serialize;

use super::place::Place;
use super::{Arguments, check_place, file, lag, partitions_of, url_of};
use crate::find_boards;
use crate::job::Job;

/// The most differences that are listed.
const LISTED_MAX: usize = 1000;

/// The outcome of a check.
#[derive(Debug, Default, Serialize)]
pub struct Checked {
    files: usize,
    events: u64,
    bytes: u64,
    /// The number of differences.
    found: usize,
    /// The first of them.
    differences: Vec<String>,
    lag: u64,
    seconds: f64,
}

impl Checked {
    /// True if nothing differs.
    pub fn is_clean(&self) -> bool {
        self.found == 0
    }

    fn find(&mut self, difference: String) {
        self.found += 1;
        if self.differences.len() < LISTED_MAX {
            self.differences.push(difference);
        }
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for difference in &self.differences {
            writeln!(f, "{difference}")?;
        }
        let Self { files, events, bytes, found, lag, seconds, .. } = self;
        write!(
            f,
            "checked {files} files with {events} events ({bytes} bytes), found {found} differences, in {seconds:.1} s; not yet mirrored: {lag} events"
        )
    }
}

/// Reads every file of the lake back, and compares it with its row, and the rows with the events of
/// SQL and of the archive. Changes nothing.
///
/// # Errors
/// If there is no lake, it does not answer, or SQL does not.
pub async fn check(deployment: &Deployment, arguments: &Arguments) -> Result<Checked> {
    let began = Instant::now();
    let job = Job::unrecorded()?;
    let url = url_of(deployment, arguments)
        .context("no lake: expected its place in LAUREL_MIRROR or by --to")?;
    let place = Place::new(url, deployment.mirror.timeout())?;
    check_place(deployment, &place).await?;
    place.has_files(&deployment.identity).await?;
    let mut checked = Checked::default();
    check_names(deployment, &place, &mut checked).await?;
    let boards = find_boards(deployment, None).await?;
    let count = boards.len();
    for (index, row) in boards.into_iter().enumerate() {
        job.part(index, count);
        job.stage("reading the lake", 0);
        let board = row.to_ranking()?;
        for partition in partitions_of(deployment, &board) {
            check_partition(deployment, &place, (&board, partition), &mut checked).await?;
        }
    }
    checked.lag = lag(deployment).await?;
    checked.seconds = began.elapsed().as_secs_f64();
    job.end(Ok(checked)).await
}

/// Looks for files that SQL does not name.
async fn check_names(deployment: &Deployment, place: &Place, checked: &mut Checked) -> Result<()> {
    let there = place.list(&deployment.identity).await?;
    // Afterwards: a file is named before it exists.
    let rows = mirror_file::Entity::find().all(&deployment.db).await?;
    let named: BTreeSet<&str> = rows.iter().map(|row| row.path.as_str()).collect();
    for path in there.iter().filter(|path| !named.contains(path.as_str())) {
        // Its row may have gone with the file meanwhile.
        if place.get(path, u64::MAX).await?.is_some() {
            checked.find(format!("{}/{path}: SQL does not name this file", place.url));
        }
    }
    Ok(())
}

async fn check_partition(
    deployment: &Deployment,
    place: &Place,
    (board, partition): (&Board, PartitionNo),
    checked: &mut Checked,
) -> Result<()> {
    let db = &deployment.db;
    let marked_seq = mirror_mark::mirrored_seq(db, board.no, partition).await?;
    let (mut events, mut through_seq) = (0, 0);
    for row in mirror_file::of_partition(db, board.no, partition).await? {
        if row.first_seq <= through_seq {
            checked.find(format!("{}/{}: another file has its events, too", place.url, row.path));
        }
        through_seq = row.last_seq;
        if let Err(error) = file::read(place, &row).await {
            // An erasure may have put another one in its place meanwhile.
            if mirror_file::Entity::find_by_id(&row.path).one(db).await?.as_ref() == Some(&row) {
                checked.find(format!("{error:#}"));
            }
        }
        checked.events += row.events.unsigned_abs();
        // A run may add files meanwhile.
        if row.last_seq <= marked_seq {
            events += row.events.unsigned_abs();
        }
        checked.files += 1;
        checked.bytes += row.bytes.unsigned_abs();
    }
    let mirrored_seq = mirror_mark::mirrored_seq(db, board.no, partition).await?;
    if through_seq > mirrored_seq {
        checked.find(format!(
            "board {} in partition {partition}: its files end at seq {through_seq}, and SQL says {mirrored_seq}",
            board.no
        ));
    }
    let expected = expected(deployment, (board, partition), marked_seq).await?;
    if expected.is_some_and(|expected| expected != events) {
        checked.find(format!(
            "board {} in partition {partition}: the lake has {events} events up to seq {marked_seq}, expected {}",
            board.no,
            expected.unwrap_or_default()
        ));
    }
    Ok(())
}

/// The number of events in SQL and in the archive up to a seq; `None` if a file of the archive goes
/// beyond it, or if an archive or an erasure changes it meanwhile.
async fn expected(
    deployment: &Deployment,
    (board, partition): (&Board, PartitionNo),
    mirrored_seq: i64,
) -> Result<Option<u64>> {
    let db = &deployment.db;
    let archived_seq = archive_mark::of(db, board.no, partition).await?.archived_seq;
    let mut events = 0;
    for file in archive_file::of_partition(db, board.no, partition).await? {
        if file.last_seq > mirrored_seq {
            return Ok(None);
        }
        events += file.events.unsigned_abs();
    }
    let seqs = (archived_seq, mirrored_seq);
    events += mirror::count(db, board.no, partition, seqs).await?;
    let is_same = archive_mark::of(db, board.no, partition).await?.archived_seq == archived_seq;
    Ok((is_same && !erasure::is_under_way(db).await?).then_some(events))
}
