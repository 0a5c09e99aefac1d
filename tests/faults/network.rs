//! A network between processes and a store that is slow, loses, cuts or forgets connections.

use std::time::{Duration, Instant};

use rand::RngExt;
use rand::rngs::StdRng;
use tests::servers::proxy::{Ending, Mode, Proxy};
use tests::trial::world::World;
use tokio::time::sleep;

use crate::fault::{Fault, Part};

pub(crate) const FAULTS: &[Fault] = &[
    Fault::lossless(
        "slow_redis",
        "each piece to and from Redis takes 20 ms to 1 s",
        Part::Soak,
        |w, rng| Box::pin(slow(w, rng, Store::Redis)),
    ),
    Fault::lossless("redis_in_bytes", "Redis is spoken to byte by byte", Part::Soak, |w, rng| {
        Box::pin(during(w, rng, Store::Redis, Mode::Bytes))
    }),
    Fault::lossless(
        "frozen_redis",
        "nothing goes to or from Redis for a while",
        Part::Soak,
        |w, rng| Box::pin(during(w, rng, Store::Redis, Mode::Frozen)),
    ),
    Fault::lossless(
        "half_open_redis",
        "a router forgets connections to Redis, and tells neither end",
        Part::Soak,
        |w, rng| Box::pin(during(w, rng, Store::Redis, Mode::HalfOpen)),
    ),
    Fault::lossless(
        "refused_redis",
        "no connection to Redis is to be had",
        Part::Soak,
        |w, rng| Box::pin(refused(w, rng, Store::Redis)),
    ),
    Fault::lossless(
        "lost_redis_replies",
        "every few replies of Redis are lost, and their connections closed",
        Part::Short,
        |w, rng| Box::pin(lost_replies(w, rng, Store::Redis, Ending::Close)),
    ),
    Fault::lossless(
        "reset_redis",
        "every few replies of Redis are lost, and their connections reset",
        Part::Soak,
        |w, rng| Box::pin(lost_replies(w, rng, Store::Redis, Ending::Reset)),
    ),
    Fault::lossless(
        "cut_redis",
        "connections to Redis end, again and again",
        Part::Soak,
        |w, rng| Box::pin(cut(w, rng, Store::Redis)),
    ),
    Fault::harmless(
        "slow_sql",
        "each piece to and from SQL takes 20 ms to 1 s",
        Part::Soak,
        |w, rng| Box::pin(slow(w, rng, Store::Sql)),
    ),
    Fault::harmless("sql_in_bytes", "SQL is spoken to byte by byte", Part::Soak, |w, rng| {
        Box::pin(during(w, rng, Store::Sql, Mode::Bytes))
    }),
    Fault::harmless(
        "frozen_sql",
        "nothing goes to or from SQL for a while",
        Part::Soak,
        |w, rng| Box::pin(during(w, rng, Store::Sql, Mode::Frozen)),
    ),
    Fault::harmless(
        "half_open_sql",
        "a router forgets connections to SQL, and tells neither end",
        Part::Short,
        |w, rng| Box::pin(during(w, rng, Store::Sql, Mode::HalfOpen)),
    ),
    Fault::harmless("refused_sql", "no connection to SQL is to be had", Part::Soak, |w, rng| {
        Box::pin(refused(w, rng, Store::Sql))
    }),
    Fault::harmless(
        "lost_sql_replies",
        "every few replies of SQL are lost, and their connections closed",
        Part::Short,
        |w, rng| Box::pin(lost_replies(w, rng, Store::Sql, Ending::Close)),
    ),
    Fault::harmless(
        "reset_sql",
        "every few replies of SQL are lost, and their connections reset",
        Part::Soak,
        |w, rng| Box::pin(lost_replies(w, rng, Store::Sql, Ending::Reset)),
    ),
    Fault::harmless("cut_sql", "connections to SQL end, again and again", Part::Soak, |w, rng| {
        Box::pin(cut(w, rng, Store::Sql))
    }),
];

/// The store before which the network fails.
#[derive(Clone, Copy)]
enum Store {
    Redis,
    Sql,
}

fn proxy(world: &World, store: Store) -> &Proxy {
    match store {
        Store::Redis => world.redis_proxy(),
        Store::Sql => world.sql_proxy(),
    }
}

async fn during(world: &mut World, rng: &mut StdRng, store: Store, mode: Mode) {
    let proxy = proxy(world, store);
    proxy.set(mode);
    sleep(world.duration(rng)).await;
    proxy.set(Mode::Pass);
}

async fn slow(world: &mut World, rng: &mut StdRng, store: Store) {
    let delay = Duration::from_millis(rng.random_range(20..1000));
    during(world, rng, store, Mode::Delay(delay)).await;
}

async fn refused(world: &mut World, rng: &mut StdRng, store: Store) {
    proxy(world, store).set(Mode::Refused);
    proxy(world, store).end_all(Ending::Reset);
    sleep(world.duration(rng)).await;
    proxy(world, store).set(Mode::Pass);
}

async fn lost_replies(world: &mut World, rng: &mut StdRng, store: Store, ending: Ending) {
    let every = rng.random_range(5..60);
    let mode = match ending {
        Ending::Close => Mode::LostReplies(every),
        Ending::Reset => Mode::ResetReplies(every),
    };
    during(world, rng, store, mode).await;
}

async fn cut(world: &mut World, rng: &mut StdRng, store: Store) {
    let end = Instant::now() + world.duration(rng);
    while Instant::now() < end {
        let ending = if rng.random_bool(0.5) { Ending::Close } else { Ending::Reset };
        proxy(world, store).end_all(ending);
        sleep(Duration::from_millis(rng.random_range(10..700))).await;
    }
}
