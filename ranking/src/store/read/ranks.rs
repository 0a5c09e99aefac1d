//! Ranks: the positions of members over all shards.
//!
//! A member's key and its rank in its own shard are read at one moment, behind the counts on the
//! other shards. So the counts are those before an entry that the member had all the while; if it
//! moved in between, the answer looks again.

use super::requests::Reads;
use super::{PLACES_MAX, POSITIONS_MAX, RankedEntry, Standings};
use crate::error::{Error, Result};
use crate::id::MemberId;
use crate::score::rank_key::RankKey;
use crate::store::{Store, decode};

/// The most looks at a member that moves meanwhile.
pub(super) const LOOKS_MAX: usize = 8;

/// A member's present key, and the number of entries before it: in its own shard before that key,
/// in the others before the place that was asked for.
type Look = Option<(RankKey, u64)>;

impl Store {
    /// The positions of entries; `None` for a member that has since left. An entry that its member
    /// no longer has gets the position of its place. One round trip for each 1,000 entries: for
    /// each shard a script for each 250 of its own entries, and for the S − 1 other shards one that
    /// counts those before them; O(entries · S · log(size)). A script reads a run of equal keys
    /// once for all of its entries. One more round trip if some have moved.
    pub async fn positions(
        &self,
        standings: &Standings,
        entries: &[RankedEntry],
    ) -> Result<Vec<Option<u64>>> {
        let looks = self.look(standings, entries).await?;
        let mut positions: Vec<Option<u64>> =
            looks.iter().map(|look| look.map(|(_, position)| position)).collect();
        let has_moved =
            |&index: &usize| looks[index].is_some_and(|(key, _)| key != entries[index].key);
        let mut moved: Vec<usize> = (0..entries.len()).filter(has_moved).collect();
        moved.sort_unstable_by_key(|&index| &entries[index]);
        let places: Vec<RankedEntry> = moved.iter().map(|&index| entries[index].clone()).collect();
        let splits = self.splits_at(standings, &places).await?;
        for (index, split) in moved.into_iter().zip(splits) {
            positions[index] = Some(split.position());
        }
        Ok(positions)
    }

    /// The entries and positions of members, in the order given; `None` for members without an
    /// entry. S = 1: one round trip for each 1,000 members, with a script for each 250. Otherwise
    /// as [`Self::rank_keys`] and [`Self::positions`], and again for members that moved in between.
    ///
    /// # Errors
    /// `NotLevel`, `Unavailable`, `Corrupt`; also `Unavailable` if a member moves faster than the
    /// entries before it are counted.
    pub async fn find(
        &self,
        standings: &Standings,
        members: &[MemberId],
    ) -> Result<Vec<Option<(RankedEntry, u64)>>> {
        let is_one = standings.partitions.len() == 1;
        let keys = match is_one {
            // Nothing is counted elsewhere, so any place will do.
            true => vec![Some(RankKey::from_i64(0)?); members.len()],
            false => self.rank_keys(standings, members).await?,
        };
        let mut found = vec![None; members.len()];
        let (mut left, mut places): (Vec<usize>, Vec<RankedEntry>) = (vec![], vec![]);
        for (index, (key, member)) in keys.into_iter().zip(members).enumerate() {
            if let Some(key) = key {
                left.push(index);
                places.push(RankedEntry { key, member: member.clone() });
            }
        }
        for _ in 0..LOOKS_MAX {
            if left.is_empty() {
                break;
            }
            let looks = self.look(standings, &places).await?;
            let (mut moved, mut moved_to) = (vec![], vec![]);
            for ((index, place), look) in left.into_iter().zip(places).zip(looks) {
                let Some((key, position)) = look else { continue };
                let has_moved = key != place.key;
                let entry = RankedEntry { key, member: place.member };
                if has_moved && !is_one {
                    moved.push(index);
                    moved_to.push(entry);
                } else {
                    found[index] = Some((entry, position));
                }
            }
            (left, places) = (moved, moved_to);
        }
        match places.first() {
            None => Ok(found),
            Some(RankedEntry { member, .. }) => Err(Error::Unavailable(format!(
                "{member} moves faster than the entries before it are counted; try again"
            ))),
        }
    }

    /// Looks at the members of some entries once, in the order given.
    async fn look(&self, standings: &Standings, places: &[RankedEntry]) -> Result<Vec<Look>> {
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_unstable_by_key(|&index| &places[index]);
        let mut looks = vec![None; places.len()];
        for some in order.chunks(POSITIONS_MAX) {
            self.look_at_some(standings, places, some, &mut looks).await?;
        }
        Ok(looks)
    }

    /// Looks at some of the entries, which are given in order by their index.
    async fn look_at_some(
        &self,
        standings: &Standings,
        places: &[RankedEntry],
        some: &[usize],
        looks: &mut [Look],
    ) -> Result<()> {
        let of_shard = |shard: usize, is_own: bool| -> Vec<usize> {
            let own = |index: &&usize| standings.shard(&places[**index].member) == shard;
            some.iter().filter(|index| own(index) == is_own).copied().collect()
        };
        let mut reads = Reads::new(self, standings);
        let (mut counted, mut ranked): (Vec<Vec<usize>>, Vec<Vec<usize>>) = (vec![], vec![]);
        for shard in 0..standings.partitions.len() {
            for chunk in of_shard(shard, false).chunks(PLACES_MAX) {
                reads.count_before(shard, chunk.iter().map(|&index| &places[index]));
                counted.push(chunk.to_vec());
            }
        }
        for shard in 0..standings.partitions.len() {
            for chunk in of_shard(shard, true).chunks(PLACES_MAX) {
                reads.ranks(shard, chunk.iter().map(|&index| &places[index].member));
                ranked.push(chunk.to_vec());
            }
        }
        let mut answers = reads.send::<redis::Value>().await?.into_iter();
        let mut elsewhere: Vec<u64> = vec![0; places.len()];
        for list in counted {
            let counts: Vec<u64> = decode(answers.next())?;
            for (index, count) in list.into_iter().zip(counts) {
                elsewhere[index] += count;
            }
        }
        for list in ranked {
            let ranks: Vec<Option<(f64, u64)>> = decode(answers.next())?;
            for (index, rank) in list.into_iter().zip(ranks) {
                if let Some((key, rank)) = rank {
                    looks[index] = Some((RankKey::from_f64(key)?, rank + elsewhere[index]));
                }
            }
        }
        Ok(())
    }
}
