//! Keys of members, sealed for clients that do not see the members: in ids of entries and in page
//! cursors.
//!
//! The same key of the same standings has the same sealed text in every process, so that ids and
//! cursors last. In other standings it has another one, so that no member is followed from
//! board to board by it. AES-256-GCM-SIV is made for this: with a fixed nonce, equal texts have
//! equal seals, and nothing else shows.

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ranking::id::MemberId;
use ranking::standings_id::StandingsId;
use sha2::{Digest, Sha256};

/// The longest key, to which all keys are filled up, so that the length tells nothing, in bytes.
const KEY_BYTES: usize = 128;

/// The byte that fills up: no key has it.
const FILL: u8 = 0;

/// A secret to seal keys by.
pub struct Sealing(LessSafeKey);

impl std::fmt::Debug for Sealing {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Sealing")
    }
}

impl Sealing {
    /// Seals by a secret.
    pub fn new(secret: &str) -> Self {
        let hash = Sha256::digest(secret.as_bytes());
        let key = UnboundKey::new(&AES_256_GCM_SIV, &hash).expect("SHA-256 has 32 bytes");
        Self(LessSafeKey::new(key))
    }

    /// The sealed key of a member in standings.
    pub fn seal(&self, standings: &StandingsId, member: &MemberId) -> String {
        let mut text = member.as_str().as_bytes().to_vec();
        text.resize(KEY_BYTES.max(text.len()), FILL);
        let sealed = self.0.seal_in_place_append_tag(nonce(), aad(standings), &mut text);
        sealed.expect("a short text can be sealed");
        URL_SAFE_NO_PAD.encode(text)
    }

    /// The member whose key was sealed; `None` if the text is no seal of these standings.
    pub fn open(&self, standings: &StandingsId, sealed: &str) -> Option<MemberId> {
        let mut bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let text = self.0.open_in_place(nonce(), aad(standings), &mut bytes).ok()?;
        let end = text.iter().position(|byte| *byte == FILL).unwrap_or(text.len());
        MemberId::new(std::str::from_utf8(&text[..end]).ok()?).ok()
    }
}

fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

/// The standings, whatever their generation.
fn aad(standings: &StandingsId) -> Aad<Vec<u8>> {
    let StandingsId { board, segment, window, period, .. } = standings;
    Aad::from(format!("{}\n{window}\n{period}\n{segment}", board.0).into_bytes())
}

#[cfg(test)]
mod tests {
    use ranking::id::BoardNo;
    use ranking::window::Window;

    use super::*;

    fn standings(no: i64) -> StandingsId {
        StandingsId {
            board: BoardNo(no),
            generation: 1,
            segment: String::new(),
            window: Window::All,
            period: "all".to_owned(),
        }
    }

    #[test]
    fn a_seal_lasts_in_its_standings_and_tells_nothing() {
        let (here, elsewhere) = (Sealing::new("secret"), Sealing::new("secret"));
        let (board, other) = (standings(1), standings(2));
        for key in ["a", "ann", "éé", &"x".repeat(128)] {
            let member = MemberId::new(key).unwrap();
            let sealed = here.seal(&board, &member);
            assert_eq!(elsewhere.seal(&board, &member), sealed);
            assert_eq!(elsewhere.open(&board, &sealed), Some(member.clone()));
            let moved = StandingsId { generation: 2, ..board.clone() };
            assert_eq!(here.open(&moved, &sealed), Some(member.clone()));
            assert_eq!(here.open(&other, &sealed), None);
            assert_ne!(here.seal(&other, &member), sealed);
            assert_eq!(Sealing::new("another").open(&board, &sealed), None);
            assert_eq!(sealed.len(), here.seal(&board, &MemberId::new("b").unwrap()).len());
        }
        for text in ["", "x", "AAAA", &"A".repeat(192)] {
            assert_eq!(here.open(&board, text), None, "{text}");
        }
    }
}
