//! The queue of one partition, bounded and fair between boards. Boards take turns, a request each,
//! so a flood on one board does not keep the others waiting.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ranking::id::BoardNo;
use tokio::sync::Notify;

/// The most requests of one board that may wait; further submissions are refused.
const REQUESTS_OF_BOARD_MAX: usize = 1024;

/// The most requests of all boards that may wait.
const REQUESTS_MAX: usize = 16 * REQUESTS_OF_BOARD_MAX;

/// Requests by board, each with a weight.
#[derive(Debug)]
pub struct FairQueue<T> {
    waiting: Mutex<Waiting<T>>,
    changed: Notify,
}

/// The reason why a queue takes no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Too many requests of the board wait.
    Board,
    /// Too many requests of all boards wait.
    Queue,
    /// The queue is closed.
    Closed,
}

#[derive(Debug)]
struct Waiting<T> {
    of_board: HashMap<BoardNo, VecDeque<(usize, T)>>,
    /// The boards that have requests, in the order of their turns.
    turns: VecDeque<BoardNo>,
    count: usize,
    is_closed: bool,
}

impl<T> FairQueue<T> {
    /// An empty queue.
    pub fn new() -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                of_board: HashMap::new(),
                turns: VecDeque::new(),
                count: 0,
                is_closed: false,
            }),
            changed: Notify::new(),
        }
    }

    /// Adds a request of some weight.
    ///
    /// # Errors
    /// Why it was not added.
    pub fn push(&self, board: BoardNo, weight: usize, request: T) -> Result<(), Refusal> {
        let mut waiting = self.lock();
        let of_board = waiting.of_board.get(&board).map_or(0, VecDeque::len);
        if waiting.is_closed {
            return Err(Refusal::Closed);
        }
        if of_board >= REQUESTS_OF_BOARD_MAX {
            return Err(Refusal::Board);
        }
        if waiting.count >= REQUESTS_MAX {
            return Err(Refusal::Queue);
        }
        if of_board == 0 {
            waiting.turns.push_back(board);
        }
        waiting.count += 1;
        let requests = waiting.of_board.entry(board).or_default();
        requests.push_back((weight, request));
        drop(waiting);
        self.changed.notify_one();
        Ok(())
    }

    /// Takes waiting requests in turns, up to a total weight; beyond it only if the first request
    /// alone weighs more.
    pub fn take(&self, weight_max: usize) -> Vec<T> {
        let mut waiting = self.lock();
        let (mut taken, mut weight) = (vec![], 0);
        while let Some(board) = waiting.turns.front().copied() {
            let Some(requests) = waiting.of_board.get_mut(&board) else {
                waiting.turns.pop_front();
                continue;
            };
            let next = requests.front().map_or(0, |(weight, _)| *weight);
            if !taken.is_empty() && weight + next > weight_max {
                break;
            }
            weight += next;
            taken.extend(requests.pop_front().map(|(_, request)| request));
            let is_last = requests.is_empty();
            waiting.turns.pop_front();
            if is_last {
                waiting.of_board.remove(&board);
            } else {
                waiting.turns.push_back(board);
            }
        }
        waiting.count -= taken.len();
        taken
    }

    /// As [`Self::take`], but waits for a request. Returns nothing once the queue is closed and
    /// empty.
    pub async fn wait(&self, weight_max: usize) -> Vec<T> {
        loop {
            let taken = self.take(weight_max);
            if !taken.is_empty() || self.lock().is_closed {
                return taken;
            }
            self.changed.notified().await;
        }
    }

    /// Refuses requests from here on.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(requests: &[(i64, usize)]) -> FairQueue<(i64, usize)> {
        let queue = FairQueue::new();
        for &(board, weight) in requests {
            queue.push(BoardNo(board), weight, (board, weight)).unwrap();
        }
        queue
    }

    #[test]
    fn boards_take_turns() {
        let queue = queue(&[(1, 100), (1, 100), (1, 100), (2, 1), (3, 1), (2, 2)]);
        assert_eq!(queue.take(103), [(1, 100), (2, 1), (3, 1)]);
        assert_eq!(queue.take(1000), [(1, 100), (2, 2), (1, 100)]);
        assert!(queue.take(1000).is_empty());
    }

    #[test]
    fn a_board_that_had_its_turn_waits_for_the_others() {
        let queue = queue(&[(1, 1), (1, 1), (2, 1)]);
        assert_eq!(queue.take(1), [(1, 1)]);
        assert_eq!(queue.take(1), [(2, 1)]);
        assert_eq!(queue.take(1), [(1, 1)]);
    }

    #[test]
    fn a_request_that_weighs_too_much_goes_alone() {
        let queue = queue(&[(1, 5), (2, 50), (1, 5)]);
        assert_eq!(queue.take(10), [(1, 5)]);
        assert_eq!(queue.take(10), [(2, 50)]);
        assert_eq!(queue.take(10), [(1, 5)]);
    }

    #[test]
    fn a_board_that_floods_is_refused_and_others_are_not() {
        let queue = queue(&[(1, 1); REQUESTS_OF_BOARD_MAX]);
        assert_eq!(queue.push(BoardNo(1), 1, (1, 1)), Err(Refusal::Board));
        queue.push(BoardNo(2), 1, (2, 1)).unwrap();
    }

    #[tokio::test]
    async fn a_closed_queue_still_gives_out_its_requests() {
        let queue = queue(&[(1, 1)]);
        queue.close();
        assert_eq!(queue.push(BoardNo(1), 1, (1, 1)), Err(Refusal::Closed));
        assert_eq!(queue.wait(10).await, [(1, 1)]);
        assert!(queue.wait(10).await.is_empty());
    }
}
