//! Members whose scores this process accepted a moment ago. They exist, although their rows may
//! still be on the way to SQL.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use entity::board;
use entity::board::seen::Seen;
use ranking::id::MemberId;

/// A member is remembered until at least this many others have come after it.
const MEMBERS_MIN: usize = 100_000;

/// Two halves, the newer first. When the newer half is full, the older one is dropped.
#[derive(Debug, Default)]
pub struct RecentMembers(Mutex<[Half; 2]>);

/// Members, each with the board of its last score: its number, and true if it was public.
type Half = HashMap<MemberId, (i64, bool)>;

impl RecentMembers {
    /// Remembers members with a score on a board.
    pub fn insert(&self, board: &board::Model, members: impl Iterator<Item = MemberId>) {
        let of_board = (board.no, Seen::Public.includes(board));
        let mut halves = self.lock();
        for member in members {
            if halves[0].len() >= MEMBERS_MIN {
                halves.swap(0, 1);
                halves[0] = Half::new();
            }
            halves[0].insert(member, of_board);
        }
    }

    /// True if the member is remembered, with a score on a board that the client sees.
    pub fn contains(&self, member: &MemberId, seen: &Seen) -> bool {
        let is_seen = |(no, is_public): &(i64, bool)| match seen {
            Seen::All => true,
            Seen::Public => *is_public,
            Seen::Listed(numbers) => *is_public || numbers.contains(no),
        };
        self.lock().iter().any(|half| half.get(member).is_some_and(is_seen))
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
        recent.insert(&board, (0..count).map(member));
        assert!((count - MEMBERS_MIN..count).all(|n| recent.contains(&member(n), &Seen::Public)));
        assert!(!recent.contains(&member(0), &Seen::All));
        assert!(recent.lock().iter().map(Half::len).sum::<usize>() <= 2 * MEMBERS_MIN);
    }
}
