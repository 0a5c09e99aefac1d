//! A run of the sealer: some boards take their steps, round by round.

use std::collections::BTreeSet;

use ranking::id::PartitionNo;

use super::Sealing;
use super::due::{Outlook, Step, outlook};
use super::listing::Listing;
use super::window_seal::WindowSeal;
use crate::deployment::{Deployment, redis_health};
use entity::board;
use entity::error::{Error, Result};
use entity::sql::signs;

/// The most steps for one board before the sealer turns to the next.
const STEPS_MAX: usize = 100;

/// The number of attempts to copy a partition that recovery keeps reloading.
const COPIES_MAX: usize = 5;

/// A run of the sealer.
pub(super) struct Run<'a> {
    pub(super) deployment: &'a Deployment,
    pub(super) now_ms: i64,
    pub(super) sealing: Sealing,
    /// The last error of a board. The board takes no further step.
    pub(super) failed: Option<Error>,
    /// The partitions that took no commit, or could not be settled. Each attempt waits for long, so
    /// boards in them are left to the next run.
    pub(super) down: BTreeSet<PartitionNo>,
}

/// A window with the instant before which its periods take the step.
type Before<'a> = (WindowSeal<'a>, i64);

impl<'a> Run<'a> {
    /// Seals what is due of some boards.
    pub(super) async fn seal(&mut self, mut rows: Vec<board::Model>) {
        for _ in 0..STEPS_MAX {
            let stepped = self.step(rows).await;
            if stepped.is_empty() {
                return;
            }
            let later = board::living_of_numbers(&self.deployment.db, &stepped).await;
            let Some(later) = self.kept(later.map_err(Error::from)) else {
                return;
            };
            rows = later.into_values().collect();
        }
    }

    /// Takes a step of each board that is due. Returns the numbers of those that took one.
    async fn step(&mut self, rows: Vec<board::Model>) -> Vec<i64> {
        let (mut stepped, mut copies, mut drops) = (vec![], vec![], vec![]);
        for row in rows {
            let Some(Outlook::Now(due)) =
                self.kept(outlook(self.deployment, &row, self.now_ms).await)
            else {
                continue;
            };
            let Some((window, step)) = self.kept(WindowSeal::of(self.deployment, row, *due)) else {
                continue;
            };
            match step {
                Step::Decide(before_ms) => {
                    let decide = window.record(|row| row.sealing_before_ms = Some(before_ms));
                    stepped.extend(self.kept(decide.await).map(|()| window.row.no));
                }
                Step::Copy(before_ms) => copies.push((window, before_ms)),
                Step::Drop(before_ms) => drops.push((window, before_ms)),
            }
        }
        stepped.extend(self.copy(copies).await);
        stepped.extend(self.drop(drops).await);
        stepped
    }

    /// Copies windows to SQL. Returns the numbers of the boards of those that SQL has.
    async fn copy(&mut self, mut left: Vec<Before<'a>>) -> Vec<i64> {
        let mut done = vec![];
        for _ in 0..COPIES_MAX {
            let marked = self.mark(std::mem::take(&mut left)).await;
            let (windows, before): (Vec<_>, Vec<_>) = marked.into_iter().unzip();
            let listing = Listing::read(&windows).await;
            let mut copied = vec![];
            for (window, &before_ms) in windows.iter().zip(&before) {
                copied.push(self.kept(window.copy(&listing, before_ms).await));
            }
            // The keys may have been listed while a recovery was loading them.
            let again = Listing::read(&windows).await;
            for ((window, before_ms), copy) in windows.into_iter().zip(before).zip(copied) {
                let Some(copy) = copy else {
                    continue;
                };
                let is_whole = match &copy {
                    Some(copy) => self.kept(window.has_all(copy, &again, before_ms).await),
                    None => Some(false),
                };
                match (is_whole, copy) {
                    (Some(true), Some(copy)) => {
                        let sealed = window.record(|row| row.sealed_before_ms = Some(before_ms));
                        if self.kept(sealed.await).is_some() {
                            self.sealing.windows += 1;
                            self.sealing.standings += copy.standings();
                            self.sealing.entries += copy.entries;
                            done.push(window.row.no);
                        }
                    }
                    (Some(_), _) => left.push((window, before_ms)),
                    (None, _) => {}
                }
            }
            if left.is_empty() {
                return done;
            }
        }
        for (window, _) in left {
            let slug = &window.row.slug;
            let text =
                format!("recovery keeps reloading partitions of board {slug}; try again later");
            self.failed = Some(ranking::Error::Unavailable(text).into());
        }
        done
    }

    /// Marks windows in their partitions, and waits until SQL has the marks' commits. Returns the
    /// windows that are marked everywhere.
    async fn mark(&mut self, windows: Vec<Before<'a>>) -> Vec<Before<'a>> {
        let (mut marked, mut partitions) = (vec![], BTreeSet::new());
        'windows: for (window, before_ms) in windows {
            if self.is_down(&window) {
                continue;
            }
            for partition in window.partitions() {
                let mark = window.mark(partition, before_ms).await;
                if !self.committed(partition.no, mark) {
                    continue 'windows;
                }
                partitions.insert(partition.no);
            }
            marked.push((window, before_ms));
        }
        for no in partitions {
            if self.kept(self.deployment.partition(no).settle().await).is_none() {
                self.down.insert(no);
            }
        }
        marked.retain(|(window, _)| !self.is_down(window));
        marked
    }

    /// Drops windows that SQL has from Redis. Returns the numbers of the boards of those that are
    /// dropped.
    async fn drop(&mut self, windows: Vec<Before<'a>>) -> Vec<i64> {
        // Redis is about to lose what SQL has: it must learn of these seals first, in its first
        // partition, so that a database that goes back behind them is noticed.
        let noted = async {
            if self.deployment.redis_health.is_away(&[PartitionNo(0)]) {
                return Err(redis_health::away().into());
            }
            let last = signs::read(&self.deployment.db).await?.last_change;
            self.deployment.note_board_changes(last).await
        };
        if windows.is_empty() || self.kept(noted.await).is_none() {
            return vec![];
        }
        let (windows, before): (Vec<_>, Vec<_>) = windows.into_iter().unzip();
        let (listing, mut done) = (Listing::read(&windows).await, vec![]);
        'windows: for (window, before_ms) in windows.into_iter().zip(before) {
            if self.is_down(&window) {
                continue;
            }
            for partition in window.partitions() {
                let dropped = window.drop_keys(&listing, partition, before_ms).await;
                if !self.committed(partition.no, dropped) {
                    continue 'windows;
                }
            }
            let recorded = window.record(|row| row.dropped_before_ms = Some(before_ms)).await;
            done.extend(self.kept(recorded).map(|()| window.row.no));
        }
        done
    }

    /// True if a partition took a commit; notes one that is away.
    fn committed(&mut self, partition: PartitionNo, result: Result<()>) -> bool {
        let is_away = |error: &Error| {
            use ranking::Error::{NotLevel, Unavailable};
            matches!(error, Error::Unknown | Error::Ranking(Unavailable(_) | NotLevel(_)))
        };
        if result.as_ref().is_err_and(is_away) {
            self.down.insert(partition);
        }
        self.kept(result).is_some()
    }

    /// True if a partition of a window's board took no commit.
    fn is_down(&self, window: &WindowSeal<'_>) -> bool {
        window.partitions().iter().any(|partition| self.down.contains(&partition.no))
    }

    /// The value, or `None` and the error noted.
    fn kept<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.failed = Some(error)).ok()
    }
}
