//! The chain of commits under the history that the diff compares with.
//!
//! A partition whose boards are proven unchanged is checked from the commit on that the last check
//! ended with; any other one from its beginning.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use engine::deployment::Deployment;
use engine::history::checkpoint::Checkpoint;
use engine::partition::Partition;
use engine::reshard;
use entity::archive::{archive_file, archive_mark};
use entity::board;
use entity::history::{checkpoint, commit, dead_letter, log_cursor};
use entity::integrity::integrity_chain;
use entity::integrity::integrity_finding::Kind;
use entity::member::erasure;
use ranking::id::PartitionNo;
use sea_orm::{ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder};

use super::finding::{Finding, What};
use super::findings::Findings;
use crate::chain::check::{Fault, Link};
use crate::chain::commits::Commits;
use crate::job::Job;

/// Faults of a partition that are kept.
const FAULTS_MAX: usize = 1000;

/// Attempts to check a partition while a board of it is archived or deleted, or a member erased.
const ATTEMPTS_MAX: usize = 5;

/// Checks the chains of some partitions: `changed` ones from their beginning.
pub(crate) async fn check(
    deployment: &Deployment,
    partitions: &BTreeSet<PartitionNo>,
    changed: &BTreeSet<PartitionNo>,
    findings: &mut Findings,
    job: &Job,
) -> Result<()> {
    for &no in partitions {
        let partition = deployment.partition(no);
        let faults = check_one(partition, changed.contains(&no), job).await?;
        let mut doubted: BTreeMap<i64, BTreeSet<Vec<u8>>> = BTreeMap::new();
        for fault in faults {
            if let Some(event) = &fault.event {
                let members = doubted.entry(event.board_no).or_default();
                members.insert(event.member.clone().into_bytes());
            }
            findings.add(finding(no, fault));
        }
        for (board_no, members) in doubted {
            findings.doubt(board_no, no, &members);
        }
    }
    Ok(())
}

async fn check_one(partition: Partition<'_>, is_changed: bool, job: &Job) -> Result<Vec<Fault>> {
    let (db, no) = (&partition.db, partition.no);
    let places = async || {
        let marks = archive_mark::of_partition(db, no).await?;
        anyhow::Ok((marks, archive_file::all_of_partition(db, no).await?))
    };
    let mut faults = vec![];
    for _ in 0..ATTEMPTS_MAX {
        let before = places().await?;
        faults = follow(partition, is_changed, job).await?;
        // Events that were archived, erased or deleted meanwhile may have been missed in both
        // places.
        if faults.is_empty() || places().await? == before {
            break;
        }
    }
    Ok(faults)
}

/// Follows a chain to SQL's cursor, and remembers how far it is sound.
async fn follow(partition: Partition<'_>, is_changed: bool, job: &Job) -> Result<Vec<Fault>> {
    let (db, no) = (&partition.db, i32::from(partition.no));
    // Before the cursor, which only moves on: so no commit that is known here is beyond it.
    let known = integrity_chain::Entity::find_by_id(no).one(db).await?;
    let known = known.map(|known| Link { seq: known.seq, id: known.commit_id });
    let signed = checkpoint::last(db, partition.no).await?.map_or(0, |last| last.seq);
    let last = commit::Entity::find().filter(commit::Column::Partition.eq(no));
    let last = last.order_by_desc(commit::Column::Seq).one(db).await?.map_or(0, |last| last.seq);
    let cursor = log_cursor::of(db, partition.no).await?;
    let Some(cursor) = cursor else { return Ok(vec![]) };
    let seen = signed.max(last).max(known.as_ref().map_or(0, |known| known.seq));
    let known = known.filter(|known| !is_changed && known.seq <= cursor.seq);
    let mut link = known.unwrap_or_else(Link::root);
    let mut faults = vec![];
    let mut checkpoints = checkpoints(partition, link.seq, &mut faults).await?;
    let mut unexplained = Unexplained { partition, by_deleted_board: false };
    job.stage("checking commits", (cursor.seq - link.seq).unsigned_abs() as usize);
    let mut commits = Commits::new(partition.deployment, partition.no, (link.seq, cursor.seq));
    while let Some(page) = commits.next().await? {
        let is_whole = page.unread.is_empty();
        if page.commits.is_empty() {
            let (seq, note) = (link.seq + 1, page.unread.join("; "));
            faults.push(Fault { kind: Kind::Missing, seq, event: None, note });
            return Ok(faults);
        }
        for commit in &page.commits {
            link.follow(commit, is_whole, &mut faults);
            faults.extend(unexplained.of(&commit.row).await?);
            while let Some(checkpoint) = checkpoints.first_entry()
                && *checkpoint.key() <= link.seq
            {
                link.check(&checkpoint.remove(), &mut faults);
            }
        }
        job.advance(page.commits.len());
        if faults.len() > FAULTS_MAX {
            faults.truncate(FAULTS_MAX);
            return Ok(faults);
        }
    }
    link.end(&Link { seq: cursor.seq, id: cursor.commit_id }, &mut faults);
    if seen > cursor.seq {
        let note = format!(
            "SQL's cursor is at commit {}: expected {seen}, of which there is a row, a check or a checkpoint",
            cursor.seq
        );
        faults.push(Fault { kind: Kind::Missing, seq: cursor.seq + 1, event: None, note });
    }
    if !faults.is_empty() {
        // A checked prefix stays known, if it is not there any more.
        if seen <= cursor.seq {
            integrity_chain::Entity::delete_by_id(no).exec(db).await?;
        }
        return Ok(faults);
    }
    let sound = integrity_chain::Model {
        partition: no,
        seq: link.seq,
        commit_id: link.id,
        checked_at_ms: partition.clock.now_ms(),
    };
    integrity_chain::Entity::insert(sound.into_active_model())
        .on_conflict(integrity_chain::replace())
        .exec_without_returning(db)
        .await?;
    Ok(faults)
}

/// The checkpoints of a partition after a seq, by seq.
async fn checkpoints(
    partition: Partition<'_>,
    seq: i64,
    faults: &mut Vec<Fault>,
) -> Result<BTreeMap<i64, Checkpoint>> {
    let mut checkpoints = BTreeMap::new();
    for row in checkpoint::after(&partition.db, partition.no, seq).await? {
        let note = match Checkpoint::parse(&row.statement) {
            Ok(checkpoint) if is_of(&checkpoint, &row, partition) => {
                checkpoints.insert(row.seq, checkpoint);
                continue;
            }
            Ok(_) => "its checkpoint is a statement about something else".to_owned(),
            Err(error) => error.to_string(),
        };
        faults.push(Fault { kind: Kind::Altered, seq: row.seq, event: None, note });
    }
    Ok(checkpoints)
}

/// True if a statement is about the deployment, the partition and the commit that its row says.
fn is_of(checkpoint: &Checkpoint, row: &checkpoint::Model, partition: Partition<'_>) -> bool {
    checkpoint.deployment == *partition.identity
        && checkpoint.partition == partition.no.0
        && i64::try_from(checkpoint.seq) == Ok(row.seq)
        && checkpoint.commit_id == row.commit_id
}

/// Looks for events that a commit counts as gone although nothing says why.
struct Unexplained<'a> {
    partition: Partition<'a>,
    /// True once a deleted board is found that has, or had, data in the partition.
    by_deleted_board: bool,
}

impl Unexplained<'_> {
    /// The fault of a commit that counts more events as gone than SQL refused and erasures took,
    /// without a board that was deleted or an earlier refused event that was voided.
    async fn of(&mut self, row: &commit::Model) -> Result<Option<Fault>> {
        if row.gone <= 0 || self.by_deleted_board {
            return Ok(None);
        }
        let partition = self.partition;
        let (db, no) = (&partition.db, partition.no);
        let refused = dead_letter::of_commits(db, no, &[row.seq.unsigned_abs()]).await?.len();
        let erased = erasure::event::of_commit(db, no, row.seq).await?;
        if usize::try_from((row.gone - erased).max(0)).is_ok_and(|gone| gone <= refused) {
            return Ok(None);
        }
        // After the commit was read: a board is marked before any event of it goes.
        let deleted = board::Entity::find().filter(board::Column::DeletedAtMs.is_not_null());
        for board in deleted.all(db).await? {
            let partitions = reshard::partitions(partition.deployment, &board)?;
            if partitions.iter().any(|of_board| of_board.no == no) {
                self.by_deleted_board = true;
                return Ok(None);
            }
        }
        // The void of a refused event has no row either.
        let voided = dead_letter::Entity::find()
            .filter(dead_letter::Column::Partition.eq(i32::from(no)))
            .filter(dead_letter::Column::Seq.lt(row.seq))
            .filter(dead_letter::Column::State.eq(dead_letter::State::Voided));
        if voided.one(db).await?.is_some() {
            return Ok(None);
        }
        let note = format!(
            "{} of its events are counted as gone, SQL refused {refused}, and {erased} are erased: expected a deleted board that explains the others",
            row.gone
        );
        Ok(Some(Fault { kind: Kind::Missing, seq: row.seq, event: None, note }))
    }
}

/// The finding about a fault.
fn finding(partition: PartitionNo, fault: Fault) -> Finding {
    let seq = fault.seq.unsigned_abs();
    let (board_no, member, what) = match fault.event {
        None => (0, "*".to_owned(), What::Commit(seq)),
        Some(event) => {
            let index = event.index.unsigned_abs();
            let member = if event.member.is_empty() { "*".to_owned() } else { event.member };
            (event.board_no, member, What::Event(seq, index))
        }
    };
    let finding = Finding::of_no_member(fault.kind, board_no, partition, what).noted(fault.note);
    Finding { member, ..finding }
}
