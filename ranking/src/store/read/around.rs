//! The neighborhoods of many members, read together.

use super::merge::share;
use super::pages::ENTRIES_MAX;
use super::requests::{Reads, ranked_entries};
use super::{PLACES_MAX, RankedEntry, Standings};
use crate::error::Result;
use crate::id::MemberId;
use crate::store::{Store, decode};

/// The entries around a member, its own included, and the position of the first; `None` if the
/// member has no entry.
pub type Neighborhood = Option<(u64, Vec<RankedEntry>)>;

/// The entries of one shard around a place.
struct Part {
    before: Vec<RankedEntry>,
    /// The number of entries before the place.
    count: u64,
    /// The entries from the place on.
    rest: Vec<RankedEntry>,
}

impl Store {
    /// As [`Self::neighbors`] for each of these members, in their order. S = 1: one round trip for
    /// each 5,000 entries that are read, with a script. Otherwise two or three, and more for each
    /// 5,000: a `ZMSCORE` for each shard; then a script for each shard that reads its likely share
    /// of each neighborhood. A neighborhood for which that was not enough is read by itself.
    pub async fn neighborhoods(
        &self,
        standings: &Standings,
        members: &[MemberId],
        above: usize,
        below: usize,
    ) -> Result<Vec<Neighborhood>> {
        if (above, below) == (0, 0) {
            let found = self.find(standings, members).await?.into_iter();
            let alone = |(entry, position): (RankedEntry, u64)| (position, vec![entry]);
            return Ok(found.map(|found| found.map(alone)).collect());
        }
        if standings.partitions.len() == 1 {
            return self.read_in_shard(standings, members, [above, below + 1]).await;
        }
        let mut found: Vec<Neighborhood> = vec![None; members.len()];
        let mut alone: Vec<usize> = (0..members.len()).collect();
        if members.len() > 1 {
            alone = self.read_around(standings, members, [above, below], &mut found).await?;
        }
        for index in alone {
            found[index] = self.neighbors(standings, &members[index], above, below).await?;
        }
        Ok(found)
    }

    /// Reads the neighborhoods of members of the only shard.
    pub(super) async fn read_in_shard(
        &self,
        standings: &Standings,
        members: &[MemberId],
        [above, on]: [usize; 2],
    ) -> Result<Vec<Neighborhood>> {
        let members_max = (ENTRIES_MAX / (above + on)).clamp(1, PLACES_MAX);
        let mut found = Vec::with_capacity(members.len());
        for some in members.chunks(members_max) {
            let mut reads = Reads::new(self, standings);
            reads.neighbors([above, on], some);
            let answers: Vec<redis::Value> = decode(reads.send().await?.pop())?;
            for answer in answers {
                let around: Option<(u64, Vec<(String, f64)>)> = decode(Some(answer))?;
                found.push(match around {
                    Some((first, entries)) => Some((first, ranked_entries(entries)?)),
                    None => None,
                });
            }
        }
        Ok(found)
    }

    /// Reads the neighborhoods of members together. Returns the indices of those that it could not
    /// complete.
    async fn read_around(
        &self,
        standings: &Standings,
        members: &[MemberId],
        [above, below]: [usize; 2],
        found: &mut [Neighborhood],
    ) -> Result<Vec<usize>> {
        let keys = self.rank_keys(standings, members).await?.into_iter();
        let mut centers: Vec<(RankedEntry, usize)> = vec![];
        for (index, (key, member)) in keys.zip(members).enumerate() {
            centers.extend(key.map(|key| (RankedEntry { key, member: member.clone() }, index)));
        }
        centers.sort_unstable();
        let shards = standings.partitions.len();
        let shares = [share(above, shards), share(below + 1, shards)];
        let places_max = ENTRIES_MAX / ((shares[0] + shares[1]) * shards).max(1);
        let mut incomplete = vec![];
        for some in centers.chunks(places_max.clamp(1, PLACES_MAX)) {
            let mut reads = Reads::new(self, standings);
            for shard in 0..shards {
                reads.around(shard, shares, some.iter().map(|(center, _)| center));
            }
            let mut parts: Vec<Vec<Part>> = vec![];
            parts.resize_with(some.len(), || Vec::with_capacity(shards));
            for answers in reads.send::<Vec<redis::Value>>().await? {
                for (parts, answer) in parts.iter_mut().zip(answers) {
                    parts.push(Part::of(answer, shares[0])?);
                }
            }
            for ((center, index), parts) in some.iter().zip(parts) {
                match merge(parts, [above, below + 1], shares) {
                    Some((first, entries)) if entries.contains(center) => {
                        found[*index] = Some((first, entries));
                    }
                    // It moved, or a shard has more than its likely share.
                    _ => incomplete.push(*index),
                }
            }
        }
        Ok(incomplete)
    }
}

impl Part {
    /// The answer of a shard that was asked for up to `share` entries before a place.
    fn of(answer: redis::Value, share: usize) -> Result<Self> {
        let (count, entries): (u64, Vec<(String, f64)>) = decode(Some(answer))?;
        let mut before = ranked_entries(entries)?;
        let rest = before.split_off(before.len().min(count.min(share as u64) as usize));
        Ok(Self { before, count, rest })
    }
}

/// The neighborhood of a place, and the position of its first entry; `None` if a shard may have
/// more of it than it was asked for.
fn merge(
    parts: Vec<Part>,
    [above, on]: [usize; 2],
    shares: [usize; 2],
) -> Option<(u64, Vec<RankedEntry>)> {
    let position: u64 = parts.iter().map(|part| part.count).sum();
    // The entries that are farthest from the place, in each shard that has more of them.
    let mut first_read: Option<RankedEntry> = None;
    let mut last_read: Option<RankedEntry> = None;
    let (mut before, mut rest) = (vec![], vec![]);
    for part in parts {
        if part.count > shares[0] as u64 && above > 0 {
            first_read = first_read.max(part.before.first().cloned());
        }
        if part.rest.len() == shares[1] {
            let last = part.rest.last().cloned();
            last_read = match last_read {
                Some(known) => last.map(|last| last.min(known)),
                None => last,
            };
        }
        before.extend(part.before);
        rest.extend(part.rest);
    }
    before.sort_unstable();
    rest.sort_unstable();
    let mut entries = before.split_off(before.len().saturating_sub(above));
    rest.truncate(on);
    let misses_above = first_read.is_some_and(|read| {
        entries.len() < above || entries.first().is_some_and(|first| *first < read)
    });
    let misses_below = last_read
        .is_some_and(|read| rest.len() < on || rest.last().is_some_and(|last| *last > read));
    if misses_above || misses_below {
        return None;
    }
    let first = position.saturating_sub(entries.len() as u64);
    entries.append(&mut rest);
    Some((first, entries))
}
