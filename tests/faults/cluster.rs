//! A Redis Cluster whose masters fail over, sleep, are outnumbered, or hand over a slot.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tests::servers::program::signal;
use tests::servers::redis_cluster::RedisCluster;
use tests::trial::world::{RedisServers, Shape, World};
use tests::wait::until;
use tokio::time::sleep;

use crate::fault::{Fault, Inject, Loses, Part, Refuses};

const fn fault(name: &'static str, does: &'static str, loses: Loses, inject: Inject) -> Fault {
    let shape = Shape { redis: RedisServers::Cluster, ..Shape::SQLITE };
    Fault { name, does, shape, loses, refuses: Refuses::Any, part: Part::Whole, inject }
}

pub(crate) const FAULTS: &[Fault] = &[
    fault(
        "cluster_failover",
        "CLUSTER FAILOVER: a replica takes over from its living master",
        Loses::Nothing,
        |world, rng| Box::pin(fail_over(world, rng)),
    ),
    fault(
        "killed_master",
        "SIGKILL of a master of a cluster; its replica takes over",
        Loses::WithRedis,
        |world, rng| Box::pin(kill_master(world, rng, Replica::InStep)),
    ),
    fault(
        "killed_master_ahead",
        "SIGKILL of a master of a cluster whose replica is behind",
        Loses::WithRedis,
        |world, rng| Box::pin(kill_master(world, rng, Replica::Behind)),
    ),
    fault(
        "sleeping_master",
        "a master of a cluster sleeps until its replica has taken over, and wakes up",
        Loses::WithRedis,
        |world, rng| Box::pin(sleep_master(world, rng)),
    ),
    fault(
        "minority_master",
        "two of three masters and all replicas of a cluster sleep; the third is alone",
        Loses::WithRedis,
        |world, rng| Box::pin(outnumber(world, rng)),
    ),
    fault(
        "moved_slot",
        "the slot of a partition moves to another master, a key at a time",
        Loses::Nothing,
        |world, rng| Box::pin(move_slot(world, rng)),
    ),
];

/// The state of a replica when its master dies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Replica {
    InStep,
    Behind,
}

fn cluster(world: &World) -> &RedisCluster {
    world.deployment.cluster()
}

/// The master of a random partition.
fn master(world: &World, rng: &mut StdRng) -> u16 {
    cluster(world).master_of(&format!("laurel:{{{}}}:head", rng.random_range(0..4)))
}

async fn fail_over(world: &mut World, rng: &mut StdRng) {
    let old = master(world, rng);
    let new = cluster(world).replica_of(old);
    let () = cluster(world).ask(new, &["CLUSTER", "FAILOVER"]);
    until("the replica has taken over", async || {
        cluster(world).masters().contains(&new).then_some(())
    })
    .await;
    cluster(world).wait_until_well().await;
}

async fn kill_master(world: &mut World, rng: &mut StdRng, replica: Replica) {
    let killed = master(world, rng);
    if replica == Replica::Behind {
        cluster(world).cut_off_replica_of(killed);
        sleep(Duration::from_millis(rng.random_range(300..2000))).await;
    }
    cluster(world).kill(killed);
    cluster(world).wait_until_replaced(killed).await;
    cluster(world).restart(killed);
    cluster(world).wait_until_well().await;
}

async fn sleep_master(world: &mut World, rng: &mut StdRng) {
    let port = master(world, rng);
    let replica = cluster(world).replica_of(port);
    let sleeper = cluster(world).pid(port);
    signal("STOP", sleeper);
    // Others may not be asked who is a master while this one does not answer.
    until("the replica has taken over", async || {
        let info: String = cluster(world).ask(replica, &["INFO", "replication"]);
        info.contains("role:master").then_some(())
    })
    .await;
    sleep(world.duration(rng) / 2).await;
    signal("CONT", sleeper);
    cluster(world).wait_until_well().await;
}

async fn outnumber(world: &mut World, rng: &mut StdRng) {
    let alone = master(world, rng);
    let masters = cluster(world).masters();
    let replicas = masters.iter().map(|&port| cluster(world).replica_of(port));
    let others = masters.iter().copied().filter(|&port| port != alone);
    let pids: Vec<u32> = replicas.chain(others).map(|port| cluster(world).pid(port)).collect();
    pids.iter().for_each(|&pid| signal("STOP", pid));
    sleep(world.duration(rng)).await;
    pids.iter().for_each(|&pid| signal("CONT", pid));
    cluster(world).wait_until_well().await;
}

async fn move_slot(world: &mut World, rng: &mut StdRng) {
    let key = format!("laurel:{{{}}}:head", rng.random_range(0..4));
    let from = cluster(world).master_of(&key);
    let others: Vec<u16> =
        cluster(world).masters().into_iter().filter(|&port| port != from).collect();
    let to = others[rng.random_range(0..others.len())];
    let pause = Duration::from_millis(rng.random_range(0..40));
    cluster(world).move_slot(&key, to, &key, async || sleep(pause).await).await;
}
