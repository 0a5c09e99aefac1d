//! Positions: how far a board's partition has taken the messages of a source, such as a topic.
//!
//! A source hands its messages out in order, and may hand them out again from any place. What
//! stands at or before the position is taken, whatever else is known of it, except for scores that
//! were refused: they may have been lost before anybody put them aside, so they are judged again
//! until the client says that they are settled.

use std::collections::BTreeSet;
use std::fmt::{self, Write};
use std::str::FromStr;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::id::{BoardNo, MemberId, SourceName};
use crate::shard::shard_of;

/// The highest offset of a message: that of a signed number of 64 bits.
pub const OFFSET_MAX: u64 = (1 << 63) - 1;

/// The most scores of a source partition and board that were refused and are not settled.
pub const REFUSED_MAX: usize = 1000;

/// The most source partitions of which a partition keeps the positions on one board.
pub const POSITIONS_MAX: u64 = 10_000;

/// The field of the number of positions among those of a board.
pub const COUNT_FIELD: &str = "count";

/// The field of the position in a source partition among those of a board.
pub fn position_field(source: &SourceName, source_partition: u32) -> String {
    format!("{source_partition}:{source}")
}

/// The place of a score in a source partition. Its text is `offset.index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourcePlace {
    /// The offset of its message.
    pub offset: u64,
    /// Its index in the message, from 0.
    pub index: u32,
}

/// How far one partition has taken one source partition, for one board.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Position {
    /// The last place that was taken; `None` before the first.
    pub last: Option<SourcePlace>,
    /// The places up to the last one whose scores were refused and are not settled.
    pub refused: BTreeSet<SourcePlace>,
    /// Later places that were taken for some members, before the board had fewer shards.
    pub former: Vec<FormerShard>,
}

/// The last place that a shard of a former layout has taken, for its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FormerShard {
    /// The number of shards of the layout.
    pub shards: u16,
    /// The shard.
    pub shard: u16,
    /// The place.
    pub last: SourcePlace,
}

/// A position as a commit has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePosition {
    /// The board.
    pub board: BoardNo,
    /// The generation that began the board's layout.
    pub layout_since: u32,
    /// The source.
    pub source: SourceName,
    /// The source partition.
    pub source_partition: u32,
    /// The position from this commit on.
    pub position: Position,
}

/// A source partition, and what a request says of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Source {
    /// The source.
    pub name: SourceName,
    /// The source partition.
    pub partition: u32,
    /// All messages up to this offset are settled.
    pub settled: Option<u64>,
    /// The places of scores of the request that were refused before any partition judged them.
    pub refused: Vec<SourcePlace>,
}

/// The place where a submission comes from. Its text is `source/partition/offset.index`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// The source partition.
    pub source: Arc<Source>,
    /// The place in it.
    pub place: SourcePlace,
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.source.name, self.source.partition, self.place)
    }
}

impl fmt::Display for SourcePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.offset, self.index)
    }
}

impl FromStr for SourcePlace {
    type Err = Error;

    /// # Errors
    /// `Corrupt` for any other text than that of a place.
    fn from_str(text: &str) -> Result<Self> {
        let place = text.split_once('.').and_then(|(offset, index)| {
            Some(Self { offset: offset.parse().ok()?, index: index.parse().ok()? })
        });
        let place = place.filter(|place| place.to_string() == text);
        place.ok_or_else(|| Error::corrupt(format!("{text:?} is not a place in a source")))
    }
}

impl FormerShard {
    /// True if some members of this shard are in a shard of a layout.
    fn meets(&self, shards: u16, shard: u16) -> bool {
        meet((self.shards, self.shard), (shards, shard))
    }
}

/// True if two shards of layouts, each given as (number of shards, shard), have members in common.
fn meet((shards, shard): (u16, u16), (others, other): (u16, u16)) -> bool {
    let fewer = shards.min(others);
    shard % fewer == other % fewer
}

impl Position {
    /// True if the score of a member at a place was taken.
    pub fn has_taken(&self, member: &MemberId, place: SourcePlace) -> bool {
        let is_former = |former: &FormerShard| {
            place <= former.last && shard_of(member, former.shards) == former.shard
        };
        let is_behind = Some(place) <= self.last || self.former.iter().any(is_former);
        is_behind && !self.refused.contains(&place)
    }

    /// Takes a place. Of scores between the last place and this one, those at the `refused` places
    /// stay open, except for messages up to `settled`.
    pub fn take(
        &mut self,
        place: SourcePlace,
        refused: impl IntoIterator<Item = SourcePlace>,
        settled: Option<u64>,
    ) {
        let before = self.last;
        self.last = before.max(Some(place));
        let between = |refused: &SourcePlace| before < Some(*refused) && *refused < place;
        self.refused.extend(refused.into_iter().filter(between));
        self.refused.remove(&place);
        self.refused.retain(|refused| Some(refused.offset) > settled);
        self.former.retain(|former| Some(former.last) > self.last);
    }

    /// The position of a shard in a new layout, from those of all shards of the former layout that
    /// have members in common with it.
    pub fn after_move(
        former: impl IntoIterator<Item = (u16, Option<Self>)>,
        former_shards: u16,
        (shards, shard): (u16, u16),
    ) -> Self {
        let meets = |other: u16| meet((former_shards, other), (shards, shard));
        let former: Vec<(u16, Self)> = former
            .into_iter()
            .filter(|(other, _)| meets(*other))
            .map(|(other, position)| (other, position.unwrap_or_default()))
            .collect();
        let last = former.iter().map(|(_, position)| position.last).min().flatten();
        let mut moved = Self { last, ..Self::default() };
        for (other, position) in former {
            moved.refused.extend(position.refused);
            moved.former.extend(position.former);
            let own =
                position.last.map(|last| FormerShard { shards: former_shards, shard: other, last });
            moved.former.extend(own);
        }
        moved.former.retain(|former| Some(former.last) > last && former.meets(shards, shard));
        moved.former.sort_unstable();
        moved
    }

    /// Reads `<last place or ->`, then `!<place>` for each refused one and
    /// `<shards>/<shard>=<place>` for each former shard.
    ///
    /// # Errors
    /// `Corrupt` for any other text.
    pub fn parse(text: &str) -> Result<Self> {
        let corrupt = || Error::corrupt(format!("{text:?} is not a position in a source"));
        let mut words = text.split(' ');
        let mut position = Self::default();
        match words.next() {
            Some("-") => {}
            Some(last) => position.last = Some(last.parse()?),
            None => return Err(corrupt()),
        }
        for word in words {
            if let Some(refused) = word.strip_prefix('!') {
                position.refused.insert(refused.parse()?);
                continue;
            }
            let former = word.split_once('=').and_then(|(of, last)| {
                let (shards, shard) = of.split_once('/')?;
                let last = last.parse().ok()?;
                Some(FormerShard { shards: shards.parse().ok()?, shard: shard.parse().ok()?, last })
            });
            position.former.push(former.filter(|former| former.shards > 0).ok_or_else(corrupt)?);
        }
        Ok(position)
    }

    /// The text that [`Self::parse`] reads.
    pub fn to_text(&self) -> String {
        let mut text = self.last.map_or_else(|| "-".to_owned(), |last| last.to_string());
        // Writing to a text does not fail.
        for refused in &self.refused {
            let _ = write!(text, " !{refused}");
        }
        for FormerShard { shards, shard, last } in &self.former {
            let _ = write!(text, " {shards}/{shard}={last}");
        }
        text
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place(offset: u64) -> SourcePlace {
        SourcePlace { offset, index: 0 }
    }

    pub(crate) fn position() -> impl Strategy<Value = Position> {
        let place = || {
            (any::<u64>(), any::<u32>()).prop_map(|(offset, index)| SourcePlace { offset, index })
        };
        let former = (1_u16.., any::<u16>(), place())
            .prop_map(|(shards, shard, last)| FormerShard { shards, shard, last });
        (
            proptest::option::of(place()),
            proptest::collection::btree_set(place(), 0..4),
            proptest::collection::vec(former, 0..3),
        )
            .prop_map(|(last, refused, former)| Position { last, refused, former })
    }

    #[test]
    fn another_text_is_corrupt() {
        for text in ["", "1", "1.", "1.0 2.0", "1.0 !", "01.0", "1.0  !2.0", "1.0 8/3", "- 0/0=1.0"]
        {
            assert!(Position::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_refused_score_is_judged_again_until_it_is_settled() {
        let ann = MemberId::new("ann").unwrap();
        let mut position = Position::default();
        position.take(place(8), [place(7), place(9)], None);
        assert!(position.has_taken(&ann, place(8)) && position.has_taken(&ann, place(3)));
        assert!(!position.has_taken(&ann, place(7)) && !position.has_taken(&ann, place(9)));
        // Nothing is refused again that was taken.
        position.take(place(10), [place(6), place(7)], None);
        assert!(position.has_taken(&ann, place(6)) && !position.has_taken(&ann, place(7)));
        position.take(place(11), [], Some(7));
        assert!(position.has_taken(&ann, place(7)) && position.refused.is_empty());
        position.take(place(13), [place(12)], None);
        position.take(place(12), [], None);
        assert!(position.has_taken(&ann, place(12)) && position.last == Some(place(13)));
    }

    proptest! {
        #[test]
        fn a_position_is_read_back(position in position()) {
            prop_assert_eq!(Position::parse(&position.to_text()), Ok(position));
        }

        #[test]
        fn members_keep_what_was_taken_when_their_board_moves(
            layouts in proptest::collection::vec(0_u32..4, 1..6),
            sent in proptest::collection::vec(0_u8..20, 1..60),
        ) {
            let of_shards = |shards: u16| vec![None::<Position>; usize::from(shards)];
            let sent: Vec<MemberId> =
                sent.iter().map(|no| MemberId::new(&format!("m{no}")).unwrap()).collect();
            let mut shards = 1_u16 << layouts[0];
            let mut positions = of_shards(shards);
            let size = sent.len().div_ceil(layouts.len());
            for (turn, layout) in layouts.iter().enumerate() {
                let next = 1_u16 << layout;
                let moved = |shard| {
                    let former = (0..).zip(positions.iter().cloned());
                    Some(Position::after_move(former, shards, (next, shard)))
                };
                positions = (0..next).map(moved).collect();
                shards = next;
                let end = sent.len().min((turn + 1) * size);
                for offset in sent.len().min(turn * size)..end {
                    for (other, member) in sent.iter().enumerate() {
                        let of_shard = positions[usize::from(shard_of(member, shards))].as_ref();
                        let has = of_shard.is_some_and(|of| of.has_taken(member, place(other as u64)));
                        prop_assert_eq!(has, other < offset, "{} of {}", other, member);
                    }
                    let shard = usize::from(shard_of(&sent[offset], shards));
                    positions[shard].get_or_insert_default().take(place(offset as u64), [], None);
                }
            }
        }
    }
}
