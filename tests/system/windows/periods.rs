//! The periods of a board that have entries.

use rand::RngExt;
use ranking::window::Window;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::{remove, void};
use tests::api::connection::{Connection, texts};
use tests::api::submission::{create_board, submit_durably, submit_events};
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::PERIODS;
use tests::jobs::analytics::figures;
use tests::model::game::seeded;
use tests::model::oracle::{Board, Event, Oracle};
use tests::wait::until;

const LAST_EVENT: &str = "
    query($member: String!) { member(key: $member) { events(board: \"b\", first: 1) {
        nodes { id kind }
    } } }";

/// The labels of a window's periods, read in pages of several sizes both ways.
async fn labels(api: &Api, slug: &str, window: Window) -> Vec<String> {
    let connection = Connection {
        text: PERIODS,
        variables: json!({ "slug": slug, "window": window.to_string() }),
        pointer: "/board/periods",
    };
    let nodes = connection.nodes(api).await;
    let mut next_start = Value::Null;
    for node in nodes.iter().filter(|_| window != Window::All) {
        // Periods are listed newest first, and do not overlap.
        let (start, end) = (node["start"].as_str().unwrap(), node["end"].as_str().unwrap());
        assert!(start < end && next_start.as_str().is_none_or(|next| end <= next), "{nodes:?}");
        next_start = json!(start);
        assert_eq!(node["sealed"], false);
    }
    texts(&nodes, "/label")
}

async fn check(api: &Api, oracle: &Oracle) {
    for &window in [Window::All].iter().chain(&oracle.board.windows) {
        let seen = labels(api, &oracle.board.slug, window).await;
        assert_eq!(seen, oracle.periods(window), "{window} of {:?}", oracle.board);
    }
}

async fn check_random(sql: Sql, shards: u16) {
    let mut rng = seeded();
    let deployment = Deployment::new(sql, Redis::Own).await;
    let api = Api::start(&deployment).await;
    let board = Board {
        policy: "BEST",
        max: 100,
        zone: ["Europe/London", "Australia/Lord_Howe", "America/St_Johns"][rng.random_range(0..3)],
        shards,
        windows: Window::EVERY[1..].to_vec(),
        seasons: vec![
            ("winter", 1_735_700_000_000, 1_743_000_000_000),
            ("spring", 1_743_000_000_000, 1_750_000_000_000),
            ("autumn", 1_755_000_000_000, 1_761_440_000_000),
            ("late", 1_761_440_400_000, 1_765_000_000_000),
        ],
        ..Board::default()
    };
    create_board(&api, &board).await;
    let event = |number: i64, rng: &mut rand::rngs::StdRng| Event {
        member: format!("m{}", number % 12),
        score: 1,
        // Half an hour apart around the end of summer time, and days apart for a year.
        at_ms: match number % 2 {
            0 => 1_761_426_000_000 + rng.random_range(0..40) * 1_800_000,
            _ => 1_735_689_600_000 + rng.random_range(0..400) * 86_000_000,
        },
        id: None,
        metadata: None,
    };
    let events: Vec<Event> = (0..120).map(|number| event(number, &mut rng)).collect();
    let mut oracle = Oracle::new(board.clone());
    check(&api, &oracle).await;
    for batch in events.chunks(40) {
        submit_events(&api, &board, batch).await;
        batch.iter().for_each(|event| {
            oracle.submit(event);
        });
        check(&api, &oracle).await;
    }
    for member in ["m1", "m2", "m3"] {
        leaves_and_comes_back(&api, &mut oracle, member).await;
    }
    survives(&deployment, &api, &oracle).await;
}

/// A score at the end of summer time.
fn in_october(member: &str) -> Event {
    Event {
        member: member.to_owned(),
        score: 1,
        at_ms: 1_761_440_400_000,
        id: None,
        metadata: None,
    }
}

/// Checks that a member leaves with the periods that are its own alone, and comes back with them.
async fn leaves_and_comes_back(api: &Api, oracle: &mut Oracle, member: &str) {
    let board = oracle.board.clone();
    let mut left = oracle.accepted().to_vec();
    left.retain(|event| event.member != member);
    assert_eq!(remove(api, "b", member).await["removed"], true);
    check(api, &Oracle::of(board.clone(), left.clone())).await;
    let again = in_october("m0");
    submit_durably(api, "b", json!([board.score_input(&again)])).await;
    left.push(again.clone());
    check(api, &Oracle::of(board, left)).await;
    let removal = until("the removal is in the history", async || {
        let data = api.data(LAST_EVENT, json!({ "member": member })).await;
        let event = data["member"]["events"]["nodes"][0].clone();
        (event["kind"] == "REMOVAL").then_some(event)
    })
    .await;
    let answer = void(api, removal["id"].as_str().unwrap()).await;
    assert_eq!(answer.body["data"]["voidEvent"]["voided"], true);
    oracle.submit(&again);
    check(api, oracle).await;
}

async fn survives(deployment: &Deployment, api: &Api, oracle: &Oracle) {
    // SQL has everything once an answer about each shard is durable.
    let again: Vec<Event> = (0..12).map(|member| in_october(&format!("m{member}"))).collect();
    let scores: Vec<Value> = again.iter().map(|event| oracle.board.score_input(event)).collect();
    submit_durably(api, "b", json!(scores)).await;
    let events = [oracle.accepted(), &again].concat();
    let oracle = Oracle::of(oracle.board.clone(), events);
    for _ in 0..2 {
        deployment.flush_redis().await;
        check(api, &oracle).await;
        figures(deployment, &["rebuild", "--board", "b"]);
        check(api, &oracle).await;
    }
    // A rebuild restores lost lists.
    let mut redis = deployment.redis().await;
    let lists: Vec<String> =
        redis::cmd("KEYS").arg("laurel:*:periods:*").query_async(&mut redis).await.unwrap();
    assert!(!lists.is_empty());
    redis::cmd("DEL").arg(&lists).query_async::<()>(&mut redis).await.unwrap();
    figures(deployment, &["rebuild", "--board", "b"]);
    check(api, &oracle).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_periods_of_a_window_are_those_with_entries_on_sqlite() {
    check_random(Sql::Sqlite, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_periods_of_a_window_in_four_shards_are_those_with_entries_on_postgres() {
    check_random(Sql::Postgres, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_periods_of_a_window_in_four_shards_are_those_with_entries_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_random(sql, 4).await;
    }
}

#[tokio::test]
async fn periods_of_a_window_that_a_board_has_not_and_pages_that_are_none_are_refused() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "windows": [{ "name": "daily" }] })).await;
    for (window, page, code) in [
        ("weekly", json!({}), "WINDOW_NOT_FOUND"),
        ("yearly", json!({}), "WINDOW_NOT_FOUND"),
        ("", json!({}), "WINDOW_NOT_FOUND"),
        ("daily", json!({ "after": "yesterday" }), "BAD_USER_INPUT"),
        ("daily", json!({ "after": "2025-W03" }), "BAD_USER_INPUT"),
        ("daily", json!({ "first": 1, "last": 1 }), "BAD_USER_INPUT"),
        ("daily", json!({ "last": -1 }), "BAD_USER_INPUT"),
        ("daily", json!({ "first": 1001 }), "LIMIT_EXCEEDED"),
    ] {
        let mut variables = json!({ "slug": "b", "window": window });
        variables.as_object_mut().unwrap().extend(page.as_object().unwrap().clone());
        let answer = api.ask(Some(api.token()), PERIODS, variables.clone()).await;
        assert_eq!(answer.codes(), [code], "{variables}");
    }
}

#[tokio::test]
async fn more_periods_than_are_looked_at_at_once_are_all_listed() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "shards": 4, "windows": [{ "name": "hourly" }] })).await;
    let at =
        |hour: i64| jiff::Timestamp::from_second(1_700_000_000 + hour * 3600).unwrap().to_string();
    // One shard has 1,100 hours, the others have a few.
    for hours in [0..1000, 1000..1100] {
        let scores: Vec<Value> =
            hours.map(|hour| json!({ "member": "ann", "score": 1, "at": at(hour) })).collect();
        assert_eq!(submit_durably(&api, "b", json!(scores)).await["rejected"], 0);
    }
    let others: Vec<Value> = (0..60)
        .map(|number| {
            json!({
                "member": format!("m{}", number % 9), "score": 1, "at": at(1_130 - number * 20),
            })
        })
        .collect();
    submit_durably(&api, "b", json!(others)).await;
    let connection = Connection {
        text: PERIODS,
        variables: json!({ "slug": "b", "window": "hourly" }),
        pointer: "/board/periods",
    };
    let all = connection.forward(&api, 700).await;
    assert_eq!(connection.backward(&api, 450).await, all);
    assert_eq!(all.len(), 1100 + 5);
    // Most periods have no entries now: the others are found behind them.
    remove(&api, "b", "ann").await;
    let left = connection.forward(&api, 7).await;
    assert_eq!(left.len(), 60);
    assert_eq!(connection.backward(&api, 11).await, left);
    assert!(left.iter().all(|period| all.contains(period)));
}

#[tokio::test]
async fn periods_are_listed_by_a_process_that_starts_later() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "windows": [{ "name": "monthly" }] })).await;
    submit_durably(
        &api,
        "b",
        json!([
            { "member": "ann", "score": 1, "at": "2025-03-01T00:00:00Z" },
            { "member": "bob", "score": 1, "at": "2024-12-31T00:00:00Z" },
        ]),
    )
    .await;
    api.stop().await;
    let api = Api::start(&deployment).await;
    assert_eq!(labels(&api, "b", Window::Monthly).await, ["2025-03", "2024-12"]);
}
