//! The queue of one partition: bounded, and fair between boards. Boards take turns, a request each, so that a flood on one does not keep
//! others waiting.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ranking::id::BoardNo;
use tokio::sync::Notify;

/// How many requests of one board may wait; beyond it submissions are refused.
pub const REQUESTS_OF_BOARD_MAX: usize = 1024;

/// How many requests of all boards may wait.
const REQUESTS_MAX: usize = 16 * REQUESTS_OF_BOARD_MAX;

/// Requests with a weight each, by board.
#[derive(Debug)]
pub struct FairQueue<T> {
    waiting: Mutex<Waiting<T>>,
    changed: Notify,
}

#[derive(Debug)]
struct Waiting<T> {
    of_board: HashMap<BoardNo, VecDeque<(usize, T)>>,
    /// The boards that have requests, the one whose turn it is first.
    turns: VecDeque<BoardNo>,
    count: usize,
    is_closed: bool,
}

impl<T> FairQueue<T> {
    /// With nothing in it.
    #[must_use]
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

    /// Adds a request of some weight; gives it back where too many wait, or the queue is closed.
    ///
    /// # Errors
    /// The request.
    pub fn push(&self, board: BoardNo, weight: usize, request: T) -> Result<(), T> {
        let mut waiting = self.lock();
        let of_board = waiting.of_board.get(&board).map_or(0, VecDeque::len);
        let is_full = of_board >= REQUESTS_OF_BOARD_MAX || waiting.count >= REQUESTS_MAX;
        if waiting.is_closed || is_full {
            return Err(request);
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

    /// What waits now, up to a weight, in turns; more than that only where the first alone weighs more.
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

    /// As [`Self::take`], but waits until there is something; nothing once the queue is closed and empty.
    pub async fn wait(&self, weight_max: usize) -> Vec<T> {
        loop {
            let taken = self.take(weight_max);
            if !taken.is_empty() || self.lock().is_closed {
                return taken;
            }
            self.changed.notified().await;
        }
    }

    /// Takes no more from here on.
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
    fn whoever_had_a_turn_waits_for_the_others() {
        let queue = queue(&[(1, 1), (1, 1), (2, 1)]);
        assert_eq!(queue.take(1), [(1, 1)]);
        assert_eq!(queue.take(1), [(2, 1)]);
        assert_eq!(queue.take(1), [(1, 1)]);
    }

    #[test]
    fn one_that_weighs_too_much_goes_alone() {
        let queue = queue(&[(1, 5), (2, 50), (1, 5)]);
        assert_eq!(queue.take(10), [(1, 5)]);
        assert_eq!(queue.take(10), [(2, 50)]);
        assert_eq!(queue.take(10), [(1, 5)]);
    }

    #[test]
    fn a_board_that_floods_is_refused_and_others_are_not() {
        let queue = queue(&[(1, 1); REQUESTS_OF_BOARD_MAX]);
        assert_eq!(queue.push(BoardNo(1), 1, (1, 1)), Err((1, 1)));
        queue.push(BoardNo(2), 1, (2, 1)).unwrap();
    }

    #[tokio::test]
    async fn what_waits_when_it_is_closed_is_still_taken() {
        let queue = queue(&[(1, 1)]);
        queue.close();
        assert_eq!(queue.push(BoardNo(1), 1, (1, 1)), Err((1, 1)));
        assert_eq!(queue.wait(10).await, [(1, 1)]);
        assert!(queue.wait(10).await.is_empty());
    }
}
