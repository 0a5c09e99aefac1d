//! The members who joined a board, as the partition of each knows them.
//!
//! SQL decides who has joined. Redis has what SQL said, so that a submission needs no SQL; a member
//! that it lacks is asked for once more.

use super::write::{PAIRS_MAX, Writes};
use super::{Failed, Store, foreign_key};
use crate::board::Board;
use crate::error::{Error, Result};
use crate::id::{MemberId, PartitionNo};
use crate::store::key::KeySpace;

/// A member who joined, and the number of the joining. A later one of the same board is higher.
pub type Entrant = (MemberId, i64);

impl Writes {
    /// Sets members who joined a board: `HSET`.
    pub fn set_entrants(
        &mut self,
        keys: &KeySpace,
        partition: PartitionNo,
        board: &Board,
        entrants: &[Entrant],
    ) {
        let key = keys.entrants(partition, board.no, board.layout_since());
        for chunk in entrants.chunks(PAIRS_MAX) {
            let pair = |(member, no): &Entrant| [member.to_string(), no.to_string()];
            self.push("HSET", &key, chunk.iter().flat_map(pair).collect());
        }
    }

    /// Forgets whether a member has joined a board, so that writers ask SQL: `HDEL`.
    pub fn forget_entrant(
        &mut self,
        keys: &KeySpace,
        partition: PartitionNo,
        board: &Board,
        member: &MemberId,
    ) {
        let key = keys.entrants(partition, board.no, board.layout_since());
        self.push("HDEL", &key, vec![member.to_string()]);
    }

    /// Notes that a member has left a board: `HSET` of its number below 0.
    pub fn set_left(
        &mut self,
        keys: &KeySpace,
        partition: PartitionNo,
        board: &Board,
        (member, no): &Entrant,
    ) {
        self.set_entrants(keys, partition, board, &[(member.clone(), -no)]);
    }
}

impl Store {
    /// Tells a partition which of its members joined a board. Of several joinings of a member, the
    /// one with the highest number counts, in whatever order they come. It is no commit: a writer
    /// asks SQL again for what Redis lacks. One round trip for each 1,000 members: `EVALSHA` of a
    /// script with `GET`, and a `HGET` and a `HSET` for each.
    ///
    /// # Errors
    /// `NotLevel`, `Unavailable`; `Corrupt` if the key has a foreign type.
    pub async fn put_entrants(
        &self,
        partition: PartitionNo,
        board: &Board,
        entrants: &[Entrant],
    ) -> Result<()> {
        let keys = [
            self.keys().head(partition),
            self.keys().entrants(partition, board.no, board.layout_since()),
        ];
        for chunk in entrants.chunks(PAIRS_MAX) {
            let pair = |(member, no): &Entrant| [member.to_string(), no.to_string()];
            let told: Vec<String> = chunk.iter().flat_map(pair).collect();
            let deployment = std::iter::once(self.deployment().as_bytes());
            let args: Vec<&[u8]> = deployment.chain(told.iter().map(String::as_bytes)).collect();
            let answer: std::result::Result<String, Failed> =
                self.write(&self.inner.scripts.entrants, &keys, &args).await;
            match answer?.as_str() {
                "DONE" => {}
                "RESTARTED" => return Err(Error::NotLevel(partition.0)),
                other => {
                    return Err(match other.strip_prefix("TYPE ") {
                        Some(key) => foreign_key(key),
                        None => Error::corrupt(format!("entrants were refused: {other}")),
                    });
                }
            }
        }
        Ok(())
    }
}
