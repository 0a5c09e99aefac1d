//! The folded standings of a window in one partition, in the order of keys and members. A store's
//! entries are compared with them one by one, in the same order.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context, Result};
use polars::prelude::{NewChunkedArray, StringChunked};
use ranking::board::Board;
use ranking::standings_id::StandingsId;
use ranking::window::Window;

use crate::frame::expected_rows::ExpectedRows;
use crate::frame::sorted::Folded;

/// Entries in order, each as member, key and score.
pub(crate) type List = Vec<(String, i64, i64)>;

/// Entries as columns, grouped into one list for each segment and period.
#[derive(Default)]
pub(crate) struct Rows {
    members: StringChunked,
    keys: Vec<i64>,
    scores: Vec<i64>,
    lists: BTreeMap<StandingsId, Range<usize>>,
}

impl Rows {
    /// The entries of a fold.
    pub(crate) fn of_fold(board: &Board, window: Window, folded: Folded) -> Result<Self> {
        let Folded { periods, frame } = folded;
        let number = |name: &str| -> Result<Vec<i64>> {
            let column = frame.column(name)?.i64()?;
            let values: Option<Vec<i64>> = column.iter().collect();
            values.context("the fold returned a null")
        };
        let segments = frame.column("segment")?.str()?.rechunk().into_owned();
        let places = number("period")?;
        let mut lists = BTreeMap::new();
        let mut start = 0;
        for end in 1..=frame.height() {
            let list = |row: usize| (places[row], segments.get(row));
            if end < frame.height() && list(end) == list(start) {
                continue;
            }
            let period = &periods[usize::try_from(places[start])?];
            let segment = segments.get(start).context("the fold returned a null")?;
            lists.insert(StandingsId::of(board, segment, window, period), start..end);
            start = end;
        }
        Ok(Self {
            members: frame.column("member")?.str()?.rechunk().into_owned(),
            keys: number("key")?,
            scores: number("score")?,
            lists,
        })
    }

    /// The entries of lists.
    pub(crate) fn of_lists(lists: impl IntoIterator<Item = (StandingsId, List)>) -> Self {
        let mut rows = Self::default();
        let mut members = vec![];
        for (id, entries) in lists {
            let start = members.len();
            for (member, key, score) in entries {
                members.push(member);
                rows.keys.push(key);
                rows.scores.push(score);
            }
            rows.lists.insert(id, start..members.len());
        }
        rows.members =
            StringChunked::from_iter_values("member".into(), members.iter().map(String::as_str));
        rows
    }

    /// All entries, each as segment, member, and key and score.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &str, (i64, i64))> {
        self.lists.iter().flat_map(move |(id, rows)| {
            let member = |row: usize| self.members.get(row).unwrap_or_default();
            let entry = move |row| (id.segment.as_str(), member(row), self.held(row));
            rows.clone().map(entry)
        })
    }

    /// The rows that are expected, by segment and member, of one window without periods.
    pub(crate) fn awaited(&self) -> ExpectedRows<'_> {
        let segments = self.lists.iter();
        let segments = segments.map(|(id, rows)| (id.segment.as_str(), rows.clone()));
        ExpectedRows::new(self.len(), segments, |row| self.members.get(row).unwrap_or_default())
    }

    /// The key and the score of a row.
    pub(crate) fn held(&self, row: usize) -> (i64, i64) {
        (self.keys[row], self.scores[row])
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The standings that have a list.
    pub(crate) fn lists(&self) -> impl Iterator<Item = &StandingsId> {
        self.lists.keys()
    }

    /// A walk through a list, or through nothing if there is no such list.
    pub(crate) fn walk(&self, id: &StandingsId) -> Walk<'_> {
        Walk { rows: self, left: self.lists.get(id).cloned().unwrap_or(0..0) }
    }
}

/// A walk through a list, beside a store's entries in the same order.
pub(crate) struct Walk<'a> {
    rows: &'a Rows,
    left: Range<usize>,
}

impl Walk<'_> {
    /// True if this entry, with this score if one is given, is the next in the list. Entries before
    /// it, which the store lacks, go to `lost`. A store that is written to during the walk may be
    /// out of order: entries then seem lost, and the second look clears them.
    pub(crate) fn meets(
        &mut self,
        key: i64,
        score: Option<i64>,
        member: &[u8],
        mut lost: impl FnMut(&str),
    ) -> bool {
        while let Some(row) = self.left.clone().next() {
            let name = self.rows.members.get(row).unwrap_or_default();
            let here = (self.rows.keys[row], name.as_bytes());
            if here > (key, member) {
                return false;
            }
            self.left.start += 1;
            if here == (key, member) {
                return score.is_none_or(|score| score == self.rows.scores[row]);
            }
            lost(name);
        }
        false
    }

    /// Gives the remaining entries to `lost`.
    pub(crate) fn end(self, mut lost: impl FnMut(&str)) {
        for row in self.left {
            lost(self.rows.members.get(row).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ranking::id::BoardNo;

    fn id() -> StandingsId {
        StandingsId {
            board: BoardNo(1),
            generation: 1,
            segment: String::new(),
            window: Window::All,
            period: "all".to_owned(),
        }
    }

    /// The result of a walk beside entries: those that disagree, and those that are lost.
    fn walked(rows: &[(&str, i64)], entries: &[(&str, i64)]) -> (Vec<String>, Vec<String>) {
        let list = rows.iter().map(|&(member, key)| (member.to_owned(), key, key));
        let rows = Rows::of_lists(vec![(id(), list.collect())]);
        let (mut wrong, mut lost) = (vec![], vec![]);
        let mut walk = rows.walk(&id());
        for &(member, key) in entries {
            let lose = |member: &str| lost.push(member.to_owned());
            if !walk.meets(key, Some(key), member.as_bytes(), lose) {
                wrong.push(member.to_owned());
            }
        }
        walk.end(|member| lost.push(member.to_owned()));
        (wrong, lost)
    }

    #[test]
    fn a_walk_names_what_only_one_side_has() {
        let rows = [("b", 1), ("a", 2), ("c", 2), ("d", 5)];
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(walked(&rows, &rows), (vec![], vec![]));
        assert_eq!(walked(&rows, &[]), (vec![], names(&["b", "a", "c", "d"])));
        assert_eq!(walked(&[], &rows), (names(&["b", "a", "c", "d"]), vec![]));
        assert_eq!(walked(&rows, &[("b", 1), ("c", 2), ("d", 5)]), (vec![], names(&["a"])));
        assert_eq!(
            walked(&rows, &[("b", 1), ("a", 2), ("aa", 2), ("c", 2), ("d", 5)]),
            (names(&["aa"]), vec![])
        );
        assert_eq!(
            walked(&rows, &[("b", 1), ("a", 3), ("c", 2), ("d", 5)]),
            (names(&["a", "c"]), names(&["a", "c"]))
        );
    }
}
