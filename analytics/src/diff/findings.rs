//! The findings of a comparison: their number, and as many of them as a run keeps.

use std::collections::BTreeSet;

use ranking::id::PartitionNo;

use crate::diff::finding::{Finding, What};

/// Findings that a run keeps; those beyond it are only counted.
pub(crate) const FINDINGS_MAX: usize = 100_000;

/// Findings.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// The first [`FINDINGS_MAX`].
    pub(crate) kept: Vec<Finding>,
    /// The number of all findings.
    pub(crate) count: usize,
}

impl Findings {
    /// Adds a finding.
    pub(crate) fn add(&mut self, finding: Finding) {
        self.count += 1;
        if self.kept.len() < FINDINGS_MAX {
            self.kept.push(finding);
        }
    }

    /// Adds the findings of another partition.
    pub(crate) fn extend(&mut self, other: Self) {
        let room = FINDINGS_MAX - self.kept.len();
        self.count += other.count;
        self.kept.extend(other.kept.into_iter().take(room));
    }

    /// Marks the history of some members of a board's partition as doubtful.
    pub(crate) fn doubt(
        &mut self,
        board_no: i64,
        partition: PartitionNo,
        members: &BTreeSet<Vec<u8>>,
    ) {
        if members.is_empty() {
            return;
        }
        for finding in &mut self.kept {
            if let What::Location(member, _) = &finding.what
                && (finding.board_no, finding.partition) == (board_no, partition)
                && members.contains(member)
            {
                finding.doubt();
            }
        }
    }
}
