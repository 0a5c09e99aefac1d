//! The members who are not public, as this process knows them: those that it sets at once, those of
//! other processes within a second.
//!
//! SQL numbers the changes. A look reads those after the last one that it has seen, and the first
//! look all of them. Until that is done, no member is known to be public, and so others see no
//! member's name. Later on, while SQL is away, the members stay as they were last.
//!
//! Reads ask for nothing but this, and for nothing at all while everyone is public. Keys are kept
//! as hashes of 128 bits by secrets of the process, so that no one can choose a key that has the
//! hash of another.

pub mod sealing;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use engine::deployment::Deployment;
use entity::member::visibility::{self, Model, Visibility};
use tokio::sync::watch;
use tokio::time::{Instant, interval, timeout};
use tokio_util::task::AbortOnDropHandle;

use self::sealing::Sealing;
use crate::health::Health;

/// The time between two looks for members whose visibility has changed.
const VISIBILITY_INTERVAL: Duration = Duration::from_millis(800);

/// The same while no client reads from this process.
const VISIBILITY_REST_INTERVAL: Duration = Duration::from_secs(2);

/// How long a SELECT of a look may take.
const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(2);

/// The changes of one SELECT.
const VISIBILITY_ROWS_MAX: u64 = 10_000;

/// Stands for the number of members who are not public before the first look.
const UNKNOWN: usize = usize::MAX;

/// The members who are not public.
pub struct Visibilities {
    known: Arc<Known>,
    _learning: AbortOnDropHandle<()>,
}

struct Known {
    members: RwLock<Members>,
    /// The number of members who are not public, or [`UNKNOWN`].
    count: AtomicUsize,
    hashers: [RandomState; 2],
    /// True if a reader has asked since the last look.
    asked: AtomicBool,
    /// Seals until the secret is known.
    own: Sealing,
    shared: OnceLock<Sealing>,
    /// Grows with each change.
    news: watch::Sender<u64>,
}

#[derive(Default)]
struct Members {
    /// The visibility of members, each with the number of the change.
    by_hash: HashMap<u128, (Visibility, i64)>,
    /// The number of the last change that a look has seen.
    last: i64,
}

impl Visibilities {
    /// Looks for them from now on.
    pub fn start(deployment: &Deployment, health: &Arc<Health>) -> Self {
        let known = Arc::new(Known::new());
        let (learning, deployment, health) = (known.clone(), deployment.clone(), health.clone());
        let task = tokio::spawn(async move {
            let mut looks = interval(VISIBILITY_INTERVAL);
            looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            let mut looked_at: Option<Instant> = None;
            loop {
                looks.tick().await;
                let was_asked = learning.asked.swap(false, Ordering::Relaxed);
                let is_due = looked_at.is_none_or(|at| at.elapsed() >= VISIBILITY_REST_INTERVAL);
                if health.sql.is_away() || !(was_asked || is_due) {
                    continue;
                }
                match learning.look(&deployment).await {
                    Ok(()) => looked_at = Some(Instant::now()),
                    Err(error) => tracing::debug!(error, "the visibility of members was not read"),
                }
            }
        });
        Self { known, _learning: AbortOnDropHandle::new(task) }
    }

    /// Waits for the first look to end, up to a time. Returns false if it has not.
    pub async fn wait(&self, time: Duration) -> bool {
        let mut news = self.known.news.subscribe();
        let known = news.wait_for(|_| self.known.count.load(Ordering::Acquire) != UNKNOWN);
        timeout(time, known).await.is_ok()
    }

    /// True if everyone is known to be public.
    pub fn are_all_public(&self) -> bool {
        self.known.count() == 0
    }

    /// The visibility of a member; `None` before the first look.
    pub fn of(&self, key: &str) -> Option<Visibility> {
        match self.known.count() {
            UNKNOWN => None,
            0 => Some(Visibility::Public),
            _ => Some(self.known.of(key)),
        }
    }

    /// Applies changes that this process has made.
    pub fn apply(&self, changes: &[Model]) {
        self.known.apply(changes, None);
    }

    /// Seals keys of members.
    pub fn sealing(&self) -> &Sealing {
        self.known.shared.get().unwrap_or(&self.known.own)
    }

    /// Is told of changes.
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.known.news.subscribe()
    }
}

impl Known {
    fn new() -> Self {
        Self {
            members: RwLock::default(),
            count: AtomicUsize::new(UNKNOWN),
            hashers: [RandomState::new(), RandomState::new()],
            asked: AtomicBool::new(true),
            own: Sealing::new(&entity::random_id()),
            shared: OnceLock::new(),
            news: watch::Sender::new(0),
        }
    }

    /// The number of members who are not public, or [`UNKNOWN`], for a reader who asks.
    fn count(&self) -> usize {
        // A write for each question would move the line between the caches of the cores.
        if !self.asked.load(Ordering::Relaxed) {
            self.asked.store(true, Ordering::Relaxed);
        }
        self.count.load(Ordering::Acquire)
    }

    /// Reads the changes since the last look.
    async fn look(&self, deployment: &Deployment) -> Result<(), String> {
        if self.shared.get().is_none() {
            let head = timeout(VISIBILITY_TIMEOUT, visibility::head(&deployment.db)).await;
            let head = head.map_err(|late| late.to_string())?.map_err(|error| error.to_string())?;
            // It was empty.
            let _ = self.shared.set(Sealing::new(&head.secret));
        }
        loop {
            let last = self.members.read().unwrap_or_else(PoisonError::into_inner).last;
            let rows = visibility::after(&deployment.lookups, last, VISIBILITY_ROWS_MAX);
            let rows = timeout(VISIBILITY_TIMEOUT, rows).await.map_err(|late| late.to_string())?;
            let rows = rows.map_err(|error| error.to_string())?;
            let is_end = (rows.len() as u64) < VISIBILITY_ROWS_MAX;
            let last = rows.last().map_or(last, |row| row.change_no);
            if !rows.is_empty() {
                self.apply(&rows, Some(last));
            }
            if is_end {
                self.complete();
                return Ok(());
            }
        }
    }

    /// Notes changes; those of a look come with the number of its last one.
    fn apply(&self, changes: &[Model], last: Option<i64>) {
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        for Model { member, visibility, change_no } in changes {
            let hash = self.hash(member);
            let known = members.by_hash.get(&hash);
            if known.is_some_and(|(_, later)| later > change_no) {
                continue;
            }
            match visibility {
                Visibility::Public => members.by_hash.remove(&hash),
                other => members.by_hash.insert(hash, (*other, *change_no)),
            };
        }
        members.last = last.unwrap_or(members.last);
        let count = self.count.load(Ordering::Acquire);
        if count != UNKNOWN {
            self.count.store(members.by_hash.len(), Ordering::Release);
        }
        drop(members);
        self.news.send_modify(|count| *count += 1);
    }

    /// Notes that all are known.
    fn complete(&self) {
        if self.count.load(Ordering::Acquire) != UNKNOWN {
            return;
        }
        let members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        self.count.store(members.by_hash.len(), Ordering::Release);
        drop(members);
        self.news.send_modify(|count| *count += 1);
    }

    fn of(&self, key: &str) -> Visibility {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        let known = members.by_hash.get(&self.hash(key));
        known.map_or(Visibility::Public, |(visibility, _)| *visibility)
    }

    fn hash(&self, key: &str) -> u128 {
        let [high, low] = self.hashers.each_ref().map(|hasher| u128::from(hasher.hash_one(key)));
        high << 64 | low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(member: &str, visibility: Visibility, change_no: i64) -> Model {
        Model { member: member.to_owned(), visibility, change_no }
    }

    #[test]
    fn nobody_is_public_before_the_first_look_and_a_late_look_takes_nothing_back() {
        let known = Known::new();
        known.apply(&[change("ann", Visibility::Hidden, 1)], Some(1));
        assert_eq!(known.count.load(Ordering::Acquire), UNKNOWN);
        known.complete();
        assert_eq!(known.count.load(Ordering::Acquire), 1);
        assert_eq!(known.of("ann"), Visibility::Hidden);
        assert_eq!(known.of("bob"), Visibility::Public);
        // This process sets both; a look that began before comes late.
        known.apply(&[change("bob", Visibility::Hidden, 4)], None);
        known.apply(&[change("bob", Visibility::Friends, 3)], Some(3));
        assert_eq!(known.of("bob"), Visibility::Hidden);
        assert_eq!(known.members.read().unwrap().last, 3);
        let public = |member: &str, no| change(member, Visibility::Public, no);
        known.apply(&[public("bob", 5), public("ann", 6)], Some(6));
        assert_eq!(known.count.load(Ordering::Acquire), 0);
    }
}
