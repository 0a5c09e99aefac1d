//! Commits: the steps of a partition's history.

pub mod content;
mod wire;

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use self::content::{Content, Random, Salt, leaf, salt, with_positions};
use crate::error::{Error, Result};
use crate::id::{BoardNo, EventId, MemberId, PartitionNo};
use crate::metadata::Metadata;
use crate::position::SourcePosition;

/// The parent of the first commit of every partition.
pub const ROOT_COMMIT: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The version of the key layout, part of every head, a number. It changes with the layout: a
/// program ignores a head with an earlier version, and recovery loads the partition from SQL. One
/// with a later version it leaves as it is.
pub(crate) const KEY_LAYOUT: &str = "4";

/// The most events in one commit.
pub const COMMIT_EVENTS_MAX: usize = 1000;

/// A partition's last commit, and the recovery and the Redis run under which it was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The seq: dense from 1; 0 before the first commit.
    pub seq: u64,
    /// The commit's id.
    pub commit: String,
    /// The deployment's clock at the commit; see [`Commit::clock_ms`].
    pub clock_ms: i64,
    /// The epoch of the recovery that opened the partition: SQL's cursor has it, too. Of two heads
    /// of one seq, the epoch says which one a recovery has left behind.
    pub epoch: u64,
    /// The deployment whose recovery that was.
    pub deployment: String,
    /// The run id of the Redis server that accepted it.
    pub run_id: String,
}

/// One step of a partition's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Dense from 1.
    pub seq: u64,
    /// 64 hexadecimal digits: the hash of its parent's id and of its [`content`].
    pub id: String,
    /// The id of the commit before it.
    pub parent: String,
    /// When it was accepted, in Unix milliseconds, by the clock of the process that accepted it.
    pub accepted_at_ms: i64,
    /// The deployment's clock, in Unix milliseconds: that of Redis, but never before the previous
    /// commit's. Event ids are kept by it, whatever the clocks of processes say.
    pub clock_ms: i64,
    /// Its random bytes; the first 16 are part of its content.
    pub random: Random,
    /// The leaves of its events, one behind the other.
    pub leaves: Vec<u8>,
    /// Its events; empty for a commit that only rewrites data derived from history.
    pub events: Vec<Event>,
    /// The positions in sources that its events move; no source partition of a board twice.
    pub positions: Vec<SourcePosition>,
}

/// One accepted event: a score, or a removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The board.
    pub board: BoardNo,
    /// The board's generation at acceptance.
    pub generation: u32,
    /// The member.
    pub member: MemberId,
    /// The effect.
    pub kind: EventKind,
    /// The client's name for it.
    pub event_id: Option<EventId>,
    /// The segments in which it counts, besides everyone.
    pub segments: Vec<String>,
    /// Its metadata; only a score has some.
    pub metadata: Option<Metadata>,
    /// The event that it is a copy of, of a member that was merged into this one; only a score has
    /// one.
    pub origin: Option<EventPlace>,
}

/// The permanent position of an event in history. Its text is `partition/seq/index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventPlace {
    /// The partition of its commit.
    pub partition: PartitionNo,
    /// The seq of its commit.
    pub seq: u64,
    /// Its place in the commit, from 0.
    pub index: u32,
}

/// The effect of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A raw score, earned at a time.
    Score {
        /// The raw score.
        score: i64,
        /// Unix milliseconds.
        at_ms: i64,
        /// True if the client sent the time; false if it is the time of acceptance.
        at_sent: bool,
    },
    /// The member leaves the board: voids the member's earlier events.
    Removal,
    /// Voids an earlier event of the same member, a score or a removal, as if it had never been.
    Void {
        /// That event.
        target: EventPlace,
    },
}

/// The events that a history voids.
pub fn voided<'a>(
    events: impl IntoIterator<Item = &'a (EventPlace, Event)>,
) -> HashSet<EventPlace> {
    let target = |(_, event): &(EventPlace, Event)| match event.kind {
        EventKind::Void { target } => Some(target),
        _ => None,
    };
    events.into_iter().filter_map(target).collect()
}

impl fmt::Display for EventPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.partition.0, self.seq, self.index)
    }
}

impl FromStr for EventPlace {
    type Err = Error;

    /// # Errors
    /// `Corrupt` for any other text than that of a place.
    fn from_str(text: &str) -> Result<Self> {
        let mut parts = text.split('/');
        let place = (|| {
            let partition = PartitionNo(parts.next()?.parse().ok()?);
            let (seq, index) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            Some(Self { partition, seq, index })
        })();
        let place = place.filter(|place| parts.next().is_none() && place.to_string() == text);
        place.ok_or_else(|| Error::corrupt(format!("{text:?} is not the place of an event")))
    }
}

impl Head {
    /// Reads `<seq> <commit id> <layout> <clock> <epoch> <deployment> <run id>`.
    ///
    /// # Errors
    /// `Corrupt` for any other form, or another version of the key layout.
    pub fn parse(text: &str) -> Result<Self> {
        let mut parts = text.split(' ');
        let head = (|| {
            let seq = parts.next()?.parse().ok()?;
            Some(Self {
                seq,
                commit: parts.next()?.to_owned(),
                clock_ms: parts
                    .next()
                    .filter(|&layout| layout == KEY_LAYOUT)
                    .and_then(|_| parts.next())?
                    .parse()
                    .ok()?,
                epoch: parts.next()?.parse().ok()?,
                deployment: parts.next()?.to_owned(),
                run_id: parts.next()?.to_owned(),
            })
        })();
        head.filter(|_| parts.next().is_none())
            .ok_or_else(|| Error::corrupt(format!("{text:?} is not a head of a partition")))
    }

    /// The layout in a head that a later program wrote; `None` for any other text.
    pub fn later_layout(text: &str) -> Option<u32> {
        let layout: u32 = text.split(' ').nth(2)?.parse().ok()?;
        let own = KEY_LAYOUT.parse().ok()?;
        Some(layout).filter(|layout| *layout > own)
    }

    /// The commit that follows it, without moving the deployment's clock. `random` is new for every
    /// commit, so that two writers that send the same never share an id.
    pub fn next(&self, random: Random, accepted_at_ms: i64, events: Vec<Event>) -> Commit {
        self.next_at(self.clock_ms, random, accepted_at_ms, events)
    }

    /// As [`Self::next`], with the deployment's clock at `clock_ms`.
    pub fn next_at(
        &self,
        clock_ms: i64,
        random: Random,
        accepted_at_ms: i64,
        events: Vec<Event>,
    ) -> Commit {
        self.next_moving(clock_ms, random, accepted_at_ms, events, vec![])
    }

    /// As [`Self::next_at`], with the positions in sources that the events move.
    pub fn next_moving(
        &self,
        clock_ms: i64,
        random: Random,
        accepted_at_ms: i64,
        events: Vec<Event>,
        positions: Vec<SourcePosition>,
    ) -> Commit {
        let (seq, parent) = (self.seq + 1, self.commit.clone());
        Commit::new(seq, parent, random, accepted_at_ms, clock_ms, events, positions)
    }

    /// The head once a commit that follows it is accepted.
    pub fn moved_to(&self, commit: &Commit) -> Self {
        let clock_ms = commit.clock_ms.max(self.clock_ms);
        Self { seq: commit.seq, commit: commit.id.clone(), clock_ms, ..self.clone() }
    }

    /// The text that [`Self::parse`] reads.
    pub fn to_text(&self) -> String {
        let Self { seq, commit, clock_ms, epoch, deployment, run_id } = self;
        format!("{seq} {commit} {KEY_LAYOUT} {clock_ms} {epoch} {deployment} {run_id}")
    }
}

impl Commit {
    /// A commit, with the leaves and the id that follow from its content.
    fn new(
        seq: u64,
        parent: String,
        random: Random,
        accepted_at_ms: i64,
        clock_ms: i64,
        events: Vec<Event>,
        positions: Vec<SourcePosition>,
    ) -> Self {
        let random = with_positions(random, &positions);
        let version = content::version(&positions);
        let leaf = |(index, event)| {
            leaf(version, &salt(&random, index), event).expect("version and salt are right")
        };
        let leaves: Vec<u8> = events.iter().enumerate().flat_map(leaf).collect();
        let content = Content {
            version,
            parent: &parent,
            random: &random[..16],
            seq,
            accepted_at_ms,
            clock_ms,
            leaves: &leaves,
        };
        let id = content.id().expect("version and lengths are right");
        Self { seq, id, parent, accepted_at_ms, clock_ms, random, leaves, events, positions }
    }

    /// The version of its content.
    pub fn version(&self) -> u8 {
        content::version(&self.positions)
    }

    /// The salt of the event of an index.
    pub fn salt(&self, index: usize) -> Salt {
        salt(&self.random, index)
    }

    /// Its events and their places in history.
    pub fn places(&self, partition: PartitionNo) -> impl Iterator<Item = (EventPlace, &Event)> {
        let place = move |(index, event)| {
            let place = EventPlace { partition, seq: self.seq, index };
            (place, event)
        };
        (0..).zip(&self.events).map(place)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn event() -> impl Strategy<Value = Event> {
        let kind = prop_oneof![
            Just(EventKind::Removal),
            (any::<u16>(), any::<u64>(), any::<u32>()).prop_map(|(partition, seq, index)| {
                EventKind::Void {
                    target: EventPlace { partition: PartitionNo(partition), seq, index },
                }
            }),
            (any::<i64>(), any::<i64>(), any::<bool>())
                .prop_map(|(score, at_ms, at_sent)| { EventKind::Score { score, at_ms, at_sent } }),
        ];
        (
            any::<i64>(),
            any::<u32>(),
            "[^\\p{C}]{1,20}",
            kind,
            proptest::option::of("[^\\p{C}]{1,20}"),
            proptest::collection::vec(".{0,9}", 0..3),
            proptest::option::of(crate::metadata::tests::metadata()),
            proptest::option::of((any::<u16>(), any::<u64>(), any::<u32>())),
        )
            .prop_map(
                |(board, generation, member, kind, event_id, segments, metadata, origin)| {
                    let is_score = matches!(kind, EventKind::Score { .. });
                    let place = |(partition, seq, index)| EventPlace {
                        partition: PartitionNo(partition),
                        seq,
                        index,
                    };
                    Event {
                        board: BoardNo(board),
                        generation,
                        member: MemberId::new(&member).unwrap(),
                        kind,
                        event_id: event_id.map(|id| EventId::new(&id).unwrap()),
                        segments,
                        metadata: metadata.filter(|_| is_score),
                        origin: origin.map(place).filter(|_| is_score),
                    }
                },
            )
    }

    pub(crate) fn root() -> Head {
        let (commit, deployment, run_id) = (ROOT_COMMIT.into(), "d".into(), "r".into());
        Head { seq: 0, commit, clock_ms: 3, epoch: 1, deployment, run_id }
    }

    proptest! {
        #[test]
        fn the_same_content_twice_never_shares_an_id(events in proptest::collection::vec(event(), 0..5), one: [u8; 32], other: [u8; 32]) {
            let id = |random| root().next(random, 7, events.clone()).id;
            prop_assert_eq!(id(one) == id(other), one[..16] == other[..16] && (events.is_empty() || one == other));
        }
    }

    proptest! {
        #[test]
        fn the_text_of_a_place_is_read_back(partition: u16, seq: u64, index: u32) {
            let place = EventPlace { partition: PartitionNo(partition), seq, index };
            prop_assert_eq!(place.to_string().parse(), Ok(place));
        }
    }

    #[test]
    fn no_other_text_is_a_place() {
        for text in ["", "1", "1/2", "1/2/3/4", "1/2/x", "-1/2/3", "1/+2/3", "01/2/3", "65536/2/3"]
        {
            assert!(text.parse::<EventPlace>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_head_is_seven_words() {
        let (commit, deployment, run_id) = ("c".to_owned(), "d".to_owned(), "r".to_owned());
        let head = Head { seq: 7, commit, clock_ms: 9, epoch: 2, deployment, run_id };
        assert_eq!(Head::parse(&head.to_text()), Ok(head));
        for bad in [
            "",
            "7",
            "7 c 4",
            "7 c 4 9",
            "7 c 4 9 2",
            "7 c 4 9 2 r",
            "7 c 4 9 2 d r x",
            "7 c 3 9 2 d r",
            "7 c 4 9 x d r",
            "x c 4 9 2 d r",
        ] {
            assert!(Head::parse(bad).is_err(), "{bad}");
        }
    }
}
