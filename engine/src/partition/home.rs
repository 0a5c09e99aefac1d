//! The history of a partition's members on a board. If the board once had other numbers of shards,
//! parts of it lie in other partitions: their homes.

use std::collections::{BTreeSet, HashSet};

use futures::TryStreamExt;
use ranking::board::Board;
use ranking::commit::{Event, EventPlace};
use ranking::fold::replay::Replay;
use ranking::id::{MemberId, PartitionNo};
use ranking::store::write::Dedup;
use ranking::submission::event_ids::{ELSEWHERE, seen_entry};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
};

use crate::deployment::Deployment;
use crate::partition::Partition;
use crate::partition::recovery::in_time;
use entity::error::Result;
use entity::history::{commit, score_event};
use entity::sql::blocks::Columns;

/// The rows of one SELECT.
const ROWS_MAX: u64 = 10_000;

impl Partition<'_> {
    /// Visits the events of the partition's members on a board as rows, each member's in order. It
    /// reads every layout and home that has some of them, up to the seq that `through` returns.
    pub(crate) async fn each_event(
        self,
        board: &Board,
        through: impl Fn(usize, PartitionNo) -> i64,
        mut take: impl FnMut(&score_event::Model) -> ranking::Result<()>,
    ) -> Result<()> {
        let partitions = self.store.partitions();
        for (layout, home) in partitions.homes(board, self.no) {
            let mut last = (0, 0);
            loop {
                let page = score_event::page_after(home, last, ROWS_MAX)
                    .filter(score_event::Column::BoardNo.eq(board.no.0))
                    .filter(score_event::Column::Seq.lte(through(layout, home)))
                    .filter(of_layout(board, layout));
                let rows = in_time(page.all(&self.db)).await?;
                let Some(row) = rows.last() else { break };
                last = (row.seq, row.event_index);
                for row in rows {
                    // A row whose member is none may be of any partition.
                    let is_elsewhere = |member| partitions.of_member(board, &member) != self.no;
                    let member = MemberId::new(&row.member);
                    if !(board.has_moved() && member.is_ok_and(is_elsewhere)) {
                        take(&row)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Folds the event of a row.
///
/// # Errors
/// `Corrupt` or `Invalid` if the row holds a value that the persister never writes.
pub(crate) fn fold_row(
    replay: &mut Replay,
    board: &Board,
    row: &score_event::Model,
) -> ranking::Result<()> {
    replay.apply(board, row.place()?, &row.to_ranking()?)
}

/// As [`fold_row`], but leaves out a row that cannot be folded: it must not keep out all others.
pub(super) fn fold_row_or_skip(replay: &mut Replay, board: &Board, row: &score_event::Model) {
    if let Err(error) = fold_row(replay, board, row) {
        log_unreadable(row, &error);
    }
}

/// Logs an event that is left out, as its row was edited by hand.
pub(super) fn log_unreadable(row: &score_event::Model, error: &ranking::Error) {
    let score_event::Model { partition, seq, event_index, board_no, member, .. } = row;
    tracing::error!(partition, seq, event_index, board = board_no, member, %error, "a row of score_event cannot be read and is left out; mend it, then rebuild the board");
}

/// The condition that an event is of a layout of its board.
fn of_layout(board: &Board, layout: usize) -> Condition {
    use score_event::Column::Generation;
    let generations = board.generations_of(layout);
    let is_of = || {
        Condition::all().add(Generation.gte(generations.start)).add(Generation.lt(generations.end))
    };
    let none = Condition::all();
    if board.has_moved() { is_of() } else { none }
}

/// The condition that an event of a partition's member is at or below a seq of it. All events of
/// former layouts are.
pub(crate) fn up_to(board: &Board, partition: PartitionNo, seq: i64) -> Condition {
    use score_event::Column::{Generation, Partition as In, Seq};
    let present = Condition::all().add(In.eq(i32::from(partition))).add(Seq.lte(seq));
    let since = board.has_moved().then(|| board.layout_since());
    Condition::any().add(present).add_option(since.map(|since| Generation.lt(since)))
}

/// True if an event of a partition's member is at or below a seq of it.
pub(crate) fn is_up_to(board: &Board, (place, event): &(EventPlace, Event), seq: u64) -> bool {
    place.seq <= seq || board.layout_of(event.generation) < board.layout()
}

impl Partition<'_> {
    /// Visits the all-time rows of the partition's members on a board that moved, each as segment,
    /// member and rank key. The rows may still name the former partition; one whose member is none
    /// counts nowhere.
    pub(crate) async fn each_standing(
        self,
        board: &Board,
        mut take: impl FnMut(&str, &str, Option<i64>),
    ) -> Result<()> {
        let partitions = self.store.partitions();
        let homes = partitions.homes(board, self.no);
        let homes: BTreeSet<PartitionNo> = homes.into_iter().map(|(_, home)| home).collect();
        for home in homes {
            let mut blocks =
                Columns::of_standing(home, Some(board.no)).with(&["rank_key"]).read(&self.db);
            while let Some(block) = in_time(blocks.try_next()).await? {
                for (segment, member, [key]) in block.rows(["rank_key"])?.iter() {
                    let id = MemberId::new(member);
                    if id.is_ok_and(|id| partitions.of_member(board, &id) == self.no) {
                        take(segment, member, key);
                    }
                }
            }
        }
        Ok(())
    }
}

/// An event id that a home accepted, as the member's present partition must remember it.
#[derive(Debug, Clone)]
pub(crate) struct Remembered {
    /// The member that the event id belongs to.
    pub(crate) member: MemberId,
    /// The member's present partition.
    pub(crate) there: PartitionNo,
    /// The bucket of the deployment's clock at acceptance.
    pub(crate) bucket: i64,
    /// The field and value in a seen hash.
    pub(crate) entry: (String, String),
}

/// The event ids that a home accepted for a board in one layout and that may still count, except
/// those of voided events, in pages by (seq, index).
pub(crate) struct SeenPages<'a> {
    deployment: &'a Deployment,
    board: &'a Board,
    layout: usize,
    home: PartitionNo,
    voided: &'a HashSet<EventPlace>,
    /// The end of the last page; `None` before the first one.
    last: Option<(i64, i32)>,
}

impl<'a> SeenPages<'a> {
    /// A reader before the first page.
    pub(crate) fn new(
        deployment: &'a Deployment,
        board: &'a Board,
        (layout, home): (usize, PartitionNo),
        voided: &'a HashSet<EventPlace>,
    ) -> Self {
        Self { deployment, board, layout, home, voided, last: None }
    }

    /// The next page; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Remembered>>> {
        let (db, partitions) = (&self.deployment.db, self.deployment.store.partitions());
        let after = match self.last {
            Some(last) => last,
            None => match in_time(first_seq_kept(db, self.home, self.deployment.dedup)).await? {
                Some(first_seq) => (first_seq - 1, i32::MAX),
                None => return Ok(None),
            },
        };
        let page = score_event::page_after(self.home, after, ROWS_MAX)
            .filter(score_event::Column::BoardNo.eq(self.board.no.0))
            .filter(score_event::Column::EventId.is_not_null())
            .filter(of_layout(self.board, self.layout));
        let rows = in_time(page.all(db)).await?;
        let (Some(first), Some(end)) = (rows.first(), rows.last()) else {
            return Ok(None);
        };
        self.last = Some((end.seq, end.event_index));
        let times = in_time(commit::times(db, self.home, first.seq, end.seq)).await?;
        let mut seen = vec![];
        for row in rows {
            let is_voided = row.place().is_ok_and(|place| self.voided.contains(&place));
            let (Some(times), false) = (times.get(&row.seq), is_voided) else {
                continue;
            };
            let event = match row.to_ranking() {
                Ok(event) => event,
                Err(error) => {
                    log_unreadable(&row, &error);
                    continue;
                }
            };
            let there = partitions.of_member(self.board, &event.member);
            let seq = seq_there(row.seq as u64, self.home, there);
            if let Some(entry) = seen_entry(&event, times.accepted_at_ms, seq) {
                seen.push(Remembered {
                    member: event.member,
                    there,
                    bucket: self.deployment.dedup.bucket(times.clock_ms),
                    entry,
                });
            }
        }
        Ok(Some(seen))
    }
}

/// The first commit of a partition whose event ids may still count, given the clock at its last
/// one; `None` if it has no commits. As the clock never moves back, those of later ones do too.
pub(crate) async fn first_seq_kept(
    db: &impl ConnectionTrait,
    partition: PartitionNo,
    dedup: Dedup,
) -> Result<Option<i64>> {
    use commit::Column::{ClockMs, Partition as In, Seq};
    let commits = || commit::Entity::find().filter(In.eq(i32::from(partition)));
    let last: Option<i64> = commits()
        .select_only()
        .column(ClockMs)
        .order_by_desc(Seq)
        .limit(1)
        .into_tuple()
        .one(db)
        .await?;
    let Some(last_ms) = last else {
        return Ok(None);
    };
    let first: Option<Option<i64>> = commits()
        .select_only()
        .column_as(Seq.min(), "seq")
        .filter(ClockMs.gte(last_ms - dedup.kept_ms()))
        .into_tuple()
        .one(db)
        .await?;
    Ok(first.flatten())
}

/// The seq that a partition records for an event id that a home of its members accepted.
pub(crate) fn seq_there(seq: u64, home: PartitionNo, there: PartitionNo) -> u64 {
    if home == there { seq } else { ELSEWHERE }
}
