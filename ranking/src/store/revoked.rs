//! The access tokens that were revoked lately, in Redis, so that a process whose SQL is away learns
//! of them, too.

use super::Store;
use crate::error::Result;

/// The revocations that Redis keeps.
const REVOCATIONS_MAX: usize = 10_000;

/// The place before all revocations.
pub const REVOCATIONS_BEGIN: &str = "0-0";

/// An entry of the stream: its place, and its fields, of which the second one is the id.
type Entry = (String, Vec<String>);

impl Store {
    /// Notes that the access token of an id was revoked. One round trip: `XADD`.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn note_revoked(&self, id: &str) -> Result<()> {
        let mut pipe = redis::pipe();
        pipe.cmd("XADD").arg(self.keys().revoked()).arg("MAXLEN").arg(REVOCATIONS_MAX);
        pipe.arg("*").arg("id").arg(id);
        let ((_,), _): ((String,), _) = self.read(&pipe).await?;
        Ok(())
    }

    /// The ids of the access tokens that were revoked after a place, and the place after them. One
    /// round trip: `XRANGE`.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt` if another program wrote the key.
    pub async fn revoked_after(&self, place: &str) -> Result<(Vec<String>, Option<String>)> {
        let mut pipe = redis::pipe();
        pipe.cmd("XRANGE").arg(self.keys().revoked()).arg(format!("({place}")).arg("+");
        let ((entries,), _): ((Vec<Entry>,), _) = self.read(&pipe).await?;
        let last = entries.last().map(|(place, _)| place.clone());
        Ok((
            entries.into_iter().filter_map(|(_, fields)| fields.into_iter().nth(1)).collect(),
            last,
        ))
    }
}
