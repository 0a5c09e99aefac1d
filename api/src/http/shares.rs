//! Numbers that holders share, and a memory of which each holder has as much as it leaves free.
//!
//! So one holder alone fills half of the memory, and two a third each. One that holds none finds
//! room for a small part at least.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A number in all, and the part of each holder.
#[derive(Debug)]
pub struct Shares<K> {
    /// The sum of all parts.
    pub all: u64,
    by_holder: HashMap<K, u64>,
}

impl<K> Default for Shares<K> {
    fn default() -> Self {
        Self { all: 0, by_holder: HashMap::new() }
    }
}

impl<K: Eq + Hash + Clone> Shares<K> {
    /// The part of a holder.
    pub fn of(&self, holder: &K) -> u64 {
        self.by_holder.get(holder).copied().unwrap_or(0)
    }

    /// The holders of any part.
    pub fn holders(&self) -> impl ExactSizeIterator<Item = &K> {
        self.by_holder.keys()
    }

    /// Adds to the part of a holder.
    pub fn add(&mut self, holder: &K, count: u64) {
        self.all += count;
        *self.by_holder.entry(holder.clone()).or_default() += count;
    }

    /// Takes from the part of a holder, and forgets one that has none left.
    pub fn remove(&mut self, holder: &K, count: u64) {
        self.all = self.all.saturating_sub(count);
        if let Entry::Occupied(mut held) = self.by_holder.entry(holder.clone()) {
            *held.get_mut() = held.get().saturating_sub(count);
            if *held.get() == 0 {
                held.remove();
            }
        }
    }
}

/// A memory of which each holder has as much as it leaves free.
#[derive(Debug)]
pub struct SharedMemory<K> {
    bytes_max: u64,
    held: Mutex<Shares<K>>,
}

/// A holder's part of a memory, given back when this is dropped.
#[derive(Debug)]
pub struct Part<K: Eq + Hash + Clone> {
    memory: Arc<SharedMemory<K>>,
    holder: K,
    bytes: u64,
}

impl<K: Eq + Hash + Clone> SharedMemory<K> {
    /// So many bytes, all free.
    pub fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { bytes_max, held: Mutex::default() })
    }

    /// The most bytes that one holder may have.
    pub fn part_max(&self) -> u64 {
        self.bytes_max / 2
    }

    /// A holder's part, without bytes yet.
    pub fn part(self: &Arc<Self>, holder: &K) -> Part<K> {
        Part { memory: self.clone(), holder: holder.clone(), bytes: 0 }
    }

    /// A holder's part of so many bytes; `None` if it would hold more than it leaves free.
    pub fn take(self: &Arc<Self>, holder: &K, bytes: u64) -> Option<Part<K>> {
        let mut part = self.part(holder);
        part.grow_to(bytes).then_some(part)
    }

    fn lock(&self) -> MutexGuard<'_, Shares<K>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash + Clone> Part<K> {
    /// Takes more, up to so many bytes; false if the holder would hold more than it leaves free.
    pub fn grow_to(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return true;
        }
        let mut held = self.memory.lock();
        let free = self.memory.bytes_max.checked_sub(held.all.saturating_add(more));
        let fits = free.is_some_and(|free| held.of(&self.holder).saturating_add(more) <= free);
        if fits {
            held.add(&self.holder, more);
            self.bytes += more;
        }
        fits
    }
}

impl<K: Eq + Hash + Clone> Drop for Part<K> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.memory.lock().remove(&self.holder, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_has_as_much_as_it_leaves_free() {
        let memory = SharedMemory::new(100);
        let mut half = memory.take(&1, 20).unwrap();
        assert!(half.grow_to(memory.part_max()) && half.grow_to(0) && !half.grow_to(51));
        assert!(memory.take(&1, 1).is_none());
        let quarter = memory.take(&2, 25).unwrap();
        assert!(memory.take(&2, 1).is_none());
        drop((half, quarter));
        assert!(memory.take(&2, 51).is_none() && memory.take(&2, u64::MAX).is_none());
        let held = memory.lock();
        assert_eq!((held.all, held.holders().len()), (0, 0));
    }

    #[test]
    fn however_many_fill_it_another_finds_some() {
        let memory = SharedMemory::new(1 << 20);
        let mut parts = vec![];
        for holder in 0..10 {
            while let Some(part) = memory.take(&holder, 64) {
                parts.push(part);
            }
        }
        assert!(memory.take(&10, 64).is_some());
    }
}
