//! The agenda of the background work: which boards have something to do, and from which instant on.
//!
//! A row is read when it has changed, by any process, and when its board is due. So a round costs
//! one statement and the boards that are due, however many boards there are.
//!
//! It forgets all after a failure: the database that answers next may be an earlier state, in which
//! numbers of changes are given out again. It does so, too, when the clock has gone back: instants
//! that a clock found while it was ahead may be far away.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use entity::board::{self, WindowRow};
use entity::error::Result;
use entity::sql::signs::{self, Signs};
use ranking::commit::Head;
use ranking::id::PartitionNo;
use ranking::window::Window;

use crate::deployment::Deployment;
use crate::seal::may_be_due;
use crate::webhook::ended::may_end;

/// The rows of one SELECT.
const ROWS_MAX: u64 = 1000;

/// An instant that is over by any clock.
pub(crate) const AT_ONCE_MS: i64 = i64::MIN;

/// How far the clock may go back, in milliseconds, without a look at all boards.
const CLOCK_BACK_MS: i64 = 10_000;

/// The agenda of one process.
#[derive(Debug, Default)]
pub struct Agenda(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The last change that was read; `None` if nothing is known.
    seen: Option<i64>,
    signs: Signs,
    /// The last change that Redis has been told of.
    noted: Option<i64>,
    /// Why it was not told of a later one.
    not_noted: Option<String>,
    rolls: Queue,
    seals: Queue,
    ends: Queue,
    /// Boards with windows to fill or drop.
    unfinished: BTreeSet<i64>,
    /// Boards that move to another number of shards.
    moving: BTreeSet<i64>,
    /// Deleted boards whose data is left, with the time of their deletion.
    deleted: BTreeMap<i64, i64>,
    /// The epoch and the run of each partition's head.
    heads: HashMap<PartitionNo, (u64, String)>,
    /// The number of entries made so far.
    entries: u64,
    /// The latest instant at which boards were looked at, in Unix milliseconds.
    latest_ms: Option<i64>,
}

/// The kinds of work that are due at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Rolling windows into their next period.
    Roll,
    /// Moving past periods to SQL.
    Seal,
    /// Telling webhooks of the ends of periods.
    End,
}

/// An entry of the agenda.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The board's number.
    pub(crate) board: i64,
    /// Tells it from other entries of the board, and from those made before it.
    id: u64,
}

/// Boards by the instant at which they are due.
#[derive(Debug, Default)]
struct Queue {
    by_time: BTreeSet<(i64, i64)>,
    of_board: HashMap<i64, (i64, u64)>,
}

impl Agenda {
    /// Reads the signs of work, and the boards that have changed since the last call.
    ///
    /// # Errors
    /// If SQL fails. The next call then reads all boards; entries stay until then.
    pub async fn refresh(&self, deployment: &Deployment) -> Result<()> {
        let (db, now_ms) = (&deployment.db, deployment.clock.now_ms());
        // A caller that is dropped, too, leaves nothing that counts as seen.
        let seen = self.lock().take_seen(now_ms);
        let signs = signs::read(db).await?;
        let mut seen = match seen.filter(|&seen| seen <= signs.last_change) {
            Some(seen) => seen,
            None => {
                self.lock().clear();
                -1
            }
        };
        while seen < signs.last_change {
            let rows = board::changed_after(db, seen, ROWS_MAX).await?;
            let is_last = (rows.len() as u64) < ROWS_MAX;
            let last = rows.last().map_or(seen, |row| row.change);
            seen = if is_last { last.max(signs.last_change) } else { last };
            let mut state = self.lock();
            for row in &rows {
                state.learn(row);
            }
        }
        self.note(deployment, signs.last_change).await;
        let mut state = self.lock();
        state.signs = signs;
        state.seen = Some(seen);
        state.look_at(now_ms);
        Ok(())
    }

    /// Tells Redis of the last change of a board. If Redis is away, the next round does.
    async fn note(&self, deployment: &Deployment, last: i64) {
        let redis = &deployment.redis_health;
        if self.lock().noted == Some(last) || redis.is_away(&[PartitionNo(0)]) {
            return;
        }
        let noted = deployment.note_board_changes(last).await;
        let mut state = self.lock();
        state.noted = noted.is_ok().then_some(last);
        let text = noted.err().map(|error| error.to_string());
        if let Some(error) = text.as_ref().filter(|_| text != state.not_noted) {
            tracing::warn!(%error, "Redis is not told of changes of boards");
        }
        state.not_noted = text;
    }

    /// The signs of work, as last read.
    pub fn signs(&self) -> Signs {
        self.lock().signs
    }

    /// The numbers of the boards with windows to fill or drop.
    pub fn unfinished(&self) -> Vec<i64> {
        self.lock().unfinished.iter().copied().collect()
    }

    /// True if a board moves to another number of shards.
    pub fn has_moves(&self) -> bool {
        !self.lock().moving.is_empty()
    }

    /// The numbers of boards that were deleted before an instant, in Unix milliseconds, and whose
    /// data is left.
    pub fn deleted_before(&self, at_ms: i64) -> Vec<i64> {
        let state = self.lock();
        state.deleted.iter().filter(|(_, deleted)| **deleted < at_ms).map(|(no, _)| *no).collect()
    }

    /// Notes the head of a partition. After a recovery or a restart of Redis, marks of rolling
    /// windows may be older than they were, so all boards are looked at again.
    pub fn see_head(&self, partition: PartitionNo, head: &Head) {
        let mut state = self.lock();
        let is_known =
            |(epoch, run_id): &(u64, String)| *epoch == head.epoch && *run_id == head.run_id;
        if state.heads.get(&partition).is_some_and(is_known) {
            return;
        }
        // Redis may have lost what it was told.
        state.noted = None;
        let former = state.heads.insert(partition, (head.epoch, head.run_id.clone()));
        if former.is_some() {
            let boards: Vec<i64> = state.rolls.of_board.keys().copied().collect();
            for board in boards {
                state.enter(Work::Roll, board, Some(AT_ONCE_MS));
            }
        }
    }

    /// The entries of boards that are due at an instant, in Unix milliseconds, the oldest entry
    /// first. They stay until [`Agenda::put`].
    pub(crate) fn due(&self, work: Work, now_ms: i64) -> Vec<Entry> {
        let mut state = self.lock();
        state.look_at(now_ms);
        let mut due = state.queue(work).due(now_ms);
        due.sort_unstable_by_key(|entry| entry.id);
        due
    }

    /// Replaces an entry by the next one of its board, due at `next_ms` or never; does nothing if
    /// the board has a later entry.
    pub(crate) fn put(&self, work: Work, entry: Entry, next_ms: Option<i64>) {
        let mut state = self.lock();
        let present = state.queue(work).of_board.get(&entry.board);
        if present.is_some_and(|(_, id)| *id == entry.id) {
            state.enter(work, entry.board, next_ms);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The last change that was read, which no longer counts as seen; `None` if all boards are to
    /// be read.
    fn take_seen(&mut self, now_ms: i64) -> Option<i64> {
        let is_back = self.latest_ms.is_some_and(|latest_ms| now_ms < latest_ms - CLOCK_BACK_MS);
        self.seen.take().filter(|_| !is_back)
    }

    /// Notes an instant at which boards are looked at.
    fn look_at(&mut self, now_ms: i64) {
        self.latest_ms = self.latest_ms.max(Some(now_ms));
    }

    /// Forgets all boards.
    fn clear(&mut self) {
        let (heads, entries) = (std::mem::take(&mut self.heads), self.entries);
        *self = Self { heads, entries, ..Self::default() };
    }

    fn queue(&mut self, work: Work) -> &mut Queue {
        match work {
            Work::Roll => &mut self.rolls,
            Work::Seal => &mut self.seals,
            Work::End => &mut self.ends,
        }
    }

    fn enter(&mut self, work: Work, board: i64, due_ms: Option<i64>) {
        self.entries += 1;
        let id = self.entries;
        self.queue(work).set(board, due_ms.map(|due_ms| (due_ms, id)));
    }

    /// Enters what a board has to do, by its row.
    fn learn(&mut self, row: &board::Model) {
        let no = row.no;
        self.unfinished.remove(&no);
        self.moving.remove(&no);
        self.deleted.remove(&no);
        let mut windows = vec![];
        match (row.deleted_at_ms, row.purged_at_ms) {
            (Some(at_ms), None) => {
                self.deleted.insert(no, at_ms);
            }
            (Some(_), Some(_)) => {}
            (None, _) => windows = windows_of(row),
        }
        if row.deleted_at_ms.is_none() && row.reshard.is_some() {
            self.moving.insert(no);
        }
        if !windows.iter().all(WindowRow::is_settled) {
            self.unfinished.insert(no);
        }
        let at_once = |is_due: bool| is_due.then_some(AT_ONCE_MS);
        self.enter(Work::Roll, no, at_once(windows.iter().any(is_rolling)));
        self.enter(Work::Seal, no, at_once(windows.iter().any(may_be_due)));
        self.enter(Work::End, no, at_once(windows.iter().any(may_end)));
    }
}

/// The windows of a board; none if they are corrupt, which the log then tells.
fn windows_of(row: &board::Model) -> Vec<WindowRow> {
    row.window_rows().unwrap_or_else(|error| {
        tracing::error!(board = row.slug, %error, "the windows of a board cannot be read");
        vec![]
    })
}

fn is_rolling(window: &WindowRow) -> bool {
    let named: Result<Window, _> = window.name.parse();
    named.is_ok_and(|window| window.rolling().is_some())
}

impl Queue {
    /// Sets when a board is due, and the id of that entry; `None` if it never is.
    fn set(&mut self, board: i64, due: Option<(i64, u64)>) {
        let former = match due {
            Some(due) => self.of_board.insert(board, due),
            None => self.of_board.remove(&board),
        };
        if let Some((due_ms, _)) = former {
            self.by_time.remove(&(due_ms, board));
        }
        if let Some((due_ms, _)) = due {
            self.by_time.insert((due_ms, board));
        }
    }

    fn due(&self, now_ms: i64) -> Vec<Entry> {
        let due = self.by_time.range(..=(now_ms, i64::MAX));
        let entry = |(_, board): &(i64, i64)| {
            let (_, id) = self.of_board.get(board)?;
            Some(Entry { board: *board, id: *id })
        };
        due.filter_map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boards(agenda: &Agenda, now_ms: i64) -> Vec<i64> {
        agenda.due(Work::Roll, now_ms).iter().map(|entry| entry.board).collect()
    }

    #[test]
    fn a_board_is_due_from_its_instant_on_and_a_later_entry_wins() {
        let agenda = Agenda::default();
        agenda.lock().enter(Work::Roll, 1, Some(AT_ONCE_MS));
        agenda.lock().enter(Work::Roll, 2, Some(100));
        assert_eq!((boards(&agenda, 99), boards(&agenda, 100)), (vec![1], vec![1, 2]));
        assert!(agenda.due(Work::Seal, 100).is_empty());
        let entry = agenda.due(Work::Roll, 0)[0];
        // The board changed while it was rolled.
        agenda.lock().enter(Work::Roll, 1, Some(AT_ONCE_MS));
        agenda.put(Work::Roll, entry, Some(500));
        assert_eq!(boards(&agenda, 0), [1]);
        let entry = agenda.due(Work::Roll, 0)[0];
        agenda.put(Work::Roll, entry, Some(500));
        assert_eq!((boards(&agenda, 499), boards(&agenda, 500)), (vec![2], vec![2, 1]));
        let entry = agenda.due(Work::Roll, 100)[0];
        agenda.put(Work::Roll, entry, None);
        assert_eq!(boards(&agenda, i64::MAX), [1]);
    }

    #[test]
    fn a_board_that_was_looked_at_comes_after_the_others() {
        let agenda = Agenda::default();
        for (board, due_ms) in [(1, AT_ONCE_MS), (2, AT_ONCE_MS), (3, 100)] {
            agenda.lock().enter(Work::Roll, board, Some(due_ms));
        }
        let first = agenda.due(Work::Roll, 100)[0];
        assert_eq!(first.board, 1);
        agenda.put(Work::Roll, first, Some(AT_ONCE_MS));
        assert_eq!(boards(&agenda, 100), [2, 3, 1]);
    }

    #[test]
    fn nothing_counts_as_seen_once_the_clock_has_gone_back() {
        let agenda = Agenda::default();
        let seen = |now_ms: i64| {
            agenda.lock().seen = Some(7);
            agenda.lock().take_seen(now_ms)
        };
        assert_eq!(seen(1_000_000), Some(7));
        boards(&agenda, 1_000_000);
        boards(&agenda, 900_000);
        assert_eq!(seen(1_000_000 - CLOCK_BACK_MS), Some(7));
        assert_eq!(seen(1_000_000 - CLOCK_BACK_MS - 1), None);
        // The clock of before is forgotten with the boards.
        agenda.lock().clear();
        assert_eq!(seen(0), Some(7));
    }

    #[test]
    fn a_recovery_makes_all_rolling_boards_due() {
        let agenda = Agenda::default();
        agenda.lock().enter(Work::Roll, 1, Some(1000));
        let head = |epoch| Head {
            seq: 1,
            commit: String::new(),
            clock_ms: 0,
            epoch,
            deployment: String::new(),
            run_id: "r".to_owned(),
        };
        agenda.see_head(PartitionNo(0), &head(1));
        agenda.see_head(PartitionNo(0), &head(1));
        assert!(boards(&agenda, 0).is_empty());
        agenda.see_head(PartitionNo(0), &head(2));
        assert_eq!(boards(&agenda, 0), [1]);
    }
}
