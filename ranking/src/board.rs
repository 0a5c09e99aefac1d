//! A board: its rules, fixed and checked when it is created, and their consequences for every
//! window.

pub mod admission;
pub mod attempts;
pub mod fair_play;
pub mod layout;
pub mod mark;
pub mod rules;
pub mod tick;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::board::admission::Admission;
use crate::board::fair_play::{Excess, FairPlay, Suspicion};
use crate::board::layout::Layouts;
use crate::board::rules::Rules;
use crate::error::{Error, Result};
use crate::id::BoardNo;
use crate::window::seal::Sealed;
use crate::window::{Period, Window};

/// Which scores are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The highest score is first.
    HighFirst,
    /// The lowest score is first.
    LowFirst,
}

/// The effect of an event on a member's score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Policy {
    /// The event's score is added.
    Sum,
    /// The better score stays.
    Best,
    /// The event's score replaces the earlier one.
    Latest,
}

/// The order of members with equal scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TieBreak {
    /// The member that reached the score first ranks higher.
    Earliest,
    /// The member that reached the score last ranks higher.
    Latest,
    /// The smaller member id ranks higher, by bytes.
    Member,
}

/// A member's state in the standings of a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct State {
    /// The raw score; in a decaying window, the [code](crate::window::HalfLife::code) of the sum.
    pub score: i64,
    /// The time at which it was reached, in ticks since 1970; meaningless if ties go by member.
    pub tick: i64,
}

/// The names of an enum's values in SQL and GraphQL.
macro_rules! named {
    ($type:ident { $($value:ident = $name:literal),+ }) => {
        impl $type {
            /// The name in SQL and GraphQL.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name),+
                }
            }

            /// The value with this name.
            ///
            /// # Errors
            /// `Corrupt` if no value has it.
            pub fn from_name(name: &str) -> Result<Self> {
                match name {
                    $($name => Ok(Self::$value),)+
                    other => Err(Error::corrupt(format!("{other:?} is not one of {:?}", [$($name),+]))),
                }
            }
        }
    };
}

named!(Direction { HighFirst = "HIGH_FIRST", LowFirst = "LOW_FIRST" });
named!(Policy { Sum = "SUM", Best = "BEST", Latest = "LATEST" });
named!(Excess { Refuse = "REFUSE", Quarantine = "QUARANTINE" });
named!(Suspicion { PerMinuteMax = "PER_MINUTE_MAX", DeltaMax = "DELTA_MAX", Banned = "BANNED" });
named!(TieBreak { Earliest = "EARLIEST", Latest = "LATEST", Member = "MEMBER" });

/// A board, as far as ranking needs to know it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Board {
    /// The number.
    pub no: BoardNo,
    /// Goes up when a window is added or dropped, or the number of shards changes; a writer must
    /// know the present one.
    pub generation: u32,
    /// The rules.
    pub rules: Arc<Rules>,
    /// The times of earning that the board accepts.
    pub admission: Admission,
    /// The windows added after creation; the others came with the board.
    pub added: Arc<BTreeMap<Window, Added>>,
    /// The earlier numbers of shards.
    pub layouts: Arc<Layouts>,
    /// True if its events may have metadata.
    pub has_metadata: bool,
    /// True if only members who joined may submit.
    pub is_joined: bool,
    /// The limits beyond which a member's scores are suspicious.
    pub fair_play: FairPlay,
}

/// A window that was added to a board.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Added {
    /// The generation that began with it.
    pub generation: u32,
    /// True if it contains the events from before its addition.
    pub is_whole: bool,
    /// The progress of sealing in the window.
    pub sealed: Sealed,
}

impl Board {
    /// A new board.
    pub fn new(no: BoardNo, rules: Rules) -> Self {
        Self {
            no,
            generation: 1,
            rules: Arc::new(rules),
            admission: Admission::default(),
            added: Arc::default(),
            layouts: Arc::default(),
            has_metadata: false,
            is_joined: false,
            fair_play: FairPlay::default(),
        }
    }

    /// The generation in a window's standings: the one in which the window was added.
    pub fn generation_of(&self, window: Window) -> u32 {
        self.added.get(&window).map_or(1, |added| added.generation)
    }

    /// True if a window's standings contain all earlier events: false while a new window is being
    /// filled.
    pub fn is_whole(&self, window: Window) -> bool {
        self.added.get(&window).is_none_or(|added| added.is_whole)
    }

    /// True if the standings of a window's period contain all earlier events: false while a new
    /// window, or a new season, is being filled.
    pub fn is_filled(&self, window: Window, period: &Period) -> bool {
        if window.has_seasons() {
            let season = self.rules.calendar.season_named(&period.label);
            return season.is_some_and(|season| season.is_ready);
        }
        self.is_whole(window)
    }

    /// The progress of sealing in a window.
    pub fn sealed(&self, window: Window) -> Sealed {
        let added = self.added.get(&window);
        added.map_or_else(Sealed::default, |added| added.sealed)
    }
}
