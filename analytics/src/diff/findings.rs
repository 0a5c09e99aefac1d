//! The findings of a comparison: how many there are, and as many of them as are kept.

use std::collections::BTreeSet;

use ranking::id::Partition;

use crate::diff::finding::{Finding, What};

/// How many findings a run keeps; beyond it they are counted.
pub(crate) const FINDINGS_MAX: usize = 100_000;

/// Findings.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// The first of them.
    pub(crate) kept: Vec<Finding>,
    /// How many there are.
    pub(crate) count: usize,
}

impl Findings {
    /// One more.
    pub(crate) fn add(&mut self, finding: Finding) {
        self.count += 1;
        if self.kept.len() < FINDINGS_MAX {
            self.kept.push(finding);
        }
    }

    /// Those of another partition too.
    pub(crate) fn extend(&mut self, other: Self) {
        let room = FINDINGS_MAX - self.kept.len();
        self.count += other.count;
        self.kept.extend(other.kept.into_iter().take(room));
    }

    /// Says of some members of a board's partition that their history is doubted.
    pub(crate) fn doubt(
        &mut self,
        board_no: i64,
        partition: Partition,
        members: &BTreeSet<Vec<u8>>,
    ) {
        if members.is_empty() {
            return;
        }
        for finding in &mut self.kept {
            if let What::Place(member, _) = &finding.what
                && (finding.board_no, finding.partition) == (board_no, partition)
                && members.contains(member)
            {
                finding.doubt();
            }
        }
    }
}
