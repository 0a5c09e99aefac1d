//! Copying the final entries of past periods from Redis to SQL, page by page.

use std::collections::{BTreeMap, HashMap};

use ranking::commit::{Event, EventKind, EventPlace};
use ranking::id::{BoardNo, PartitionNo};
use ranking::standings_id::StandingsId;
use ranking::store::read::RankedEntry;
use ranking::store::scan::sealing::FinalPage;
use ranking::window::Period;
use ranking::window::seal::{NEVER_MS, SealMark};
use sea_orm::{
    ColumnTrait, Condition, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter,
    QuerySelect,
};

use super::listing::Listing;
use super::window_seal::WindowSeal;
use crate::partition::Partition;
use crate::seal::correction;
use crate::seal::correction::Source;
use entity::error::{Error, Result};
use entity::history::{dead_letter, log_cursor, score_event};
use entity::sql::{begin, lock_cursor, set_windows};
use entity::standings::{sealed_entry, sealed_period};

/// The most entries in one transaction.
const ENTRIES_MAX: usize = 1000;

/// A copy of a window's entries, and what it is a copy of.
pub(super) struct WindowCopy {
    /// Each partition's mark, and its standings.
    parts: Vec<(SealMark, Vec<(StandingsId, Period)>)>,
    /// The number of entries.
    pub(super) entries: usize,
}

impl WindowCopy {
    /// The number of standings, counted by shard.
    pub(super) fn standings(&self) -> usize {
        self.parts.iter().map(|(_, standings)| standings.len()).sum()
    }
}

impl WindowSeal<'_> {
    /// Copies the entries of the listed periods that start before an instant and are not sealed
    /// yet; `None` if recovery reloaded a partition in between.
    pub(super) async fn copy(
        &self,
        listing: &Listing,
        before_ms: i64,
    ) -> Result<Option<WindowCopy>> {
        let mut copy = WindowCopy { parts: vec![], entries: 0 };
        for partition in self.partitions() {
            let standings = self.unsealed(listing, partition, before_ms)?;
            let Some(mark) = self.mark_of(partition, before_ms).await? else {
                return Ok(None);
            };
            for (id, period) in &standings {
                let Some(entries) = self.copy_standings(partition, mark, id, period).await? else {
                    return Ok(None);
                };
                copy.entries += entries;
            }
            copy.parts.push((mark, standings));
        }
        Ok(Some(copy))
    }

    /// True if a copy has all that a later listing has, and no recovery came in between.
    pub(super) async fn has_all(
        &self,
        copy: &WindowCopy,
        again: &Listing,
        before_ms: i64,
    ) -> Result<bool> {
        for (partition, (mark, standings)) in self.partitions().into_iter().zip(&copy.parts) {
            let now = self.mark_of(partition, before_ms).await?;
            if now != Some(*mark) || self.unsealed(again, partition, before_ms)? != *standings {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The partition's listed standings before an instant that are not sealed yet.
    fn unsealed(
        &self,
        listing: &Listing,
        partition: Partition<'_>,
        before_ms: i64,
    ) -> Result<Vec<(StandingsId, Period)>> {
        let from_ms = self.window().sealed_before_ms.unwrap_or(NEVER_MS);
        self.standings(listing, partition, from_ms, before_ms)
    }

    /// Copies the entries of one shard of standings, and returns their number; `None` if the mark
    /// is not the given one any more.
    async fn copy_standings(
        &self,
        partition: Partition<'_>,
        mark: SealMark,
        id: &StandingsId,
        period: &Period,
    ) -> Result<Option<usize>> {
        let (mut start, mut copied) = (0, 0);
        loop {
            let page = partition.store.final_page(partition.no, id, start, ENTRIES_MAX).await?;
            if page.mark != mark {
                return Ok(None);
            }
            start += page.count;
            if page.entries.len() < page.count {
                tracing::error!(board = self.row.slug, standings = %id, "a sorted set holds an invalid entry; that entry is not sealed");
            }
            copied += page.entries.len();
            let is_last = is_last(&page);
            self.copy_page(partition, id, period, page).await?;
            if is_last {
                return Ok(Some(copied));
            }
        }
    }

    /// The partition's mark of the window; `None` if it does not seal up to that instant.
    async fn mark_of(&self, partition: Partition<'_>, before_ms: i64) -> Result<Option<SealMark>> {
        let tail = partition.head(self.board.no, &[self.name]).await?;
        let mark = tail.seals.first().copied();
        Ok(mark.filter(|mark| mark.sealing_before_ms >= before_ms))
    }

    /// Copies a page, and checks that SQL then has exactly its entries.
    async fn copy_page(
        &self,
        partition: Partition<'_>,
        id: &StandingsId,
        period: &Period,
        page: FinalPage,
    ) -> Result<()> {
        let transaction = begin(&partition.db).await?;
        // The locks keep out persisters, changes of the windows, and the deletion of the board.
        let held = set_windows(&self.row, &self.row.windows).exec(&transaction).await?;
        let locked = lock_cursor(partition.no).exec(&transaction).await?;
        if held.rows_affected != 1 || locked.rows_affected != 1 {
            transaction.rollback().await?;
            return Err(changed(&self.row.slug));
        }
        self.copy_into(&transaction, partition, id, period, page).await?;
        Ok(transaction.commit().await?)
    }

    async fn copy_into(
        &self,
        transaction: &DatabaseTransaction,
        partition: Partition<'_>,
        id: &StandingsId,
        period: &Period,
        page: FinalPage,
    ) -> Result<()> {
        let of_one = BTreeMap::from([(id.clone(), period.clone())]);
        if !page.entries.is_empty() {
            sealed_period::number(transaction, &of_one, partition.clock.now_ms()).await?;
        }
        let Some(no) = sealed_period::numbers(transaction, &of_one).await?.remove(id) else {
            return Ok(());
        };
        let members: Vec<&str> = page.entries.iter().map(|entry| entry.member.as_str()).collect();
        let refused = self.refused(transaction, partition.no, period, &members).await?;
        let mut late =
            late(transaction, self.board.no, partition.no, period, page.mark.seq, &members).await?;
        late.extend(refused.iter().map(|(_, event)| event.member.to_string()));
        late.sort_unstable();
        let is_late = |entry: &RankedEntry| {
            late.binary_search_by(|late| late.as_str().cmp(entry.member.as_str())).is_ok()
        };
        let in_time: Vec<&RankedEntry> =
            page.entries.iter().filter(|entry| !is_late(entry)).collect();
        let rules = &self.board.rules;
        let row = |entry: &&RankedEntry| sealed_entry::Model {
            standings_no: no,
            member: entry.member.to_string(),
            score: rules.state(id.window, period, entry.key).score,
            rank_key: entry.key.to_i64(),
            partition: partition.no.into(),
            seq: 0,
        };
        let rows = in_time.iter().map(row).collect();
        let growth = sealed_entry::insert(transaction, rows, sealed_entry::keep()).await?;
        sealed_period::grow(transaction, growth).await?;
        if !refused.is_empty() {
            let refused: Vec<_> = refused.iter().map(|(place, event)| (place.seq, event)).collect();
            let boards = HashMap::from([(self.board.no, self.board.clone())]);
            let within = partition.within(transaction, &boards);
            correction::correct(within, &refused, Source::DeadLetters).await?;
        }
        check_stored(transaction, id, no, &in_time).await?;
        if is_last(&page) {
            check_count(transaction, partition.no, id, no, page.size).await?;
        }
        Ok(())
    }

    /// The events in a period of the listed members that SQL refused.
    async fn refused(
        &self,
        transaction: &DatabaseTransaction,
        partition: PartitionNo,
        period: &Period,
        members: &[&str],
    ) -> Result<Vec<(EventPlace, Event)>> {
        // History lacks the events that SQL refused, so their members' entries are folded from
        // history.
        let mut refused = dead_letter::of_board(transaction, partition, self.board.no).await?;
        refused.retain(|(_, event)| {
            let is_meant = match event.kind {
                EventKind::Score { at_ms, .. } => {
                    period.start_ms <= at_ms && period.end_ms.is_none_or(|end_ms| at_ms < end_ms)
                }
                _ => true,
            };
            is_meant && members.contains(&event.member.as_str())
        });
        Ok(refused)
    }
}

/// True if no page follows.
fn is_last(page: &FinalPage) -> bool {
    page.count < ENTRIES_MAX
}

/// Checks that SQL has these entries of sealed standings, or corrections of them.
async fn check_stored(
    transaction: &DatabaseTransaction,
    id: &StandingsId,
    no: i64,
    entries: &[&RankedEntry],
) -> Result<()> {
    let members = entries.iter().map(|entry| entry.member.as_str());
    let of_entries = Condition::all()
        .add(sealed_entry::Column::StandingsNo.eq(no))
        .add(sealed_entry::Column::Member.is_in(members));
    let stored: BTreeMap<String, sealed_entry::Model> = sealed_entry::Entity::find()
        .filter(of_entries)
        .all(transaction)
        .await?
        .into_iter()
        .map(|row| (row.member.clone(), row))
        .collect();
    let is_there = |entry: &RankedEntry| {
        let row = stored.get(entry.member.as_str());
        row.is_some_and(|row| row.seq > 0 || row.rank_key == entry.key.to_i64())
    };
    match entries.iter().find(|entry| !is_there(entry)) {
        None => Ok(()),
        Some(entry) => Err(ranking::Error::Corrupt(format!(
            "the sealed entry of {} in {id} differs from the entry that Redis had",
            entry.member
        ))
        .into()),
    }
}

/// Checks that SQL has no more entries of a shard of sealed standings than Redis had.
async fn check_count(
    transaction: &DatabaseTransaction,
    partition: PartitionNo,
    id: &StandingsId,
    no: i64,
    size: u64,
) -> Result<()> {
    let of_partition = Condition::all()
        .add(sealed_entry::Column::StandingsNo.eq(no))
        .add(sealed_entry::Column::Partition.eq(i32::from(partition)))
        .add(sealed_entry::Column::Seq.eq(0));
    if sealed_entry::Entity::find().filter(of_partition).count(transaction).await? > size {
        return Err(ranking::Error::Corrupt(format!(
            "SQL has more sealed entries of {id} in partition {partition} than Redis had"
        ))
        .into());
    }
    Ok(())
}

/// The listed members whose history in a period went on after a commit; the persister corrects
/// their entries.
async fn late(
    transaction: &DatabaseTransaction,
    board: BoardNo,
    partition: PartitionNo,
    period: &Period,
    seq: u64,
    members: &[&str],
) -> Result<Vec<String>> {
    use score_event::Column::{AtMs, BoardNo as No, Kind, Member, Partition as In, Seq};
    let cursor = log_cursor::of(transaction, partition).await?;
    if cursor.is_some_and(|cursor| cursor.seq as u64 <= seq) {
        return Ok(vec![]);
    }
    let in_period = Condition::all()
        .add(AtMs.gte(period.start_ms))
        .add(AtMs.lt(period.end_ms.unwrap_or(i64::MAX)));
    let after = Condition::all()
        .add(No.eq(board.0))
        .add(Member.is_in(members.iter().copied()))
        .add(In.eq(i32::from(partition)))
        .add(Seq.gt(seq as i64))
        .add(Condition::any().add(Kind.ne(score_event::Kind::Score)).add(in_period));
    let late = score_event::Entity::find()
        .select_only()
        .column(Member)
        .distinct()
        .filter(after)
        .into_tuple()
        .all(transaction);
    Ok(late.await?)
}

fn changed(slug: &str) -> Error {
    ranking::Error::Unavailable(format!(
        "board {slug} changed while it was being sealed; try again later"
    ))
    .into()
}
