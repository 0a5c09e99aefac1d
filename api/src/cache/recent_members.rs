//! Members whose scores this process accepted a moment ago. They exist, although their rows may
//! still be on the way to SQL.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use entity::board;
use entity::board::seen::Seen;
use ranking::id::{MemberId, PartitionNo};

/// A member is remembered until at least this many others have come after it.
const MEMBERS_MIN: usize = 100_000;

/// Two halves, the newer first. When the newer half is full, the older one is dropped.
#[derive(Debug, Default)]
pub struct RecentMembers(Mutex<[Half; 2]>);

/// Members, each with its last score.
type Half = HashMap<MemberId, Recent>;

/// A member's last score, and its board.
#[derive(Debug, Clone, Copy)]
struct Recent {
    board_no: i64,
    is_public: bool,
    commit: CommitAt,
}

/// The place of a commit: its partition and its seq.
pub type CommitAt = (PartitionNo, u64);

impl RecentMembers {
    /// Remembers members with a score on a board, each with the commit of the score.
    pub fn insert(
        &self,
        board: &board::Model,
        members: impl Iterator<Item = (MemberId, CommitAt)>,
    ) {
        let (board_no, is_public) = (board.no, Seen::Public.includes(board));
        let mut halves = self.lock();
        for (member, commit) in members {
            if halves[0].len() >= MEMBERS_MIN {
                halves.swap(0, 1);
                halves[0] = Half::new();
            }
            halves[0].insert(member, Recent { board_no, is_public, commit });
        }
    }

    /// The commit of the member's last score, if it is remembered and the client sees its board.
    /// Once SQL has the commit, SQL tells whether there is such a member.
    pub fn commit_of(&self, member: &MemberId, seen: &Seen) -> Option<CommitAt> {
        let is_seen = |recent: &&Recent| match seen {
            Seen::All => true,
            Seen::Public => recent.is_public,
            Seen::Listed(numbers) => recent.is_public || numbers.contains(&recent.board_no),
        };
        let halves = self.lock();
        let mut found = halves.iter().filter_map(|half| half.get(member));
        found.find(is_seen).map(|recent| recent.commit)
    }

    fn lock(&self) -> MutexGuard<'_, [Half; 2]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use ranking::board::rules::{Rules, RulesInput};

    use super::*;

    #[test]
    fn the_last_ones_are_known_and_memory_is_bounded() {
        let (recent, member) =
            (RecentMembers::default(), |n: usize| MemberId::new(&n.to_string()).unwrap());
        let count = 3 * MEMBERS_MIN + 7;
        let board = entity::board::of_rules(
            "b",
            "b",
            &Rules::new(RulesInput::default()).unwrap(),
            "UTC",
            0,
        );
        let at = |n: usize| (PartitionNo(3), n as u64);
        recent.insert(&board, (0..count).map(|n| (member(n), at(n))));
        let is_known = |n| recent.commit_of(&member(n), &Seen::Public) == Some(at(n));
        assert!((count - MEMBERS_MIN..count).all(is_known));
        assert_eq!(recent.commit_of(&member(0), &Seen::All), None);
        assert!(recent.lock().iter().map(Half::len).sum::<usize>() <= 2 * MEMBERS_MIN);
    }
}
