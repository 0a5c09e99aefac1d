//! The form in which Redis dumps and restores a sorted set (`DUMP`, `RESTORE`): a value of its RDB
//! files, with a version and a checksum.
//!
//! ```text
//! 05 · count · (member · double, little-endian)* · version, 2 bytes · CRC-64 of all this, 8 bytes
//! ```
//! The last entry comes first, as Redis writes it: on loading, each entry goes to the front without
//! a search.

use crc::{CRC_64_REDIS, Crc, Table};

use crate::error::{Error, Result};
use crate::store::scan::raw::RawEntries;

/// The type of a sorted set with binary doubles, `RDB_TYPE_ZSET_2`: Redis 4.0 and later.
const SORTED_SET: u8 = 5;

/// The RDB version in our payloads, that of Redis 5.0: servers refuse versions later than their
/// own.
const VERSION: u16 = 9;

/// The bytes of version and checksum.
const FOOTER: usize = 10;

/// The most bytes of an entry besides its member's: five of length, eight of the double.
const ENTRY_BYTES: usize = 13;

static CRC: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// The payload of entries in rank order; at least one, as Redis has no empty sorted sets.
/// O(entries).
pub fn encode<'a, I>(entries: I) -> Vec<u8>
where
    I: IntoIterator<Item = (&'a [u8], f64)>,
    I::IntoIter: ExactSizeIterator + DoubleEndedIterator + Clone,
{
    let entries = entries.into_iter();
    let bytes: usize = entries.clone().map(|(member, _)| member.len() + ENTRY_BYTES).sum();
    let mut payload = Vec::with_capacity(1 + 9 + bytes + FOOTER);
    payload.push(SORTED_SET);
    put_length(&mut payload, entries.len());
    for (member, double) in entries.rev() {
        put_length(&mut payload, member.len());
        payload.extend_from_slice(member);
        payload.extend_from_slice(&double.to_le_bytes());
    }
    payload.extend_from_slice(&VERSION.to_le_bytes());
    let sum = CRC.checksum(&payload);
    payload.extend_from_slice(&sum.to_le_bytes());
    payload
}

/// The entries of a dumped sorted set in rank order; `None` for any other form, such as that of a
/// small set: read that by `ZRANGE`. O(entries).
///
/// # Errors
/// `Corrupt` if the checksum is wrong, or the entries do not fill the payload exactly.
pub fn decode(payload: &[u8]) -> Result<Option<RawEntries>> {
    let (body, footer) = payload
        .split_last_chunk::<FOOTER>()
        .ok_or_else(|| Error::corrupt("a dump is shorter than its checksum"))?;
    let [_, _, sum @ ..] = *footer;
    if CRC.checksum(&payload[..payload.len() - sum.len()]) != u64::from_le_bytes(sum) {
        return Err(Error::corrupt("the checksum of a dump is wrong"));
    }
    let Some((&SORTED_SET, body)) = body.split_first() else {
        return Ok(None);
    };
    let entries = Reader(body).entries();
    let entries = entries.ok_or_else(|| Error::corrupt("a dump is not a list of entries"))?;
    Ok(Some(entries))
}

fn put_length(payload: &mut Vec<u8>, length: usize) {
    match length {
        0..0x40 => payload.push(length as u8),
        0x40..0x4000 => payload.extend_from_slice(&(0x4000 | length as u16).to_be_bytes()),
        _ => match u32::try_from(length) {
            Ok(length) => {
                payload.push(0x80);
                payload.extend_from_slice(&length.to_be_bytes());
            }
            Err(_) => {
                payload.push(0x81);
                payload.extend_from_slice(&(length as u64).to_be_bytes());
            }
        },
    }
}

/// A length, or another form of a string.
enum Length {
    Bytes(usize),
    /// A number of this many bytes, whose decimal digits are the string.
    Number(usize),
    /// Compressed by LZF.
    Compressed,
}

/// The unread rest; every read is `None` if too little is left.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn entries(mut self) -> Option<RawEntries> {
        let count = self.size()?;
        // No entry is shorter than 9 bytes: a count that promises more entries is wrong, and must
        // not reserve memory.
        if count > self.0.len() / 9 {
            return None;
        }
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            let member = self.string()?;
            entries.push((member, f64::from_le_bytes(self.array()?)));
        }
        entries.reverse();
        self.0.is_empty().then_some(entries)
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.0.split_at_checked(count)?;
        self.0 = left;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn length(&mut self) -> Option<Length> {
        let [first] = self.array()?;
        let bytes = match (first >> 6, first & 0x3F) {
            (0, low) => usize::from(low),
            (1, high) => {
                let [low] = self.array()?;
                usize::from(u16::from_be_bytes([high, low]))
            }
            (2, 0) => usize::try_from(u32::from_be_bytes(self.array()?)).ok()?,
            (2, 1) => usize::try_from(u64::from_be_bytes(self.array()?)).ok()?,
            (3, power @ 0..=2) => return Some(Length::Number(1 << power)),
            (3, 3) => return Some(Length::Compressed),
            _ => return None,
        };
        Some(Length::Bytes(bytes))
    }

    fn size(&mut self) -> Option<usize> {
        match self.length()? {
            Length::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    fn string(&mut self) -> Option<Vec<u8>> {
        match self.length()? {
            Length::Bytes(bytes) => Some(self.take(bytes)?.to_vec()),
            Length::Number(bytes) => {
                let number = match *self.take(bytes)? {
                    [byte] => i32::from(byte as i8),
                    [a, b] => i32::from(i16::from_le_bytes([a, b])),
                    [a, b, c, d] => i32::from_le_bytes([a, b, c, d]),
                    _ => return None,
                };
                Some(number.to_string().into_bytes())
            }
            Length::Compressed => {
                let (compressed, bytes) = (self.size()?, self.size()?);
                expand(self.take(compressed)?, bytes)
            }
        }
    }
}

/// Expands LZF: runs of literals, and references to earlier bytes.
fn expand(compressed: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let mut reader = Reader(compressed);
    let mut expanded = vec![];
    while let Some([control]) = reader.array() {
        let control = usize::from(control);
        if control < 0x20 {
            expanded.extend_from_slice(reader.take(control + 1)?);
        } else {
            let mut length = control >> 5;
            if length == 7 {
                let [more] = reader.array()?;
                length += usize::from(more);
            }
            let [low] = reader.array()?;
            let back = ((control & 0x1F) << 8 | usize::from(low)) + 1;
            let from = expanded.len().checked_sub(back)?;
            // A reference may overlap the bytes that it produces.
            for at in from..from + length + 2 {
                expanded.push(expanded[at]);
            }
        }
        if expanded.len() > bytes {
            return None;
        }
    }
    (expanded.len() == bytes).then_some(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(entries: &RawEntries) -> Vec<u8> {
        encode(entries.iter().map(|(member, double)| (member.as_slice(), *double)))
    }

    #[test]
    fn the_checksum_is_redis_own() {
        assert_eq!(CRC.checksum(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn what_is_no_sorted_set_of_this_form_is_none() {
        let mut payload = vec![0, 1, b'a', 9, 0];
        let sum = CRC.checksum(&payload);
        payload.extend_from_slice(&sum.to_le_bytes());
        assert_eq!(decode(&payload), Ok(None));
    }

    #[test]
    fn compressed_members_are_expanded() {
        // "aaaa…": one literal, then eighteen bytes copied from one byte before.
        assert_eq!(expand(&[0, b'a', 0xE0, 9, 0], 19), Some(b"a".repeat(19)));
        assert_eq!(expand(&[0, b'a', 0xE0, 9, 1], 19), None);
        assert_eq!(expand(&[0, b'a', 0xE0, 9, 0], 18), None);
    }

    proptest! {
        #[test]
        fn a_payload_gives_back_its_entries(
            entries in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..200), -1e300..1e300), 1..200),
            broken in any::<prop::sample::Index>(), bit in 0..8_u32,
        ) {
            let mut payload = encoded(&entries);
            prop_assert_eq!(decode(&payload), Ok(Some(entries)));
            let place = broken.index(payload.len());
            payload[place] ^= 1_u8 << bit;
            prop_assert!(matches!(decode(&payload), Err(Error::Corrupt(_))));
            prop_assert!(matches!(decode(&payload[..place]), Err(Error::Corrupt(_))));
        }
    }
}
