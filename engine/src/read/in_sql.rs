//! Standings that SQL has: sizes, keys, positions and pages, with the types of
//! [`ranking::store::read`].
//!
//! The order is the same as in Redis: rank key, then member bytes. Every list has a limit. A
//! position and the key beside it are of one moment.

pub(super) mod list;
pub(super) mod marks;
pub(super) mod rows;
pub(super) mod samples;

use std::sync::Arc;

use entity::error::Result;
use ranking::id::MemberId;
use ranking::score::rank_key::{KeyLayout, RankKey};
use ranking::store::read::RankedEntry;
use ranking::store::read::around::Neighborhood;

use self::list::List;
use self::rows::Rows;

/// The most scores in one answer.
pub const SCORES_MAX: usize = 500;

/// The entries of one of the standings.
#[derive(Debug, Clone)]
pub struct SqlStandings {
    /// The number of entries; `None` if it has to be counted.
    size: Option<u64>,
    entries: Entries,
}

/// The place of the entries.
#[derive(Debug, Clone)]
enum Entries {
    /// Rows of a table, with an index in their order.
    Rows(Box<Rows>),
    /// A list in memory that was folded from SQL.
    List(Arc<List>),
}

/// A part of the entries.
#[derive(Debug, Clone, Copy)]
enum Part<'a> {
    /// Those from a place on, but for some.
    From(&'a RankedEntry, u64),
    /// Those after a place.
    After(&'a RankedEntry),
    /// Those before a place, the last one first.
    Before(&'a RankedEntry),
    /// Those from a position on.
    At(u64),
    /// All, the last one first.
    Last,
}

/// A bound below which entries are counted: a key and a member. The empty text sorts before every
/// member.
type Bound = (i64, String);

impl SqlStandings {
    /// Those of some rows; `size` is their number.
    pub(super) fn of_rows(rows: Rows, size: u64) -> Self {
        Self { size: Some(size), entries: Entries::Rows(Box::new(rows)) }
    }

    /// Those of rows that are not counted.
    pub(super) fn of_uncounted_rows(rows: Rows) -> Self {
        Self { size: None, entries: Entries::Rows(Box::new(rows)) }
    }

    /// Those of a list.
    pub(super) fn of_list(list: Arc<List>) -> Self {
        Self { size: Some(list.size()), entries: Entries::List(list) }
    }

    /// The number of entries; `None` if it has to be counted.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// The keys of members, in the order asked. One SELECT for each 5,000.
    pub async fn rank_keys(&self, members: &[MemberId]) -> Result<Vec<Option<RankKey>>> {
        match &self.entries {
            Entries::Rows(rows) => rows.keys(members).await,
            Entries::List(list) => Ok(list.keys(members)),
        }
    }

    /// The entries and positions of members, in the order of `members`; `None` for members without
    /// an entry.
    pub async fn find(&self, members: &[MemberId]) -> Result<Vec<Option<(RankedEntry, u64)>>> {
        let now = self.at_one_moment().await?;
        let keys = now.rank_keys(members).await?.into_iter().zip(members);
        let entries: Vec<Option<RankedEntry>> = keys
            .map(|(key, member)| key.map(|key| RankedEntry { key, member: member.clone() }))
            .collect();
        let there: Vec<RankedEntry> = entries.iter().flatten().cloned().collect();
        let mut positions = now.positions(&there).await?.into_iter();
        Ok(entries.into_iter().map(|entry| Some((entry?, positions.next()?))).collect())
    }

    /// The position of each of these entries: the number of entries before it. Of rows, one
    /// statement for each 200; together they scan the entries before the last one once, or those
    /// behind a sample before each.
    pub async fn positions(&self, entries: &[RankedEntry]) -> Result<Vec<u64>> {
        let bound = |place: &RankedEntry| (place.key.to_i64(), place.member.to_string());
        self.counts(entries.iter().map(bound).collect()).await
    }

    /// The number of entries with a smaller key than each of these; cost as [`Self::positions`].
    pub async fn counts_below(&self, keys: &[RankKey]) -> Result<Vec<u64>> {
        let bound = |key: &RankKey| (key.to_i64(), String::new());
        self.counts(keys.iter().map(bound).collect()).await
    }

    /// The first keys of up to [`SCORES_MAX`] distinct scores from a place on, best first, and true
    /// if no more follow. One SELECT.
    pub async fn scores(
        &self,
        from: &RankedEntry,
        layout: KeyLayout,
    ) -> Result<(Vec<RankKey>, bool)> {
        match &self.entries {
            Entries::Rows(rows) => rows.scores(from, layout).await,
            Entries::List(list) => Ok(list.scores(from.key, layout)),
        }
    }

    /// Up to `limit` entries from `from` on, in order, and the position of the first. `from` is
    /// included if it is still there.
    pub async fn forward(
        &self,
        from: &RankedEntry,
        limit: usize,
    ) -> Result<(u64, Vec<RankedEntry>)> {
        let now = self.at_one_moment().await?;
        let position = now.positions(std::slice::from_ref(from)).await?[0];
        Ok((position, now.list(Part::From(from, 0), limit).await?))
    }

    /// Up to `limit` entries after `last`, or the first ones, in order. Counts nothing.
    pub async fn page_after(
        &self,
        last: Option<&RankedEntry>,
        limit: usize,
    ) -> Result<Vec<RankedEntry>> {
        self.list(last.map_or(Part::At(0), Part::After), limit).await
    }

    /// Up to `limit` entries from a position on, in order. Of rows, O(position).
    pub async fn forward_from(&self, position: u64, limit: usize) -> Result<Vec<RankedEntry>> {
        self.list(Part::At(position), limit).await
    }

    /// The pages of up to some entries from some positions on, in the order of `pages`. Of rows,
    /// one statement for each; together they scan the entries before the last one once.
    pub async fn pages_from(&self, pages: &[(u64, usize)]) -> Result<Vec<Vec<RankedEntry>>> {
        let mut order: Vec<usize> = (0..pages.len()).collect();
        order.sort_unstable_by_key(|&page| pages[page]);
        let now = match pages.len() {
            0 | 1 => self.clone(),
            _ => self.at_one_moment().await?,
        };
        let mut found = vec![vec![]; pages.len()];
        let mut last: Option<(u64, RankedEntry)> = None;
        for page in order {
            let (position, limit) = pages[page];
            let part = match &last {
                Some((known, entry)) if !now.has_samples() => Part::From(entry, position - known),
                _ => Part::At(position),
            };
            found[page] = now.list(part, limit).await?;
            last = found[page].first().map(|first| (position, first.clone())).or(last);
        }
        Ok(found)
    }

    /// Up to `limit` entries before `before`, or the last ones, in order, and the position of
    /// `before`.
    pub async fn backward(
        &self,
        before: Option<&RankedEntry>,
        limit: usize,
    ) -> Result<(u64, Vec<RankedEntry>)> {
        let now = self.at_one_moment().await?;
        let mut entries = now.list(before.map_or(Part::Last, Part::Before), limit).await?;
        entries.reverse();
        let position = match (before, entries.first()) {
            (Some(place), _) => now.positions(std::slice::from_ref(place)).await?[0],
            (None, Some(first)) if self.size.is_none() => {
                let position = now.positions(std::slice::from_ref(first)).await?[0];
                position + entries.len() as u64
            }
            (None, _) => self.size.unwrap_or(0),
        };
        Ok((position, entries))
    }

    /// The entries around a member, including its own, and the position of the first; `None` if the
    /// member has no entry.
    pub async fn neighbors(
        &self,
        member: &MemberId,
        above: usize,
        below: usize,
    ) -> Result<Neighborhood> {
        let now = self.at_one_moment().await?;
        let key = now.rank_keys(std::slice::from_ref(member)).await?[0];
        let Some(key) = key else { return Ok(None) };
        let center = RankedEntry { key, member: member.clone() };
        let (position, mut entries) = now.backward(Some(&center), above).await?;
        let first = position.saturating_sub(entries.len() as u64);
        entries.append(&mut now.list(Part::From(&center, 0), below + 1).await?);
        Ok(Some((first, entries)))
    }

    /// As [`Self::neighbors`] for each of these members, in their order.
    pub async fn neighborhoods(
        &self,
        members: &[MemberId],
        above: usize,
        below: usize,
    ) -> Result<Vec<Neighborhood>> {
        if (above, below) == (0, 0) {
            let alone = |(entry, position): (RankedEntry, u64)| (position, vec![entry]);
            return Ok(self
                .find(members)
                .await?
                .into_iter()
                .map(|found| found.map(alone))
                .collect());
        }
        let now = self.at_one_moment().await?;
        let mut found = Vec::with_capacity(members.len());
        for member in members {
            found.push(now.neighbors(member, above, below).await?);
        }
        Ok(found)
    }

    fn has_samples(&self) -> bool {
        matches!(&self.entries, Entries::Rows(rows) if rows.has_samples())
    }

    async fn at_one_moment(&self) -> Result<Self> {
        let entries = match &self.entries {
            Entries::Rows(rows) => Entries::Rows(Box::new(rows.at_one_moment().await?)),
            Entries::List(list) => Entries::List(list.clone()),
        };
        Ok(Self { entries, ..*self })
    }

    async fn counts(&self, bounds: Vec<Bound>) -> Result<Vec<u64>> {
        match &self.entries {
            Entries::Rows(rows) => rows.counts(bounds).await,
            Entries::List(list) => Ok(list.counts(&bounds)),
        }
    }

    async fn list(&self, part: Part<'_>, limit: usize) -> Result<Vec<RankedEntry>> {
        match &self.entries {
            Entries::Rows(rows) => rows.list(part, limit).await,
            Entries::List(list) => Ok(list.part(part, limit)),
        }
    }
}
