//! A database whose disk is full, or that was restored from an older backup.

use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use tests::servers::program::signal;
use tests::trial::world::{Shape, SmallDiskOf, World};
use tokio::time::sleep;

use crate::fault::{Fault, Loses, Part, Refuses};
use crate::process::kill_all;

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "full_sqlite_disk",
        does: "SQLite's disk is full for a while; later a SIGKILL of all processes",
        shape: Shape { small_disk: SmallDiskOf::Sql, ..Shape::SQLITE },
        loses: Loses::Nothing,
        refuses: Refuses::Nothing,
        part: Part::Short,
        inject: |world, rng| Box::pin(fill_sqlite_disk(world, rng)),
    },
    Fault {
        name: "full_postgres_disk",
        does: "PostgreSQL's disk is full for a while",
        shape: Shape { small_disk: SmallDiskOf::Sql, ..Shape::POSTGRES },
        loses: Loses::Nothing,
        refuses: Refuses::Nothing,
        part: Part::Whole,
        inject: |world, rng| Box::pin(fill_postgres_disk(world, rng)),
    },
    Fault {
        name: "old_postgres",
        does: "PostgreSQL restored from a backup that is seconds old",
        shape: Shape::POSTGRES,
        loses: Loses::Nothing,
        refuses: Refuses::Any,
        part: Part::Whole,
        inject: |world, rng| Box::pin(restore_postgres(world, rng)),
    },
    Fault {
        name: "old_sqlite",
        does: "all processes stopped, and SQLite restored from a copy that is seconds old",
        shape: Shape::SQLITE,
        loses: Loses::Nothing,
        refuses: Refuses::Any,
        part: Part::Whole,
        inject: |world, rng| Box::pin(restore_sqlite(world, rng)),
    },
];

async fn fill_sqlite_disk(world: &mut World, rng: &mut StdRng) {
    world.fill_disk(&world.pids(), rng).await;
    // All that is confirmed from here on has to outlive the processes.
    sleep(world.duration(rng)).await;
    kill_all(world).await;
}

async fn fill_postgres_disk(world: &mut World, rng: &mut StdRng) {
    world.fill_disk(&[], rng).await;
    world.postgres().revive();
}

async fn restore_postgres(world: &mut World, rng: &mut StdRng) {
    world.postgres().back_up();
    sleep(world.duration(rng)).await;
    world.postgres().restore();
}

async fn restore_sqlite(world: &mut World, rng: &mut StdRng) {
    let file = world.path("sql/test.sqlite");
    let copy = world.path("old.sqlite");
    let _ = std::fs::remove_file(&copy);
    let db = world.deployment.sql().await;
    let statement = format!("VACUUM INTO '{}'", copy.display());
    sea_orm::ConnectionTrait::execute_unprepared(&db, &statement).await.unwrap();
    db.close().await.unwrap();
    sleep(world.duration(rng)).await;
    world.pids().into_iter().for_each(|pid| signal("KILL", pid));
    for ending in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(with_ending(&file, ending));
    }
    std::fs::rename(&copy, &file).unwrap();
    for number in 0..world.apis.len() {
        world.start_again(number).await;
    }
}

fn with_ending(file: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", file.display()))
}
