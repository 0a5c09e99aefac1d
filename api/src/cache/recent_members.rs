//! Members whose scores this process accepted a moment ago. They exist, although their rows may
//! still be on the way to SQL.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ranking::id::MemberId;

/// A member is remembered until at least this many others have come after it.
const MEMBERS_MIN: usize = 100_000;

/// Two halves, the newer first. When the newer half is full, the older one is dropped.
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

    /// True if the member is remembered.
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
