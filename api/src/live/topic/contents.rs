//! The parts of standings as they were read, and whether they are the same as before.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ranking::id::MemberId;
use ranking::store::read::RankedEntry;

use super::{Part, Want};
use crate::error::Result;
use crate::loader::Found;

/// The parts as they were read last.
#[derive(Clone, Default)]
pub(super) struct Snapshot {
    pub(super) turn: u64,
    /// `None` before the first read.
    pub(super) read: Option<Arc<Result<Contents>>>,
}

/// The parts of one read.
#[derive(Default)]
pub(super) struct Contents {
    pub(super) entries: Vec<RankedEntry>,
    /// The entries that were asked for.
    pub(super) limit: usize,
    pub(super) members: HashMap<MemberId, Option<Found>>,
    /// For each page that is wanted, the read since which it is the same. Watches compare these: a
    /// page is long, and a thousand may watch it.
    pub(super) pages_since: BTreeMap<usize, u64>,
}

/// The version of a part: parts with equal marks are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mark {
    /// A page, by the read since which it is the same.
    Page(u64),
    Entry(Option<Found>),
    Failed(String),
}

impl Contents {
    /// Notes since which read each wanted page is the same, given the last read that succeeded.
    pub(super) fn compare(&mut self, last: Option<&Result<Self>>, wanted: &[usize], reads: u64) {
        let last = last.and_then(|last| last.as_ref().ok());
        let same = last.map_or(0, |last| {
            let both = self.entries.iter().zip(&last.entries);
            both.take_while(|(now, before)| now == before).count()
        });
        for &first in wanted.iter().filter(|first| **first < self.limit) {
            let since = last.and_then(|last| {
                let is_same = same >= first.min(self.entries.len()).min(last.entries.len())
                    && self.page_ends(first) == last.page_ends(first);
                last.pages_since.get(&first).filter(|_| is_same)
            });
            self.pages_since.insert(first, since.copied().unwrap_or(reads));
        }
    }

    /// The number of entries on a page, and true if there are more.
    fn page_ends(&self, first: usize) -> (usize, bool) {
        (self.entries.len().min(first), self.entries.len() > first)
    }
}

impl Snapshot {
    /// A part; `None` if it was not read.
    pub(super) fn part(&self, want: &Want) -> Option<Result<Part>> {
        let contents = match self.read.as_deref()? {
            Ok(contents) => contents,
            Err(error) => return Some(Err(error.clone())),
        };
        let part = match want {
            Want::Page(first) if *first < contents.limit => {
                let (end, has_more) = contents.page_ends(*first);
                Part::Page(contents.entries[..end].to_vec(), has_more)
            }
            Want::Page(_) => return None,
            Want::Entry(member) => Part::Entry(*contents.members.get(member)?),
        };
        Some(Ok(part))
    }

    /// The mark of a part; `None` if it was not wanted when it was read.
    pub(super) fn mark(&self, want: &Want) -> Option<Mark> {
        Some(match (self.read.as_deref()?, want) {
            (Err(error), _) => Mark::Failed(error.message.clone()),
            (Ok(contents), Want::Page(first)) => Mark::Page(*contents.pages_since.get(first)?),
            (Ok(contents), Want::Entry(member)) => Mark::Entry(*contents.members.get(member)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use ranking::score::rank_key::RankKey;

    use super::*;

    fn member(name: &str) -> MemberId {
        MemberId::new(name).unwrap()
    }

    fn entry(key: i64, name: &str) -> RankedEntry {
        RankedEntry { key: RankKey::from_i64(key).unwrap(), member: member(name) }
    }

    fn snapshot(entries: Vec<RankedEntry>, limit: usize) -> Snapshot {
        let found = Found { key: RankKey::from_i64(7).unwrap(), position: 3 };
        let members = [(member("m"), Some(found)), (member("none"), None)].into();
        let read = Some(Arc::new(Ok(Contents { entries, limit, members, ..Contents::default() })));
        Snapshot { turn: 0, read }
    }

    #[test]
    fn a_snapshot_has_the_parts_that_were_asked_for() {
        let all = vec![entry(1, "a"), entry(2, "b"), entry(3, "c")];
        let snapshot = snapshot(all.clone(), 3);
        let page = |first| snapshot.part(&Want::Page(first)).map(Result::unwrap);
        assert_eq!(page(1), Some(Part::Page(all[..1].to_vec(), true)));
        assert_eq!(page(2), Some(Part::Page(all[..2].to_vec(), true)));
        assert_eq!(page(3), None);
        let of = |name| snapshot.part(&Want::Entry(member(name))).map(Result::unwrap);
        assert_eq!(of("none"), Some(Part::Entry(None)));
        assert!(matches!(of("m"), Some(Part::Entry(Some(Found { position: 3, .. })))));
        assert_eq!(of("other"), None);
        assert!(Snapshot::default().part(&Want::Page(0)).is_none());
    }

    #[test]
    fn a_page_is_the_same_until_one_of_its_entries_or_its_end_is_another() {
        let of = |names: &str| {
            let entries = names.chars().map(|name| entry(1, &name.to_string())).collect();
            Contents { entries, limit: 4, ..Contents::default() }
        };
        let mut last: Option<Result<Contents>> = None;
        for (reads, names, since) in [
            (1, "abcd", [1, 1, 1]),
            (2, "abcd", [1, 1, 1]),
            (3, "abxd", [1, 1, 3]),
            (4, "ab", [1, 4, 4]),
            (5, "ab", [1, 4, 4]),
            (6, "", [6, 6, 6]),
            (7, "a", [7, 7, 7]),
            (8, "ac", [8, 8, 8]),
            (9, "acd", [8, 9, 9]),
        ] {
            let mut contents = of(names);
            contents.compare(last.as_ref(), &[1, 2, 3, 4], reads);
            let found: Vec<u64> = contents.pages_since.values().copied().collect();
            assert_eq!(found, since, "{names}");
            last = Some(Ok(contents));
        }
    }
}
