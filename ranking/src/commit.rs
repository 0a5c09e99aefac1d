//! Commits: the steps of a partition's history, and their form in the log in Redis.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::id::{BoardNo, EventId, MemberId, PartitionNo};

/// The parent of the first commit of every partition.
pub const ROOT_COMMIT: &str = "00000000000000000000000000000000";

/// The version of the key layout, part of every head. It changes with the layout: a program ignores
/// a head with another version, and recovery loads the partition from SQL.
const KEY_LAYOUT: &str = "4";

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
    /// The run id of the Redis server that accepted it.
    pub run_id: String,
}

/// One step of a partition's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Dense from 1.
    pub seq: u64,
    /// 32 hexadecimal digits, random.
    pub id: String,
    /// The id of the commit before it.
    pub parent: String,
    /// When it was accepted, in Unix milliseconds, by the clock of the process that accepted it.
    pub accepted_at_ms: i64,
    /// The deployment's clock, in Unix milliseconds: that of Redis, but never before the previous
    /// commit's. Event ids are kept by it, whatever the clocks of processes say.
    pub clock_ms: i64,
    /// Its events; empty for a commit that only rewrites data derived from history.
    pub events: Vec<Event>,
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
}

/// The permanent position of an event in history.
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

impl Head {
    /// Reads `<seq> <commit id> <layout> <clock> <epoch> <run id>`.
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
                run_id: parts.next()?.to_owned(),
            })
        })();
        head.filter(|_| parts.next().is_none())
            .ok_or_else(|| Error::corrupt(format!("{text:?} is not a head of a partition")))
    }

    /// The commit that follows it, without moving the deployment's clock.
    pub fn next(&self, id: String, accepted_at_ms: i64, events: Vec<Event>) -> Commit {
        Commit {
            seq: self.seq + 1,
            id,
            parent: self.commit.clone(),
            accepted_at_ms,
            clock_ms: self.clock_ms,
            events,
        }
    }

    /// The head once a commit that follows it is accepted.
    pub fn moved_to(&self, commit: &Commit) -> Self {
        let clock_ms = commit.clock_ms.max(self.clock_ms);
        Self { seq: commit.seq, commit: commit.id.clone(), clock_ms, ..self.clone() }
    }

    /// The text that [`Self::parse`] reads.
    pub fn to_text(&self) -> String {
        let Self { seq, commit, clock_ms, epoch, run_id } = self;
        format!("{seq} {commit} {KEY_LAYOUT} {clock_ms} {epoch} {run_id}")
    }
}

/// The wire form of a commit: one JSON text in the field `c` of a stream entry. Names are short, as
/// a log has many.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CommitWire {
    v: u8,
    id: String,
    parent: String,
    at: i64,
    clock: i64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ev: Vec<EventWire>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EventWire {
    b: i64,
    g: u32,
    m: String,
    /// Absent for a removal and a void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    s: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    t: Option<i64>,
    /// A void's target: partition, seq, index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    x: Option<(u16, u64, u32)>,
    /// The client sent the time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    sent: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    seg: Vec<String>,
}

const WIRE_VERSION: u8 = 1;

impl Commit {
    /// Its events and their places in history.
    pub fn places(&self, partition: PartitionNo) -> impl Iterator<Item = (EventPlace, &Event)> {
        let place = move |(index, event)| {
            let place = EventPlace { partition, seq: self.seq, index };
            (place, event)
        };
        (0..).zip(&self.events).map(place)
    }

    /// Its text in the log.
    pub fn to_log(&self) -> String {
        let ev = self.events.iter().map(EventWire::from).collect();
        let wire = CommitWire {
            v: WIRE_VERSION,
            id: self.id.clone(),
            parent: self.parent.clone(),
            at: self.accepted_at_ms,
            clock: self.clock_ms,
            ev,
        };
        serde_json::to_string(&wire).expect("strings and numbers have a JSON form")
    }

    /// Reads its text in the log.
    ///
    /// # Errors
    /// `Corrupt` if the text is damaged or of another version.
    pub fn from_log(seq: u64, text: &str) -> Result<Self> {
        let wire: CommitWire = serde_json::from_str(text)
            .map_err(|error| Error::corrupt(format!("log entry {seq}: {error}")))?;
        if wire.v != WIRE_VERSION {
            return Err(Error::corrupt(format!(
                "log entry {seq} has version {}; this program reads {WIRE_VERSION}",
                wire.v
            )));
        }
        let events = wire.ev.into_iter().map(EventWire::into_event).collect::<Result<_>>()?;
        Ok(Self {
            seq,
            id: wire.id,
            parent: wire.parent,
            accepted_at_ms: wire.at,
            clock_ms: wire.clock,
            events,
        })
    }
}

impl From<&Event> for EventWire {
    fn from(event: &Event) -> Self {
        let (s, t, sent, x) = match event.kind {
            EventKind::Score { score, at_ms, at_sent } => (Some(score), Some(at_ms), at_sent, None),
            EventKind::Removal => (None, None, false, None),
            EventKind::Void { target } => {
                let EventPlace { partition, seq, index } = target;
                (None, None, false, Some((partition.0, seq, index)))
            }
        };
        let id = event.event_id.as_ref().map(ToString::to_string);
        Self {
            b: event.board.0,
            g: event.generation,
            m: event.member.to_string(),
            s,
            t,
            x,
            sent,
            id,
            seg: event.segments.clone(),
        }
    }
}

impl EventWire {
    fn into_event(self) -> Result<Event> {
        let kind = match (self.s, self.t, self.x) {
            (Some(score), Some(at_ms), None) => {
                EventKind::Score { score, at_ms, at_sent: self.sent }
            }
            (None, None, None) => EventKind::Removal,
            (None, None, Some((partition, seq, index))) => EventKind::Void {
                target: EventPlace { partition: PartitionNo(partition), seq, index },
            },
            _ => {
                return Err(Error::corrupt(
                    "an event in the log is neither a score with its time, nor a removal, nor a void",
                ));
            }
        };
        Ok(Event {
            board: BoardNo(self.b),
            generation: self.g,
            member: MemberId::new(&self.m)?,
            kind,
            event_id: self.id.as_deref().map(EventId::new).transpose()?,
            segments: self.seg,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn events() -> impl Strategy<Value = Event> {
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
        )
            .prop_map(|(board, generation, member, kind, event_id, segments)| Event {
                board: BoardNo(board),
                generation,
                member: MemberId::new(&member).unwrap(),
                kind,
                event_id: event_id.map(|id| EventId::new(&id).unwrap()),
                segments,
            })
    }

    proptest! {
        #[test]
        fn the_log_gives_back_what_was_written(events in proptest::collection::vec(events(), 0..5), seq: u64, accepted_at_ms: i64, clock_ms: i64) {
            let commit = Commit { seq, id: "ab".repeat(16), parent: ROOT_COMMIT.into(), accepted_at_ms, clock_ms, events };
            prop_assert_eq!(Commit::from_log(seq, &commit.to_log()), Ok(commit));
        }
    }

    #[test]
    fn a_foreign_log_entry_is_corrupt_and_no_panic() {
        for text in [
            "",
            "{}",
            "null",
            r#"{"v":2,"id":"","parent":"","at":0,"clock":0}"#,
            r#"{"v":1,"id":"","parent":"","at":0,"clock":0,"ev":[{"b":1,"g":1,"m":"a","s":1}]}"#,
            r#"{"v":1,"id":"","parent":"","at":0,"clock":0,"ev":[{"b":1,"g":1,"m":"a","s":1,"t":1,"x":[0,1,0]}]}"#,
        ] {
            assert!(matches!(Commit::from_log(1, text), Err(Error::Corrupt(_))), "{text}");
        }
    }

    #[test]
    fn a_head_is_six_words() {
        let (commit, run_id) = ("c".to_owned(), "r".to_owned());
        let head = Head { seq: 7, commit, clock_ms: 9, epoch: 2, run_id };
        assert_eq!(Head::parse(&head.to_text()), Ok(head));
        for bad in [
            "",
            "7",
            "7 c 4",
            "7 c 4 9",
            "7 c 4 9 2",
            "7 c 4 9 r",
            "7 c 4 9 2 r x",
            "7 c 3 9 2 r",
            "7 c 4 9 x r",
            "x c 4 9 2 r",
        ] {
            assert!(Head::parse(bad).is_err(), "{bad}");
        }
    }
}
