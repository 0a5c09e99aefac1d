//! Reads over the shards of one standings: sizes, keys, positions, pages.
//!
//! All of them share one order: rank key, then member bytes. A *split* is a place in that order, said as the number of
//! entries before it in each shard; pages are merged from there, forward or back. Positions are 0-based.
//! S shards are read in one pipeline for each server that has some; each read adds a `GET` of the heads, so that no answer comes from a partition
//! that is not level; of a rolling window how far it has got is read with them; and, after them, how far the window's periods have left Redis,
//! so that none is taken for empty: such reads say `Sealed`. Last of all each partition is asked which layout of the board it has: where that is not the
//! reader's, what was read may be a part of it, and the read says `BoardMoved`. No reader knows of a layout before all partitions have it.

pub mod merge;

use std::sync::Arc;

use redis::{FromRedisValue, Pipeline};

use super::history::Range;
use super::read::merge::{Start, Way};
use super::write::{keys_of, layout_field};
use super::{Store, decode};
use crate::board::{Board, Rules};
use crate::error::{Error, Result};
use crate::id::{MemberId, Partition};
use crate::rank_key::RankKey;
use crate::roll::{Reach, RollMark, Rolls};
use crate::seal::{SealMark, SealName};
use crate::shard::shard_of;
use crate::standings_id::StandingsId;
use crate::window::Period;

/// How many members one `ZMSCORE` asks for: all friends of a member.
const SCORES_MAX: usize = 10_000;

/// How many places one counting script looks for: each may bisect a run of equal keys.
const PLACES_MAX: usize = 250;

/// How often a neighbourhood is read again because its centre moved meanwhile.
const MOVED_MAX: usize = 8;

/// One standings of a board: what to read.
#[derive(Debug, Clone)]
pub struct Standings {
    /// The board's rules.
    pub rules: Arc<Rules>,
    /// Its name.
    pub id: StandingsId,
    /// Its period.
    pub period: Period,
    /// Periods of its window that became the present one before it are read from the archive, as far as whoever asks knows. In Unix milliseconds.
    pub sealed_before_ms: i64,
    pub(super) partitions: Vec<Partition>,
    /// The generation that the board's number of shards came in; `None` while it is coming.
    layout_since: Option<u32>,
}

/// A member and the key it has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Placed {
    /// The key.
    pub key: RankKey,
    /// Who.
    pub member: MemberId,
}

/// The number of entries before a place in each shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split(pub(super) Vec<u64>);

impl Split {
    /// The number of entries before the place in all shards: its position.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl Standings {
    /// The standings of a board's segment in a period.
    #[must_use]
    pub fn new(store: &Store, board: &Board, id: StandingsId, period: Period) -> Self {
        let partitions =
            (0..board.rules.shards).map(|shard| store.partitions().of(board, shard)).collect();
        Self {
            rules: board.rules.clone(),
            sealed_before_ms: board.sealed(id.window).sealed_before_ms,
            id,
            period,
            partitions,
            layout_since: (!board.layouts.is_coming).then(|| board.layout_since()),
        }
    }

    /// Whether the archive has it, as far as whoever asks knows.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.period.present_from_ms < self.sealed_before_ms
    }

    /// The partition of each shard.
    #[must_use]
    pub fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    /// Checks that a partition whose series has this mark has all that is in the period: where there is none, nothing is.
    fn check_rolled(&self, mark: Option<RollMark>) -> Result<()> {
        let Some(mark) = mark else { return Ok(()) };
        let rolls = Rolls { marks: [(self.id.series(), mark)].into(), now_ms: 0 };
        match rolls.reach(&self.id, &self.period, &self.rules.zone)? {
            Reach::There => Ok(()),
            _ => Err(Error::NotRolled(self.id.board)),
        }
    }

    fn shard(&self, member: &MemberId) -> usize {
        usize::from(shard_of(member, self.rules.shards))
    }

    fn key(&self, store: &Store, shard: usize) -> String {
        store.keys().standings(self.partitions[shard], &self.id)
    }
}

impl Store {
    /// How many entries there are. One round trip: S `ZCARD`.
    pub async fn size(&self, standings: &Standings) -> Result<u64> {
        Ok(self.end(standings).await?.position())
    }

    /// The place after the last entry. One round trip: S `ZCARD`.
    pub async fn end(&self, standings: &Standings) -> Result<Split> {
        let mut reads = Reads::new(self, standings);
        for shard in 0..standings.partitions.len() {
            reads.pipe.cmd("ZCARD").arg(standings.key(self, shard));
        }
        Ok(Split(reads.send().await?))
    }

    /// The keys of members, in the order asked. One round trip: a `ZMSCORE` for each shard concerned and 10,000 members; O(members).
    pub async fn rank_keys(
        &self,
        standings: &Standings,
        members: &[MemberId],
    ) -> Result<Vec<Option<RankKey>>> {
        let by_shard = group_by_shard(standings, members, |member| member);
        let mut reads = Reads::new(self, standings);
        for (shard, indices) in &by_shard {
            for chunk in indices.chunks(SCORES_MAX) {
                let command = reads.pipe.cmd("ZMSCORE").arg(standings.key(self, *shard));
                for &index in chunk {
                    command.arg(members[index].as_str());
                }
            }
        }
        if by_shard.is_empty() {
            return Ok(vec![]);
        }
        let answers: Vec<Vec<Option<f64>>> = reads.send().await?;
        let mut keys = vec![None; members.len()];
        let chunks = by_shard.iter().flat_map(|(_, indices)| indices.chunks(SCORES_MAX));
        for (chunk, scores) in chunks.zip(answers) {
            for (&index, key) in chunk.iter().zip(keys_of(scores)) {
                keys[index] = key?;
            }
        }
        Ok(keys)
    }

    /// The positions of entries. One round trip: a `ZRANK` each on its own shard, and for the S − 1 other shards one script per 250
    /// that counts what comes before them; O(entries · S · log(size)). `None` for one that left meanwhile.
    pub async fn positions(
        &self,
        standings: &Standings,
        entries: &[Placed],
    ) -> Result<Vec<Option<u64>>> {
        if entries.is_empty() {
            return Ok(vec![]);
        }
        let by_shard = group_by_shard(standings, entries, |entry| &entry.member);
        let mut own = Reads::new(self, standings);
        for (shard, indices) in &by_shard {
            for &index in indices {
                own.pipe
                    .cmd("ZRANK")
                    .arg(standings.key(self, *shard))
                    .arg(entries[index].member.as_str());
            }
        }
        let order: Vec<usize> = by_shard.iter().flat_map(|(_, indices)| indices).copied().collect();
        let mut lists: Vec<(usize, Vec<usize>)> = vec![];
        for shard in 0..standings.partitions.len() {
            let others = by_shard
                .iter()
                .filter(|(own, _)| *own != shard)
                .flat_map(|(_, indices)| indices)
                .copied();
            lists.extend(
                others.collect::<Vec<_>>().chunks(PLACES_MAX).map(|chunk| (shard, chunk.to_vec())),
            );
        }
        for (shard, indices) in &lists {
            own.count_before(*shard, indices.iter().map(|&index| &entries[index]));
        }
        let mut answers: std::vec::IntoIter<redis::Value> =
            own.send::<redis::Value>().await?.into_iter();
        let mut positions = vec![None; entries.len()];
        for index in order {
            positions[index] = decode::<Option<u64>>(answers.next())?;
        }
        for (_, indices) in &lists {
            let counts: Vec<u64> = decode(answers.next())?;
            for (&index, count) in indices.iter().zip(counts) {
                positions[index] = positions[index].map(|position| position + count);
            }
        }
        Ok(positions)
    }

    /// The entries and positions of members, in the order asked; `None` for those who are not there. S = 1: one round trip, a `ZMSCORE` and a `ZRANK`
    /// each. Else as [`Self::rank_keys`] and [`Self::positions`].
    pub async fn find(
        &self,
        standings: &Standings,
        members: &[MemberId],
    ) -> Result<Vec<Option<(Placed, u64)>>> {
        let placed = |(key, member): (Option<RankKey>, &MemberId)| {
            let member = member.clone();
            key.map(|key| Placed { key, member })
        };
        if standings.partitions.len() > 1 || members.is_empty() {
            let keys = self.rank_keys(standings, members).await?;
            let entries: Vec<Option<Placed>> = keys.into_iter().zip(members).map(placed).collect();
            let there: Vec<Placed> = entries.iter().flatten().cloned().collect();
            let mut positions = self.positions(standings, &there).await?.into_iter();
            let found = entries.into_iter().map(|entry| {
                let entry = entry?;
                Some((entry, positions.next().flatten()?))
            });
            return Ok(found.collect());
        }
        let (mut reads, key) = (Reads::new(self, standings), standings.key(self, 0));
        for chunk in members.chunks(SCORES_MAX) {
            let command = reads.pipe.cmd("ZMSCORE").arg(&key);
            for member in chunk {
                command.arg(member.as_str());
            }
        }
        for member in members {
            reads.pipe.cmd("ZRANK").arg(&key).arg(member.as_str());
        }
        let mut answers = reads.send::<redis::Value>().await?.into_iter();
        let mut keys = Vec::with_capacity(members.len());
        for _ in members.chunks(SCORES_MAX) {
            for key in keys_of(decode(answers.next())?) {
                keys.push(key?);
            }
        }
        let mut found = Vec::with_capacity(members.len());
        for entry in keys.into_iter().zip(members).map(placed) {
            let position: Option<u64> = decode(answers.next())?;
            found.push(entry.zip(position));
        }
        Ok(found)
    }

    /// How many entries have a smaller key than each of these. One round trip: `ZCOUNT` for each key and shard; O(keys · S · log(size)).
    pub async fn counts_below(&self, standings: &Standings, keys: &[RankKey]) -> Result<Vec<u64>> {
        let mut reads = Reads::new(self, standings);
        for key in keys {
            for shard in 0..standings.partitions.len() {
                reads
                    .pipe
                    .cmd("ZCOUNT")
                    .arg(standings.key(self, shard))
                    .arg("-inf")
                    .arg(format!("({}", key.to_redis()));
            }
        }
        if keys.is_empty() {
            return Ok(vec![]);
        }
        let counts: Vec<u64> = reads.send().await?;
        Ok(counts.chunks(standings.partitions.len()).map(|shards| shards.iter().sum()).collect())
    }

    /// The place of an entry, there or not. One round trip: a counting script a shard; O(S · log(size)), about 20 look-ups more in a run of 600,000 equal keys.
    pub async fn split_at(&self, standings: &Standings, place: &Placed) -> Result<Split> {
        let mut reads = Reads::new(self, standings);
        for shard in 0..standings.partitions.len() {
            reads.count_before(shard, std::iter::once(place));
        }
        let counts: Vec<Vec<u64>> = reads.send().await?;
        Ok(Split(counts.into_iter().flatten().collect()))
    }

    /// The place at a position, or the end. S = 1: at most one round trip. Else a selection over sorted lists: each round trip
    /// asks for the middle of what is left of each shard, takes their weighted median as pivot and counts what comes
    /// before it, which leaves at most three quarters: about 2 · log₂(size) round trips.
    ///
    /// # Errors
    /// `NotLevel`, `Unavailable`, `Corrupt`; `Unavailable` too where entries move faster than they are counted.
    pub async fn split_at_position(&self, standings: &Standings, position: u64) -> Result<Split> {
        if standings.partitions.len() == 1 || position == 0 {
            let mut split = vec![0; standings.partitions.len()];
            split[0] = position;
            return Ok(Split(split));
        }
        let end = self.end(standings).await?;
        if position >= end.position() {
            return Ok(end);
        }
        let (mut low, mut high) = (vec![0; end.0.len()], end.0);
        // Writers may move entries between the rounds: a bound on them instead of a loop for good.
        for _ in 0..200 {
            if low.iter().sum::<u64>() >= position {
                return Ok(Split(low));
            }
            let open: Vec<(usize, u64)> = (0..low.len())
                .filter(|&shard| low[shard] < high[shard])
                .map(|shard| (shard, high[shard] - low[shard]))
                .collect();
            let Some(pivot) = self.pivot(standings, &open, &low).await? else {
                break;
            };
            let counts = self.split_at(standings, &pivot).await?;
            let own = standings.shard(&pivot.member);
            if counts.position() < position {
                // The pivot and all before it come before the place.
                for shard in 0..low.len() {
                    let passed = counts.0[shard] + u64::from(shard == own);
                    low[shard] = low[shard].max(passed.min(high[shard]));
                }
            } else {
                for shard in 0..high.len() {
                    high[shard] = high[shard].min(counts.0[shard].max(low[shard]));
                }
            }
        }
        if low.iter().sum::<u64>() == position {
            return Ok(Split(low));
        }
        Err(Error::Unavailable("entries move faster than they are counted; try again".into()))
    }

    /// The weighted median of the middle entries of what is left of each shard. One round trip: a `ZRANGE` a shard.
    async fn pivot(
        &self,
        standings: &Standings,
        open: &[(usize, u64)],
        low: &[u64],
    ) -> Result<Option<Placed>> {
        let mut reads = Reads::new(self, standings);
        for &(shard, left) in open {
            reads.range(shard, low[shard] + left / 2, 1);
        }
        if open.is_empty() {
            return Ok(None);
        }
        let mut middles: Vec<(Placed, u64)> = vec![];
        for (entries, &(_, left)) in reads.send::<Vec<(String, f64)>>().await?.into_iter().zip(open)
        {
            middles.extend(placed(entries)?.into_iter().map(|entry| (entry, left)));
        }
        middles.sort_unstable();
        let total: u64 = middles.iter().map(|(_, left)| left).sum();
        let mut passed = 0;
        Ok(middles.into_iter().find_map(|(entry, left)| {
            passed += left;
            (2 * passed >= total).then_some(entry)
        }))
    }

    /// Up to `limit` entries from a place on, in order, and the position of the place. One round trip, more where a shard has more than its likely share;
    /// a script a shard that finds the place, or `ZRANGE` by index.
    pub async fn forward(
        &self,
        standings: &Standings,
        from: &Start,
        limit: usize,
    ) -> Result<(u64, Vec<Placed>)> {
        self.merge(standings, from, limit, Way::Forward).await
    }

    /// Up to `limit` entries before a place, in order, and the position of the place; else as [`Self::forward`].
    pub async fn backward(
        &self,
        standings: &Standings,
        from: &Start,
        limit: usize,
    ) -> Result<(u64, Vec<Placed>)> {
        let merged = self.merge(standings, from, limit, Way::Backward).await;
        let (position, mut entries) = merged?;
        entries.reverse();
        Ok((position, entries))
    }

    /// The entries around a member, itself among them, and the position of the first; `None` where it is not there.
    /// Two round trips; more where the member moves meanwhile.
    pub async fn neighbors(
        &self,
        standings: &Standings,
        member: &MemberId,
        above: usize,
        below: usize,
    ) -> Result<Option<(u64, Vec<Placed>)>> {
        let one = std::slice::from_ref(member);
        for _ in 0..MOVED_MAX {
            if standings.partitions.len() == 1 {
                let found = self.find(standings, one).await?.pop().flatten();
                let Some((centre, position)) = found else {
                    return Ok(None);
                };
                let first = position.saturating_sub(above as u64);
                let mut reads = Reads::new(self, standings);
                reads.range(0, first, position - first + 1 + below as u64);
                let entries = placed(reads.send().await?.pop().unwrap_or_default())?;
                if entries.get((position - first) as usize) == Some(&centre) {
                    return Ok(Some((first, entries)));
                }
                continue;
            }
            let key = self.rank_keys(standings, one).await?[0];
            let Some(key) = key else { return Ok(None) };
            let centre = Placed { key, member: member.clone() };
            let start = Start::Place(centre.clone());
            let (before, rest) = tokio::join!(
                self.backward(standings, &start, above),
                self.forward(standings, &start, below + 1)
            );
            let ((_, mut entries), (position, mut rest)) = (before?, rest?);
            let first = position.saturating_sub(entries.len() as u64);
            if rest.first() == Some(&centre) {
                entries.append(&mut rest);
                return Ok(Some((first, entries)));
            }
        }
        Err(Error::Unavailable(format!(
            "{member} moves faster than its neighbours are read; try again"
        )))
    }
}

/// A pipeline of reads of one standings; the heads of its partitions are read with it.
pub(super) struct Reads<'a> {
    store: &'a Store,
    standings: &'a Standings,
    pipe: Pipeline,
    /// Whether it looks at the list of periods, not at one of them.
    lists: bool,
}

impl<'a> Reads<'a> {
    pub(super) fn new(store: &'a Store, standings: &'a Standings) -> Self {
        let mut pipe = redis::pipe();
        for &partition in &standings.partitions {
            pipe.cmd("GET").arg(store.keys().head(partition));
        }
        if standings.id.window.rolling().is_some() {
            for &partition in &standings.partitions {
                pipe.cmd("HGET")
                    .arg(store.keys().rolls(partition, standings.id.board))
                    .arg(standings.id.series());
            }
        }
        Self { store, standings, pipe, lists: false }
    }

    pub(super) fn range(&mut self, shard: usize, start: u64, count: u64) {
        let key = self.standings.key(self.store, shard);
        self.pipe.cmd("ZRANGE").arg(key).arg(start).arg(start + count - 1).arg("WITHSCORES");
    }

    /// The entries next to a place, one way, and how many come before it: a script.
    pub(super) fn page(&mut self, shard: usize, place: &Placed, way: Way, count: usize) {
        let key = self.standings.key(self.store, shard);
        let way = match way {
            Way::Forward => "FORWARD",
            Way::Backward => "BACKWARD",
        };
        self.pipe
            .cmd("EVALSHA")
            .arg(self.store.inner.scripts.page.get_hash())
            .arg(1)
            .arg(key)
            .arg(place.key.to_redis())
            .arg(place.member.as_str())
            .arg(way)
            .arg(count);
    }

    /// An `EXISTS` a shard, of the standings that differs in its period only.
    pub(super) fn exist(&mut self, label: &str) {
        self.lists = true;
        let id = StandingsId { period: label.to_owned(), ..self.standings.id.clone() };
        for &partition in &self.standings.partitions {
            self.pipe.cmd("EXISTS").arg(self.store.keys().standings(partition, &id));
        }
    }

    pub(super) fn periods(&mut self, shard: usize, range: Range, count: usize) {
        let partition = self.standings.partitions[shard];
        self.lists = true;
        let command =
            self.pipe.cmd("ZRANGE").arg(self.store.keys().periods(partition, &self.standings.id));
        match range {
            Range::Before(start_ms) => command.arg(format!("({start_ms}")).arg("-inf"),
            Range::After(start_ms) => command.arg(format!("({start_ms}")).arg("+inf"),
        };
        command.arg("BYSCORE");
        if matches!(range, Range::Before(_)) {
            command.arg("REV");
        }
        command.arg("LIMIT").arg(0).arg(count).arg("WITHSCORES");
    }

    fn count_before<'p>(&mut self, shard: usize, places: impl Iterator<Item = &'p Placed>) {
        let script = &self.store.inner.scripts.count_before;
        let key = self.standings.key(self.store, shard);
        let command = self.pipe.cmd("EVALSHA").arg(script.get_hash()).arg(1).arg(key);
        for place in places {
            command.arg(place.key.to_redis()).arg(place.member.as_str());
        }
    }

    pub(super) async fn send<T: FromRedisValue>(mut self) -> Result<Vec<T>> {
        let seal = SealName::of(&self.standings.id);
        let no = self.standings.id.board;
        let moved = || Error::BoardMoved(no);
        let layout_since = self.standings.layout_since.ok_or_else(moved)?;
        // Last: whatever the reads before missed as it was dropped, this sees.
        for &partition in &self.standings.partitions {
            let marks = self.store.keys().board_marks(partition);
            let command = self.pipe.cmd("HMGET").arg(marks).arg(layout_field(no));
            command.arg(seal.map(SealName::field));
        }
        let mut answered = self.store.read_many(&self.pipe).await?;
        let mut answers = std::mem::take(&mut answered.values);
        let shards = self.standings.partitions.len();
        let last_marks = answers.split_off(answers.len() - shards);
        let mut rest = answers.split_off(shards);
        let marks = match self.standings.id.window.rolling() {
            Some(_) => {
                let answers = rest.split_off(shards);
                std::mem::replace(&mut rest, answers)
            }
            None => vec![],
        };
        for (shard, head) in answers.into_iter().enumerate() {
            let head: Option<String> = decode(Some(head))?;
            let partition = self.standings.partitions[shard];
            Store::check_level(partition, head.as_deref(), answered.run_id(shard))?;
        }
        for mark in marks {
            let mark: Option<String> = decode(Some(mark))?;
            let mark = mark.as_deref().map(RollMark::parse).transpose()?;
            self.standings.check_rolled(mark)?;
        }
        for marks in last_marks {
            let marks: Vec<Option<String>> = decode(Some(marks))?;
            let layout = marks.first().and_then(Option::as_deref);
            let layout: u32 = layout
                .map_or(Ok(1), str::parse)
                .map_err(|_| Error::corrupt(format!("board {no} has a layout of no generation")))?;
            if layout != layout_since {
                return Err(moved());
            }
            let mark = marks.get(1).and_then(Option::as_deref);
            let dropped_before_ms = SealMark::parse(mark)?.dropped_before_ms;
            let is_gone = match self.lists {
                true => self.standings.sealed_before_ms < dropped_before_ms,
                false => self.standings.period.present_from_ms < dropped_before_ms,
            };
            if is_gone {
                return Err(Error::Sealed(dropped_before_ms));
            }
        }
        rest.into_iter().map(|answer| decode(Some(answer))).collect()
    }
}

pub(super) fn placed(entries: Vec<(String, f64)>) -> Result<Vec<Placed>> {
    let foreign =
        |name: &str| Error::corrupt(format!("a sorted set holds {name:?}, which is no member"));
    let place = |(name, double): (String, f64)| {
        let member = MemberId::new(&name).map_err(|_| foreign(&name))?;
        Ok(Placed { key: RankKey::from_f64(double)?, member })
    };
    entries.into_iter().map(place).collect()
}

/// The indices of items by the shard of their member; only shards that have some.
fn group_by_shard<T>(
    standings: &Standings,
    items: &[T],
    member: impl Fn(&T) -> &MemberId,
) -> Vec<(usize, Vec<usize>)> {
    let mut groups: Vec<(usize, Vec<usize>)> =
        (0..standings.partitions.len()).map(|shard| (shard, vec![])).collect();
    for (index, item) in items.iter().enumerate() {
        groups[standings.shard(member(item))].1.push(index);
    }
    groups.retain(|(_, indices)| !indices.is_empty());
    groups
}
