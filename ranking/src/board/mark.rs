//! Board marks: what a partition knows of a board, so that whoever writes without knowing of it is refused.

use crate::board::Board;
use crate::error::{Error, Result};

/// What became of a board since it was created, as a partition holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoardMark {
    /// It is in this generation.
    Generation(u32),
    /// It is moving to another number of shards, which makes this generation: nobody writes until that is decided.
    Held(u32),
    /// It was deleted: nothing is accepted for it any more.
    Deleted,
}

impl BoardMark {
    /// Reads what a partition holds; nothing is the first generation.
    ///
    /// # Errors
    /// `Corrupt` where it is no generation, none that it is held for, and not `deleted`.
    pub fn parse(text: Option<&str>) -> Result<Self> {
        match text {
            None => Ok(Self::Generation(1)),
            Some("deleted") => Ok(Self::Deleted),
            Some(text) => match text.strip_prefix("held ") {
                Some(held) => held.parse().map(Self::Held),
                None => text.parse().map(Self::Generation),
            }
            .map_err(|_| Error::corrupt(format!("{text:?} is no mark of a board"))),
        }
    }

    /// The text that [`Self::parse`] reads.
    #[must_use]
    pub fn to_text(self) -> String {
        match self {
            Self::Generation(generation) => generation.to_string(),
            Self::Held(generation) => format!("held {generation}"),
            Self::Deleted => "deleted".to_owned(),
        }
    }

    /// Checks that whoever knows the board as `board` knows it as it is. One who knows of a later generation than the partition does is ahead
    /// of the commit that will tell it.
    ///
    /// # Errors
    /// `BoardGone` where it was deleted or laid out anew; `BoardHeld` while it is moving to another number of shards.
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
