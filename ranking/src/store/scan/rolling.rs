//! What rolling needs of Redis: how far a board's series have got, and who is in a standings.

use std::collections::HashMap;

use crate::commit::Head;
use crate::error::Result;
use crate::id::{BoardNo, MemberId, Partition};
use crate::roll::RollMark;
use crate::standings_id::StandingsId;
use crate::store::{Store, decode};

/// How many members one step looks at.
const MEMBERS_MAX: usize = 500;

/// A step of a walk through a standings.
#[derive(Debug)]
pub struct Walked {
    /// Where the next step begins; `None` at the end.
    pub next: Option<String>,
    /// Members that are there; some may come twice. What is no member is left out.
    pub members: Vec<MemberId>,
}

impl Store {
    /// How far a board's series have got in a partition, and the head of that moment. One round trip: `GET`, `HGETALL` in a transaction.
    ///
    /// # Errors
    /// `NotLevel`, `Unavailable`; `Corrupt` where a mark is none of ours.
    pub async fn rolls(
        &self,
        partition: Partition,
        board: BoardNo,
    ) -> Result<(Head, HashMap<String, RollMark>)> {
        let mut pipe = redis::pipe();
        pipe.atomic();
        pipe.cmd("GET").arg(self.keys().head(partition));
        pipe.cmd("HGETALL").arg(self.keys().rolls(partition, board));
        let ((head, marks), run_id): ((Option<String>, HashMap<String, String>), _) =
            self.read(&pipe).await?;
        let head = Self::check_level(partition, head.as_deref(), &run_id)?;
        Ok((head, marks_of(marks)?))
    }

    /// How far boards' series have got in partitions, in the order asked, level or not. One round trip: an `HGETALL` a board and partition.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt` where a mark is none of ours.
    pub async fn many_rolls(
        &self,
        places: &[(Partition, BoardNo)],
    ) -> Result<Vec<HashMap<String, RollMark>>> {
        let mut pipe = redis::pipe();
        for (partition, board) in places {
            pipe.cmd("HGETALL").arg(self.keys().rolls(*partition, *board));
        }
        let marks = self.read_many(&pipe).await?.values.into_iter();
        marks.map(|marks| marks_of(decode(Some(marks))?)).collect()
    }

    /// A step of a walk through one shard of a standings: whoever is there all the while is met. Begins at "0". `ZSCAN`: O(members of the step).
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt` where the key has a foreign type.
    pub async fn walk(
        &self,
        partition: Partition,
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

    /// How many entries one shard of a standings has. One round trip: `ZCARD`.
    pub async fn shard_size(&self, partition: Partition, id: &StandingsId) -> Result<u64> {
        let mut pipe = redis::pipe();
        pipe.cmd("ZCARD").arg(self.keys().standings(partition, id));
        let ((size,), _): ((u64,), _) = self.read(&pipe).await?;
        Ok(size)
    }
}

/// Marks as a hash has them.
pub(crate) fn marks_of(marks: HashMap<String, String>) -> Result<HashMap<String, RollMark>> {
    let parse = |(series, mark): (String, String)| Ok((series, RollMark::parse(&mark)?));
    marks.into_iter().map(parse).collect()
}
