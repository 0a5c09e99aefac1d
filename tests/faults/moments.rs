//! A process killed at an exact moment: a proxy holds the one request, or its reply, until it is
//! dead.

use std::time::Duration;

use rand::rngs::StdRng;
use tests::servers::program::signal;
use tests::servers::proxy::Point;
use tests::trial::load::ID;
use tests::trial::world::{Shape, World};
use tests::wait::PATIENCE;

use crate::fault::{Fault, Loses, Part, Refuses};

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "killed_before_commit",
        does: "SIGKILL of a process whose commit has not reached Redis",
        shape: Shape::POSTGRES,
        loses: Loses::Nothing,
        refuses: Refuses::Any,
        part: Part::Soak,
        inject: |world, rng| {
            Box::pin(kill_at(world, rng, Store::Redis(COMMIT), Point::BeforeRequest))
        },
    },
    Fault {
        name: "killed_before_reply",
        does: "SIGKILL of a process whose commit Redis has done, before the reply",
        shape: Shape::POSTGRES,
        loses: Loses::Nothing,
        refuses: Refuses::Any,
        part: Part::Short,
        inject: |world, rng| {
            Box::pin(kill_at(world, rng, Store::Redis(COMMIT), Point::BeforeReply))
        },
    },
    Fault {
        name: "killed_before_transaction",
        does: "SIGKILL of a persister that has read the log and begins its transaction",
        shape: Shape::POSTGRES,
        loses: Loses::Nothing,
        refuses: Refuses::Any,
        part: Part::Soak,
        inject: |world, rng| {
            Box::pin(kill_at(world, rng, Store::Sql("BEGIN"), Point::BeforeRequest))
        },
    },
    Fault {
        name: "killed_in_transaction",
        does: "SIGKILL of a persister that has written everything and not committed",
        shape: Shape::POSTGRES,
        loses: Loses::Nothing,
        refuses: Refuses::Any,
        part: Part::Soak,
        inject: |world, rng| {
            Box::pin(kill_at(world, rng, Store::Sql("COMMIT"), Point::BeforeRequest))
        },
    },
    Fault {
        name: "killed_before_trim",
        does: "SIGKILL of a persister whose transaction SQL has committed, before it trims the log",
        shape: Shape::POSTGRES,
        loses: Loses::Nothing,
        refuses: Refuses::Any,
        part: Part::Short,
        inject: |world, rng| {
            Box::pin(kill_at(world, rng, Store::Sql("COMMIT"), Point::BeforeReply))
        },
    },
    Fault {
        name: "lost_transaction_reply",
        does: "the reply to a COMMIT is lost, and the process lives",
        shape: Shape::POSTGRES,
        loses: Loses::Nothing,
        refuses: Refuses::Any,
        part: Part::Soak,
        inject: |world, _| Box::pin(lose_transaction_reply(world)),
    },
];

/// Texts in a commit's request to Redis: the key of its log, and an event.
const COMMIT: &[&str] = &[":log", ID];

/// The proxy before which a request is waited for, and texts in the request.
enum Store {
    Redis(&'static [&'static str]),
    Sql(&'static str),
}

/// Kills the process that sends the request: the first one, as the others stand still meanwhile.
async fn kill_at(world: &mut World, _: &mut StdRng, store: Store, point: Point) {
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
