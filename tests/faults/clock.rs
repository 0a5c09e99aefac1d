//! Clocks that are wrong while events are sent through several processes.

use rand::RngExt;
use rand::rngs::StdRng;
use tests::clock::now_ms;
use tests::trial::fake_clock::FakeClock;
use tests::trial::world::{Clocks, Shape, World};
use tests::wait::until;
use tokio::time::sleep;

use crate::fault::{Fault, Inject, Loses, Part, Refuses};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// How far a clock is ahead, in seconds.
const HOURS: [i64; 4] = [-HOUR, HOUR, -2 * HOUR, 23 * HOUR];
const DAYS: [i64; 4] = [-2 * DAY, -DAY, DAY, 2 * DAY];

const fn fault(name: &'static str, does: &'static str, part: Part, inject: Inject) -> Fault {
    let shape = Shape { clocks: Clocks::Own, ..Shape::SQLITE };
    Fault { name, does, shape, loses: Loses::Nothing, refuses: Refuses::Any, part, inject }
}

pub(crate) const FAULTS: &[Fault] = &[
    fault(
        "hours_apart",
        "the clock of one process is hours ahead or behind",
        Part::Whole,
        |world, rng| Box::pin(set_one(world, rng, &HOURS)),
    ),
    fault(
        "days_apart",
        "the clock of one process is one or two days ahead or behind",
        Part::Short,
        |world, rng| Box::pin(set_one(world, rng, &DAYS)),
    ),
    fault(
        "redis_clock",
        "the clock of Redis steps back and forth by up to a day",
        Part::Whole,
        |world, rng| Box::pin(set_redis(world, rng)),
    ),
    Fault {
        name: "midnight",
        does: "all clocks pass midnight under load",
        shape: Shape { clocks: Clocks::BeforeMidnight, ..Shape::SQLITE },
        loses: Loses::Nothing,
        refuses: Refuses::Any,
        part: Part::Whole,
        inject: |world, _| Box::pin(pass_midnight(world)),
    },
];

async fn set_one(world: &mut World, rng: &mut StdRng, ahead: &[i64]) {
    let number = rng.random_range(0..world.apis.len());
    world.clocks[number].set(ahead[rng.random_range(0..ahead.len())]);
    sleep(world.duration(rng)).await;
    world.clocks[number].set(0);
}

async fn set_redis(world: &mut World, rng: &mut StdRng) {
    let clock = world.clocks.last().expect("its world has clocks");
    for _ in 0..3 {
        clock.set(rng.random_range(-DAY..=DAY));
        sleep(world.duration(rng) / 3).await;
    }
    clock.set(0);
}

/// Waits until all clocks have passed midnight, and puts them right.
async fn pass_midnight(world: &mut World) {
    let day = |clock: &FakeClock| (now_ms() / 1000 + clock.ahead_seconds()).div_euclid(DAY);
    let today = now_ms() / 1000 / DAY;
    until("midnight has passed", async || {
        world.clocks.iter().all(|clock| day(clock) == today).then_some(())
    })
    .await;
    sleep(world.lasts).await;
    world.clocks.iter().for_each(|clock| clock.set(0));
}
