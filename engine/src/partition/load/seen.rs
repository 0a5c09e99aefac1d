//! The event ids of a partition that is loaded from SQL.

use std::collections::{BTreeMap, HashMap};

use entity::error::Result;
use entity::history::{commit, score_event};
use ranking::board::Board;
use ranking::id::BoardNo;
use ranking::store::recovery::Recovery;
use ranking::store::write::{BUCKET_MS, Writes};
use ranking::submission::event_ids::seen_entry;
use sea_orm::{ColumnTrait, Condition, EntityTrait, QueryFilter};

use crate::partition::Partition;
use crate::partition::home::{SeenPages, first_seq_kept, log_unreadable};
use crate::partition::recovery::in_time;

/// Fields and values of seen hashes, by bucket.
type Buckets = BTreeMap<i64, Vec<(String, String)>>;

impl Partition<'_> {
    /// Restores the event ids, within the dedup window, of a board that moved to another number of
    /// shards. Returns the beginning of the last bucket, 0 if there is none: writers look only into
    /// buckets up to that of the partition's clock.
    async fn load_seen_of(self, recovery: &Recovery, board: &Board) -> Result<i64> {
        let mut last = 0;
        let voided = in_time(score_event::voided_on(&self.db, board.no)).await?;
        for home in self.store.partitions().homes(board, self.no) {
            let mut pages = SeenPages::new(self.deployment, board, home, &voided);
            while let Some(seen) = pages.next().await? {
                let mut buckets = Buckets::new();
                for seen in seen.into_iter().filter(|seen| seen.there == self.no) {
                    last = last.max(seen.bucket * BUCKET_MS);
                    buckets.entry(seen.bucket).or_default().push(seen.entry);
                }
                self.put_seen(recovery, buckets).await?;
            }
        }
        Ok(last)
    }

    /// Restores the event ids within the dedup window. Returns an instant that the partition's
    /// clock must have reached for all of them to count, in Unix milliseconds.
    pub(super) async fn load_seen(
        self,
        recovery: &Recovery,
        boards: &HashMap<BoardNo, Board>,
    ) -> Result<i64> {
        self.load_seen_here(recovery, boards).await?;
        let mut clock_ms = 0;
        for board in boards.values().filter(|board| board.has_moved()) {
            clock_ms = clock_ms.max(self.load_seen_of(recovery, board).await?);
        }
        Ok(clock_ms)
    }

    /// Restores the event ids within the dedup window, except those of boards that moved.
    async fn load_seen_here(
        self,
        recovery: &Recovery,
        boards: &HashMap<BoardNo, Board>,
    ) -> Result<()> {
        let kept = first_seq_kept(&self.db, self.no, self.dedup);
        let Some(first) = in_time(kept).await? else {
            return Ok(());
        };
        let voided = in_time(score_event::voided(&self.db, self.no, i64::MAX as u64)).await?;
        let mut last = first - 1;
        loop {
            let times = in_time(commit::times_after(&self.db, self.no, last, 100)).await?;
            let (Some((&first, _)), Some((&end, _))) =
                (times.first_key_value(), times.last_key_value())
            else {
                return Ok(());
            };
            last = end;
            let in_them = Condition::all()
                .add(score_event::Column::Partition.eq(i32::from(self.no)))
                .add(score_event::Column::Seq.between(first, end));
            let rows = score_event::Entity::find()
                .filter(in_them)
                .filter(score_event::Column::EventId.is_not_null())
                .all(&self.db);
            let rows = in_time(rows).await?;
            let mut buckets = Buckets::new();
            for row in rows {
                let board = boards.get(&BoardNo(row.board_no));
                let is_voided = row.place().is_ok_and(|place| voided.contains(&place));
                if is_voided || board.is_some_and(Board::has_moved) {
                    continue;
                }
                let Some(times) = times.get(&row.seq) else {
                    continue;
                };
                match row.to_ranking() {
                    Ok(event) => {
                        let seen = seen_entry(&event, times.accepted_at_ms, row.seq as u64);
                        buckets.entry(self.dedup.bucket(times.clock_ms)).or_default().extend(seen);
                    }
                    Err(error) => log_unreadable(&row, &error),
                }
            }
            self.put_seen(recovery, buckets).await?;
        }
    }

    async fn put_seen(self, recovery: &Recovery, buckets: Buckets) -> Result<()> {
        for (bucket, seen) in buckets {
            let mut writes = Writes::default();
            writes.set_seen(self.store.keys(), (self.no, bucket), &seen, self.dedup);
            recovery.apply(&writes).await?;
        }
        Ok(())
    }
}
