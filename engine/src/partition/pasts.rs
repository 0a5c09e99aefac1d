//! Stores of different pasts: the reasons why a partition waits for an operator, and the commits
//! that an SQL which has gone back gets from the log.

use std::collections::BTreeMap;

use entity::board;
use entity::error::Result;
use entity::history::log_cursor;
use ranking::store::recovery::Found;

use crate::partition::Partition;
use crate::partition::persist::one_transaction;
use crate::partition::recovery::in_time;

impl Partition<'_> {
    /// Writes what SQL has lost from a log that leads on, so that the log can be trimmed again.
    pub(super) async fn give_back(self) -> Result<()> {
        loop {
            let cursor = self.cursor_or_root().await?;
            let seq = cursor.seq as u64;
            let found = self.store.find_log(self.no, seq, &cursor.commit_id).await?;
            if !found.had_more(seq) || !found.leads_on(seq, &cursor.commit_id) {
                return Ok(());
            }
            if let Some(why) = self.misfit(&found).await? {
                return Err(ranking::Error::Unavailable(format!("partition {self}: {why}")).into());
            }
            let commits = one_transaction(found.descendants);
            in_time(self.persist_commits(&cursor, &commits)).await?;
        }
    }

    /// The reason why SQL, which has gone back, cannot take the commits that the log has for it: a
    /// board was made or changed after that state.
    pub(crate) async fn misfit(self, found: &Found) -> Result<Option<String>> {
        let mut generations: BTreeMap<i64, u32> = BTreeMap::new();
        for event in found.descendants.iter().flat_map(|commit| &commit.events) {
            let last = generations.entry(event.board.0).or_default();
            *last = event.generation.max(*last);
        }
        let numbers: Vec<i64> = generations.keys().copied().collect();
        let rows = board::of_numbers(&self.db, &numbers).await?;
        let known: BTreeMap<i64, u32> =
            rows.iter().map(|row| (row.no, row.generation.unsigned_abs())).collect();
        let misfit = generations.iter().find_map(|(no, generation)| match known.get(no) {
            None => Some((no, "never gave out")),
            Some(known) if known < generation => Some((no, "has in a former state")),
            Some(_) => None,
        });
        Ok(misfit.map(|(no, how)| {
            gone_back(&format!("Redis has events of board number {no}, which this database {how}"))
        }))
    }
}

/// The reason why a partition whose log does not lead from SQL's cursor to its head, which is of an
/// epoch, is not to be loaded from SQL; `None` if it may be.
pub(super) fn conflict(
    cursor: &log_cursor::Model,
    found: &Found,
    of_head: u64,
    run_id: &str,
) -> Option<String> {
    let (seq, epoch) = (cursor.seq as u64, cursor.epoch.unsigned_abs());
    if of_head > epoch || found.had_more(seq) {
        return Some(gone_back(&format!(
            "it has commits to {seq} of epoch {epoch}, and it had those to {} of epoch {of_head}, which the log no longer has",
            found.settled
        )));
    }
    if found.head.is_some() && of_head < epoch && cursor.is_retired(run_id) {
        return Some(format!(
            "this Redis was replaced: it is at epoch {of_head}, and the database goes on with another one at epoch {epoch}; correct LAUREL_REDIS_URL, or let `laurel adopt` move to this Redis, which shows first what would be lost"
        ));
    }
    None
}

/// Words for an operator whose SQL is an earlier state of itself.
pub(crate) fn gone_back(how: &str) -> String {
    format!(
        "the database has gone back: {how}; restore a later database, or let `laurel adopt` go on from this one, which shows first what would be lost"
    )
}
