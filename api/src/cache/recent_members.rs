//! Members whose first score was accepted here a moment ago: they exist, though their row may be on its way to SQL.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ranking::id::MemberId;

/// How many members are remembered at least, each for as long as so many others have not come after it.
const MEMBERS_MIN: usize = 100_000;

/// The newer half and the older: where the newer is full, the older is forgotten.
#[derive(Debug, Default)]
pub struct RecentMembers(Mutex<[HashSet<MemberId>; 2]>);

impl RecentMembers {
    /// Remembers members.
    pub fn insert(&self, members: impl Iterator<Item = MemberId>) {
        let mut halves = self.lock();
        for member in members {
            if halves[0].len() >= MEMBERS_MIN {
                halves.swap(0, 1);
                halves[0] = HashSet::new();
            }
            halves[0].insert(member);
        }
    }

    /// Whether a member is among them.
    pub fn contains(&self, member: &MemberId) -> bool {
        self.lock().iter().any(|half| half.contains(member))
    }

    fn lock(&self) -> MutexGuard<'_, [HashSet<MemberId>; 2]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_known_and_memory_is_bounded() {
        let (recent, member) =
            (RecentMembers::default(), |n: usize| MemberId::new(&n.to_string()).unwrap());
        let count = 3 * MEMBERS_MIN + 7;
        recent.insert((0..count).map(member));
        assert!((count - MEMBERS_MIN..count).all(|n| recent.contains(&member(n))));
        assert!(!recent.contains(&member(0)));
        assert!(recent.lock().iter().map(HashSet::len).sum::<usize>() <= 2 * MEMBERS_MIN);
    }
}
