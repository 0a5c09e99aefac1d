//! Crashes at every step of a batch, and of everything around it: each score counts once.

use std::time::Duration;

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};
use tests::queue::{Ingest, Queue};
use tests::servers::program::signal;
use tests::servers::redis_cluster::free_port;

use super::game::{Game, STEPS, crash_at, is_wanted, kinds, run_once};
use super::operations::Operations;

#[tokio::test]
async fn a_score_counts_once_whatever_step_the_program_dies_at() {
    for kind in kinds() {
        let deployment = Deployment::new(Sql::any(), Redis::Private).await;
        let api = Api::start(&deployment).await;
        let queue = Queue::start(kind, &deployment).await;
        Game::create_board(&api).await;
        let game = Game::new(1000);
        queue.publish(&game.messages).await;
        let ingest = || queue.ingest(&deployment, api.url(), api.token());
        for step in STEPS {
            crash_at(step, &deployment, ingest()).await;
        }
        run_once(&deployment, ingest()).await;
        game.check(&api, &queue).await;
    }
}

#[tokio::test]
async fn a_score_counts_once_whatever_is_killed_around_the_program() {
    if !is_wanted() {
        return;
    }
    for kind in kinds() {
        let deployment = Deployment::new(Sql::Postgres, Redis::Private).await;
        let port = free_port();
        let (address, to) = (format!("127.0.0.1:{port}"), format!("http://127.0.0.1:{port}"));
        let start = async || Api::start_with(&deployment, &["--listen", &address]).await;
        let mut api = start().await;
        let mut queue = Queue::start(kind, &deployment).await;
        Game::create_board(&api).await;
        let game = Game::new(20_000);
        let (first, second) = game.messages.split_at(game.messages.len() / 2);
        queue.publish(first).await;
        let token = api.token().to_owned();
        let start_ingest =
            |queue: &Queue| Ingest::start(&deployment, queue.ingest(&deployment, &to, &token));
        let mut running = [start_ingest(&queue), start_ingest(&queue)];
        let pause = || tokio::time::sleep(Duration::from_millis(700));
        for round in 0..4 {
            pause().await;
            signal("KILL", running[round % 2].pid());
            running[round % 2] = start_ingest(&queue);
            match round {
                0 => signal("KILL", deployment.redis_pid().await),
                1 => queue.kill_and_restart().await,
                2 => {
                    drop(api);
                    pause().await;
                    api = start().await;
                }
                _ => queue.publish(second).await,
            }
        }
        let told = run_once(&deployment, queue.ingest(&deployment, &to, &token)).await;
        // The last messages may be under way in the two others.
        for process in running {
            signal("TERM", process.pid());
            let (status, log) = process.wait().await;
            assert!(status.success(), "{log}");
        }
        let rest = run_once(&deployment, queue.ingest(&deployment, &to, &token)).await;
        println!("{kind:?}: {told}{rest}");
        game.check(&api, &queue).await;
    }
}

#[tokio::test]
async fn a_signal_ends_it_after_the_batch_and_a_server_that_is_away_is_waited_for() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let port = free_port();
    let (address, to) = (format!("127.0.0.1:{port}"), format!("http://127.0.0.1:{port}"));
    let token = deployment.admin_token().await.to_owned();
    let queue = Queue::start(tests::queue::Kind::Nats, &deployment).await;
    let game = Game::new(200);
    queue.publish(&game.messages).await;
    let mut command = queue.ingest(&deployment, &to, &token);
    let operations = Operations::of(&mut command);
    let ingest = Ingest::start(&deployment, command);
    operations.until_paused("does not answer").await;
    let (_, metrics) = operations.get("/metrics").await.unwrap();
    assert!(metrics.contains("laurel_ingest_paused 1"), "{metrics}");
    let api = Api::start_with(&deployment, &["--listen", &address]).await;
    // Messages before the board are dead letters, and settled, too.
    Game::create_board(&api).await;
    operations.until_settled(200).await;
    assert_eq!(operations.get("/healthz").await.unwrap().0, 200);
    signal("TERM", ingest.pid());
    let (status, log) = ingest.wait().await;
    assert!(status.success() && log.contains("settled 200 messages"), "{log}");
}
