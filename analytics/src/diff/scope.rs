//! The parts of boards that a comparison is about.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use ranking::id::PartitionNo;

/// The parts of boards to compare.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    /// The numbers of the partitions of this process.
    partitions: RangeInclusive<u16>,
    /// The parts to compare again, by board number and partition; `None` for all.
    again: Option<BTreeSet<(i64, PartitionNo)>>,
}

impl Scope {
    /// All boards in some partitions.
    pub(crate) fn of(partitions: RangeInclusive<u16>) -> Self {
        Self { partitions, again: None }
    }

    /// These parts of it, to be compared again.
    pub(crate) fn again(&self, parts: BTreeSet<(i64, PartitionNo)>) -> Self {
        Self { again: Some(parts), ..self.clone() }
    }

    /// True if parts are compared again.
    pub(crate) fn is_again(&self) -> bool {
        self.again.is_some()
    }

    /// True if it has a board's part in a partition.
    pub(crate) fn has(&self, board_no: i64, partition: PartitionNo) -> bool {
        self.partitions.contains(&partition.0)
            && self.again.as_ref().is_none_or(|again| again.contains(&(board_no, partition)))
    }

    /// Those of some partitions that it has for any board.
    pub(crate) fn partitions(
        &self,
        of: impl IntoIterator<Item = PartitionNo>,
    ) -> BTreeSet<PartitionNo> {
        match &self.again {
            Some(again) => again.iter().map(|(_, partition)| *partition).collect(),
            None => of.into_iter().filter(|no| self.partitions.contains(&no.0)).collect(),
        }
    }
}
