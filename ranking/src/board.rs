//! A board's rules: fixed at its creation, checked there once, and what follows from them for every window.

pub mod admission;
pub mod layout;
pub mod mark;
pub mod rules;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::board::admission::Admission;
use crate::board::layout::Layouts;
use crate::board::rules::Rules;
use crate::error::{Error, Result};
use crate::id::BoardNo;
use crate::seal::Sealed;
use crate::window::Window;

/// Which scores are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The highest score is first.
    HighFirst,
    /// The lowest score is first.
    LowFirst,
}

/// How an event meets the score that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Policy {
    /// It is added.
    Sum,
    /// The better one stays.
    Best,
    /// It replaces.
    Latest,
}

/// Who ranks higher at equal scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TieBreak {
    /// Who had it first.
    Earliest,
    /// Who had it last.
    Latest,
    /// The smaller member, by bytes.
    Member,
}

/// The names that SQL and GraphQL know an enum's values by.
macro_rules! named {
    ($type:ident { $($value:ident = $name:literal),+ }) => {
        impl $type {
            /// Its name, as SQL and GraphQL have it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name),+
                }
            }

            /// The value of that name.
            ///
            /// # Errors
            /// `Corrupt` where none has it.
            pub fn from_name(name: &str) -> Result<Self> {
                match name {
                    $($name => Ok(Self::$value),)+
                    other => Err(Error::corrupt(format!("{other:?} is none of {:?}", [$($name),+]))),
                }
            }
        }
    };
}

named!(Direction { HighFirst = "HIGH_FIRST", LowFirst = "LOW_FIRST" });
named!(Policy { Sum = "SUM", Best = "BEST", Latest = "LATEST" });
named!(TieBreak { Earliest = "EARLIEST", Latest = "LATEST", Member = "MEMBER" });

/// A board, as ranking needs it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Board {
    /// Its number.
    pub no: BoardNo,
    /// Goes up when a window is added or dropped, or the number of shards changes: whoever writes has to know.
    pub generation: u32,
    /// Its rules.
    pub rules: Arc<Rules>,
    /// Which scores it takes, by when they were earned.
    pub admission: Admission,
    /// The windows that were added to it; the others came with it.
    pub added: Arc<BTreeMap<Window, Added>>,
    /// The numbers of shards that it had before.
    pub layouts: Arc<Layouts>,
}

/// A window that was added to a board.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Added {
    /// The generation that it made.
    pub generation: u32,
    /// Whether what came before it is in it.
    pub is_whole: bool,
    /// How far its past periods are sealed.
    pub sealed: Sealed,
}

impl Board {
    /// The generation that a window's standings carry: the one in which it was added.
    #[must_use]
    pub fn generation_of(&self, window: Window) -> u32 {
        self.added.get(&window).map_or(1, |added| added.generation)
    }

    /// Whether a window's standings have all that came before it: not while they are being filled.
    #[must_use]
    pub fn is_whole(&self, window: Window) -> bool {
        self.added.get(&window).is_none_or(|added| added.is_whole)
    }

    /// How far a window's past periods are sealed.
    #[must_use]
    pub fn sealed(&self, window: Window) -> Sealed {
        let added = self.added.get(&window);
        added.map_or_else(Sealed::default, |added| added.sealed)
    }
}
