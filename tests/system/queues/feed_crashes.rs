//! Crashes of a feed at every step, and of everything around it: no event is missing, and none
//! comes before an earlier one of its member.

use serde_json::json;

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};
use tests::queue::{Ingest, Kind, Queue, Reader};
use tests::servers::program::signal;

use super::feeds::{MEMBERS, check_whole, submit_rising, subscribe, wait_until_level};
use super::game::kinds;

/// The steps of a hand-over at which the program is made to crash; the number is that of the
/// hand-over.
const STEPS: [&str; 5] =
    ["feed-taken", "feed-confirmed", "feed-confirmed:3", "webhook-taken", "webhook-taken:3"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_is_lost_whatever_step_a_feed_dies_at() {
    for kind in kinds() {
        let deployment = Deployment::new(Sql::any(), Redis::Private).await;
        let api = Api::start(&deployment).await;
        api.create_board(json!({ "slug": "b", "shards": 2 })).await;
        let queue = Queue::start(kind, &deployment).await;
        let id = subscribe(&api, &["SCORE", "BOARD"]).await;
        submit_rising(&api, 0..60).await;
        api.update_board(json!({ "slug": "b", "title": "B" })).await;
        for step in STEPS {
            let mut command = queue.feed(&deployment, "f");
            command.env("CRASH_AT", step);
            let (status, log) = Ingest::start(&deployment, command).wait().await;
            assert_eq!(status.code(), None, "it does not die at {step}: {log}");
        }
        let _feed = Ingest::start(&deployment, queue.feed(&deployment, "f"));
        wait_until_level(&api, &id).await;
        let mut reader = Reader::default();
        let told = reader.wait_for(&queue, 241).await;
        check_whole(&api, &told).await;
        assert_eq!(told.len(), 241);
        // The stream knows the ids, and drops what comes again.
        let again = reader.all(&queue).await.len() - told.len();
        assert_eq!(again > 0, kind != Kind::Nats, "{kind:?}: {again} came again");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_is_lost_whatever_is_killed_around_a_feed() {
    for kind in kinds() {
        let deployment = Deployment::new(Sql::Postgres, Redis::Private).await;
        let api = Api::start(&deployment).await;
        api.create_board(json!({ "slug": "b", "shards": 4 })).await;
        let mut queue = Queue::start(kind, &deployment).await;
        let id = subscribe(&api, &["SCORE"]).await;
        let start = |queue: &Queue| Ingest::start(&deployment, queue.feed(&deployment, "f"));
        let mut running = [start(&queue), start(&queue)];
        let rounds = 6;
        for round in 0..rounds {
            let scores = round * 40..(round + 1) * 40;
            let killing = async {
                tokio::time::sleep(std::time::Duration::from_millis(300)).await;
                match round {
                    2 | 4 => queue.kill_and_restart().await,
                    _ => {
                        let victim = &mut running[round as usize % 2];
                        signal("KILL", victim.pid());
                        *victim = start(&queue);
                    }
                }
            };
            tokio::join!(submit_rising(&api, scores), killing);
        }
        wait_until_level(&api, &id).await;
        let count = rounds as usize * 40 * MEMBERS.len();
        let told = Reader::default().wait_for(&queue, count).await;
        assert_eq!(told.len(), count);
        check_whole(&api, &told).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_processes_of_a_feed_one_delivers_and_the_other_goes_on_when_it_dies() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    let queue = Queue::start(Kind::Kafka, &deployment).await;
    let id = subscribe(&api, &["SCORE"]).await;
    let dies = Ingest::start(&deployment, queue.feed(&deployment, "f"));
    submit_rising(&api, 0..5).await;
    wait_until_level(&api, &id).await;
    let other = Ingest::start(&deployment, queue.feed(&deployment, "f"));
    submit_rising(&api, 5..10).await;
    wait_until_level(&api, &id).await;
    let mut reader = Reader::default();
    assert_eq!(reader.all(&queue).await.len(), 40, "two do not deliver the same");
    signal("KILL", dies.pid());
    submit_rising(&api, 10..15).await;
    wait_until_level(&api, &id).await;
    let told = reader.wait_for(&queue, 60).await;
    check_whole(&api, &told).await;
    drop(other);
}
