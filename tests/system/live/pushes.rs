//! Pushes: a snapshot first, then each change, from any process and soon.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::submit;
use tests::api::subscriber::Subscriber;
use tests::clock::now_ms;
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::reshard::reshard;
use tests::trial::fake_clock::FakeClock;

const TOP: &str = "subscription($window: String, $first: Int) {
    top(board: \"b\", of: { window: $window }, first: $first) {
        nodes { rank score member { key } } pageInfo { hasNextPage }
    } }";

const ENTRY: &str =
    "subscription($member: String!) { entry(board: \"b\", member: $member) { rank score } }";

/// The time in which a change of a board is pushed.
const SOON: Duration = Duration::from_millis(250);

/// A time that is long enough for a push that must not come.
const LONG: Duration = Duration::from_millis(600);

async fn score(api: &Api, member: &str, score: i32) {
    submit(api, "b", json!([{ "member": member, "score": score }])).await;
}

async fn api_with_board() -> Api {
    let api = Api::start(&Deployment::new(Sql::any(), Redis::Own).await).await;
    api.create_board(json!({ "slug": "b", "policy": "BEST" })).await;
    api
}

/// The members of a page, in their order.
fn members(data: &Value) -> Vec<&str> {
    let nodes = data["top"]["nodes"].as_array().unwrap();
    nodes.iter().map(|node| node["member"]["key"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_snapshot_comes_first_and_then_each_change_of_the_page() {
    let api = api_with_board().await;
    score(&api, "ann", 5).await;
    let mut socket = Subscriber::connect(&api, None).await;
    socket.subscribe("1", TOP, json!({ "first": 2 })).await;
    assert_eq!(members(&socket.data("1").await), ["ann"]);
    score(&api, "bob", 7).await;
    assert_eq!(members(&socket.data("1").await), ["bob", "ann"]);
    score(&api, "ann", 9).await;
    let data = socket.data("1").await;
    assert_eq!(members(&data), ["ann", "bob"]);
    assert_eq!(data["top"]["pageInfo"]["hasNextPage"], false);
    score(&api, "cat", 1).await;
    assert_eq!(socket.data("1").await["top"]["pageInfo"]["hasNextPage"], true);
    // Below the page, and a worse score: neither changes it.
    score(&api, "dan", 0).await;
    score(&api, "ann", 2).await;
    assert_eq!(socket.next_within(LONG).await, None);
    socket.send(json!({ "type": "complete", "id": "1" })).await;
    socket.send(json!({ "type": "ping" })).await;
    assert_eq!(socket.next().await, json!({ "type": "pong" }));
    score(&api, "eve", 100).await;
    assert_eq!(socket.next_within(LONG).await, None);
}

#[tokio::test]
async fn a_member_that_others_push_down_learns_it_from_another_process_soon() {
    let api = api_with_board().await;
    let other = Api::start_with(api.deployment(), &["--no-workers"]).await;
    score(&api, "ann", 1).await;
    let mut socket = Subscriber::connect(&other, None).await;
    socket.subscribe("1", ENTRY, json!({ "member": "ann" })).await;
    assert_eq!(socket.data("1").await["entry"], json!({ "rank": 1, "score": "1" }));
    socket.subscribe("2", ENTRY, json!({ "member": "nobody" })).await;
    assert_eq!(socket.data("2").await["entry"], Value::Null);
    let mut times = vec![];
    for rank in 2..=10 {
        // A read of before must not be told again.
        tokio::time::sleep(Duration::from_millis(150)).await;
        score(&api, &format!("m{rank}"), rank).await;
        let committed = Instant::now();
        assert_eq!(socket.data("1").await["entry"]["rank"], rank);
        times.push(committed.elapsed());
    }
    times.sort();
    println!("from commit to socket: {times:?}");
    assert!(times[times.len() / 2] < SOON, "{times:?}");
}

#[tokio::test]
async fn changes_are_coalesced_to_ten_a_second_and_the_last_one_comes() {
    let api = api_with_board().await;
    let mut socket = Subscriber::connect(&api, None).await;
    socket.subscribe("1", TOP, json!({})).await;
    assert!(members(&socket.data("1").await).is_empty());
    let (began, mut last) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(2) {
        last += 1;
        score(&api, "ann", last).await;
    }
    let (mut pushes, expected) = (1, json!(last.to_string()));
    while socket.data("1").await["top"]["nodes"][0]["score"] != expected {
        pushes += 1;
    }
    let at_most = 2 + began.elapsed().as_millis() / 100;
    println!("{last} submissions, {pushes} pushes");
    assert!(last > 25, "the server took only {last} submissions");
    assert!(pushes <= at_most, "{pushes} pushes of {last} submissions: at most {at_most}");
    assert_eq!(socket.next_within(LONG).await, None);
}

#[tokio::test]
async fn a_period_that_ends_is_followed_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let clock = FakeClock::new(dir.path(), "api");
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let mut command = deployment.api(&["serve"]);
    command.envs(clock.variables());
    let until_hour = 3600 - now_ms() / 1000 % 3600;
    clock.set(until_hour - 30);
    let api = Api::start_command(&deployment, command).await;
    let windows = json!([{ "name": "hourly" }]);
    api.create_board(json!({ "slug": "b", "policy": "BEST", "windows": windows })).await;
    score(&api, "ann", 5).await;
    let mut socket = Subscriber::connect(&api, None).await;
    socket.subscribe("1", TOP, json!({ "window": "hourly" })).await;
    assert_eq!(members(&socket.data("1").await), ["ann"]);
    clock.set(until_hour + 30);
    assert!(members(&socket.data("1").await).is_empty());
    score(&api, "bob", 1).await;
    assert_eq!(members(&socket.data("1").await), ["bob"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_board_that_moves_is_followed_in_each_of_its_new_shards() {
    let api = api_with_board().await;
    let mut socket = Subscriber::connect(&api, None).await;
    socket.subscribe("1", TOP, json!({ "first": 1 })).await;
    socket.data("1").await;
    reshard(api.deployment(), "b", 4);
    for number in 1..=16 {
        let member = format!("m{number}");
        score(&api, &member, number).await;
        while members(&socket.data("1").await) != [&member] {}
    }
}

#[tokio::test]
async fn a_board_that_is_deleted_ends_its_subscriptions() {
    let api = api_with_board().await;
    let mut socket = Subscriber::connect(&api, None).await;
    socket.subscribe("1", TOP, json!({})).await;
    socket.data("1").await;
    api.delete_board("b").await;
    let end = socket.next().await;
    assert_eq!((&end["type"], &end["id"]), (&json!("error"), &json!("1")), "{end}");
    assert_eq!(end["payload"][0]["extensions"]["code"], "NOT_FOUND");
    assert_eq!(socket.next_within(LONG).await, None);
}
