//! Corrections of final standings that were told.

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::{events, remove, void};
use tests::api::submission::submit_durably;
use tests::clock::{now_ms, seconds_to_minute_ten};
use tests::deployment::{Deployment, Redis, Sql};
use tests::receiver::{Manner, Receiver, SETTINGS};
use tests::trial::fake_clock::FakeClock;
use tests::wait::until;

use super::standings::{sealed, standings};

/// Waits for the event of a version; it has the standings that the API has.
async fn wait_for_version(api: &Api, receiver: &Receiver, version: i64) -> Value {
    let kind = match version {
        1 => "laurel.period.ended.v1",
        _ => "laurel.period.corrected.v1",
    };
    let told = until("the receiver has the version", async || {
        let told = receiver.data(kind);
        told.into_iter().find(|data| data["version"] == version)
    })
    .await;
    let found = standings(api, &told["period"]["label"]).await;
    assert_eq!((&told["winners"], &told["size"]), (&found.winners, &found.size), "{version}");
    assert_eq!((&told["board"], &told["window"]), (&json!("b"), &json!("hourly")));
    told
}

async fn check_corrections(sql: Sql, retain: i64) {
    let deployment = Deployment::new(sql, Redis::Own).await;
    let clock = FakeClock::new(std::path::Path::new(&deployment.path("")), "server");
    // An hour does not end by itself while the test goes on.
    let ahead = seconds_to_minute_ten();
    clock.set(ahead);
    let mut command = deployment.api(&["serve"]);
    command.envs(SETTINGS).envs(clock.variables());
    let api = Api::start_command(&deployment, command).await;
    let windows = json!([{ "name": "hourly", "retain": retain }]);
    let board = json!({ "slug": "b", "policy": "BEST", "shards": 2, "windows": windows });
    api.create_board(board).await;
    let receiver = Receiver::start(Manner::FailsHalf).await;
    receiver.pass_over_times();
    receiver.subscribe(&api, &["PERIOD_ENDED", "PERIOD_CORRECTED"], None).await;
    let of_ends = Receiver::start(Manner::Takes).await;
    of_ends.pass_over_times();
    of_ends.subscribe(&api, &["PERIOD_ENDED"], None).await;
    let at = jiff::Timestamp::from_millisecond(now_ms() + ahead * 1000).unwrap().to_string();
    let submit = async |member: &str, score: i64| {
        let scores = json!([{ "member": member, "score": score, "at": at }]);
        assert_eq!(submit_durably(&api, "b", scores).await["accepted"], 1);
    };
    for (member, score) in [("ann", 30), ("bob", 20), ("cid", 10)] {
        submit(member, score).await;
    }
    clock.set(ahead + 2 * 3600);
    let ended = wait_for_version(&api, &receiver, 1).await;
    let label = &ended["period"]["label"];
    if retain == 0 {
        sealed(&api, label).await;
    }
    submit("dan", 40).await;
    let late = wait_for_version(&api, &receiver, 2).await;
    assert_eq!((&late["winners"][0]["member"], &late["size"]), (&json!("dan"), &json!(4)));
    let newest = events(&api, "b", "dan").await[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(void(&api, &newest).await.body.get("errors"), None);
    let voided = wait_for_version(&api, &receiver, 3).await;
    assert_eq!((&voided["winners"], &voided["period"]), (&ended["winners"], &ended["period"]));
    // A late score that changes nothing is no correction.
    submit("bob", 5).await;
    until("its change was looked at", async || {
        let changes = "SELECT CAST(COUNT(*) AS BIGINT) FROM told_period WHERE changes > 0";
        (api.deployment().number(changes).await == 0).then_some(())
    })
    .await;
    remove(&api, "b", "cid").await;
    let removed = wait_for_version(&api, &receiver, 4).await;
    assert_eq!(removed["size"], 2);
    assert_eq!(receiver.data("laurel.period.corrected.v1").len(), 3);
    let ends = of_ends.wait_for(1).await;
    assert!(ends.iter().all(|(_, body)| body["type"] == "laurel.period.ended.v1"), "{ends:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_standings_that_were_told_are_told_on_sqlite() {
    check_corrections(Sql::Sqlite, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_standings_that_were_told_are_told_on_postgres() {
    check_corrections(Sql::Postgres, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_standings_that_were_told_are_told_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_corrections(sql, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_standings_that_are_still_in_redis_are_told() {
    check_corrections(Sql::any(), 48).await;
}
