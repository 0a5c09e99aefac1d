//! The form of commits and events in the log.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::content::{from_hex, to_hex};
use super::{Commit, Event, EventKind, EventPlace};
use crate::error::{Error, Result};
use crate::id::{BoardNo, EventId, MemberId, PartitionNo, SourceName};
use crate::metadata::Metadata;
use crate::position::{Position, SourcePosition};

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
    /// The random bytes.
    r: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ev: Vec<EventWire>,
    /// The positions in sources that it moves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    p: Vec<PositionWire>,
}

/// The board, the generation that began its layout, the source, its partition, the position.
type PositionWire = (i64, u32, String, u32, String);

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
    /// The metadata, as a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    md: Option<String>,
    /// The place of the event that it is a copy of: partition, seq, index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    o: Option<(u16, u64, u32)>,
}

/// The version of a commit none of whose events has metadata or an origin.
const WIRE_VERSION: u8 = 2;

/// The version of those with metadata: programs from before metadata leave them to later ones.
const WIRE_VERSION_OF_METADATA: u8 = 3;

/// The version of those with origins.
const WIRE_VERSION_OF_ORIGINS: u8 = 4;

/// The version of those with positions.
const WIRE_VERSION_OF_POSITIONS: u8 = 5;

/// The number that a program of a later version adds to those. The feature `later` plays one beside
/// this one.
const LATER: u8 = if cfg!(feature = "later") { 100 } else { 0 };

/// The versions that this program reads.
const OWN_VERSIONS: RangeInclusive<u8> = WIRE_VERSION..=WIRE_VERSION_OF_POSITIONS + LATER;

fn wire_version(Commit { events, positions, .. }: &Commit) -> u8 {
    let version = if !positions.is_empty() {
        WIRE_VERSION_OF_POSITIONS
    } else if events.iter().any(|event| event.origin.is_some()) {
        WIRE_VERSION_OF_ORIGINS
    } else if events.iter().any(|event| event.metadata.is_some()) {
        WIRE_VERSION_OF_METADATA
    } else {
        WIRE_VERSION
    };
    version + LATER
}

/// The part of a commit's text that every version has.
#[derive(Deserialize)]
struct AnyWire {
    v: u64,
    #[serde(rename = "id")]
    _id: String,
    #[serde(rename = "parent")]
    _parent: String,
}

impl Commit {
    /// Its text in the log.
    pub fn to_log(&self) -> String {
        let ev = self.events.iter().map(EventWire::from).collect();
        let wire = CommitWire {
            v: wire_version(self),
            id: self.id.clone(),
            parent: self.parent.clone(),
            at: self.accepted_at_ms,
            clock: self.clock_ms,
            r: to_hex(&self.random),
            ev,
            p: self.positions.iter().map(wire_position).collect(),
        };
        serde_json::to_string(&wire).expect("strings and numbers have a JSON form")
    }

    /// The version of a text in the log that a program of another version wrote; `None` for one of
    /// this version, or of no program of Laurel.
    pub fn other_version(text: &str) -> Option<u64> {
        let wire: AnyWire = serde_json::from_str(text).ok()?;
        let is_own = |version| u8::try_from(version).is_ok_and(|of| OWN_VERSIONS.contains(&of));
        Some(wire.v).filter(|version| !is_own(*version))
    }

    /// Reads its text in the log, and checks that its id follows from its content.
    ///
    /// # Errors
    /// `Corrupt` if the text is damaged or altered, or of another version.
    pub fn from_log(seq: u64, text: &str) -> Result<Self> {
        let wire: CommitWire = serde_json::from_str(text)
            .map_err(|error| Error::corrupt(format!("log entry {seq}: {error}")))?;
        if !OWN_VERSIONS.contains(&wire.v) {
            return Err(Error::corrupt(format!(
                "log entry {seq} has version {}; this program reads {} to {}",
                wire.v,
                OWN_VERSIONS.start(),
                OWN_VERSIONS.end()
            )));
        }
        let events = wire.ev.into_iter().map(EventWire::into_event).collect::<Result<_>>()?;
        let altered = || {
            Error::corrupt(format!(
                "log entry {seq} was altered: its content gives another commit id"
            ))
        };
        let random = from_hex(&wire.r).and_then(|random| random.try_into().ok());
        let random = random.ok_or_else(altered)?;
        let positions = wire.p.into_iter().map(position_of).collect::<Result<_>>()?;
        let commit = Self::new(seq, wire.parent, random, wire.at, wire.clock, events, positions);
        if commit.id == wire.id { Ok(commit) } else { Err(altered()) }
    }
}

impl Event {
    /// Its text, as a commit in the log has it.
    pub fn to_text(&self) -> String {
        serde_json::to_string(&EventWire::from(self)).expect("strings and numbers have a JSON form")
    }

    /// Reads the text of [`Self::to_text`].
    ///
    /// # Errors
    /// `Corrupt` if the text is damaged.
    pub fn from_text(text: &str) -> Result<Self> {
        let wire: EventWire = serde_json::from_str(text)
            .map_err(|error| Error::corrupt(format!("the text of an event: {error}")))?;
        wire.into_event()
    }
}

impl From<&Event> for EventWire {
    fn from(event: &Event) -> Self {
        let (s, t, sent, x) = match event.kind {
            EventKind::Score { score, at_ms, at_sent } => (Some(score), Some(at_ms), at_sent, None),
            EventKind::Removal => (None, None, false, None),
            EventKind::Void { target } => (None, None, false, Some(wire_place(target))),
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
            md: event.metadata.as_ref().map(ToString::to_string),
            o: event.origin.map(wire_place),
        }
    }
}

fn wire_position(moved: &SourcePosition) -> PositionWire {
    let SourcePosition { board, layout_since, source, source_partition, position } = moved;
    (board.0, *layout_since, source.to_string(), *source_partition, position.to_text())
}

fn position_of(wire: PositionWire) -> Result<SourcePosition> {
    let (board, layout_since, source, source_partition, position) = wire;
    Ok(SourcePosition {
        board: BoardNo(board),
        layout_since,
        source: SourceName::new(&source)?,
        source_partition,
        position: Position::parse(&position)?,
    })
}

fn wire_place(EventPlace { partition, seq, index }: EventPlace) -> (u16, u64, u32) {
    (partition.0, seq, index)
}

fn place_of((partition, seq, index): (u16, u64, u32)) -> EventPlace {
    EventPlace { partition: PartitionNo(partition), seq, index }
}

impl EventWire {
    fn into_event(self) -> Result<Event> {
        let kind = match (self.s, self.t, self.x) {
            (Some(score), Some(at_ms), None) => {
                EventKind::Score { score, at_ms, at_sent: self.sent }
            }
            (None, None, None) => EventKind::Removal,
            (None, None, Some(target)) => EventKind::Void { target: place_of(target) },
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
            metadata: self.md.as_deref().map(Metadata::stored),
            origin: self.o.map(place_of),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::Head;
    use crate::commit::tests::{event, root};
    use crate::position::tests::position;
    use proptest::prelude::*;

    fn source_position() -> impl Strategy<Value = SourcePosition> {
        (any::<i64>(), any::<u32>(), "[^\\p{C}]{1,20}", any::<u32>(), position()).prop_map(
            |(board, layout_since, source, source_partition, position)| SourcePosition {
                board: BoardNo(board),
                layout_since,
                source: SourceName::new(&source).unwrap(),
                source_partition,
                position,
            },
        )
    }

    #[test]
    fn an_id_covers_the_positions_of_its_commit() {
        let moved = r#"[[1,1,"scores",3,"812.0 !810.0"]]"#;
        let positions: Vec<PositionWire> = serde_json::from_str(moved).unwrap();
        let positions = positions.into_iter().map(position_of).collect::<Result<_>>().unwrap();
        let plain = root().next([7; 32], 5, vec![]);
        let text = root().next_moving(3, [7; 32], 5, vec![], positions).to_log();
        assert!(text.contains(r#""v":5"#) && text.contains(moved), "{text}");
        assert!(!plain.to_log().contains(r#""p""#));
        assert_eq!(root().next_moving(3, [7; 32], 5, vec![], vec![]), plain);
        assert_eq!(Commit::other_version(&text), None);
        assert!(Commit::from_log(1, &text).is_ok());
        for (part, other) in [
            ("812", "813"),
            ("scores", "others"),
            (r#"s",3"#, r#"s",4"#),
            ("[1,1", "[1,2"),
            (" !810.0", ""),
        ] {
            let altered = text.replacen(part, other, 1);
            assert!(altered != text && Commit::from_log(1, &altered).is_err(), "{altered}");
        }
        let without = text.replacen(&format!(r#","p":{moved}"#), "", 1);
        assert!(without != text && Commit::from_log(1, &without).is_err(), "{without}");
    }

    proptest! {
        #[test]
        fn the_log_gives_back_what_was_written(events in proptest::collection::vec(event(), 0..5), positions in proptest::collection::vec(source_position(), 0..3), seq in 0..u64::MAX, accepted_at_ms: i64, clock_ms: i64, random: [u8; 32]) {
            let head = Head { seq, ..root() };
            let commit = head.next_moving(clock_ms, random, accepted_at_ms, events, positions);
            prop_assert_eq!(Commit::from_log(commit.seq, &commit.to_log()), Ok(commit.clone()));
            for event in commit.events {
                prop_assert_eq!(Event::from_text(&event.to_text()), Ok(event));
            }
        }
    }

    #[test]
    fn an_altered_log_entry_is_corrupt() {
        let removal = Event::from_text(r#"{"b":1,"g":1,"m":"ann"}"#).unwrap();
        let text = root().next([7; 32], 5, vec![removal]).to_log();
        assert!(Commit::from_log(1, &text).is_ok());
        assert!(matches!(Commit::from_log(2, &text), Err(Error::Corrupt(_))));
        for (part, other) in [
            (r#""at":5"#, r#""at":6"#),
            (r#""clock":3"#, r#""clock":4"#),
            ("ann", "eve"),
            ("0707", "0708"),
            (r#""b":1"#, r#""b":2"#),
        ] {
            let altered = text.replacen(part, other, 1);
            assert_ne!(altered, text);
            assert!(matches!(Commit::from_log(1, &altered), Err(Error::Corrupt(_))), "{altered}");
        }
    }

    #[test]
    fn a_foreign_log_entry_is_corrupt_and_no_panic() {
        for text in [
            "",
            "{}",
            "null",
            r#"{"v":1,"id":"","parent":"","at":0,"clock":0,"r":""}"#,
            r#"{"v":2,"id":"","parent":"","at":0,"clock":0,"r":""}"#,
            r#"{"v":2,"id":"","parent":"","at":0,"clock":0,"r":"","ev":[{"b":1,"g":1,"m":"a","s":1}]}"#,
            r#"{"v":2,"id":"","parent":"","at":0,"clock":0,"r":"","ev":[{"b":1,"g":1,"m":"a","s":1,"t":1,"x":[0,1,0]}]}"#,
        ] {
            assert!(matches!(Commit::from_log(1, text), Err(Error::Corrupt(_))), "{text}");
        }
    }

    #[test]
    fn an_entry_of_another_version_is_told_from_a_foreign_one() {
        let text = root().next([7; 32], 5, vec![]).to_log();
        assert_eq!(Commit::other_version(&text), None);
        let with_metadata =
            Event::from_text(r#"{"b":1,"g":1,"m":"ann","s":1,"t":1,"md":"{}"}"#).unwrap();
        let with_metadata = root().next([7; 32], 5, vec![with_metadata]).to_log();
        assert!(with_metadata.contains(r#""v":3"#), "{with_metadata}");
        assert_eq!(Commit::other_version(&with_metadata), None);
        let copy = r#"{"b":1,"g":1,"m":"ann","s":1,"t":1,"o":[3,7,1]}"#;
        let with_origin = root().next([7; 32], 5, vec![Event::from_text(copy).unwrap()]).to_log();
        assert!(with_origin.contains(r#""v":4"#), "{with_origin}");
        assert_eq!(Commit::other_version(&with_origin), None);
        let later = text.replacen(r#""v":2"#, r#""v":6,"new":[]"#, 1);
        assert_eq!(Commit::other_version(&later), Some(6));
        for foreign in ["", "{}", "null", r#"{"v":3}"#, r#"{"v":"3","id":"","parent":""}"#] {
            assert_eq!(Commit::other_version(foreign), None, "{foreign}");
        }
    }
}
