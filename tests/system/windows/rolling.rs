//! Rolling windows over months of simulated time, compared with all events: the clock jumps, rolls
//! and seals run, are missed and are cut off anywhere, events come late, members are removed, and
//! Redis is emptied.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::deployment::Deployment as Stores;
use engine::seal::seal;
use rand::prelude::*;
use ranking::board::Policy;
use ranking::board::rules::{Rules, RulesInput};
use ranking::id::PartitionNo;
use ranking::window::Window;

use tests::boards::rolling::{Reported, World, pick, stores};
use tests::clock::DAY_MS;
use tests::deployment::{Deployment, Redis, Sql};
use tests::model::game::seeded;

const HOUR_MS: i64 = DAY_MS / 24;

/// Zones, and an instant some days before their clocks change.
const ZONES: [(&str, &str); 6] = [
    ("America/St_Johns", "2010-11-01T00:00:00Z"),
    ("Asia/Kathmandu", "2025-02-20T00:00:00Z"),
    ("Pacific/Apia", "2011-12-20T00:00:00Z"),
    ("Australia/Lord_Howe", "2025-03-28T00:00:00Z"),
    ("Europe/London", "2025-10-20T00:00:00Z"),
    ("UTC", "1970-01-01T00:00:00Z"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_windows_equal_all_their_events_at_every_step() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let stores = stores(&deployment, 2).await;
    let mut rng = seeded();
    for (case, (zone, start)) in ZONES.into_iter().chain(ZONES).enumerate() {
        let start_ms = start.parse::<jiff::Timestamp>().unwrap().as_millisecond();
        let mut world = World::new(&stores, &mut rng, &format!("b{case}"), zone).await;
        let mut now_ms = start_ms + rng.random_range(0..DAY_MS);
        for _ in 0..40 {
            let window = pick(&mut rng, &world.board.rules.windows);
            let period = window.period_at(now_ms, &world.board.rules.calendar).unwrap();
            now_ms = match (rng.random_range(0..10), period.end_ms) {
                (0..3, Some(end_ms)) if end_ms - now_ms < 40 * DAY_MS => end_ms,
                (3..5, Some(end_ms)) if end_ms - now_ms < 40 * DAY_MS => now_ms.max(end_ms - 1),
                (5, _) => now_ms + rng.random_range(0..20 * DAY_MS),
                (6..8, _) => now_ms + rng.random_range(0..2 * DAY_MS),
                _ => now_ms + rng.random_range(0..DAY_MS / 8),
            };
            stores.clock.set(now_ms);
            match rng.random_range(0..15) {
                0..7 => world.play(&mut rng, now_ms).await,
                7..10 => world.roll(&mut rng, now_ms).await,
                10 => world.take_back(&mut rng).await,
                11..13 => world.seal(&mut rng, now_ms).await,
                13 => world.change_windows(&mut rng, now_ms).await,
                _ if rng.random_bool(0.3) => world.lose_redis().await,
                _ => {}
            }
            world.check(now_ms).await;
        }
        // Every period that was checked before, and those in between.
        let rules = world.board.rules.clone();
        for _ in 0..5 {
            let at_ms = rng.random_range((start_ms - 70 * DAY_MS).max(0)..=now_ms);
            world.check(at_ms).await;
            let window = pick(&mut rng, &rules.windows);
            let period = window.period_at(at_ms, &rules.calendar).unwrap();
            world.check(period.present_from_ms).await;
        }
    }
}

/// A board of sums whose hours leave Redis at once, on stores of its own.
async fn board_of_hours(rolling: &str) -> (Arc<Deployment>, Stores, World) {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let stores = stores(&deployment, 1).await;
    let windows = vec![Window::Hourly, rolling.parse().unwrap()];
    let input = RulesInput { policy: Policy::Sum, max: 60, windows, ..Default::default() };
    let rules = Rules::new(input).unwrap();
    let retained = BTreeMap::from([(Window::Hourly, Some(0))]);
    let world = World::of(&stores, "b", "UTC", &rules, &retained).await;
    (deployment, stores, world)
}

/// Seals until nothing is due any more.
async fn seal_all(world: &mut World, stores: &Stores, now_ms: i64) {
    while seal(stores, now_ms).await.unwrap().windows > 0 {}
    world.read_board().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_late_to_a_board_of_which_nobody_has_a_score_leaves_in_time() {
    let (_deployment, stores, mut world) = board_of_hours("24h").await;
    let start_ms = 10 * DAY_MS;
    stores.clock.set(start_ms);
    seal_all(&mut world, &stores, start_ms).await;
    let at_ms = Some(start_ms - 12 * HOUR_MS);
    // The first scores of all, and the first of a segment.
    for segments in [&[][..], &["region:eu"]] {
        world.submit(&[Reported { member: "a", score: 5, at_ms, segments }], start_ms).await;
        // The sum of this one and what is left says when the first one leaves.
        let present = Reported { member: "a", score: 1, at_ms: None, segments };
        world.submit(&[present], start_ms).await;
    }
    for hours in 0..30 {
        let now_ms = start_ms + hours * HOUR_MS;
        stores.clock.set(now_ms);
        seal_all(&mut world, &stores, now_ms).await;
        world.check(now_ms).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_window_is_made_of_periods_that_are_sealed() {
    let (_deployment, stores, mut world) = board_of_hours("3h").await;
    let start_ms = 10 * DAY_MS;
    for hours in 0..40 {
        let now_ms = start_ms + hours * HOUR_MS;
        stores.clock.set(now_ms);
        if hours == 12 {
            let names = ["hourly", "3h", "24h"].map(|name| (name.parse().unwrap(), None));
            world.set_windows(&BTreeMap::from(names), now_ms).await;
        }
        world.submit(&[Reported { member: "a", score: 1, ..Default::default() }], now_ms).await;
        seal_all(&mut world, &stores, now_ms).await;
        world.check(now_ms).await;
    }
    let hourly = world.board.sealed(Window::Hourly);
    assert!(hourly.sealed_before_ms > start_ms, "the hours leave Redis again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_score_waits_for_the_present_period_and_not_for_the_one_after_it() {
    let (_deployment, stores, mut world) = board_of_hours("3h").await;
    let start_ms = 10 * DAY_MS;
    for (member, hours) in [("a", 0), ("m", 2), ("b", 4)] {
        let now_ms = start_ms + hours * HOUR_MS;
        stores.clock.set(now_ms);
        world.submit(&[Reported { member, score: 1, ..Default::default() }], now_ms).await;
        let (_, marks) = stores.store.rolls(PartitionNo(0), world.board.no).await.unwrap();
        let prepared = marks.values().filter(|mark| mark.is_ready).count();
        // All members would be walked for it.
        assert!(hours == 0 || prepared == 0, "{marks:?}");
        world.check(now_ms).await;
    }
}
