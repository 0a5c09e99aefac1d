//! Samples of all-time standings: every thousandth entry in rank order, so that a position far down
//! a list is counted from the sample before it.
//!
//! They are taken in the background once a read has counted far, and hold while SQL has what it had
//! then. A reader compares the marks at the moment of its own rows.

use std::sync::Arc;
use std::time::Duration;

use entity::error::Result;
use moka::future::Cache;
use ranking::id::PartitionNo;
use ranking::standings_id::StandingsId;
use ranking::store::read::RankedEntry;
use sea_orm::DatabaseTransaction;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::marks::{Marks, marks};
use super::rows::Rows;
use super::{Bound, Part};

/// The entries from one sample to the next.
pub(super) const SAMPLE_EVERY: u64 = 1000;

/// The position from which on a read that counts up to it has samples taken.
pub(super) const SAMPLED_FROM: u64 = 10_000;

/// The most samples that the process keeps.
const SAMPLES_MAX: u64 = 1_000_000;

/// How long samples are used at most.
const SAMPLES_AGE: Duration = Duration::from_secs(600);

/// The longest time of one pass; the entries below its last sample are counted from there.
const SAMPLING_TIME: Duration = Duration::from_secs(300);

/// The samples that the process keeps. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::read) struct AllSamples {
    kept: Cache<StandingsId, Arc<Samples>>,
    /// The turn of the one pass that is under way.
    turn: Arc<Semaphore>,
}

/// The way to the samples of one of the standings.
#[derive(Debug, Clone)]
pub(in crate::read) struct Sampler {
    all: AllSamples,
    id: StandingsId,
    partitions: Vec<PartitionNo>,
    returns: u64,
}

/// The samples of one of the standings.
#[derive(Debug)]
pub(super) struct Samples {
    marks: Marks,
    /// The entries at the positions 1,000, 2,000 and so on.
    entries: Vec<RankedEntry>,
    /// The number of entries; `None` if the pass did not come to the end.
    pub(super) size: Option<u64>,
}

impl AllSamples {
    /// No samples yet.
    pub(in crate::read) fn new() -> Self {
        let weight = |_: &StandingsId, samples: &Arc<Samples>| 1 + samples.entries.len() as u32;
        let kept = Cache::builder().max_capacity(SAMPLES_MAX).weigher(weight);
        // A job may mend rows behind SQL's cursors.
        let kept = kept.time_to_live(SAMPLES_AGE).build();
        Self { kept, turn: Arc::new(Semaphore::new(1)) }
    }

    /// The way to the samples of standings in some partitions.
    pub(in crate::read) fn of(
        &self,
        id: &StandingsId,
        partitions: &[PartitionNo],
        returns: u64,
    ) -> Sampler {
        let (id, partitions) = (id.clone(), partitions.to_vec());
        Sampler { all: self.clone(), id, partitions, returns }
    }
}

impl Sampler {
    /// True if samples are kept, which may be of an earlier moment.
    pub(super) fn has_some(&self) -> bool {
        self.all.kept.contains_key(&self.id)
    }

    /// The samples that are kept, if they are of what a view sees.
    pub(super) async fn seen_in(&self, view: &DatabaseTransaction) -> Result<Option<Arc<Samples>>> {
        let Some(samples) = self.all.kept.get(&self.id).await else { return Ok(None) };
        let seen = marks(view, &self.partitions, self.returns).await?;
        Ok((samples.marks == seen).then_some(samples))
    }

    /// Takes samples of the rows in the background, unless a pass is under way or has just ended.
    pub(super) fn sample(&self, rows: Rows) {
        let Ok(turn) = self.all.turn.clone().try_acquire_owned() else { return };
        let sampler = self.clone();
        tokio::spawn(async move {
            let began = Instant::now();
            match sampler.pass(&rows).await {
                Ok(samples) => sampler.all.kept.insert(sampler.id, Arc::new(samples)).await,
                Err(error) => {
                    tracing::warn!(%error, "could not take samples of standings in SQL");
                }
            }
            // At least half of the time, SQL has its readers alone.
            sleep(began.elapsed()).await;
            drop(turn);
        });
    }

    /// One pass over the rows as they are at one moment.
    async fn pass(&self, rows: &Rows) -> Result<Samples> {
        let deadline = Instant::now() + SAMPLING_TIME;
        let (now, view) = rows.in_view().await?;
        let marks = marks(&*view, &self.partitions, self.returns).await?;
        let mut entries: Vec<RankedEntry> = vec![];
        let behind = |entries: &[RankedEntry], skipped: u64, limit: usize| {
            let (now, last) = (now.clone(), entries.last().cloned());
            async move {
                let part = last.as_ref().map_or(Part::At(skipped), |at| Part::From(at, skipped));
                now.list(part, limit).await
            }
        };
        while let Some(next) = behind(&entries, SAMPLE_EVERY, 1).await?.pop() {
            if Instant::now() >= deadline || entries.len() as u64 == SAMPLES_MAX / 2 {
                return Ok(Samples { marks, entries, size: None });
            }
            entries.push(next);
        }
        let rest = behind(&entries, 0, SAMPLE_EVERY as usize).await?.len() as u64;
        let size = Some(entries.len() as u64 * SAMPLE_EVERY + rest);
        entries.shrink_to_fit();
        Ok(Samples { marks, entries, size })
    }
}

impl Samples {
    /// The last sample up to a bound, and its position.
    pub(super) fn up_to(&self, (key, member): &Bound) -> Option<(u64, Bound)> {
        let is_up_to = |entry: &RankedEntry| {
            (entry.key.to_i64(), entry.member.as_str()) <= (*key, member.as_str())
        };
        let (position, entry) = self.numbered(self.entries.partition_point(is_up_to))?;
        Some((position, (entry.key.to_i64(), entry.member.to_string())))
    }

    /// The last sample up to a position, and its own.
    pub(super) fn at(&self, position: u64) -> Option<(u64, &RankedEntry)> {
        let number = position / SAMPLE_EVERY;
        self.numbered(self.entries.len().min(usize::try_from(number).unwrap_or(usize::MAX)))
    }

    /// The sample of a number, from 1, and its position.
    fn numbered(&self, number: usize) -> Option<(u64, &RankedEntry)> {
        let entry = &self.entries[number.checked_sub(1)?];
        Some((number as u64 * SAMPLE_EVERY, entry))
    }
}

#[cfg(test)]
mod tests {
    use ranking::id::MemberId;
    use ranking::score::rank_key::RankKey;

    use super::*;

    #[test]
    fn a_place_is_counted_from_the_sample_before_it() {
        let entry = |key: i64, member: &str| RankedEntry {
            key: RankKey::from_i64(key).unwrap(),
            member: MemberId::new(member).unwrap(),
        };
        let entries = vec![entry(5, "b"), entry(5, "d"), entry(9, "a")];
        let samples = Samples { marks: Arc::new((0, vec![])), entries, size: None };
        let up_to = |key: i64, member: &str| {
            samples.up_to(&(key, member.to_owned())).map(|(position, _)| position)
        };
        assert_eq!([up_to(4, "z"), up_to(5, ""), up_to(5, "a")], [None; 3]);
        assert_eq!([up_to(5, "b"), up_to(5, "c")], [Some(1000); 2]);
        assert_eq!([up_to(5, "d"), up_to(9, "")], [Some(2000); 2]);
        assert_eq!([up_to(9, "a"), up_to(10, "")], [Some(3000); 2]);
        let at = |position: u64| samples.at(position).map(|(known, _)| known);
        assert_eq!([at(0), at(999)], [None; 2]);
        assert_eq!([at(1000), at(1999), at(2000)], [Some(1000), Some(1000), Some(2000)]);
        assert_eq!([at(3001), at(u64::MAX)], [Some(3000); 2]);
    }
}
