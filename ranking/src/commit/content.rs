//! The content of a commit as bytes, and the hashes that make its id.
//!
//! An event is a salted leaf: a hash of its content behind 16 bytes that belong to it alone. A
//! commit's id is a hash of its parent's id, its own 16 random bytes and the leaves of its events.
//! So an event can be erased together with its salt, while its leaf still proves the commit.
//!
//! Numbers are big-endian. A text is its length in bytes as a `u32`, then its bytes as UTF-8.

use sha2::{Digest, Sha256};

use super::{Event, EventKind, EventPlace};
use crate::error::{Error, Result};
use crate::metadata::Metadata;
use crate::position::SourcePosition;

/// The version of this format. A later one gets another number, and ids of this one stay as they
/// are.
const VERSION: u8 = 1;

/// The version of commits that move positions, and of their leaves: as the first one, but the
/// random bytes are a hash of the positions and of secret bytes.
const VERSION_OF_POSITIONS: u8 = 2;

/// The version of a commit with these positions.
pub(super) fn version(positions: &[SourcePosition]) -> u8 {
    if positions.is_empty() { VERSION } else { VERSION_OF_POSITIONS }
}

/// The bytes of a leaf.
pub const LEAF_BYTES: usize = 32;

/// The hash of an event's content and salt.
pub type Leaf = [u8; LEAF_BYTES];

/// Random bytes in a leaf, without which it says nothing about its event.
pub type Salt = [u8; 16];

/// The random bytes of a new commit: 16 that are part of its content, and 16 that its events' salts
/// are made of. SQL keeps the salts and never the latter, so that a salt can be erased.
pub type Random = [u8; 32];

/// The content of a commit, whose hash is its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content<'a> {
    /// The version of the format.
    pub version: u8,
    /// The id of the previous commit.
    pub parent: &'a str,
    /// The commit's own random bytes.
    pub random: &'a [u8],
    /// The seq.
    pub seq: u64,
    /// When it was accepted, in Unix milliseconds.
    pub accepted_at_ms: i64,
    /// The deployment's clock, in Unix milliseconds.
    pub clock_ms: i64,
    /// The leaves of its events, one behind the other.
    pub leaves: &'a [u8],
}

impl Content<'_> {
    /// The commit's id: 64 hexadecimal digits.
    ///
    /// # Errors
    /// `Corrupt` for a version that this program does not know, or random bytes or leaves of
    /// another length.
    pub fn id(&self) -> Result<String> {
        check_version(self.version)?;
        check_length("random bytes of a commit", self.random, 16)?;
        check_length(
            "leaves of a commit",
            self.leaves,
            self.leaves.len() / LEAF_BYTES * LEAF_BYTES,
        )?;
        let mut hash = Sha256::new();
        hash.update([self.version, b'C']);
        hash.update((self.parent.len() as u32).to_be_bytes());
        hash.update(self.parent);
        hash.update(self.random);
        hash.update(self.seq.to_be_bytes());
        hash.update(self.accepted_at_ms.to_be_bytes());
        hash.update(self.clock_ms.to_be_bytes());
        hash.update(((self.leaves.len() / LEAF_BYTES) as u32).to_be_bytes());
        hash.update(self.leaves);
        let id: [u8; 32] = hash.finalize().into();
        Ok(to_hex(&id))
    }
}

/// The leaf of an event.
///
/// # Errors
/// `Corrupt` for a version that this program does not know, or a salt of another length.
pub fn leaf(version: u8, salt: &[u8], event: &Event) -> Result<Leaf> {
    check_version(version)?;
    check_length("salt of an event", salt, 16)?;
    let mut bytes = Vec::with_capacity(256);
    bytes.extend([version, b'E']);
    bytes.extend(salt);
    bytes.extend(event.board.0.to_be_bytes());
    bytes.extend(event.generation.to_be_bytes());
    text(&mut bytes, event.member.as_str());
    match event.kind {
        EventKind::Score { score, at_ms, at_sent } => {
            bytes.push(1);
            bytes.extend(score.to_be_bytes());
            bytes.extend(at_ms.to_be_bytes());
            bytes.push(at_sent.into());
        }
        EventKind::Removal => bytes.push(2),
        EventKind::Void { target } => {
            bytes.push(3);
            place(&mut bytes, target);
        }
    }
    bytes.push(event.event_id.is_some().into());
    if let Some(event_id) = &event.event_id {
        text(&mut bytes, event_id.as_str());
    }
    bytes.extend((event.segments.len() as u32).to_be_bytes());
    for segment in &event.segments {
        text(&mut bytes, segment);
    }
    // The bytes before say where they end, so that an event without metadata or an origin is as it
    // always was. No metadata is an empty text.
    if event.metadata.is_some() || event.origin.is_some() {
        text(&mut bytes, event.metadata.as_ref().map_or("", Metadata::as_str));
    }
    if let Some(origin) = event.origin {
        place(&mut bytes, origin);
    }
    Ok(Sha256::digest(&bytes).into())
}

/// The random bytes of a commit that moves positions: its own 16 become a hash of the positions and
/// of its 16 secret ones, so that its id covers the positions, too, and is still its own.
pub(super) fn with_positions(random: Random, positions: &[SourcePosition]) -> Random {
    if positions.is_empty() {
        return random;
    }
    let mut bytes = Vec::with_capacity(256);
    bytes.push(b'P');
    bytes.extend(&random[16..]);
    bytes.extend((positions.len() as u32).to_be_bytes());
    for SourcePosition { board, layout_since, source, source_partition, position } in positions {
        bytes.extend(board.0.to_be_bytes());
        bytes.extend(layout_since.to_be_bytes());
        text(&mut bytes, source.as_str());
        bytes.extend(source_partition.to_be_bytes());
        text(&mut bytes, &position.to_text());
    }
    let mut bound = random;
    bound[..16].copy_from_slice(&Sha256::digest(&bytes)[..16]);
    bound
}

/// The salt of the event of an index in a commit.
pub(super) fn salt(random: &Random, index: usize) -> Salt {
    let mut hash = Sha256::new();
    hash.update(&random[16..]);
    hash.update((index as u32).to_be_bytes());
    let digest: [u8; 32] = hash.finalize().into();
    let mut salt = [0; 16];
    salt.copy_from_slice(&digest[..16]);
    salt
}

fn check_version(version: u8) -> Result<()> {
    if (VERSION..=VERSION_OF_POSITIONS).contains(&version) {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "the content of a commit has version {version}; this program reads {VERSION} to {VERSION_OF_POSITIONS}"
    )))
}

/// Bytes without a length in front of them have the same one everywhere: otherwise other fields
/// could give the same hash.
fn check_length(what: &str, bytes: &[u8], length: usize) -> Result<()> {
    if bytes.len() == length {
        return Ok(());
    }
    Err(Error::corrupt(format!("{what} of {} bytes: expected {length}", bytes.len())))
}

fn place(bytes: &mut Vec<u8>, place: EventPlace) {
    bytes.extend(place.partition.0.to_be_bytes());
    bytes.extend(place.seq.to_be_bytes());
    bytes.extend(place.index.to_be_bytes());
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u32).to_be_bytes());
    bytes.extend(text.as_bytes());
}

/// Bytes as lower-case hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The bytes of lower-case hexadecimal digits; `None` for another text.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let half = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|&[high, low]| Some(half(high)? << 4 | half(low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::tests::event;
    use crate::id::{BoardNo, EventId, MemberId, PartitionNo};
    use proptest::prelude::*;

    fn of_kind(kind: EventKind) -> Event {
        Event {
            board: BoardNo(12),
            generation: 2,
            member: MemberId::new("ü:ann").unwrap(),
            kind,
            event_id: None,
            segments: vec![],
            metadata: None,
            origin: None,
        }
    }

    #[test]
    fn ids_are_as_any_other_program_computes_them() {
        let salt: Vec<u8> = (0..16).collect();
        let score = EventKind::Score { score: -5, at_ms: 1_700_000_000_000, at_sent: true };
        let target = EventPlace { partition: PartitionNo(3), seq: 7, index: 1 };
        let events = [
            Event {
                event_id: Some(EventId::new("e1").unwrap()),
                segments: vec!["region:eu".to_owned()],
                ..of_kind(score)
            },
            of_kind(EventKind::Removal),
            of_kind(EventKind::Void { target }),
        ];
        let leaves: Vec<Leaf> = events.iter().map(|event| leaf(1, &salt, event).unwrap()).collect();
        let expected = [
            "d2df0ef4576a4461846b2c03dbcc7126755b2f045e6305e87b3e227532b6f218",
            "215e6a6724fefa693bdb5d1fc074b017bd1e1b5c9f2836cd86edb0d27fa6481a",
            "45c61383739e708adeb44673737683e015b94cf8dc4a77146701edfdf2c36068",
        ];
        assert_eq!(leaves.iter().map(|leaf| to_hex(leaf)).collect::<Vec<_>>(), expected);
        let random: Vec<u8> = (16..32).collect();
        let content = Content {
            version: 1,
            parent: &"0".repeat(64),
            random: &random,
            seq: 7,
            accepted_at_ms: 1_700_000_000_001,
            clock_ms: 1_700_000_000_002,
            leaves: &leaves.concat(),
        };
        let id = "ebc78b601787523f62abaa4464f8946269d61f49e4c93c266f043130e49f22e7";
        assert_eq!(content.id().as_deref(), Ok(id));
        let page = include_str!("../../../docs/explanation/history.md");
        for shown in expected.into_iter().chain([id]) {
            assert!(page.contains(shown), "{shown} is not an example of the page");
        }
        assert_ne!(Content { version: 2, ..content }.id(), content.id());
        assert_ne!(leaf(2, &salt, &events[0]).unwrap(), leaves[0]);
        assert!(Content { version: 3, ..content }.id().is_err());
        assert!(leaf(3, &salt, &events[0]).is_err());
        assert!(leaf(1, &salt[1..], &events[0]).is_err());
        assert!(Content { random: &random[1..], ..content }.id().is_err());
        assert!(Content { leaves: &[0; LEAF_BYTES + 1], ..content }.id().is_err());
    }

    #[test]
    fn digits_are_read_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(&to_hex(&bytes)), Some(bytes));
        for other in ["0", "0g", "0A", "é"] {
            assert_eq!(from_hex(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn every_byte_of_the_content_is_in_the_id(
            parent in "[0-9a-f]{64}", random: [u8; 16], seq: u64, accepted_at_ms: i64, clock_ms: i64,
            leaves in proptest::collection::vec(any::<u8>(), 1..4), at in 0_usize..216, flip in 1_u8..,
        ) {
            let leaves: Vec<u8> = leaves.iter().flat_map(|&byte| [byte; LEAF_BYTES]).collect();
            let mut parts = [
                parent.into_bytes(),
                random.to_vec(),
                seq.to_be_bytes().to_vec(),
                accepted_at_ms.to_be_bytes().to_vec(),
                clock_ms.to_be_bytes().to_vec(),
                leaves,
            ];
            let id = |parts: &[Vec<u8>; 6]| {
                Content {
                    version: 1,
                    parent: &to_hex(&parts[0]),
                    random: &parts[1],
                    seq: u64::from_be_bytes(parts[2].as_slice().try_into().unwrap()),
                    accepted_at_ms: i64::from_be_bytes(parts[3].as_slice().try_into().unwrap()),
                    clock_ms: i64::from_be_bytes(parts[4].as_slice().try_into().unwrap()),
                    leaves: &parts[5],
                }
                .id()
                .unwrap()
            };
            let before = id(&parts);
            let mut at = at % parts.iter().map(Vec::len).sum::<usize>();
            for part in &mut parts {
                match part.get_mut(at) {
                    Some(byte) => {
                        *byte ^= flip;
                        break;
                    }
                    None => at -= part.len(),
                }
            }
            prop_assert_ne!(id(&parts), before);
        }

        #[test]
        fn events_that_differ_have_different_leaves(a in event(), b in event(), salt: Salt, other: Salt) {
            let of_a = leaf(1, &salt, &a).unwrap();
            prop_assert_eq!(of_a == leaf(1, &salt, &b).unwrap(), a == b);
            prop_assert_eq!(of_a == leaf(1, &other, &a).unwrap(), salt == other);
        }
    }
}
