//! The rows that history expects, looked up as a store's rows come in any order; those that were
//! not found are missing.

use std::ops::Range;

use foldhash::{HashMap, HashMapExt};

/// The expected rows of standings without periods, by segment and member.
pub struct ExpectedRows<'a> {
    rows: HashMap<(&'a str, &'a str), usize>,
    is_met: Vec<bool>,
}

impl<'a> ExpectedRows<'a> {
    /// Expects `count` rows: the range of rows of each segment, and the member of each row.
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

    /// The expected row of a member, which counts as found from here on; `None` if no row is
    /// expected.
    pub fn mark_found(&mut self, segment: &str, member: &str) -> Option<usize> {
        let row = self.rows.get(&(segment, member)).copied();
        if let Some(row) = row {
            self.is_met[row] = true;
        }
        row
    }

    /// The segments and members of the rows that were not found.
    pub fn missing(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let Self { rows, is_met } = self;
        rows.into_iter().filter(move |(_, row)| !is_met[*row]).map(|(place, _)| place)
    }
}
