//! The memory for submissions, which boards and clients share: each may hold as much of it as it
//! leaves free.
//!
//! So one alone fills half of it, and two a third each. A board or a client that holds none always
//! finds room.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ranking::id::BoardNo;

/// The memory for the submissions of a process.
#[derive(Debug)]
pub struct Memory {
    kib_max: u64,
    held: Mutex<Held>,
}

/// The parts of it that are held, in KiB.
#[derive(Debug, Default)]
struct Held {
    all: u64,
    by_board: HashMap<BoardNo, u64>,
    by_client: HashMap<Arc<str>, u64>,
}

/// A part of the memory, given back when this is dropped.
#[derive(Debug)]
pub struct Part {
    memory: Arc<Memory>,
    board: BoardNo,
    client: Arc<str>,
    kib: u64,
}

/// The reason why there is no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// All of it is held.
    All,
    /// The board would hold more than it leaves free.
    Board,
    /// The client would hold more than it leaves free.
    Client,
}

impl Memory {
    /// So many bytes, all free.
    pub fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self { kib_max: bytes >> 10, held: Mutex::default() })
    }

    /// Takes a part for submissions of a client to a board.
    ///
    /// # Errors
    /// Why there is none.
    pub fn take(
        self: &Arc<Self>,
        board: BoardNo,
        client: &Arc<str>,
        kib: u64,
    ) -> Result<Part, Full> {
        let mut held = self.lock();
        let all = held.all.saturating_add(kib);
        let free = self.kib_max.checked_sub(all).ok_or(Full::All)?;
        let of_board = held.by_board.get(&board).copied().unwrap_or(0) + kib;
        if of_board > free {
            return Err(Full::Board);
        }
        let of_client = held.by_client.get(client).copied().unwrap_or(0) + kib;
        if of_client > free {
            return Err(Full::Client);
        }
        held.all = all;
        held.by_board.insert(board, of_board);
        held.by_client.insert(client.clone(), of_client);
        Ok(Part { memory: self.clone(), board, client: client.clone(), kib })
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut held = self.memory.lock();
        held.all = held.all.saturating_sub(self.kib);
        give_back(&mut held.by_board, self.board, self.kib);
        give_back(&mut held.by_client, self.client.clone(), self.kib);
    }
}

/// Takes from what a holder has, and forgets one that has none left.
fn give_back<K: Eq + Hash>(parts: &mut HashMap<K, u64>, holder: K, kib: u64) {
    if let Entry::Occupied(mut part) = parts.entry(holder) {
        let left = part.get().saturating_sub(kib);
        if left == 0 {
            part.remove();
        } else {
            *part.get_mut() = left;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes parts of a KiB until there are no more.
    fn fill(memory: &Arc<Memory>, board: i64, client: &str) -> (Vec<Part>, Full) {
        let mut parts = vec![];
        loop {
            match memory.take(BoardNo(board), &client.into(), 1) {
                Ok(part) => parts.push(part),
                Err(full) => return (parts, full),
            }
        }
    }

    #[test]
    fn a_board_or_a_client_holds_no_more_than_it_leaves_free() {
        let memory = Memory::new(120 << 10);
        let mut clients: Vec<(Vec<Part>, Full)> =
            (0..60).map(|client| fill(&memory, 1, &format!("c{client}"))).collect();
        assert_eq!(clients.iter().map(|(parts, _)| parts.len()).sum::<usize>(), 60);
        assert_eq!(clients.pop().unwrap().1, Full::Board);
        let (other, full) = fill(&memory, 2, "d");
        assert_eq!((other.len(), full), (30, Full::Board));
        drop((clients, other));
        let boards: Vec<_> = (0..60).map(|board| fill(&memory, board, "c")).collect();
        assert_eq!(boards.iter().map(|(parts, _)| parts.len()).sum::<usize>(), 60);
        assert_eq!(boards.last().unwrap().1, Full::Client);
        drop(boards);
        let held = memory.lock();
        assert!(held.all == 0 && held.by_board.is_empty() && held.by_client.is_empty());
    }

    #[test]
    fn what_does_not_fit_at_all_is_refused() {
        let memory = Memory::new(10 << 10);
        let take = |kib| memory.take(BoardNo(1), &"c".into(), kib).map(|_| ());
        assert_eq!(take(11), Err(Full::All));
        assert_eq!(take(u64::MAX), Err(Full::All));
        assert_eq!(take(6), Err(Full::Board));
        assert_eq!(take(5), Ok(()));
    }
}
