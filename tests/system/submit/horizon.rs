//! The end of an event id's window, by the clock of Redis: until then an event that is sent again
//! counts once, and later it is a new one.

use std::fs;

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::submit_durably;
use tests::clock::now_ms;
use tests::deployment::Deployment;
use tests::documents::SCORE;
use tests::jobs::diff::check_diff;
use tests::servers::postgres;
use tests::servers::redis_node::RedisNode;
use tests::trial::fake_clock::FakeClock;
use tests::wait::until;

/// The window and the longest rest of a bucket, in hours.
const KEPT_HOURS: i64 = 24 + 4;

/// A deployment whose Redis has a clock of its own.
struct World {
    node: RedisNode,
    api: Api,
    clock: FakeClock,
}

impl World {
    async fn start(database_url: Option<String>) -> Self {
        let dir = tempfile::Builder::new().prefix("laurel-").tempdir().unwrap();
        let clock = FakeClock::new(dir.path(), "redis");
        let redis = dir.path().join("redis");
        fs::create_dir(&redis).unwrap();
        let node = RedisNode::start(&redis, clock.variables());
        let file = format!("sqlite://{}?mode=rwc", dir.path().join("test.sqlite").display());
        let redis_url = format!("redis://127.0.0.1:{}", node.port());
        let deployment = Deployment::elsewhere(dir, database_url.unwrap_or(file), redis_url);
        let api = Api::start(&deployment).await;
        api.create_board(json!({ "slug": "b", "policy": "SUM" })).await;
        Self { node, api, clock }
    }

    /// Puts the clock of Redis so many hours ahead.
    async fn put_ahead(&self, hours: i64) {
        self.clock.set(hours * 3600);
        until("Redis goes by its clock", async || {
            let (seconds, _): (i64, i64) = self.node.ask(&["TIME"]);
            let ahead = seconds - now_ms() / 1000;
            ((ahead - hours * 3600).abs() < 60).then_some(())
        })
        .await;
    }

    /// Sends an event through a process; the status of its score.
    async fn send(&self, api: &Api, score: i64) -> String {
        let event = json!([{
            "member": "ann", "score": score, "at": "2025-09-03T12:00:00Z", "eventId": "e1",
        }]);
        let told = submit_durably(api, "b", event).await;
        told["results"][0]["status"].as_str().unwrap().to_owned()
    }

    async fn check_score(&self, expected: &str) {
        let data = self.api.data(SCORE, json!({ "board": "b", "member": "ann" })).await;
        assert_eq!(data["board"]["standings"]["entry"]["score"], Value::from(expected));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_sent_again_counts_once_within_its_window_and_is_a_new_one_behind_it() {
    for database_url in [None, Some(postgres::new_database().await)] {
        let mut world = World::start(database_url).await;
        let deployment = world.api.deployment().clone();
        assert_eq!(world.send(&world.api, 5).await, "APPLIED");
        // The last hour of the window, also through a process that has not seen it, and after a
        // restart of Redis.
        world.put_ahead(23).await;
        let other = Api::start(&deployment).await;
        for api in [&world.api, &other] {
            assert_eq!(world.send(api, 5).await, "DUPLICATE");
            assert_eq!(world.send(api, 6).await, "REJECTED");
        }
        world.node.kill();
        world.node.launch();
        other.wait_until_ready().await;
        assert_eq!(world.send(&other, 5).await, "DUPLICATE");
        world.check_score("5").await;

        world.put_ahead(KEPT_HOURS + 1).await;
        assert_eq!(world.send(&other, 5).await, "APPLIED");
        world.check_score("10").await;
        // It is remembered from here on: when the clock goes back, and by SQL.
        assert_eq!(world.send(&world.api, 5).await, "DUPLICATE");
        world.put_ahead(0).await;
        assert_eq!(world.send(&world.api, 5).await, "DUPLICATE");
        world.put_ahead(KEPT_HOURS + 2).await;
        let () = world.node.ask(&["FLUSHALL"]);
        other.wait_until_ready().await;
        assert_eq!(world.send(&world.api, 5).await, "DUPLICATE");
        world.check_score("10").await;

        world.put_ahead(2 * KEPT_HOURS + 2).await;
        assert_eq!(world.send(&other, 7).await, "APPLIED", "a new event may have other content");
        world.check_score("17").await;
        let twice = "SELECT CAST(COUNT(*) AS BIGINT) FROM score_event WHERE event_id = 'e1'";
        assert_eq!(deployment.number(twice).await, 3);
        check_diff(&deployment);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_came_while_the_clock_was_behind_is_remembered_when_it_is_right_again() {
    let world = World::start(None).await;
    // The deployment's clock has come to the present, and stands there.
    let first = json!([{ "member": "bob", "score": 1 }]);
    assert_eq!(submit_durably(&world.api, "b", first).await["accepted"], 1);
    world.put_ahead(-20).await;
    assert_eq!(world.send(&world.api, 5).await, "APPLIED");
    // By the clock of Redis more than the window has passed since, by the deployment's half of it.
    world.put_ahead(12).await;
    assert_eq!(world.send(&world.api, 5).await, "DUPLICATE");
    world.check_score("5").await;
}
