//! Board marks: a partition's record of a board, by which it refuses a writer that missed a change.

use crate::board::Board;
use crate::error::{Error, Result};

/// The state of a board, as a partition records it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoardMark {
    /// The board is in this generation.
    Generation(u32),
    /// The board is moving to another number of shards, which begins this generation. The partition
    /// accepts no writes until the move is decided.
    Held(u32),
    /// The board was deleted: the partition accepts nothing for it.
    Deleted,
}

impl BoardMark {
    /// Reads the text in a partition; none means the first generation.
    ///
    /// # Errors
    /// `Corrupt` if the text is not a generation, `held` and a generation, or `deleted`.
    pub fn parse(text: Option<&str>) -> Result<Self> {
        match text {
            None => Ok(Self::Generation(1)),
            Some("deleted") => Ok(Self::Deleted),
            Some(text) => match text.strip_prefix("held ") {
                Some(held) => held.parse().map(Self::Held),
                None => text.parse().map(Self::Generation),
            }
            .map_err(|_| Error::corrupt(format!("{text:?} is not a mark of a board"))),
        }
    }

    /// The text that [`Self::parse`] reads.
    pub fn to_text(self) -> String {
        match self {
            Self::Generation(generation) => generation.to_string(),
            Self::Held(generation) => format!("held {generation}"),
            Self::Deleted => "deleted".to_owned(),
        }
    }

    /// Checks that `board`, as the caller knows it, is current. A caller with a later generation
    /// than the partition's is ahead of the commit that brings that generation here, which is fine.
    ///
    /// # Errors
    /// `BoardGone` if the board was deleted or got a newer generation; `BoardHeld` while it is
    /// moving to another number of shards.
    pub fn check(self, board: &Board) -> Result<()> {
        match self {
            Self::Generation(generation) if generation <= board.generation => Ok(()),
            Self::Held(_) => Err(Error::BoardHeld),
            _ => Err(Error::BoardGone),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_s_text_says_it_again() {
        for mark in [BoardMark::Generation(7), BoardMark::Held(8), BoardMark::Deleted] {
            assert_eq!(BoardMark::parse(Some(&mark.to_text())), Ok(mark));
        }
        assert_eq!(BoardMark::parse(None), Ok(BoardMark::Generation(1)));
        for bad in ["", "held", "held ", "held x", "-1"] {
            assert!(BoardMark::parse(Some(bad)).is_err(), "{bad}");
        }
    }
}
