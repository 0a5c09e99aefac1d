//! Processes killed in the middle of a load: what was acknowledged is there, and nothing counts twice.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::stream::{self, StreamExt};
use rand::RngExt;
use rand::rngs::StdRng;
use ranking::window::Window;

use crate::api::Api;
use crate::deployment::{Deployment, Redis, Sql};
use crate::game::seeded;
use crate::listing::check_board;
use crate::load::{create_board, submit_events, try_submit};
use crate::oracle::{Board, Event, Oracle, Verdict};
use crate::program::signal;
use crate::wait::until;

/// How many batches a load has.
pub(crate) const BATCHES: usize = 120;

/// How many events a batch has.
const BATCH_EVENTS: usize = 12;

/// How many requests are under way at once.
pub(crate) const SENDERS: usize = 8;

/// How many faults each database sees in a test.
const FAULTS: [(Sql, usize); 2] = [(Sql::Sqlite, 3), (Sql::Postgres, 2)];

/// A board and its load: events of different ids.
pub(crate) struct Load {
    pub(crate) board: Board,
    pub(crate) batches: Vec<Vec<Event>>,
}

impl Load {
    pub(crate) fn new(rng: &mut StdRng, number: usize) -> Self {
        let board = Board {
            slug: format!("load-{number}"),
            direction: ["HIGH_FIRST", "LOW_FIRST"][number % 2],
            policy: ["SUM", "BEST", "LATEST"][number % 3],
            tie_break: ["EARLIEST", "LATEST"][number / 2 % 2],
            tick_ms: 1000,
            decimals: 1,
            min: -100_000,
            max: 100_000,
            zone: "Australia/Lord_Howe",
            shards: [4, 1, 2][number % 3],
            windows: vec![Window::Hourly, Window::Daily],
        };
        let event = |number: usize, rng: &mut StdRng| Event {
            member: format!("m{}", rng.random_range(0..60)),
            score: rng.random_range(-3..9),
            at_ms: 1_743_863_000_000 + rng.random_range(0..4) * 1_800_000,
            id: Some(format!("e{number}")),
        };
        let mut batches: Vec<Vec<Event>> = vec![];
        for batch in 0..BATCHES {
            let numbers = batch * BATCH_EVENTS..(batch + 1) * BATCH_EVENTS;
            batches.push(numbers.map(|number| event(number, rng)).collect());
        }
        Self { board, batches }
    }

    /// Sends all batches, several at once and through the processes in turn, and calls for `fault` when the k-th is acknowledged. The events acknowledged;
    /// what is refused or not answered is left, as a client that gives up would.
    pub(crate) async fn send(
        &self,
        apis: &[&Api],
        k: usize,
        mut fault: impl AsyncFnMut(),
    ) -> Vec<Event> {
        let mut answers = stream::iter(self.batches.iter().zip(apis.iter().cycle()))
            .map(async |(batch, api)| (batch, try_submit(api, &self.board, batch).await))
            .buffer_unordered(SENDERS);
        let (mut acknowledged, mut count) = (vec![], 0);
        while let Some((batch, answer)) = answers.next().await {
            let outcomes = answer.unwrap_or_default();
            let taken = batch.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_ok());
            acknowledged.extend(taken.map(|(event, _)| event.clone()));
            if outcomes.iter().any(Result::is_ok) {
                count += 1;
                if count == k {
                    fault().await;
                }
            }
        }
        assert!(count >= k, "the load was over before the fault");
        acknowledged
    }

    /// Sends everything again to a service that is well. What is in `counted` counts already; then the board is as the oracle says.
    pub(crate) async fn send_again(&self, api: &Api, counted: &BTreeSet<String>) {
        let mut oracle = Oracle::new(self.board.clone());
        for batch in &self.batches {
            let told = submit_events(api, &self.board, batch).await;
            for (event, verdict) in batch.iter().zip(told) {
                oracle.submit(event);
                let id = event.id.as_ref().unwrap();
                assert_ne!(verdict, Verdict::Rejected, "{id} of {}", self.board.slug);
                if counted.contains(id) {
                    assert_eq!(verdict, Verdict::Duplicate, "{id} of {}", self.board.slug);
                }
            }
        }
        assert_eq!(oracle.accepted().len(), BATCHES * BATCH_EVENTS);
        check_board(api, &oracle).await;
    }

    /// The ids that SQL has.
    async fn ids_in_sql(&self, deployment: &Deployment) -> BTreeSet<String> {
        let select = format!(
            "SELECT event_id FROM score_event WHERE board_no = (SELECT no FROM board WHERE slug = '{}')",
            self.board.slug
        );
        deployment.column(&select).await.into_iter().collect()
    }
}

pub(crate) fn ids(events: &[Event]) -> BTreeSet<String> {
    events.iter().filter_map(|event| event.id.clone()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_api_loses_nothing_acknowledged_and_counts_nothing_twice() {
    let mut rng = seeded();
    for (sql, faults) in FAULTS {
        let deployment = Deployment::new(sql, Redis::Private).await;
        let mut api = Api::start(&deployment).await;
        for number in 0..faults {
            let load = Load::new(&mut rng, number);
            create_board(&api, &load.board).await;
            let k = rng.random_range(1..BATCHES - SENDERS);
            let acknowledged = load.send(&[&api], k, async || signal("KILL", api.pid())).await;
            api = Api::start(&deployment).await;
            load.send_again(&api, &ids(&acknowledged)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_goes_on_when_one_dies() {
    let mut rng = seeded();
    let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
    let other = Api::start(&deployment).await;
    let dies = Api::start(&deployment).await;
    let load = Load::new(&mut rng, 0);
    create_board(&other, &load.board).await;
    let acknowledged = load.send(&[&dies], BATCHES / 3, async || signal("KILL", dies.pid())).await;
    load.send_again(&other, &ids(&acknowledged)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_redis_is_revived_and_what_sql_has_is_never_lost() {
    let mut rng = seeded();
    for (sql, faults) in FAULTS {
        let deployment = Deployment::new(sql, Redis::Private).await;
        let api = Api::start(&deployment).await;
        for number in 0..faults {
            let load = Load::new(&mut rng, number);
            create_board(&api, &load.board).await;
            let k = rng.random_range(1..BATCHES - SENDERS);
            let kill = async || signal("KILL", deployment.redis_pid().await);
            load.send(&[&api], k, kill).await;
            check_recovered(&api, &load).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_redis_is_filled_again_from_sql() {
    let mut rng = seeded();
    for (sql, faults) in FAULTS {
        let deployment = Deployment::new(sql, Redis::Own).await;
        let api = Api::start(&deployment).await;
        for number in 0..faults {
            let load = Load::new(&mut rng, number);
            create_board(&api, &load.board).await;
            let k = rng.random_range(1..BATCHES - SENDERS);
            load.send(&[&api], k, async || flush(&deployment).await).await;
            check_recovered(&api, &load).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_find_redis_emptied_fill_it_together_and_once() {
    let mut rng = seeded();
    let deployment = Deployment::new(Sql::Sqlite, Redis::Own).await;
    let start = async || Api::start(&deployment).await;
    let apis: [Api; 3] = futures::join!(start(), start(), start()).into();
    let [first, second, third] = &apis;
    let load = Load::new(&mut rng, 0);
    create_board(first, &load.board).await;
    let k = rng.random_range(1..BATCHES - SENDERS);
    let flush = async || flush(&deployment).await;
    load.send(&[first, second, third], k, flush).await;
    check_recovered(second, &load).await;
}

/// The service becomes well by itself; then what SQL has counts, and all the rest can be sent again.
pub(crate) async fn check_recovered(api: &Api, load: &Load) {
    api.wait_until_ready().await;
    let counted = load.ids_in_sql(api.deployment()).await;
    load.send_again(api, &counted).await;
}

async fn flush(deployment: &Arc<Deployment>) {
    redis::cmd("FLUSHALL").query_async::<()>(&mut deployment.redis().await).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_redis_that_is_idle_serves_all_that_was_there() {
    let mut rng = seeded();
    let deployment = Deployment::new(Sql::Sqlite, Redis::Own).await;
    let api = Api::start(&deployment).await;
    let load = Load::new(&mut rng, 0);
    create_board(&api, &load.board).await;
    let acknowledged = load.send(&[&api], BATCHES, async || ()).await;
    until("every event is in SQL", async || {
        (load.ids_in_sql(&deployment).await.len() == BATCHES * BATCH_EVENTS).then_some(())
    })
    .await;
    flush(&deployment).await;
    let mut oracle = Oracle::new(load.board.clone());
    acknowledged.iter().for_each(|event| {
        oracle.submit(event);
    });
    // At once: a read that meets a partition that is not level waits for it.
    check_board(&api, &oracle).await;
    load.send_again(&api, &ids(&acknowledged)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminated_api_finishes_what_it_acknowledges_and_ends_well() {
    let mut rng = seeded();
    for sql in [Sql::Sqlite, Sql::Postgres] {
        let deployment = Deployment::new(sql, Redis::Private).await;
        let api = Api::start(&deployment).await;
        let load = Load::new(&mut rng, 0);
        create_board(&api, &load.board).await;
        let k = rng.random_range(1..BATCHES - SENDERS);
        let acknowledged = load.send(&[&api], k, async || signal("TERM", api.pid())).await;
        let status = api.wait_until_stopped().await;
        assert!(status.success(), "{status}");
        let counted = load.ids_in_sql(&deployment).await;
        let lost: Vec<_> = ids(&acknowledged).difference(&counted).cloned().collect();
        assert!(lost.is_empty(), "acknowledged and not in SQL: {lost:?}");
        assert!(deployment.try_redis().await.is_err(), "the private redis-server is still there");
        let api = Api::start(&deployment).await;
        load.send_again(&api, &ids(&acknowledged)).await;
    }
}
