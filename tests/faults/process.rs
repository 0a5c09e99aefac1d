//! Processes of the server that are killed, stalled or asked to stop under load.

use rand::RngExt;
use rand::rngs::StdRng;
use tests::servers::program::signal;
use tests::trial::world::{Shape, World};
use tests::wait::until;
use tokio::time::sleep;

use crate::fault::{Fault, Loses, Part, Refuses};

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "killed_process",
        does: "SIGKILL of one process of several",
        shape: Shape::POSTGRES,
        loses: Loses::Nothing,
        refuses: Refuses::Any,
        part: Part::Short,
        inject: |world, rng| Box::pin(kill_one(world, rng)),
    },
    Fault {
        name: "killed_processes",
        does: "SIGKILL of all processes at once",
        shape: Shape::SQLITE,
        loses: Loses::Nothing,
        refuses: Refuses::Any,
        part: Part::Soak,
        inject: |world, _| Box::pin(kill_all(world)),
    },
    Fault {
        name: "stopped_process",
        does: "SIGSTOP of one process, which goes on later as if nothing had been",
        shape: Shape::POSTGRES,
        loses: Loses::Nothing,
        refuses: Refuses::Any,
        part: Part::Soak,
        inject: |world, rng| Box::pin(stop_one(world, rng)),
    },
    Fault {
        name: "rolling_restart",
        does: "SIGTERM of one process after the other; each has to end within a minute",
        shape: Shape::SQLITE,
        loses: Loses::Nothing,
        refuses: Refuses::Any,
        part: Part::Soak,
        inject: |world, _| Box::pin(restart_each(world)),
    },
    Fault {
        name: "killed_rebuild",
        does: "`rebuild` of each board beside writers, killed at a random step, then run to its end",
        shape: Shape::SQLITE,
        loses: Loses::Nothing,
        refuses: Refuses::Any,
        part: Part::Whole,
        inject: |world, rng| Box::pin(kill_rebuild(world, rng)),
    },
];

/// The steps of a rebuild at which a debug build ends itself; a release build runs to its end.
const REBUILD_STEPS: [&str; 5] =
    ["history-read", "rows-written", "staged", "standings-put", "standings-loaded"];

async fn kill_one(world: &mut World, rng: &mut StdRng) {
    let number = rng.random_range(0..world.apis.len());
    signal("KILL", world.apis[number].pid());
    // The others go on alone for a while.
    sleep(world.duration(rng) / 4).await;
    world.start_again(number).await;
}

/// Kills all processes at once, and starts others in their places.
pub(crate) async fn kill_all(world: &mut World) {
    world.pids().into_iter().for_each(|pid| signal("KILL", pid));
    for number in 0..world.apis.len() {
        world.start_again(number).await;
    }
}

async fn stop_one(world: &mut World, rng: &mut StdRng) {
    let pid = world.apis[rng.random_range(0..world.apis.len())].pid();
    signal("STOP", pid);
    sleep(world.duration(rng)).await;
    signal("CONT", pid);
}

async fn restart_each(world: &mut World) {
    for number in 0..world.apis.len() {
        let pid = world.apis[number].pid();
        signal("TERM", pid);
        until("a process that was asked to stop has ended", async || has_ended(pid).then_some(()))
            .await;
        world.start_again(number).await;
    }
}

/// True if a child is gone, or only waits for its exit status to be read.
fn has_ended(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return true;
    };
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'))
}

async fn kill_rebuild(world: &mut World, rng: &mut StdRng) {
    let step = REBUILD_STEPS[rng.random_range(0..REBUILD_STEPS.len())];
    let slugs: Vec<String> = world.load.boards().iter().map(|board| board.slug.clone()).collect();
    for slug in slugs {
        for crash_at in [Some(step), None] {
            let mut command = world.deployment.analytics_command(&["rebuild", "--board", &slug]);
            if let Some(step) = crash_at {
                command.env("CRASH_AT", step);
            }
            let output = tokio::task::spawn_blocking(move || command.output().unwrap());
            let output = output.await.unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(crash_at.is_some() || output.status.success(), "rebuild {slug}: {error}");
        }
    }
}
