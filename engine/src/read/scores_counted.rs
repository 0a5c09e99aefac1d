//! The numbers of scores that count in entries, from the history in SQL.

use std::collections::BTreeSet;

use entity::archive::{archive_mark, archived_entry};
use entity::board;
use entity::error::Result;
use entity::history::counted::{self, COUNTED_EVENTS_MAX, COUNTED_TOGETHER_MAX, ScoresOf};
use ranking::board::Board;
use ranking::id::MemberId;
use ranking::store::read::Standings;

use super::reader::Reader;

/// The scores of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScoresCounted {
    /// Their number; `None` if some of them may be archived, as no row tells how many.
    pub number: Option<u64>,
    /// The number of events that SQL looked at.
    pub passed: u64,
}

impl Reader {
    /// The scores of members' entries in standings of a board, in the order of `members`. Scores
    /// that SQL does not have yet are not counted, but each entry has one at least.
    ///
    /// # Errors
    /// `LimitExceeded` for a member with more than 10,000 events on the board, and for those behind
    /// about `passed_max`; the outer error if SQL does not answer.
    pub async fn scores_counted(
        &self,
        board: &Board,
        standings: &Standings,
        members: &[MemberId],
        passed_max: u64,
    ) -> Result<Vec<ranking::Result<ScoresCounted>>> {
        let period = &standings.period;
        let of = ScoresOf {
            from_ms: if period.end_ms.is_some() { period.start_ms } else { i64::MIN },
            until_ms: period.end_ms,
            segment: &standings.id.segment,
        };
        let archived = self.archived_members(board, of.from_ms, members).await?;
        let keys: Vec<&str> = members.iter().map(MemberId::as_str).collect();
        let counts = counted::scores(&self.deployment.reads, board, &keys, of, passed_max).await?;
        let told = keys.iter().zip(counts).map(|(member, count)| {
            let passed = count.passed;
            match count.scores {
                _ if archived.contains(*member) => Ok(ScoresCounted { number: None, passed }),
                Some(scores) => Ok(ScoresCounted { number: Some(scores.max(1)), passed }),
                None => Err(ranking::Error::LimitExceeded(format!(
                    "scores are counted among at most {COUNTED_EVENTS_MAX} events of a member on a board, and about {COUNTED_TOGETHER_MAX} of all members that a request asks for; ask for fewer entries"
                ))),
            }
        });
        Ok(told.collect())
    }

    /// The members with archived events on a board, if some of these are later than an instant.
    async fn archived_members(
        &self,
        board: &Board,
        from_ms: i64,
        members: &[MemberId],
    ) -> Result<BTreeSet<String>> {
        let db = &self.deployment.reads;
        let mut archived = BTreeSet::new();
        let before_ms = board::archived_before_ms(db, board.no).await?;
        if before_ms.is_none_or(|before_ms| before_ms <= from_ms) {
            return Ok(archived);
        }
        for (partition, members) in self.deployment.by_partition(board, members, |member| member) {
            let mark = archive_mark::of(db, board.no, partition.no).await?;
            let members = members.iter().map(MemberId::as_str);
            let rows = archived_entry::of_members(db, &mark, members).await?;
            archived.extend(rows.into_keys().map(|(member, _)| member));
        }
        Ok(archived)
    }
}
