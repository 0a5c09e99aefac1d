//! The reads of the roller: the progress of a board's series, and the members of standings.

use std::collections::HashMap;

use crate::commit::Head;
use crate::error::Result;
use crate::id::{BoardNo, MemberId, PartitionNo};
use crate::standings_id::StandingsId;
use crate::store::{Store, decode};
use crate::window::roll::RollMark;

/// The number of members in one step.
const MEMBERS_MAX: usize = 500;

/// A step of a walk through the members of one shard.
#[derive(Debug)]
pub struct Walked {
    /// The cursor of the next step; `None` at the end.
    pub next: Option<String>,
    /// Members; some may come twice. Foreign entries are left out.
    pub members: Vec<MemberId>,
}

impl Store {
    /// The marks of a board's series in a partition, and the head at that moment. One round trip:
    /// `GET`, `HGETALL` in a transaction.
    ///
    /// # Errors
    /// `NotLevel`, `Unavailable`; `Corrupt` if another program wrote a mark.
    pub async fn rolls(
        &self,
        partition: PartitionNo,
        board: BoardNo,
    ) -> Result<(Head, HashMap<String, RollMark>)> {
        let mut pipe = redis::pipe();
        pipe.atomic();
        pipe.cmd("GET").arg(self.keys().head(partition));
        pipe.cmd("HGETALL").arg(self.keys().rolls(partition, board));
        let ((head, marks), run_id): ((Option<String>, HashMap<String, String>), _) =
            self.read(&pipe).await?;
        let head = self.check_level(partition, head.as_deref(), &run_id)?;
        Ok((head, marks_of(marks)?))
    }

    /// The marks of boards' series in partitions, in the order of the request, level or not; each
    /// `Corrupt` if another program wrote one of them. One round trip: an `HGETALL` for each board
    /// and partition.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn many_rolls(
        &self,
        places: &[(PartitionNo, BoardNo)],
    ) -> Result<Vec<Result<HashMap<String, RollMark>>>> {
        let mut pipe = redis::pipe();
        for (partition, board) in places {
            pipe.cmd("HGETALL").arg(self.keys().rolls(*partition, *board));
        }
        let marks = self.read_many(&pipe).await?.values.into_iter();
        Ok(marks.map(|marks| marks_of(decode(Some(marks))?)).collect())
    }

    /// A step of a walk through one shard of these standings. The walk begins at "0" and meets
    /// every member that is there from its beginning to its end. `ZSCAN`: O(members of the step).
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt` if the key has a foreign type.
    pub async fn walk(
        &self,
        partition: PartitionNo,
        id: &StandingsId,
        cursor: &str,
    ) -> Result<Walked> {
        let mut pipe = redis::pipe();
        pipe.cmd("ZSCAN")
            .arg(self.keys().standings(partition, id))
            .arg(cursor)
            .arg("COUNT")
            .arg(MEMBERS_MAX);
        let (answers, _): (Vec<redis::Value>, _) = self.read(&pipe).await?;
        let (next, entries): (String, Vec<(String, f64)>) = decode(answers.into_iter().next())?;
        let members =
            entries.into_iter().filter_map(|(member, _)| MemberId::new(&member).ok()).collect();
        Ok(Walked { next: (next != "0").then_some(next), members })
    }

    /// The number of entries in one shard of these standings. One round trip: `ZCARD`.
    pub async fn shard_size(&self, partition: PartitionNo, id: &StandingsId) -> Result<u64> {
        let mut pipe = redis::pipe();
        pipe.cmd("ZCARD").arg(self.keys().standings(partition, id));
        let ((size,), _): ((u64,), _) = self.read(&pipe).await?;
        Ok(size)
    }
}

/// Parses the marks in a hash.
pub(crate) fn marks_of(marks: HashMap<String, String>) -> Result<HashMap<String, RollMark>> {
    let parse = |(series, mark): (String, String)| Ok((series, RollMark::parse(&mark)?));
    marks.into_iter().map(parse).collect()
}
