//! The reads of the sealer: the keys of many boards, the final
//! entries of a period, page by page, and the lists of periods.

use std::collections::BTreeSet;

use crate::commit::Head;
use crate::error::{Error, Result};
use crate::id::{BoardNo, MemberId, PartitionNo};
use crate::score::rank_key::RankKey;
use crate::standings_id::StandingsId;
use crate::store::read::RankedEntry;
use crate::store::{Store, decode};
use crate::window::seal::SealMark;

/// A page of one shard of a period's standings, at one moment.
#[derive(Debug)]
pub struct FinalPage {
    /// The partition's head.
    pub head: Head,
    /// The mark of the window's seal.
    pub mark: SealMark,
    /// The entries; without those that another program wrote.
    pub entries: Vec<RankedEntry>,
    /// The number of entries read, foreign ones included: fewer than requested at the end.
    pub count: usize,
    /// The size of the shard.
    pub size: u64,
}

impl Store {
    /// The groups of partitions whose keys one walk of [`each_series_key`](Self::each_series_key)
    /// finds: all of a single server, and one each of a cluster, where slots may move.
    pub fn walks(&self, partitions: &BTreeSet<PartitionNo>) -> Vec<BTreeSet<PartitionNo>> {
        match self.inner.cluster.is_cluster() {
            true => partitions.iter().map(|&partition| BTreeSet::from([partition])).collect(),
            false => vec![partitions.clone()],
        }
    }

    /// Visits the keys of standings and of lists of periods in some partitions of one server, of
    /// all boards or one, each at least once, and some other keys. `SCAN`: several round trips,
    /// O(keys of the server).
    ///
    /// # Errors
    /// `Unavailable`, also if the slot of the first partition moves meanwhile.
    pub async fn each_series_key(
        &self,
        partitions: &BTreeSet<PartitionNo>,
        board: Option<BoardNo>,
        mut visit: impl FnMut(PartitionNo, String) + Send,
    ) -> Result<()> {
        let Some(&first) = partitions.first() else {
            return Ok(());
        };
        let only = (partitions.len() == 1).then_some(first);
        let pattern = self.keys().series_pattern(only, board);
        let visit = |key: String| {
            let partition = self.keys().partition_of(&key);
            if let Some(partition) = partition.filter(|no| partitions.contains(no)) {
                visit(partition, key);
            }
        };
        self.each_key(first, &pattern, visit).await
    }

    /// The entries of one shard of these standings from an index on, in order, with the seal mark
    /// of the window. One round trip: `GET`, `HGET`, `ZCARD`, `ZRANGE` in a transaction.
    ///
    /// # Errors
    /// `NotLevel`, `Unavailable`; `Invalid` if the window is never sealed.
    pub async fn final_page(
        &self,
        partition: PartitionNo,
        id: &StandingsId,
        start: usize,
        count: usize,
    ) -> Result<FinalPage> {
        let name = id.seal_name().ok_or_else(|| {
            Error::invalid(format!(
                "invalid window {}: expected one with periods, which can be sealed",
                id.window
            ))
        })?;
        let key = self.keys().standings(partition, id);
        let mut pipe = redis::pipe();
        pipe.atomic();
        pipe.cmd("GET").arg(self.keys().head(partition));
        pipe.cmd("HGET").arg(self.keys().board_marks(partition)).arg(name.field());
        pipe.cmd("ZCARD").arg(&key);
        pipe.cmd("ZRANGE").arg(&key).arg(start).arg(start + count - 1).arg("WITHSCORES");
        let (answers, run_id): (Vec<redis::Value>, _) = self.read(&pipe).await?;
        let mut answers = answers.into_iter();
        let head: Option<String> = decode(answers.next())?;
        let head = self.check_level(partition, head.as_deref(), &run_id)?;
        let mark: Option<String> = decode(answers.next())?;
        let size = decode(answers.next())?;
        let raw: Vec<(Vec<u8>, f64)> = decode(answers.next())?;
        let count = raw.len();
        let entry = |(member, double): (Vec<u8>, f64)| {
            let member = String::from_utf8(member).ok()?;
            let member = MemberId::new(&member).ok()?;
            let key = RankKey::from_f64(double).ok()?;
            Some(RankedEntry { key, member })
        };
        Ok(FinalPage {
            head,
            mark: SealMark::parse(mark.as_deref())?,
            entries: raw.into_iter().filter_map(entry).collect(),
            count,
            size,
        })
    }

    /// The labels in a list of the periods that start before an instant. One round trip: `ZRANGE`
    /// by score.
    pub async fn listed_before(&self, list: &str, before_ms: i64) -> Result<Vec<String>> {
        let mut pipe = redis::pipe();
        pipe.cmd("ZRANGE").arg(list).arg("-inf").arg(format!("({before_ms}")).arg("BYSCORE");
        let ((labels,), _): ((Vec<String>,), _) = self.read(&pipe).await?;
        Ok(labels)
    }
}
