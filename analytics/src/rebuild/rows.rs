//! Compares the rows of `standing` with the folded history, and repairs those that differ.
//!
//! Writers stay active. The rows of a member with events since the history was read are compared
//! with that history and those events. A repair holds SQL's cursor, so that no persister comes
//! between its reads and its writes. For a member without later events, the history that was read
//! is complete. For a member with later events, the transaction folds the history again.
//!
//! A wait for a pause of all writers might never end, and a rewrite of all rows would take minutes.

mod look;

use std::collections::{BTreeSet, HashMap, HashSet};

use anyhow::{Context, Result, bail};
use engine::partition::{Partition, all_time_rows};
use entity::board;
use entity::history::{log_cursor, score_event};
use entity::sql::{begin, insert_chunked, lock_cursor};
use entity::standings::standing;
use ranking::board::Board;
use sea_orm::{
    ColumnTrait, Condition, DatabaseTransaction, EntityTrait, IntoActiveModel, QueryFilter,
    QuerySelect,
};

use crate::frame::sorted::{Run, Sorted};

/// Rows that one SELECT reads.
const ROWS_MAX: u64 = 20_000;

/// Members that one transaction repairs: persisters wait for it.
const MENDED_MAX: usize = 500;

/// The rows of one partition of a board.
struct Rows<'a> {
    board: &'a Board,
    partition: Partition<'a>,
    /// The seq up to which the history was read.
    seq: i64,
    /// The fold of that history in "all".
    all: &'a Sorted,
}

/// Repairs the rows of a board in one partition, and returns the number of members whose rows
/// differed. `all` is the fold in "all" of the history up to `seq`.
pub async fn mend(
    partition: Partition<'_>,
    board: &Board,
    seq: u64,
    all: &Sorted,
) -> Result<usize> {
    let rows = Rows { partition, board, seq: seq as i64, all };
    let wrong = rows.look().await?;
    rows.mend(&wrong).await?;
    Ok(wrong.len())
}

impl Rows<'_> {
    fn is_ours(&self) -> Condition {
        Condition::all()
            .add(standing::Column::BoardNo.eq(self.board.no.0))
            .add(standing::Column::Partition.eq(i32::from(self.partition.no)))
    }

    async fn mend(&self, wrong: &BTreeSet<String>) -> Result<()> {
        if wrong.is_empty() {
            return Ok(());
        }
        let mut known: HashMap<&str, Vec<(&str, usize)>> = HashMap::new();
        for Run { id, rows, .. } in self.all.runs() {
            for row in rows.clone() {
                let member = self.all.member(row);
                if wrong.contains(member) {
                    let of_member = known.entry(member).or_default();
                    of_member.push((&id.segment, row));
                }
            }
        }
        let wrong: Vec<&String> = wrong.iter().collect();
        for members in wrong.chunks(MENDED_MAX) {
            let transaction = begin(&self.partition.db).await?;
            self.mend_in(&transaction, members, &known).await?;
            transaction.commit().await?;
        }
        Ok(())
    }

    async fn mend_in(
        &self,
        transaction: &DatabaseTransaction,
        members: &[&String],
        known: &HashMap<&str, Vec<(&str, usize)>>,
    ) -> Result<()> {
        let partition = i32::from(self.partition.no);
        // No persister moves the cursor until the commit. The lock comes first, since SQLite has
        // one write lock.
        lock_cursor(self.partition.no).exec(transaction).await?;
        let cursor = log_cursor::of(transaction, self.partition.no)
            .await?
            .context("SQL has no cursor of the partition")?;
        // A client that deletes the board waits for this transaction before its rows are deleted.
        let living = board::living().filter(board::Column::No.eq(self.board.no.0));
        if living.one(transaction).await?.is_none() {
            bail!("the board was deleted during the rebuild");
        }
        let named = score_event::Column::Member.is_in(members.iter().copied());
        let later: HashSet<String> = score_event::Entity::find()
            .select_only()
            .column(score_event::Column::Member)
            .distinct()
            .filter(score_event::Column::BoardNo.eq(self.board.no.0))
            .filter(named)
            .filter(score_event::Column::Partition.eq(partition))
            .filter(score_event::Column::Seq.gt(self.seq))
            .into_tuple::<String>()
            .all(transaction)
            .await?
            .into_iter()
            .collect();
        let mut rows = vec![];
        for &member in members {
            if later.contains(member) {
                let (board, seq) = (self.board, cursor.seq.unsigned_abs());
                let folded =
                    all_time_rows::recompute(transaction, self.partition.no, board, member, seq)
                        .await?;
                rows.extend(folded.into_iter().map(IntoActiveModel::into_active_model));
                continue;
            }
            for &(segment, row) in known.get(member.as_str()).into_iter().flatten() {
                rows.push(self.row(segment, row).into_active_model());
            }
        }
        let named = standing::Column::Member.is_in(members.iter().copied());
        standing::Entity::delete_many().filter(self.is_ours().add(named)).exec(transaction).await?;
        insert_chunked::<standing::Entity, _>(transaction, rows, Some(standing::replace())).await?;
        Ok(())
    }

    fn row(&self, segment: &str, row: usize) -> standing::Model {
        standing::Model {
            board_no: self.board.no.0,
            segment: segment.to_owned(),
            member: self.all.member(row).to_owned(),
            score: self.all.score(row),
            rank_key: self.all.key(row).to_i64(),
            partition: self.partition.no.into(),
            seq: self.all.seq(row),
        }
    }
}
