//! The cost of a submission, by the windows of its board.
//!
//! Boards that are compared have the same members and get the same events. On each simulated day
//! before the measurement, a seventh of the members play and the windows roll. So windows are full
//! when they are measured, and rolling ones hold all members. Each run is on its own day.

use std::time::{Duration, Instant};

use engine::roll::roll_board;
use rand::prelude::*;
use ranking::board::Board;
use ranking::id::MemberId;
use ranking::submission::Submission;

use crate::figures::Figures;
use crate::stores::Stores;
use crate::{RUNS, Scale};

const DAY_MS: i64 = 86_400_000;

/// 2026-01-01, in Unix milliseconds.
const START_MS: i64 = 1_767_225_600_000;

/// Days of play before the measurement: the longest window, and one day more.
const DAYS: i64 = 91;

/// Events of a submission.
const BATCH: usize = 100;

/// Submissions of a variant's turn.
const TURN: usize = 20;

/// Each board's name, windows, number of members, and first day of play, which leaves at least its
/// longest window.
const VARIANTS: [(&str, &[&str], usize, i64); 4] = [
    ("daily", &["daily"], 10_000, 60),
    ("daily + 7d + 30d", &["daily", "7d", "30d"], 10_000, 60),
    ("7d", &["7d"], 2000, 0),
    ("90d", &["90d"], 2000, 0),
];

/// The pairs that are compared, as indices into [`VARIANTS`]; the first of a pair is the peer.
const COMPARED: [[usize; 2]; 2] = [[0, 1], [2, 3]];

/// The cost of a variant's submissions in one run.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    time: Duration,
    scripts_us: f64,
}

/// Measures and adds the figures.
pub(crate) async fn measure(stores: &Stores, scale: Scale, figures: &mut Figures) {
    let counts = VARIANTS.map(|(_, _, members, _)| scale.of(members, 100));
    let most = counts.into_iter().max().unwrap();
    let members: Vec<MemberId> =
        (0..most).map(|number| MemberId::new(&format!("member{number:06}")).unwrap()).collect();
    let turns = scale.of(10, 1);
    let mut boards = vec![];
    for (name, windows, ..) in VARIANTS {
        let windows: Vec<_> = windows.iter().map(|name| name.parse().unwrap()).collect();
        let slug = name.replace(" + ", "-");
        boards.push(stores.create_board(&slug, &windows).await);
    }
    let begun = Instant::now();
    for day in 0..DAYS {
        begin_day(stores, &boards, day).await;
        let played = boards.iter().zip(counts).zip(VARIANTS);
        for ((board, count), _) in played.filter(|(_, (.., since))| day >= *since) {
            let todays = members[..count].iter().skip(day as usize % 7).step_by(7);
            let todays: Vec<&MemberId> = todays.collect();
            for some in todays.chunks(1000) {
                submit(stores, board, some).await;
            }
        }
    }
    stores.settle().await;
    println!("cost: {DAYS} days passed in {:.1} s", begun.elapsed().as_secs_f64());
    for run in 0..RUNS {
        let day = DAYS + run as i64;
        begin_day(stores, &boards, day).await;
        let costs = play(stores, &boards, counts, &members, turns, day).await;
        stores.settle().await;
        let events = (turns * TURN * BATCH) as f64;
        for place in COMPARED.into_iter().flatten() {
            let (name, cost) = (VARIANTS[place].0, costs[place]);
            let windows = if place < 2 { "by windows" } else { "by N" };
            let us = cost.time.as_secs_f64() * 1e6;
            figures.add(&format!("a submission {windows}"), "µs an event", name, us / events);
            let scripts_us = cost.scripts_us / events;
            figures.add(&format!("of it in Redis {windows}"), "µs an event", name, scripts_us);
        }
        println!("cost: run {} done", run + 1);
    }
}

/// Begins a day, and rolls the windows of all boards.
async fn begin_day(stores: &Stores, boards: &[Board], day: i64) {
    let now_ms = START_MS + day * DAY_MS;
    stores.deployment.clock.set(now_ms);
    for board in boards {
        roll_board(&stores.deployment, board, now_ms).await.unwrap();
    }
}

/// One run: every variant gets the same members' events, in turns.
async fn play(
    stores: &Stores,
    boards: &[Board],
    counts: [usize; VARIANTS.len()],
    members: &[MemberId],
    turns: usize,
    day: i64,
) -> Vec<Cost> {
    let mut costs = vec![Cost::default(); boards.len()];
    let mut rng = StdRng::seed_from_u64(day as u64);
    for turn in 0..turns {
        let now_ms = START_MS + day * DAY_MS + (1 + turn as i64) * 60_000;
        stores.deployment.clock.set(now_ms);
        let drawn: Vec<usize> =
            (0..TURN * BATCH).map(|_| rng.random_range(0..members.len())).collect();
        for place in 0..boards.len() {
            // No variant is always first.
            let place = (place + turn) % boards.len();
            let players: Vec<&MemberId> =
                drawn.iter().map(|player| &members[player % counts[place]]).collect();
            let before = stores.spent().await;
            for some in players.chunks(BATCH) {
                costs[place].time += submit(stores, &boards[place], some).await;
            }
            costs[place].scripts_us += stores.spent().await.since(before).scripts_us;
        }
    }
    costs
}

/// Submits one event of each member, on time. Returns how long it took.
async fn submit(stores: &Stores, board: &Board, members: &[&MemberId]) -> Duration {
    let batch: Vec<Submission> =
        members.iter().map(|member| stores.score(board, member, None)).collect();
    let partition = stores.partition_of(board);
    let begun = Instant::now();
    let submitted = stores.submit(partition, batch).await;
    let took = begun.elapsed();
    assert!(submitted.commit.is_some(), "all were accepted");
    took
}
