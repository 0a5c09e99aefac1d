//! Entries in memory, in order.

use ranking::id::MemberId;
use ranking::score::rank_key::{KeyLayout, RankKey};
use ranking::store::read::RankedEntry;

use super::{Bound, Part, SCORES_MAX};

/// The entries of one of the standings.
#[derive(Debug)]
pub(in crate::read) struct List {
    entries: Vec<RankedEntry>,
    /// The places of the entries, in the order of their members.
    by_member: Box<[u32]>,
}

impl List {
    /// A list of entries that are in order.
    pub(in crate::read) fn new(entries: Vec<(RankKey, MemberId)>) -> Self {
        let entry = |(key, member)| RankedEntry { key, member };
        let entries: Vec<RankedEntry> = entries.into_iter().map(entry).collect();
        let mut by_member: Box<[u32]> = (0..entries.len() as u32).collect();
        by_member.sort_unstable_by_key(|&place| entries[place as usize].member.as_str());
        Self { entries, by_member }
    }

    /// The number of entries.
    pub(in crate::read) fn size(&self) -> u64 {
        self.entries.len() as u64
    }

    /// The keys of members, in the order asked. O(log(size)) each.
    pub(super) fn keys(&self, members: &[MemberId]) -> Vec<Option<RankKey>> {
        let entry = |place: u32| &self.entries[place as usize];
        let key = |member: &MemberId| {
            let found = self.by_member.binary_search_by_key(&member, |&place| &entry(place).member);
            Some(entry(self.by_member[found.ok()?]).key)
        };
        members.iter().map(key).collect()
    }

    /// The number of entries before each bound. O(log(size)) each.
    pub(super) fn counts(&self, bounds: &[Bound]) -> Vec<u64> {
        let before = |(key, member): &Bound| {
            let bound = (*key, member.as_str());
            let is_before =
                |entry: &RankedEntry| (entry.key.to_i64(), entry.member.as_str()) < bound;
            self.entries.partition_point(is_before) as u64
        };
        bounds.iter().map(before).collect()
    }

    /// The first keys of up to [`SCORES_MAX`] scores from a key on, best first, and true if no more
    /// follow. O(log(size)) each.
    pub(super) fn scores(&self, from: RankKey, layout: KeyLayout) -> (Vec<RankKey>, bool) {
        let (mut scores, mut next) = (vec![], Some(from));
        while let Some(least) = next.filter(|_| scores.len() < SCORES_MAX) {
            let first = self.entries.partition_point(|entry| entry.key < least);
            let Some(entry) = self.entries.get(first) else { return (scores, true) };
            scores.push(layout.first_of_score(entry.key));
            next = layout.next_score(entry.key);
        }
        (scores, next.is_none())
    }

    /// Up to `limit` entries of a part. O(log(size) + limit).
    pub(super) fn part(&self, part: Part<'_>, limit: usize) -> Vec<RankedEntry> {
        let up_from = |from: usize| {
            self.entries.iter().skip(from).take(limit).cloned().collect::<Vec<RankedEntry>>()
        };
        let down_from =
            |end: usize| self.entries[..end].iter().rev().take(limit).cloned().collect();
        let until = |place: &RankedEntry| self.entries.partition_point(|entry| entry < place);
        match part {
            Part::From(place, skipped) => up_from(until(place).saturating_add(skipped as usize)),
            Part::After(place) => up_from(self.entries.partition_point(|entry| entry <= place)),
            Part::Before(place) => down_from(until(place)),
            Part::At(position) => up_from(position as usize),
            Part::Last => down_from(self.entries.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use ranking::board::{Direction, TieBreak};

    use super::*;

    fn entry(key: i64, member: &str) -> RankedEntry {
        RankedEntry { key: RankKey::from_i64(key).unwrap(), member: MemberId::new(member).unwrap() }
    }

    #[test]
    fn parts_and_counts_follow_the_order_of_keys_then_members() {
        let entries = [(1, "b"), (2, "a"), (2, "c"), (3, "a2")].map(|(key, of)| entry(key, of));
        let list = List::new(entries.iter().map(|of| (of.key, of.member.clone())).collect());
        let shown = |part: Part<'_>, limit: usize| {
            let found = list.part(part, limit);
            found.iter().map(|of| of.member.to_string()).collect::<Vec<_>>().join(" ")
        };
        let gone = entry(2, "b");
        assert_eq!(shown(Part::From(&entries[1], 0), 2), "a c");
        assert_eq!(shown(Part::From(&entries[1], 2), 2), "a2");
        assert_eq!(shown(Part::From(&gone, 0), 9), "c a2");
        assert_eq!(shown(Part::After(&entries[1]), 9), "c a2");
        assert_eq!(shown(Part::Before(&gone), 9), "a b");
        assert_eq!(shown(Part::At(9), 9), "");
        assert_eq!(shown(Part::Last, 2), "a2 c");
        let bounds = [(2, String::new()), (2, "c".into()), (9, String::new())];
        assert_eq!(list.counts(&bounds), [1, 2, 4]);
    }

    #[test]
    fn each_score_is_told_once_by_its_first_key() {
        let layout = KeyLayout::new(Direction::LowFirst, TieBreak::Earliest, 0, 1000);
        let key = |score: i64, tick: i64| layout.encode(score, tick).unwrap();
        let entries = [(0, 3), (0, 4), (2, 0), (7, 1), (7, 9)];
        let member = MemberId::new("m").unwrap();
        let list = |entries: &[(i64, i64)]| {
            List::new(entries.iter().map(|&(of, tick)| (key(of, tick), member.clone())).collect())
        };
        let scores = list(&entries).scores(RankKey::from_i64(0).unwrap(), layout);
        assert_eq!(scores, (vec![key(0, 0), key(2, 0), key(7, 0)], true));
        assert_eq!(list(&entries).scores(key(3, 0), layout), (vec![key(7, 0)], true));
        assert_eq!(list(&[]).scores(key(0, 0), layout), (vec![], true));
        let many: Vec<(i64, i64)> = (0..=1000).map(|score| (score, 5)).collect();
        let (scores, is_end) = list(&many).scores(key(1, 0), layout);
        assert_eq!((scores.len(), is_end), (SCORES_MAX, false));
    }

    #[test]
    fn each_member_is_kept_once_and_has_its_own_key() {
        let entries =
            [(1, "c"), (2, "ü"), (3, "a"), (4, "ab"), (5, "Z")].map(|(key, of)| entry(key, of));
        let list = List::new(entries.iter().map(|of| (of.key, of.member.clone())).collect());
        for of in &entries {
            assert_eq!(list.keys(std::slice::from_ref(&of.member)), [Some(of.key)]);
        }
        let asked = ["aa", "ab", "A", "ü", "z", "c"].map(|name| MemberId::new(name).unwrap());
        let keys = list.keys(&asked).into_iter().map(|key| key.map(RankKey::to_i64));
        assert_eq!(keys.collect::<Vec<_>>(), [None, Some(4), None, Some(2), None, Some(1)]);
        assert_eq!(List::new(vec![]).keys(&asked), [None; 6]);
        // Beside its entry, a member costs four bytes.
        let places = size_of_val(&*list.by_member);
        assert_eq!(places, 4 * entries.len());
    }
}
