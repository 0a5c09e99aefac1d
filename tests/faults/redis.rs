//! A Redis that stalls, restarts, refuses, or is replaced by its replica.

use std::time::{Duration, Instant};

use rand::RngExt;
use rand::rngs::StdRng;
use tests::trial::world::{RedisServers, Shape, SmallDiskOf, World};
use tests::wait::{until, until_blocking};
use tokio::time::sleep;

use crate::fault::{Fault, Loses, Part, Refuses};

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "killed_redis",
        does: "SIGKILL of Redis, and a restart with its files",
        shape: Shape::POSTGRES,
        // Redis postpones a write while the disk is behind.
        loses: Loses::WithRedis,
        refuses: Refuses::Any,
        part: Part::Short,
        inject: |world, rng| Box::pin(kill(world, rng)),
    },
    Fault {
        name: "stopped_redis",
        does: "SIGSTOP of Redis",
        shape: Shape::POSTGRES,
        loses: Loses::Nothing,
        refuses: Refuses::Any,
        part: Part::Soak,
        inject: |world, rng| Box::pin(stop(world, rng)),
    },
    Fault {
        name: "loading_redis",
        does: "a restart of Redis that loads its data for seconds and says LOADING",
        shape: Shape::SQLITE,
        loses: Loses::WithRedis,
        refuses: Refuses::Any,
        part: Part::Soak,
        inject: |world, rng| Box::pin(load_slowly(world, rng)),
    },
    Fault {
        name: "forgotten_scripts",
        does: "SCRIPT FLUSH again and again",
        shape: Shape::SQLITE,
        loses: Loses::Nothing,
        refuses: Refuses::Any,
        part: Part::Soak,
        inject: |world, rng| Box::pin(forget_scripts(world, rng)),
    },
    Fault {
        name: "full_redis",
        does: "Redis out of memory while it runs",
        shape: Shape::SQLITE,
        loses: Loses::Nothing,
        refuses: Refuses::Any,
        part: Part::Short,
        inject: |world, rng| Box::pin(fill_memory(world, rng)),
    },
    Fault {
        name: "restarted_full_redis",
        does: "Redis restarted out of memory, with all its data; reads have to go on",
        shape: Shape::SQLITE,
        loses: Loses::WithRedis,
        refuses: Refuses::Any,
        part: Part::Whole,
        inject: |world, rng| Box::pin(restart_full(world, rng)),
    },
    Fault {
        name: "full_redis_disk",
        does: "the disk of the append-only file is full for a while",
        shape: Shape { small_disk: SmallDiskOf::Redis, ..Shape::SQLITE },
        loses: Loses::WithRedis,
        refuses: Refuses::Any,
        part: Part::Whole,
        inject: |world, rng| Box::pin(fill_disk(world, rng)),
    },
    Fault {
        name: "planned_failover",
        does: "a replica in step takes over from its master, and back",
        shape: Shape { redis: RedisServers::WithReplica, ..Shape::POSTGRES },
        loses: Loses::WithRedis,
        refuses: Refuses::Any,
        part: Part::Whole,
        inject: |world, rng| Box::pin(fail_over(world, rng, Replica::InStep)),
    },
    Fault {
        name: "lagging_failover",
        does: "a replica that is seconds behind takes over from its master, and back",
        shape: Shape { redis: RedisServers::WithReplica, ..Shape::POSTGRES },
        loses: Loses::WithRedis,
        refuses: Refuses::Any,
        part: Part::Short,
        inject: |world, rng| Box::pin(fail_over(world, rng, Replica::Behind)),
    },
];

/// A replica's state when it takes over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Replica {
    InStep,
    Behind,
}

async fn kill(world: &mut World, rng: &mut StdRng) {
    world.redis[0].kill();
    sleep(world.duration(rng) / 4).await;
    world.redis[0].launch();
}

async fn stop(world: &mut World, rng: &mut StdRng) {
    world.redis[0].signal("STOP");
    sleep(world.duration(rng)).await;
    world.redis[0].signal("CONT");
}

async fn load_slowly(world: &mut World, rng: &mut StdRng) {
    let duration = world.duration(rng);
    let redis = &mut world.redis[0];
    redis.kill();
    // Each key or command of its files takes so many microseconds more, and clients are told.
    redis.spawn(&["--key-load-delay", "500", "--loading-process-events-interval-bytes", "1024"]);
    sleep(duration).await;
    until_blocking("redis-server loads at its own speed", || {
        redis.try_ask::<()>(&["CONFIG", "SET", "key-load-delay", "0"])
    });
    redis.wait_until_loaded();
}

async fn forget_scripts(world: &mut World, rng: &mut StdRng) {
    let end = Instant::now() + world.duration(rng);
    while Instant::now() < end {
        let () = world.redis[0].ask(&["SCRIPT", "FLUSH"]);
        sleep(Duration::from_millis(rng.random_range(1..50))).await;
    }
}

fn limit_memory(world: &World, bytes: &str) {
    let () = world.redis[0].ask(&["CONFIG", "SET", "maxmemory", bytes]);
}

async fn fill_memory(world: &mut World, rng: &mut StdRng) {
    limit_memory(world, "1");
    sleep(world.duration(rng)).await;
    limit_memory(world, "0");
}

async fn restart_full(world: &mut World, rng: &mut StdRng) {
    world.redis[0].kill();
    world.redis[0].launch_with(&["--maxmemory", "1"]);
    let query = r#"{ board(slug: "total") { standings { size } } }"#;
    until("reads go on while Redis is out of memory", async || {
        let answer = world.apis[0].try_ask(None, query, serde_json::json!({})).await.ok()?;
        answer.body.get("errors").is_none().then_some(())
    })
    .await;
    sleep(world.duration(rng)).await;
    limit_memory(world, "0");
}

async fn fill_disk(world: &mut World, rng: &mut StdRng) {
    world.fill_disk(&[world.redis[0].pid()], rng).await;
    // A server that gave up is started again, as an operator would.
    if world.redis[0].has_ended() {
        world.redis[0].kill();
        world.redis[0].launch();
    }
}

/// Lets the other server take over, and the former master follow it.
async fn fail_over(world: &mut World, rng: &mut StdRng, replica: Replica) {
    for (from, to) in [(0, 1), (1, 0)] {
        let port = |number: usize| world.redis[number].port().to_string();
        until("the replica is in step", async || {
            let info: String = world.redis[to].try_ask(&["INFO", "replication"])?;
            info.contains("master_link_status:up").then_some(())
        })
        .await;
        if replica == Replica::Behind {
            // It keeps what it has, and hears nothing more.
            let () = world.redis[to].ask(&["REPLICAOF", "127.0.0.1", "1"]);
            let behind_ms = rng.random_range(500..3000);
            sleep(Duration::from_millis(behind_ms)).await;
        }
        let () = world.redis[to].ask(&["REPLICAOF", "NO", "ONE"]);
        world.redis_proxy().lead_to(world.redis[to].port());
        let () = world.redis[from].ask(&["REPLICAOF", "127.0.0.1", &port(to)]);
        sleep(world.duration(rng) / 2).await;
    }
}
