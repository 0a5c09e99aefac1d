//! Import of a whole history onto a board that has none: rows go to disk by partition, are checked
//! there, and are then appended to each partition at once.
//!
//! It takes and refuses the rows that an ordinary import would, in the same order. Memory does not
//! grow with the rows: it has the members and entries of one partition.

mod check;
mod spool;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use engine::deployment::Deployment;
use engine::failpoint;
use engine::partition::append::{Share, Source};
use engine::seal::correction::sealing_until_ms;
use entity::{board, member};
use ranking::board::Board;
use ranking::commit::{Event, EventKind};
use ranking::id::PartitionNo;
use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::OnConflict;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

pub(crate) use self::check::reused;
use self::check::{Checker, Figures, ID_PARTS, Skipped, id_part, skip_known};
use self::spool::{Spool, SpooledRow, SpooledRows};
use super::attributes::{known_attributes, segments};
use super::rows::{EventNames, FileRow, visit_rows};
use super::{Arguments, Imported, importing, report_bad_rows};
use crate::job::Job;

/// The rows whose members' attributes are looked up together.
const ROWS_AT_ONCE: usize = 10_000;

/// The members that one statement creates or changes.
const MEMBERS_AT_ONCE: usize = 10_000;

/// A file on disk, by partition.
struct Sorted {
    partitions: Vec<PartitionNo>,
    /// A part for each partition.
    rows: Spool,
    /// The rows with event ids, by their hash.
    ids: Spool,
    skipped: Skipped,
    /// The rows that could be read.
    count: u64,
}

/// Imports a file.
///
/// # Errors
/// As [`super::import`]; and if the board has events that are not those of an interrupted import of
/// the same file, or cannot take a history at once.
pub(crate) async fn run(
    deployment: &Deployment,
    arguments: &Arguments,
    job: &Job,
) -> Result<Imported> {
    let (began, now_ms) = (Instant::now(), deployment.clock.now_ms());
    let row = ready(deployment, arguments).await?;
    let (slug, board) = importing(&row)?;
    job.stage("reading", 0);
    let names = EventNames::of(&arguments.file)?;
    let marks = deployment.member_marks().await?;
    let boards = HashMap::from([(slug, board.clone())]);
    let mut sorted = Sorted::of(deployment, &board)?;
    let segment_by = row.segment_attributes()?;
    sorted.read(deployment, arguments, (&boards, &segment_by), (now_ms, job))?;
    job.stage("checking", sorted.count as usize);
    let figures = block_in_place(|| {
        let sealed_before_ms = sealing_until_ms(&board);
        let checker = Checker { board: &board, marks: &marks, now_ms, sealed_before_ms };
        sorted.check(&checker, job)
    })?;
    report_bad_rows(arguments, &sorted.skipped.bad)?;
    let mut imported = Imported {
        known: sorted.skipped.known,
        bad: sorted.skipped.bad.len(),
        ..Imported::default()
    };
    let skipped = Arc::new(std::mem::take(&mut sorted.skipped));
    let events = |part: usize| -> Result<Box<Events>> {
        let (board, names) = (board.clone(), names.clone());
        let rows = sorted.rows.rows(part)?;
        Ok(Box::new(Events { rows, skipped: skipped.clone(), board, names }))
    };
    // Before anything is written: all partitions have an interrupted import of this file, or none.
    for (part, &partition) in sorted.partitions.iter().enumerate() {
        let known = deployment.partition(partition).count_known(&board, &mut *events(part)?).await;
        known.context("nothing was written")?;
    }
    job.stage("importing", figures.iter().map(|figures| figures.rows).sum());
    for (part, (&partition, figures)) in sorted.partitions.iter().zip(figures).enumerate() {
        if figures.rows == 0 {
            continue;
        }
        write_members(deployment, sorted.rows.rows(part)?, &skipped, now_ms).await?;
        let share = Share {
            board: board.clone(),
            marks: marks.clone(),
            first_at_ms: figures.first_at_ms,
            events: events(part)?,
        };
        let appended =
            deployment.partition(partition).append(share, &|count| job.advance(count)).await?;
        imported.accepted += appended.written;
        imported.known += appended.known;
        failpoint::hit("share-appended");
    }
    imported.seconds = began.elapsed().as_secs_f64();
    Ok(imported)
}

/// The row of the board, if it can take a history at once.
async fn ready(deployment: &Deployment, arguments: &Arguments) -> Result<board::Model> {
    let slug = arguments.board.as_deref().context("expected --board with --bulk")?;
    let row = board::of_slug(&deployment.db, slug).await?;
    let row = row.with_context(|| format!("there is no board {slug:?}"))?;
    let row = engine::reshard::at_rest(deployment, row.no).await?;
    let row = row.with_context(|| format!("there is no board {slug:?}"))?;
    let ordinary = "expected an import without --bulk";
    ensure!(!row.to_ranking()?.is_joined, "members join board {slug}: {ordinary}");
    ensure!(row.archived_before_ms.is_none(), "board {slug} has archived events: {ordinary}");
    if row.window_rows()?.iter().any(|window| !window.is_settled()) {
        bail!("a window of board {slug} is being filled or dropped: import the file afterwards");
    }
    Ok(row)
}

impl Sorted {
    fn of(deployment: &Deployment, board: &Board) -> Result<Self> {
        let partitions: BTreeSet<PartitionNo> =
            deployment.store.partitions().of_board(board).into_iter().collect();
        let partitions: Vec<PartitionNo> = partitions.into_iter().collect();
        Ok(Self {
            rows: Spool::of(partitions.len())?,
            partitions,
            ids: Spool::of(ID_PARTS)?,
            skipped: Skipped::default(),
            count: 0,
        })
    }

    /// Reads the file.
    fn read(
        &mut self,
        deployment: &Deployment,
        arguments: &Arguments,
        (boards, segment_by): (&HashMap<String, Board>, &[String]),
        (now_ms, job): (i64, &Job),
    ) -> Result<()> {
        let board = boards.values().next().context("there is no board")?;
        let mut held: Vec<FileRow> = vec![];
        block_in_place(|| {
            visit_rows(arguments, boards, now_ms, &mut |taken| {
                match taken {
                    Ok((_, row)) => held.push(row),
                    Err(bad) => self.skipped.add_bad(None, bad)?,
                }
                if held.len() >= ROWS_AT_ONCE {
                    job.advance(held.len());
                    self.put(deployment, board, segment_by, &mut held)?;
                }
                Ok(())
            })?;
            self.put(deployment, board, segment_by, &mut held)?;
            self.rows.flush_all()?;
            self.ids.flush_all()
        })
    }

    /// Puts rows to their partitions, with the segments that they count in.
    fn put(
        &mut self,
        deployment: &Deployment,
        board: &Board,
        segment_by: &[String],
        rows: &mut Vec<FileRow>,
    ) -> Result<()> {
        let mut attributes = HashMap::new();
        if !segment_by.is_empty() {
            let members: BTreeSet<&str> = rows.iter().map(|row| row.member.as_str()).collect();
            let known = known_attributes(deployment, members);
            attributes = Handle::current().block_on(known)?;
        }
        for row in rows.drain(..) {
            let of_member = attributes.get(row.member.as_str());
            let segments = segments(segment_by, row.region.as_ref(), of_member);
            let partition = deployment.store.partitions().of_member(board, &row.member);
            let part = self.partitions.binary_search(&partition);
            let part = part.ok().context("a member is in no partition of the board")?;
            let id_part = id_part(&row);
            let row = SpooledRow { number: self.count, row, segments };
            self.rows.push(part, &row)?;
            if let Some(id_part) = id_part {
                self.ids.push(id_part, &row)?;
            }
            self.count += 1;
        }
        Ok(())
    }

    /// Checks all rows, and sorts the bad ones by their lines.
    fn check(&mut self, checker: &Checker<'_>, job: &Job) -> Result<Vec<Figures>> {
        skip_known(&self.ids, &mut self.skipped)?;
        let mut figures = vec![];
        for part in 0..self.partitions.len() {
            let checked = checker.check(&self.rows, part, &mut self.skipped)?;
            job.advance(checked.rows);
            figures.push(checked);
        }
        self.skipped.bad.sort_by_key(|row| row.line);
        Ok(figures)
    }
}

/// The rows of a partition as events.
struct Events {
    rows: SpooledRows,
    skipped: Arc<Skipped>,
    board: Board,
    names: EventNames,
}

impl Source for Events {
    fn next(&mut self, count: usize) -> ranking::Result<Vec<Event>> {
        let mut events = Vec::with_capacity(count);
        while events.len() < count
            && let Some(spooled) = self.rows.next()
        {
            let spooled = spooled.map_err(|error| {
                ranking::Error::Unavailable(format!("the rows of the import: {error:#}"))
            })?;
            let SpooledRow { number, row, segments } = spooled;
            if self.skipped.has(number) {
                continue;
            }
            let event_id = row.event_id.map_or_else(|| self.names.name(row.line), Ok)?;
            events.push(Event {
                board: self.board.no,
                generation: self.board.generation,
                member: row.member,
                kind: EventKind::Score { score: row.score, at_ms: row.at_ms, at_sent: true },
                event_id: Some(event_id),
                segments,
                metadata: row.metadata,
                origin: None,
            });
        }
        Ok(events)
    }
}

/// Creates the members of rows, with the region of each from its last row.
async fn write_members(
    deployment: &Deployment,
    rows: SpooledRows,
    skipped: &Skipped,
    now_ms: i64,
) -> Result<()> {
    let mut members: BTreeMap<String, Option<String>> = BTreeMap::new();
    for spooled in rows {
        let SpooledRow { number, row, .. } = spooled?;
        if skipped.has(number) {
            continue;
        }
        match members.get_mut(row.member.as_str()) {
            Some(region) => *region = row.region.or(region.take()),
            None => drop(members.insert(row.member.to_string(), row.region)),
        }
    }
    let (with, without): (Vec<_>, Vec<_>) =
        members.into_iter().partition(|(_, region)| region.is_some());
    let key = member::Column::Key;
    let known = OnConflict::column(key).do_nothing_on([key]).to_owned();
    let moved = OnConflict::column(key).update_column(member::Column::Region).to_owned();
    for (members, on_conflict) in [(without, known), (with, moved)] {
        for some in members.chunks(MEMBERS_AT_ONCE) {
            let row = |(key, region): &(String, Option<String>)| member::ActiveModel {
                key: Set(key.clone()),
                name: Set(None),
                name_folded: Set(None),
                region: Set(region.clone()),
                created_at_ms: Set(now_ms),
                avatar_url: Set(None),
                attributes: Set(None),
            };
            let some = some.iter().map(row).collect();
            let on_conflict = Some(on_conflict.clone());
            entity::sql::insert_chunked::<member::Entity, _>(&deployment.db, some, on_conflict)
                .await?;
        }
    }
    Ok(())
}
