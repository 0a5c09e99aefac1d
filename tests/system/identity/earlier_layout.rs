//! Redis as an earlier version of the programs left it.

use ranking::window::Window;
use redis::AsyncCommands;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::listing::check_standings;
use tests::api::submission::{create_board, submit_durably};
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::diff::check_diff;
use tests::model::oracle::{Board, Event, Oracle};

/// Before keys had a layout, heads were written "<seq> <commit id> <run id>", and there were no
/// lists of periods.
async fn take_back_layout(deployment: &Deployment) {
    let mut redis = deployment.redis().await;
    let heads: Vec<String> = redis.keys("laurel:*:head").await.unwrap();
    assert!(!heads.is_empty());
    for head in heads {
        let text: String = redis.get(&head).await.unwrap();
        let parts: Vec<&str> = text.split(' ').collect();
        let [seq, commit, _layout, _clock, _epoch, _deployment, run_id] = parts[..] else {
            panic!("{head} is {text}")
        };
        let () = redis.set(&head, format!("{seq} {commit} {run_id}")).await.unwrap();
    }
    let lists: Vec<String> = redis.keys("laurel:*:periods:*").await.unwrap();
    assert!(!lists.is_empty());
    let () = redis.del(lists).await.unwrap();
}

/// A board and its events, in SQL too.
async fn filled(api: &Api) -> Oracle {
    let board = Board {
        zone: "Europe/London",
        shards: 4,
        windows: vec![Window::Daily, Window::Monthly],
        ..Board::default()
    };
    create_board(api, &board).await;
    let event = |number: i64| Event {
        member: format!("m{}", number % 17),
        score: number % 5,
        at_ms: 1_761_300_000_000 + number * 40_000_000,
        id: Some(format!("e{number}")),
        metadata: None,
    };
    let mut oracle = Oracle::new(board);
    let events: Vec<Event> = (0..60).map(event).collect();
    let scores: Vec<Value> = events.iter().map(|event| oracle.board.score_input(event)).collect();
    assert_eq!(submit_durably(api, "b", json!(scores)).await["accepted"], 60);
    events.iter().for_each(|event| {
        oracle.submit(event);
    });
    oracle
}

async fn check(api: &Api, oracle: &Oracle) {
    check_standings(api, oracle).await;
    let text = "
        query($window: String!) { board(slug: \"b\") { periods(window: $window, first: 100) {
            nodes { label }
        } } }";
    for &window in &oracle.board.windows {
        let data = api.data(text, json!({ "window": window.to_string() })).await;
        let label = |label: String| json!({ "label": label });
        let expected: Vec<Value> = oracle.periods(window).into_iter().map(label).collect();
        assert_eq!(data["board"]["periods"]["nodes"], json!(expected), "{window}");
    }
}

#[tokio::test]
async fn heads_of_the_layout_before_are_recovered_and_periods_listed() {
    for sql in Sql::all() {
        let deployment = Deployment::new(sql, Redis::Own).await;
        let api = Api::start(&deployment).await;
        let oracle = filled(&api).await;
        api.stop().await;
        take_back_layout(&deployment).await;
        let api = Api::start(&deployment).await;
        check(&api, &oracle).await;
        let again = oracle.board.score_input(&oracle.accepted()[0]);
        assert_eq!(submit_durably(&api, "b", json!([again])).await["duplicates"], 1);
        check_diff(&deployment);
    }
}

#[tokio::test]
async fn heads_of_the_layout_before_are_recovered_under_a_running_process_too() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    let oracle = filled(&api).await;
    take_back_layout(&deployment).await;
    check(&api, &oracle).await;
}
