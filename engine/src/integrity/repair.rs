//! Repair of locations that differ from the history.
//!
//! Redis is repaired by commits without events, each folded onto exactly the head that it names.
//! SQL is repaired by transactions that lock the partition's cursor. Both compare again first, and
//! skip locations that agree by then.

mod entries;
mod rows;

use std::collections::{BTreeMap, BTreeSet};

use ranking::board::Board;
use ranking::id::BoardNo;
use ranking::standings_id::StandingsId;
use ranking::store::log::Tail;
use ranking::store::write::Writes;
use ranking::window::Period;
use ranking::window::seal::SealName;
use sea_orm::{ColumnTrait, QueryFilter};
use tokio::time::{Duration, Instant};

use crate::history::amend::seal_names;
use crate::integrity::look::{ArchivedHistory, Locations};
use crate::partition::Partition;
use crate::partition::change::{Change, Proposal};
use crate::reshard;
use entity::board;
use entity::error::Result;
use entity::sql::{begin, lock_cursor, set_windows};
use entries::Mending;
use rows::mend_in;

/// The most locations that one commit or transaction repairs.
pub const PLACES_MAX: usize = 1000;

/// The time limit of one commit.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(30);

/// The source of the right values.
#[derive(Debug, Clone, Copy)]
pub enum Truth<'a> {
    /// The history, with the archived events of the members concerned.
    History(&'a ArchivedHistory),
    /// The rows of `standing`; for entries of `all` only.
    Standings,
}

/// A key in the key space of standings that is not one of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ForeignKey {
    /// The key's name.
    pub key: String,
    /// True if its board is gone; false if Laurel never writes such a name or type.
    pub is_gone: bool,
}

/// Repairs entries in Redis, at most [`PLACES_MAX`], with one commit. Returns how many still
/// differed.
///
/// # Errors
/// `BoardGone` if the board has changed; otherwise as [`Partition::submit`]. Needs SQL.
pub async fn mend_redis(
    partition: Partition<'_>,
    board: &Board,
    truth: Truth<'_>,
    places: &Locations,
) -> Result<usize> {
    commit(partition, Mending::new(board, truth, places)).await
}

/// Drops keys that are still foreign, with one commit. Returns their number.
pub async fn drop_foreign(partition: Partition<'_>, keys: &[ForeignKey]) -> Result<usize> {
    commit(partition, Dropping { keys }).await
}

/// Lists periods that have entries and are missing from their lists, with one commit. Returns their
/// number.
///
/// # Errors
/// As [`mend_redis`].
pub async fn list_periods(
    partition: Partition<'_>,
    board: &Board,
    unlisted: &BTreeSet<StandingsId>,
) -> Result<usize> {
    commit(partition, Listing { board, unlisted }).await
}

/// Makes a repair's commit. Returns the number of repairs.
pub(super) async fn commit(
    partition: Partition<'_>,
    mut change: impl Change<Outcome = usize> + Send,
) -> Result<usize> {
    let deadline = Instant::now() + COMMIT_TIMEOUT;
    let done = partition.commit_with_retry(&mut change, deadline).await?;
    Ok(done.outcome)
}

/// Repairs rows of `standing`, `sealed_entry` and `archived_entry`, at most [`PLACES_MAX`], in one
/// transaction. Returns how many still differed; `None` if the board has changed.
pub async fn mend_sql(
    partition: Partition<'_>,
    row: &board::Model,
    archived: &ArchivedHistory,
    places: &Locations,
) -> Result<Option<usize>> {
    let transaction = begin(&partition.db).await?;
    // The locks keep out changes of the windows, seals, archives and deletion of the board, then
    // persisters. All transactions take them in this order.
    let held = set_windows(row, &row.windows).exec(&transaction).await?;
    let locked = lock_cursor(partition.no).exec(&transaction).await?;
    if held.rows_affected != 1 || locked.rows_affected != 1 {
        transaction.rollback().await?;
        return Ok(None);
    }
    let board = row.to_ranking()?;
    let mended = mend_in(partition, &transaction, &board, archived, places).await?;
    transaction.commit().await?;
    Ok(Some(mended))
}

struct Dropping<'a> {
    keys: &'a [ForeignKey],
}

impl Change for Dropping<'_> {
    type Outcome = usize;

    async fn propose(&mut self, partition: Partition<'_>) -> Result<Proposal<usize>> {
        let store = &partition.store;
        let tail = partition.head(BoardNo(0), &[]).await?;
        let names: Vec<String> = self.keys.iter().map(|foreign| foreign.key.clone()).collect();
        let (mut writes, mut dropped) = (Writes::default(), 0);
        let id = |key: &String| store.keys().parse_standings(partition.no, key);
        // Read after the head: a board may have moved to another number of shards.
        let nos = names.iter().filter_map(id).map(|id| id.board);
        let mut boards = BTreeMap::new();
        for no in nos.collect::<BTreeSet<BoardNo>>() {
            let row = board::living().filter(board::Column::No.eq(no.0));
            if let Some(row) = row.one(&partition.db).await? {
                let is_here = reshard::partitions(&partition, &row)?
                    .iter()
                    .any(|part| part.no == partition.no);
                let is_there = row.reshard.is_some() && is_here;
                let board = row.to_ranking()?;
                let present = store.partitions().of_board(&board);
                boards.insert(no, is_there || present.contains(&partition.no));
            }
        }
        for (foreign, kind) in self.keys.iter().zip(store.kinds(&names).await?) {
            let id = id(&foreign.key);
            let has_board = id.as_ref().and_then(|id| boards.get(&id.board));
            let is_gone = foreign.is_gone && has_board != Some(&true);
            if kind != "none" && (is_gone || id.is_none() || kind != "zset") {
                writes.drop_key(&foreign.key);
                dropped += 1;
            }
        }
        Ok(proposal(partition, &tail, writes, dropped))
    }
}

struct Listing<'a> {
    board: &'a Board,
    unlisted: &'a BTreeSet<StandingsId>,
}

impl Change for Listing<'_> {
    type Outcome = usize;

    async fn propose(&mut self, partition: Partition<'_>) -> Result<Proposal<usize>> {
        let (store, keys) = (&partition.store, partition.store.keys());
        let seals = seal_names(self.board);
        let tail = partition.head(self.board.no, &seals).await?;
        tail.board.check(self.board)?;
        let names: Vec<String> =
            self.unlisted.iter().map(|id| keys.standings(partition.no, id)).collect();
        let lists =
            self.unlisted.iter().map(|id| (keys.periods(partition.no, id), id.period.clone()));
        let lists: Vec<(String, String)> = lists.collect();
        let (kinds, listed) = (store.kinds(&names).await?, store.listed(&lists).await?);
        let (mut writes, mut noted) = (Writes::default(), 0);
        for ((id, kind), start) in self.unlisted.iter().zip(kinds).zip(listed) {
            let period = id.window.period_named(&id.period, &self.board.rules.calendar)?;
            let is_sealed = is_sealed(&seals, &tail, id, &period);
            if kind == "zset" && !is_sealed && start != Some(period.present_from_ms as f64) {
                writes.note_period(keys, partition.no, id, period.present_from_ms);
                noted += 1;
            }
        }
        Ok(proposal(partition, &tail, writes, noted))
    }
}

/// True if one of the seals that were read closes a period.
fn is_sealed(seals: &[SealName], tail: &Tail, id: &StandingsId, period: &Period) -> bool {
    let mut marks = seals.iter().zip(&tail.seals);
    marks.any(|(name, mark)| Some(*name) == id.seal_name() && mark.closes(period))
}

/// Proposes writes onto the head that was read, or nothing if there are none.
pub(super) fn proposal(
    partition: Partition<'_>,
    tail: &Tail,
    writes: Writes,
    outcome: usize,
) -> Proposal<usize> {
    let proposal = Proposal::onto(tail, outcome);
    match outcome {
        0 => proposal,
        _ => proposal.writing(writes, partition.clock.now_ms()),
    }
}
