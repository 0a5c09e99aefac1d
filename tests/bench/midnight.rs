//! The latency of writers while every board's window rolls at once, and how long the roll takes.
//!
//! A run has three parts: the writers alone; a midnight at which writers and roller are active,
//! until the roller is done; and a midnight with the roller alone. The measurement of a midnight
//! begins at the instant itself, when no board has rolled yet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::roll::roll;
use rand::prelude::*;
use ranking::board::Board;
use ranking::id::{MemberId, PartitionNo};
use ranking::standings_id::StandingsId;
use ranking::submission::Submission;
use ranking::window::Window;
use tokio::sync::Mutex;

use crate::figures::{Figures, quantile};
use crate::stores::{Spent, Stores};
use crate::{RUNS, Scale};

const DAY_MS: i64 = 86_400_000;

/// 2026-01-01, in Unix milliseconds.
const START_MS: i64 = 1_767_225_600_000;

/// Submissions in flight at once.
const WRITERS: usize = 8;

/// Members of each board.
const MEMBERS: usize = 200;

/// The sizes of submissions, equally frequent.
const SIZES: [usize; 2] = [1, 10];

/// The boards and their members.
struct World {
    stores: Stores,
    boards: Vec<Board>,
    members: Vec<MemberId>,
    window: Window,
    /// One for each partition, held during a submission to it: a server's committer of a partition
    /// does one thing at a time.
    committers: Vec<Mutex<()>>,
}

/// The latencies of writers, in milliseconds by size of submission.
#[derive(Debug, Default)]
struct Felt {
    ms: BTreeMap<usize, Vec<f64>>,
    commits: u64,
}

/// The work of a roller.
#[derive(Debug)]
struct Rolled {
    time: Duration,
    commits: u64,
    entries: u64,
    spent: Spent,
}

/// Measures, adds the figures, and closes the stores.
pub(crate) async fn measure(stores: Stores, scale: Scale, figures: &mut Figures) {
    let window: Window = "7d".parse().unwrap();
    let mut boards = vec![];
    for number in 0..scale.of(1000, 16) {
        let slug = format!("board{number}");
        boards.push(stores.create_board(&slug, &[window]).await);
    }
    let members = (0..MEMBERS).map(|number| MemberId::new(&format!("member{number:03}")).unwrap());
    let committers = stores.deployment.store.partitions().each();
    let world = Arc::new(World {
        stores,
        boards,
        members: members.collect(),
        window,
        committers: committers.map(|_| Mutex::default()).collect(),
    });
    let begun = Instant::now();
    world.populate().await;
    println!(
        "midnight: {} boards filled in {:.1} s",
        world.boards.len(),
        begun.elapsed().as_secs_f64()
    );
    let idle_ms = scale.of(4000, 200);
    for run in 0..RUNS {
        let day = 2 * run as i64;
        let mut idle = world
            .write(async || tokio::time::sleep(Duration::from_millis(idle_ms as u64)).await)
            .await
            .0;
        world.stores.settle().await;
        let (mut beside, rolled) = world.midnight_beside_writers(day + 1).await;
        world.stores.settle().await;
        let alone = world.midnight(day + 2).await;
        world.stores.settle().await;
        for size in SIZES {
            for (name, part) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
                let what = format!("a submission of {size}, {name}");
                let mut add = |variant, felt: &mut Felt| {
                    let ms = felt.ms.entry(size).or_default();
                    figures.add(&what, "ms", variant, quantile(ms, part));
                };
                add("on their own", &mut idle);
                add("at midnight", &mut beside);
            }
        }
        figures.add(
            "submissions a second",
            "",
            "on their own",
            idle.count() / (idle_ms as f64 / 1000.0),
        );
        figures.add(
            "submissions a second",
            "",
            "at midnight",
            beside.count() / rolled.time.as_secs_f64(),
        );
        for (variant, rolled) in [("on its own", alone), ("beside writers", rolled)] {
            figures.add("the roller", "s", variant, rolled.time.as_secs_f64());
            figures.add("commits of the roller", "", variant, rolled.commits as f64);
            figures.add("entries then ready", "", variant, rolled.entries as f64);
            figures.add("Redis meanwhile", "s", variant, rolled.spent.cpu_us / 1e6);
        }
        println!("midnight: run {} done", run + 1);
    }
    let world = Arc::into_inner(world).expect("all writers have ended");
    world.stores.close().await;
}

impl World {
    /// Gives every member a score on each board, some time in the last six days.
    async fn populate(&self) {
        let now_ms = START_MS + DAY_MS / 2;
        self.stores.deployment.clock.set(now_ms);
        let mut rng = StdRng::seed_from_u64(1);
        let mut by_partition: BTreeMap<PartitionNo, Vec<Submission>> = BTreeMap::new();
        for board in &self.boards {
            let scores = by_partition.entry(self.stores.partition_of(board)).or_default();
            for member in &self.members {
                let at_ms = now_ms - rng.random_range(0..6 * DAY_MS);
                scores.push(self.stores.score(board, member, Some(at_ms)));
            }
        }
        for (partition, scores) in by_partition {
            for batch in scores.chunks(1000) {
                self.stores.submit(partition, batch.to_vec()).await;
            }
        }
        self.stores.settle().await;
        roll(&self.stores.deployment, now_ms).await.unwrap();
    }

    /// Runs the writers until something is done. Returns their latencies and its result.
    async fn write<T>(self: &Arc<Self>, until: impl AsyncFnOnce() -> T) -> (Felt, T) {
        let stop = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> =
            (0..WRITERS).map(|_| tokio::spawn(self.clone().write_until(stop.clone()))).collect();
        let done = until().await;
        stop.store(true, Ordering::Relaxed);
        let mut felt = Felt::default();
        for writer in writers {
            let one = writer.await.unwrap();
            felt.commits += one.commits;
            for (size, ms) in one.ms {
                felt.ms.entry(size).or_default().extend(ms);
            }
        }
        (felt, done)
    }

    /// One writer: one submission after another, each to a random board.
    async fn write_until(self: Arc<Self>, stop: Arc<AtomicBool>) -> Felt {
        let mut rng: StdRng = rand::make_rng();
        let mut felt = Felt::default();
        while !stop.load(Ordering::Relaxed) {
            let board = self.boards.choose(&mut rng).unwrap();
            let size = *SIZES.choose(&mut rng).unwrap();
            let players = (0..size).map(|_| self.members.choose(&mut rng).unwrap());
            let batch = players.map(|member| self.stores.score(board, member, None)).collect();
            let partition = self.stores.partition_of(board);
            let begun = Instant::now();
            let committer = self.committers[usize::from(partition.0)].lock().await;
            let submitted = self.stores.submit(partition, batch).await;
            drop(committer);
            let ms = begun.elapsed().as_secs_f64() * 1000.0;
            felt.ms.entry(size).or_default().push(ms);
            felt.commits += u64::from(submitted.commit.is_some());
        }
        felt
    }

    /// Begins a day, at which the roller moves all boards on beside writers.
    async fn midnight_beside_writers(self: &Arc<Self>, day: i64) -> (Felt, Rolled) {
        let before = self.stores.commits().await;
        let world = self.clone();
        let rolling = async || tokio::spawn(async move { world.begin_day(day).await }).await;
        let (felt, rolled) = self.write(rolling).await;
        let rolled = self.rolled(day, before + felt.commits, rolled.unwrap()).await;
        (felt, rolled)
    }

    /// Begins a day, at which the roller moves all boards on.
    async fn midnight(&self, day: i64) -> Rolled {
        let before = self.stores.commits().await;
        let rolled = self.begin_day(day).await;
        self.rolled(day, before, rolled).await
    }

    /// Moves all boards on. Returns how long that took, and what Redis spent in that time.
    async fn begin_day(&self, day: i64) -> (Duration, Spent) {
        let Stores { deployment, .. } = &self.stores;
        let spent = self.stores.spent().await;
        let now_ms = START_MS + day * DAY_MS;
        deployment.clock.set(now_ms);
        let begun = Instant::now();
        let boards = roll(deployment, now_ms).await.unwrap();
        let time = begun.elapsed();
        assert_eq!(boards, self.boards.len(), "all were moved on");
        (time, self.stores.spent().await.since(spent))
    }

    /// The work of the roller, if `not_its` of all commits are not its own.
    async fn rolled(&self, day: i64, not_its: u64, (time, spent): (Duration, Spent)) -> Rolled {
        Rolled {
            time,
            commits: self.stores.commits().await - not_its,
            entries: self.ready(START_MS + (day + 1) * DAY_MS).await,
            spent,
        }
    }

    /// The number of entries, on all boards, of the period present at an instant.
    async fn ready(&self, at_ms: i64) -> u64 {
        let mut entries = 0;
        for board in &self.boards {
            let period = self.window.period_at(at_ms, &board.rules.calendar).unwrap();
            let id = StandingsId::of(board, "", self.window, &period);
            let partition = self.stores.partition_of(board);
            let size = self.stores.deployment.store.shard_size(partition, &id).await;
            entries += size.unwrap();
        }
        entries
    }
}

impl Felt {
    fn count(&self) -> f64 {
        self.ms.values().map(Vec::len).sum::<usize>() as f64
    }
}
