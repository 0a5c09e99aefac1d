//! SQL away for minutes, beside a steady load: no score is refused, answers take no longer than
//! before, and SQL has everything soon after.

use std::time::{Duration, Instant};

use tests::trial::load::steady::Phase;
use tests::trial::world::{Shape, World};
use tokio::task::block_in_place;
use tokio::time::sleep;

use crate::fault::{Fault, Loses, Part, Refuses};
use crate::settings::away;

/// The requests of a second, a score each.
const A_SECOND: u32 = 500;

/// The time before SQL goes away, and after it has caught up.
const BESIDE: Duration = Duration::from_secs(30);

/// The pause between two looks for what SQL has.
const PAUSE: Duration = Duration::from_millis(250);

/// The phases, in order.
const PHASES: [&str; 4] = ["before", "away", "catching up", "after"];

const EVENTS: &str = "SELECT CAST(COUNT(*) AS BIGINT) FROM score_event";

pub(crate) const FAULTS: &[Fault] = &[Fault {
    name: "ten_minutes_without_postgres",
    does: "PostgreSQL away for ten minutes, beside 500 submissions a second",
    shape: Shape::POSTGRES,
    loses: Loses::Nothing,
    refuses: Refuses::Nothing,
    part: Part::Named,
    inject: |world, _| Box::pin(stay_away(world)),
}];

async fn stay_away(world: &mut World) {
    world.load.stop().await;
    let steady = world.load.steady(A_SECOND);
    sleep(BESIDE).await;
    steady.next_phase();
    block_in_place(|| world.postgres().stop());
    sleep(away()).await;
    block_in_place(|| world.postgres().launch());
    steady.next_phase();
    let caught_up = catch_up(world).await;
    steady.next_phase();
    sleep(BESIDE).await;
    let phases = steady.stop().await;
    world.load.start();
    say(&phases, caught_up);
}

/// Waits until SQL has all that was confirmed a moment ago; the time that took.
async fn catch_up(world: &World) -> Duration {
    let (began, longest) = (Instant::now(), away() + Duration::from_secs(120));
    loop {
        let confirmed =
            world.load.records().iter().filter(|record| record.state.is_confirmed()).count();
        sleep(PAUSE).await;
        let persisted = world.deployment.number(EVENTS).await;
        if usize::try_from(persisted).unwrap() >= confirmed {
            return began.elapsed();
        }
        assert!(began.elapsed() < longest, "SQL has {persisted} of {confirmed} events");
    }
}

fn say(phases: &[Phase], caught_up: Duration) {
    println!("{A_SECOND} submissions a second, PostgreSQL away for {} s", away().as_secs());
    println!("phase          sent   refused  unknown   p50 ms   p99 ms   max ms");
    for (name, phase) in PHASES.iter().zip(phases) {
        let ms = |part: f64| phase.quantile(part).as_secs_f64() * 1000.0;
        println!(
            "{name:<12} {:>6} {:>9} {:>8} {:>8.1} {:>8.1} {:>8.1}",
            phase.times.len(),
            phase.refused,
            phase.unknown,
            ms(0.5),
            ms(0.99),
            ms(1.0),
        );
    }
    println!("SQL had caught up {:.1} s after it was back", caught_up.as_secs_f64());
}
