//! A database that is away, stalls, refuses writes, or is locked.

use std::time::{Duration, Instant};

use entity::sql::begin;
use rand::RngExt;
use rand::rngs::StdRng;
use sea_orm::{ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend};
use tests::trial::world::{Shape, World};
use tests::wait::until;
use tokio::time::sleep;

use crate::fault::{Fault, Loses, Part, Refuses};

pub(crate) const FAULTS: &[Fault] = &[
    Fault::harmless(
        "absent_postgres",
        "PostgreSQL stopped in order, and started again later",
        Part::Short,
        |world, rng| Box::pin(stop(world, rng, How::Order)),
    ),
    Fault::harmless(
        "killed_postgres",
        "PostgreSQL stopped as by a crash, and started again",
        Part::Soak,
        |world, rng| Box::pin(stop(world, rng, How::Crash)),
    ),
    Fault::harmless(
        "stopped_postgres",
        "SIGSTOP of all of PostgreSQL",
        Part::Soak,
        |world, rng| Box::pin(stall(world, rng)),
    ),
    Fault::harmless(
        "ended_sessions",
        "`pg_terminate_backend` of all sessions, again and again",
        Part::Soak,
        |world, rng| Box::pin(end_sessions(world, rng)),
    ),
    Fault::harmless(
        "read_only_postgres",
        "PostgreSQL takes no writes, as a standby does",
        Part::Soak,
        |world, rng| Box::pin(refuse_writes(world, rng)),
    ),
    Fault::harmless(
        "locked_tables",
        "a session of another program locks the rows of `log_cursor` and the table `standing`",
        Part::Soak,
        |world, rng| Box::pin(lock_tables(world, rng)),
    ),
    Fault::harmless(
        "deadlock",
        "another program takes locks against the order of the persister, again and again",
        Part::Soak,
        |world, rng| Box::pin(lock_in_turns(world, rng)),
    ),
    Fault {
        name: "locked_sqlite",
        does: "another program holds the write lock of SQLite",
        shape: Shape::SQLITE,
        loses: Loses::Nothing,
        refuses: Refuses::Nothing,
        part: Part::Whole,
        inject: |world, rng| Box::pin(lock_sqlite(world, rng)),
    },
    Fault {
        name: "full_log",
        does: "PostgreSQL away until the log may hold no more; writes are refused then",
        shape: Shape { settings: &[("LAUREL_LOG_COMMITS_MAX", "20")], ..Shape::POSTGRES },
        loses: Loses::Nothing,
        refuses: Refuses::Any,
        part: Part::Whole,
        inject: |world, _| Box::pin(fill_log(world)),
    },
];

/// The way in which the server stops.
#[derive(Clone, Copy)]
enum How {
    Order,
    Crash,
}

async fn stop(world: &mut World, rng: &mut StdRng, how: How) {
    match how {
        How::Order => world.sql().stop(),
        How::Crash => world.sql().kill(),
    }
    sleep(world.duration(rng)).await;
    world.sql().launch();
}

async fn stall(world: &mut World, rng: &mut StdRng) {
    world.sql().signal_all("STOP");
    sleep(world.duration(rng)).await;
    world.sql().signal_all("CONT");
}

async fn run(db: &DatabaseConnection, sql: &str) {
    db.execute_unprepared(sql).await.unwrap();
}

const END_OTHERS: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
    WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'";

async fn end_sessions(world: &mut World, rng: &mut StdRng) {
    let db = world.deployment.sql().await;
    let end = Instant::now() + world.duration(rng);
    while Instant::now() < end {
        run(&db, END_OTHERS).await;
        sleep(Duration::from_millis(rng.random_range(10..700))).await;
    }
    db.close().await.unwrap();
}

async fn refuse_writes(world: &mut World, rng: &mut StdRng) {
    let db = world.deployment.sql().await;
    run(&db, "ALTER DATABASE postgres SET default_transaction_read_only = on").await;
    run(&db, END_OTHERS).await;
    sleep(world.duration(rng)).await;
    // In a transaction of its own kind, as a connection forgets what was set when it is given back.
    let writable = "ALTER DATABASE postgres SET default_transaction_read_only = off";
    run(&db, &format!("BEGIN READ WRITE; {writable}; COMMIT")).await;
    run(&db, END_OTHERS).await;
    db.close().await.unwrap();
}

/// Locks all standings. MariaDB's lock of a table would end the transaction.
async fn lock_standings(transaction: &DatabaseTransaction) {
    let lock = match transaction.get_database_backend() {
        DbBackend::MySql => "SELECT score FROM standing FOR UPDATE",
        _ => "LOCK TABLE standing IN EXCLUSIVE MODE",
    };
    transaction.execute_unprepared(lock).await.unwrap();
}

async fn lock_tables(world: &mut World, rng: &mut StdRng) {
    let db = world.deployment.sql().await;
    let transaction = begin(&db).await.unwrap();
    lock_standings(&transaction).await;
    sleep(world.duration(rng)).await;
    transaction.rollback().await.unwrap();
    let transaction = begin(&db).await.unwrap();
    transaction.execute_unprepared("SELECT * FROM log_cursor FOR UPDATE").await.unwrap();
    sleep(world.duration(rng)).await;
    transaction.rollback().await.unwrap();
    db.close().await.unwrap();
}

/// The persister has its cursor first and the rows of standings last. One of the two is ended for a
/// deadlock, and either may be.
async fn lock_in_turns(world: &mut World, rng: &mut StdRng) {
    let db = world.deployment.sql().await;
    let end = Instant::now() + world.duration(rng);
    while Instant::now() < end {
        let transaction = begin(&db).await.unwrap();
        lock_standings(&transaction).await;
        // Persisters come as far as their cursors.
        sleep(Duration::from_millis(rng.random_range(50..400))).await;
        let _ = transaction.execute_unprepared("SELECT * FROM log_cursor FOR UPDATE").await;
        transaction.rollback().await.unwrap();
        sleep(Duration::from_millis(rng.random_range(0..300))).await;
    }
    db.close().await.unwrap();
}

async fn lock_sqlite(world: &mut World, rng: &mut StdRng) {
    let db = world.deployment.sql().await;
    let transaction =
        until("the write lock of SQLite is free", async || begin(&db).await.ok()).await;
    sleep(world.duration(rng)).await;
    transaction.rollback().await.unwrap();
    db.close().await.unwrap();
}

async fn fill_log(world: &mut World) {
    world.sql().stop();
    // Until each board is refused: the log of each of its partitions is full.
    until("the log is full", async || {
        let records = world.load.records();
        let last = &records[records.len().saturating_sub(200)..];
        let refused = tests::trial::load::State::Refused;
        let count = last.iter().filter(|record| record.state == refused).count();
        (records.len() > 400 && count > 150).then_some(())
    })
    .await;
    world.sql().launch();
}
