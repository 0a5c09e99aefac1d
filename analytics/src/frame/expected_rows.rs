//! Who is to have a row, looked up as rows come in whatever order; who is left has none.

use std::ops::Range;

use foldhash::{HashMap, HashMapExt};

/// Everybody's rows in standings without periods, by segment and member.
pub struct Awaited<'a> {
    rows: HashMap<(&'a str, &'a str), usize>,
    is_met: Vec<bool>,
}

impl<'a> Awaited<'a> {
    /// Those of `count` rows: segments with where their rows are, and who is in a row.
    pub fn new(
        count: usize,
        segments: impl Iterator<Item = (&'a str, Range<usize>)>,
        member: impl Fn(usize) -> &'a str,
    ) -> Self {
        let mut rows = HashMap::with_capacity(count);
        for (segment, of_segment) in segments {
            rows.extend(of_segment.map(|row| ((segment, member(row)), row)));
        }
        Self { rows, is_met: vec![false; count] }
    }

    /// The row of somebody, who is not left from here on; `None` where there is to be none.
    pub fn meet(&mut self, segment: &str, member: &str) -> Option<usize> {
        let row = self.rows.get(&(segment, member)).copied();
        if let Some(row) = row {
            self.is_met[row] = true;
        }
        row
    }

    /// Segments and members of whom none was met.
    pub fn left(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let Self { rows, is_met } = self;
        rows.into_iter().filter(move |(_, row)| !is_met[*row]).map(|(place, _)| place)
    }
}
