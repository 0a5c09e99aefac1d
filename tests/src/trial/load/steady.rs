//! A steady load: so many requests a second with a score each, however long the answers take, and
//! the time that each answer took.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use super::{Ack, Load, Shared, State, lock};

/// The most requests under way. One that waits for its turn is late, which counts.
const UNDER_WAY_MAX: u32 = 4000;

/// The answers to the requests of one phase.
#[derive(Debug, Clone, Default)]
pub struct Phase {
    /// The time from when each request was due until its answer.
    pub times: Vec<Duration>,
    pub refused: usize,
    pub unknown: usize,
}

impl Phase {
    /// The time within which this part of the answers came.
    pub fn quantile(&self, part: f64) -> Duration {
        let mut times = self.times.clone();
        times.sort_unstable();
        let last = times.len().saturating_sub(1);
        times.get((last as f64 * part).round() as usize).copied().unwrap_or_default()
    }
}

/// A steady load that runs.
pub struct Steady {
    paced: Arc<Paced>,
    pacer: JoinHandle<()>,
}

/// The state that the pacer and all requests share.
struct Paced {
    load: Arc<Shared>,
    phase: AtomicUsize,
    phases: Mutex<Vec<Phase>>,
    is_over: AtomicBool,
}

impl Load {
    /// Sends so many requests a second from now on.
    pub fn steady(&self, a_second: u32) -> Steady {
        let paced = Arc::new(Paced {
            load: self.shared.clone(),
            phase: AtomicUsize::new(0),
            phases: Mutex::new(vec![Phase::default()]),
            is_over: AtomicBool::new(false),
        });
        Steady { pacer: tokio::spawn(pace(paced.clone(), a_second)), paced }
    }
}

impl Steady {
    /// Counts the requests that are due from now on by themselves.
    pub fn next_phase(&self) {
        lock(&self.paced.phases).push(Phase::default());
        self.paced.phase.fetch_add(1, Ordering::Relaxed);
    }

    /// Sends no more, and waits for all answers; one result for each phase.
    pub async fn stop(self) -> Vec<Phase> {
        self.paced.is_over.store(true, Ordering::Relaxed);
        self.pacer.await.unwrap();
        std::mem::take(&mut *lock(&self.paced.phases))
    }
}

async fn pace(paced: Arc<Paced>, a_second: u32) {
    let under_way = Arc::new(Semaphore::new(UNDER_WAY_MAX as usize));
    let seed = paced.load.seed ^ lock(&paced.load.records).len() as u64;
    let mut rng = StdRng::seed_from_u64(seed);
    let mut ticks = interval(Duration::from_secs(1) / a_second);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    while !paced.is_over.load(Ordering::Relaxed) {
        let due = ticks.tick().await.into_std();
        let phase = paced.phase.load(Ordering::Relaxed);
        let target = paced.load.target(&mut rng);
        let board = rng.random_range(0..paced.load.boards.len());
        let place = under_way.clone().acquire_owned().await.expect("it is never closed");
        let paced = paced.clone();
        tokio::spawn(async move {
            paced.send(&target, board, phase, due).await;
            drop(place);
        });
    }
    let all = under_way.acquire_many(UNDER_WAY_MAX).await;
    all.expect("it is never closed").forget();
}

impl Paced {
    async fn send(&self, target: &str, board: usize, phase: usize, due: Instant) {
        let numbers = self.load.new_numbers(board, 1);
        self.load.send(target, numbers.clone(), Ack::Applied).await;
        let took = due.elapsed();
        let state = lock(&self.load.records)[numbers.start].state;
        let mut phases = lock(&self.phases);
        let phase = &mut phases[phase];
        phase.times.push(took);
        phase.refused += usize::from(state == State::Refused);
        phase.unknown += usize::from(state == State::Unknown);
    }
}
