//! A process killed at an exact moment: a proxy holds the one request, or its reply, until it is
//! dead.

use std::time::Duration;

use tests::servers::program::signal;
use tests::servers::proxy::Point;
use tests::trial::load::ID;
use tests::trial::world::World;
use tests::wait::PATIENCE;

use crate::fault::{Fault, Part};

pub(crate) const FAULTS: &[Fault] = &[
    Fault::lossless(
        "killed_before_commit",
        "SIGKILL of a process whose commit has not reached Redis",
        Part::Soak,
        |world, _| Box::pin(kill_at(world, Store::Redis(COMMIT), Point::BeforeRequest)),
    ),
    Fault::lossless(
        "killed_before_reply",
        "SIGKILL of a process whose commit Redis has done, before the reply",
        Part::Short,
        |world, _| Box::pin(kill_at(world, Store::Redis(COMMIT), Point::BeforeReply)),
    ),
    Fault::lossless(
        "killed_before_transaction",
        "SIGKILL of a persister that has read the log and begins its transaction",
        Part::Soak,
        |world, _| Box::pin(kill_at(world, Store::Sql("BEGIN"), Point::BeforeRequest)),
    ),
    Fault::lossless(
        "killed_in_transaction",
        "SIGKILL of a persister that has written everything and not committed",
        Part::Soak,
        |world, _| Box::pin(kill_at(world, Store::Sql("COMMIT"), Point::BeforeRequest)),
    ),
    Fault::lossless(
        "killed_before_trim",
        "SIGKILL of a persister whose transaction SQL has committed, before it trims the log",
        Part::Short,
        |world, _| Box::pin(kill_at(world, Store::Sql("COMMIT"), Point::BeforeReply)),
    ),
    Fault::lossless(
        "lost_transaction_reply",
        "the reply to a COMMIT is lost, and the process lives",
        Part::Soak,
        |world, _| Box::pin(lose_transaction_reply(world)),
    ),
];

/// Texts in a commit's request to Redis: the key of its log, and an event.
const COMMIT: &[&str] = &[":log", ID];

/// The proxy before which a request is waited for, and texts in the request.
enum Store {
    Redis(&'static [&'static str]),
    Sql(&'static str),
}

/// Kills the process that sends the request: the first one, as the others stand still meanwhile.
async fn kill_at(world: &mut World, store: Store, point: Point) {
    world.load.retarget(vec![world.apis[0].url().to_owned()]);
    for number in 1..world.apis.len() {
        signal("STOP", world.apis[number].pid());
    }
    let held = async {
        match store {
            Store::Redis(signs) => world.redis_proxy().hold(signs, point).await,
            Store::Sql(sign) => world.sql_proxy().hold(&[sign], point).await,
        }
    };
    let held = tokio::time::timeout(PATIENCE, held).await.expect("the request is sent under load");
    signal("KILL", world.apis[0].pid());
    for number in 1..world.apis.len() {
        signal("CONT", world.apis[number].pid());
    }
    drop(held);
    world.start_again(0).await;
}

async fn lose_transaction_reply(world: &mut World) {
    for _ in 0..5 {
        let held = world.sql_proxy().hold(&["COMMIT"], Point::BeforeReply);
        let held = tokio::time::timeout(PATIENCE, held).await.expect("SQL has load");
        drop(held);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}
