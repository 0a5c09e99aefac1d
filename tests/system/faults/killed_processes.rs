//! Processes killed in the middle of a load: no acknowledged event is lost, and no event counts
//! twice.

use rand::RngExt;

use tests::api::Api;
use tests::api::listing::check_board;
use tests::api::submission::create_board;
use tests::boards::load::{BATCH_EVENTS, BATCHES, Load, SENDERS, check_recovered, ids};
use tests::deployment::{Deployment, Redis, Sql};
use tests::extent;
use tests::model::game::seeded;
use tests::model::oracle::Oracle;
use tests::servers::program::signal;
use tests::wait::until;

/// The number of faults in a test, by database: one of both, unless everything is wanted.
fn faults() -> impl Iterator<Item = (Sql, usize)> {
    let faults = [(Sql::Sqlite, 3), (Sql::Postgres, 2)].into_iter();
    faults.filter(|(sql, _)| extent::drawn(*sql).is_some())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_api_loses_nothing_acknowledged_and_counts_nothing_twice() {
    let mut rng = seeded();
    for (sql, faults) in faults() {
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
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
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
    for (sql, faults) in faults() {
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
    for (sql, faults) in faults() {
        let deployment = Deployment::new(sql, Redis::Own).await;
        let api = Api::start(&deployment).await;
        for number in 0..faults {
            let load = Load::new(&mut rng, number);
            create_board(&api, &load.board).await;
            let k = rng.random_range(1..BATCHES - SENDERS);
            load.send(&[&api], k, async || deployment.flush_redis().await).await;
            check_recovered(&api, &load).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_find_redis_emptied_fill_it_together_and_once() {
    let mut rng = seeded();
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let start = async || Api::start(&deployment).await;
    let apis: [Api; 3] = futures::join!(start(), start(), start()).into();
    let [first, second, third] = &apis;
    let load = Load::new(&mut rng, 0);
    create_board(first, &load.board).await;
    let k = rng.random_range(1..BATCHES - SENDERS);
    let flush = async || deployment.flush_redis().await;
    load.send(&[first, second, third], k, flush).await;
    check_recovered(second, &load).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_redis_that_is_idle_serves_all_that_was_there() {
    let mut rng = seeded();
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    let load = Load::new(&mut rng, 0);
    create_board(&api, &load.board).await;
    let acknowledged = load.send(&[&api], BATCHES, async || ()).await;
    until("every event is in SQL", async || {
        (load.ids_in_sql(&deployment).await.len() == BATCHES * BATCH_EVENTS).then_some(())
    })
    .await;
    deployment.flush_redis().await;
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
    for sql in Sql::all() {
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
