//! The end of a period: told once it is final, with the standings that are sealed then.

use serde_json::{Value, json};

use engine::webhook::ended::GRACE_MS;
use tests::api::Api;
use tests::api::submission::submit_durably;
use tests::clock::{now_ms, seconds_to_minute_ten};
use tests::deployment::{Deployment, Redis, Sql};
use tests::receiver::{Manner, Receiver, SETTINGS};
use tests::trial::fake_clock::FakeClock;
use tests::wait::until;

use super::standings::{Standings, sealed};

/// Submits the scores of many members, some of which are equal.
async fn submit_many(api: &Api) {
    let scores: Vec<Value> =
        (0..130).map(|no| json!({ "member": format!("m{no:03}"), "score": no / 2 })).collect();
    assert_eq!(submit_durably(api, "b", json!(scores)).await["accepted"], 130);
}

async fn check_end(sql: Sql) {
    let deployment = Deployment::new(sql, Redis::Own).await;
    let clock = FakeClock::new(std::path::Path::new(&deployment.path("")), "server");
    // An hour does not end by itself while the test goes on.
    let ahead = seconds_to_minute_ten();
    clock.set(ahead);
    let mut command = deployment.api(&["serve"]);
    command.envs(SETTINGS).envs(clock.variables());
    let api = Api::start_command(&deployment, command).await;
    let board = json!({
        "slug": "b", "shards": 2, "windows": [{ "name": "hourly", "retain": 0 }],
        "maxLatenessSeconds": 3600,
    });
    api.create_board(board).await;
    api.create_board(json!({ "slug": "idle", "windows": [{ "name": "hourly" }] })).await;
    let receiver = Receiver::start(Manner::FailsHalf).await;
    receiver.pass_over_times();
    receiver.subscribe(&api, &["PERIOD_ENDED"], None).await;
    submit_many(&api).await;
    // The hour is over, but late scores are taken.
    clock.set(ahead + 3600);
    until("the server goes by the clock", async || {
        submit_many(&api).await;
        let data = api
            .data(
                "{ board(slug: \"b\") { periods(window: \"hourly\") { totalCount } } }",
                json!({}),
            )
            .await;
        (data["board"]["periods"]["totalCount"] == 2).then_some(())
    })
    .await;
    // The last ones may have come to one partition before the clock, and to the other after it.
    submit_many(&api).await;
    assert_eq!(receiver.requests().len(), 0, "no period is final yet");
    // Both hours are final.
    clock.set(ahead + 4 * 3600);
    let taken = receiver.wait_for(2).await;
    let mut ends = vec![];
    for (id, body) in &taken {
        assert!(id.starts_with("msg_"), "{id}");
        assert_eq!(body["type"], "laurel.period.ended.v1");
        let data = &body["data"];
        assert_eq!((&data["board"], &data["window"]), (&json!("b"), &json!("hourly")));
        let Standings { winners, size, .. } = sealed(&api, &data["period"]["label"]).await;
        assert_eq!((&data["winners"], &data["size"]), (&winners, &size));
        assert_eq!((winners.as_array().unwrap().len(), size), (100, json!(130)));
        ends.push(data["period"]["endsAt"].as_str().unwrap().to_owned());
    }
    assert!(ends[0] < ends[1], "{ends:?}");
    // Another process finds nothing left to tell: it passes an event that comes later.
    api.stop().await;
    let mut command = deployment.api(&["serve"]);
    command.envs(SETTINGS).envs(clock.variables());
    let api = Api::start_command(&deployment, command).await;
    clock.set(ahead + 6 * 3600);
    let last_ms = now_ms() + (ahead + 5 * 3600) * 1000 - GRACE_MS;
    until("the periods since are passed", async || {
        let told: Vec<i64> = api.deployment().column("SELECT until_ms FROM ended_period").await;
        told.iter().all(|until_ms| *until_ms >= last_ms - 3_600_000).then_some(())
    })
    .await;
    assert_eq!(receiver.taken().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_period_is_told_with_the_standings_that_are_sealed_on_sqlite() {
    check_end(Sql::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_period_is_told_with_the_standings_that_are_sealed_on_postgres() {
    check_end(Sql::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_period_is_told_with_the_standings_that_are_sealed_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_end(sql).await;
    }
}
