//! The marks of boards, windows and members in a partition.

use super::write::{PAIRS_MAX, Writes};
use crate::board::mark::BoardMark;
use crate::id::{BoardNo, MemberId, PartitionNo};
use crate::merge::{MemberMark, member_field};
use crate::store::key::KeySpace;
use crate::window::roll::RollMark;
use crate::window::seal::{SealMark, SealName};

/// The field of a board's layout in the hash of marks.
pub(crate) fn layout_field(no: BoardNo) -> String {
    format!("{no}:layout")
}

impl Writes {
    /// Sets a board's mark: `HSET`.
    pub fn mark_board(
        &mut self,
        keys: &KeySpace,
        partition: PartitionNo,
        no: BoardNo,
        mark: BoardMark,
    ) {
        let args = vec![no.to_string(), mark.to_text()];
        self.push("HSET", &keys.board_marks(partition), args);
    }

    /// Sets the generation that began a board's layout: `HSET`.
    pub fn mark_layout(
        &mut self,
        keys: &KeySpace,
        partition: PartitionNo,
        no: BoardNo,
        since: u32,
    ) {
        let args = vec![layout_field(no), since.to_string()];
        self.push("HSET", &keys.board_marks(partition), args);
    }

    /// Sets the progress of a series: `HSET`.
    pub fn mark_roll(
        &mut self,
        keys: &KeySpace,
        partition: PartitionNo,
        no: BoardNo,
        series: &str,
        mark: RollMark,
    ) {
        let args = vec![series.to_owned(), mark.to_text()];
        self.push("HSET", &keys.rolls(partition, no), args);
    }

    /// Sets the progress of sealing in a window: `HSET`.
    pub fn mark_seal(
        &mut self,
        keys: &KeySpace,
        partition: PartitionNo,
        name: SealName,
        mark: SealMark,
    ) {
        let args = vec![name.field(), mark.to_text()];
        self.push("HSET", &keys.board_marks(partition), args);
    }

    /// Sets the marks of members, or takes them away: `HSET`, `HDEL`.
    pub fn mark_members(
        &mut self,
        keys: &KeySpace,
        partition: PartitionNo,
        marks: &[(MemberId, MemberMark)],
    ) {
        let key = keys.board_marks(partition);
        for chunk in marks.chunks(PAIRS_MAX) {
            let (mut set, mut gone) = (vec![], vec![]);
            for (member, mark) in chunk {
                match mark.to_text() {
                    Some(text) => set.extend([member_field(member), text]),
                    None => gone.push(member_field(member)),
                }
            }
            for (command, args) in [("HSET", set), ("HDEL", gone)] {
                if !args.is_empty() {
                    self.push(command, &key, args);
                }
            }
        }
    }
}
