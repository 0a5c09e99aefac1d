//! Retention: the past periods that a window keeps in Redis, and the others.

use std::sync::Arc;

use ranking::window::{Calendar, Window};
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::connection::Connection;
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::{CREATE_BOARD, PERIODS, UPDATE_BOARD};
use tests::jobs::analytics::figures;
use tests::jobs::diff::check_diff;
use tests::jobs::seal::{retain, wait_until_sealed};
use tests::model::oracle::Board;
use tests::wait::until;

/// A board with two windows, and a score in each of several months.
async fn months(api: &Arc<Deployment>, count: i64) -> (Api, Vec<String>) {
    let api = Api::start(api).await;
    let input = json!({
        "slug": "b", "windows": [{ "name": "monthly", "retain": 2 }, { "name": "daily" }],
    });
    api.create_board(input).await;
    let calendar = Calendar::default();
    let mut period =
        Window::Monthly.period_at(jiff::Timestamp::now().as_millisecond(), &calendar).unwrap();
    let (mut labels, mut scores) = (vec![], vec![]);
    for _ in 0..count {
        let at = jiff::Timestamp::from_millisecond(period.start_ms).unwrap();
        scores.push(json!({ "member": "ann", "score": 1, "at": at.to_string() }));
        labels.push(period.label);
        period = Window::Monthly.period_at(period.start_ms - 1, &calendar).unwrap();
    }
    let told = tests::api::submission::submit_durably(&api, "b", json!(scores)).await;
    assert_eq!(told["accepted"], count, "{told}");
    (api, labels)
}

async fn monthly_periods(api: &Api) -> Vec<(String, bool)> {
    let periods = Connection {
        text: PERIODS,
        variables: json!({ "slug": "b", "window": "monthly" }),
        pointer: "/board/periods",
    };
    let nodes = periods.forward(api, 1000).await;
    let period =
        |node: &Value| (node["label"].as_str().unwrap().to_owned(), node["sealed"] == true);
    nodes.iter().map(period).collect()
}

#[tokio::test]
async fn a_window_keeps_what_it_retains_and_a_dropped_one_nothing() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let (api, labels) = months(&deployment, 6).await;
    let kept = |retain: usize| {
        let sealed = |(number, label): (usize, &String)| (label.clone(), number > retain);
        labels.iter().enumerate().map(sealed).collect::<Vec<_>>()
    };
    for retain in [2, 1] {
        let windows = json!([{ "name": "monthly", "retain": retain }, { "name": "daily" }]);
        let told = api.update_board(json!({ "slug": "b", "windows": windows })).await;
        let said: Vec<Value> = told["windows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|window| json!([window["name"], window["retain"]]))
            .collect();
        let expected = json!([["all", 1_000_000], ["daily", 1_000_000], ["monthly", retain]]);
        assert_eq!(json!(said), expected);
        until("what is not retained is sealed", async || {
            (monthly_periods(&api).await == kept(retain)).then_some(())
        })
        .await;
    }
    assert_eq!(deployment.number("SELECT generation FROM board").await, 1);
    check_diff(&deployment);
    let rows = "SELECT CAST((SELECT COUNT(*) FROM sealed_period) + (SELECT COUNT(*) \
        FROM sealed_entry) AS BIGINT)";
    assert_eq!(deployment.number(rows).await, 8);
    for windows in [
        json!([{ "name": "daily" }]),
        json!([{ "name": "daily" }, { "name": "monthly", "retain": 3 }]),
    ] {
        let is_back = windows.as_array().unwrap().len() == 2;
        api.update_board(json!({ "slug": "b", "windows": windows })).await;
        let left = if is_back { 4 } else { 0 };
        until("the archive has what the windows say", async || {
            (deployment.number(rows).await == left).then_some(())
        })
        .await;
    }
    until("the window is sealed again", async || {
        (monthly_periods(&api).await == kept(3)).then_some(())
    })
    .await;
    check_diff(&deployment);
    api.delete_board("b").await;
    assert_eq!(deployment.number(rows).await, 0);
}

#[tokio::test]
async fn seals_by_hand_are_jobs() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let (api, labels) = months(&deployment, 4).await;
    until("the API seals by itself", async || {
        let periods = monthly_periods(&api).await;
        periods[3].1.then_some(())
    })
    .await;
    assert_eq!(monthly_periods(&api).await[2], (labels[2].clone(), false));
    let sealed = deployment.analytics(&["seal", "--json"]);
    assert_eq!(sealed.status.code(), Some(0));
    let said: Value = serde_json::from_slice(&sealed.stdout).unwrap();
    assert_eq!(said, json!({ "windows": 0, "standings": 0, "entries": 0 }));
    let jobs: Vec<String> =
        deployment.column("SELECT DISTINCT state FROM job WHERE kind = 'SEAL'").await;
    assert_eq!(jobs, ["DONE"]);
    // The server's jobs, and the one by hand.
    let count = "SELECT CAST(COUNT(*) AS BIGINT) FROM job WHERE kind = 'SEAL'";
    assert!(deployment.number(count).await >= 2);
}

#[tokio::test]
async fn a_count_of_periods_that_is_not_accepted_is_told_what_is() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    for (name, retain, code, says) in [
        ("daily", -1, "BAD_USER_INPUT", "0 to 1000000"),
        ("daily", 1_000_001, "LIMIT_EXCEEDED", "at most 1000000"),
        ("all", 3, "BAD_USER_INPUT", "without retain"),
    ] {
        let windows = json!([{ "name": name, "retain": retain }]);
        let create = json!({ "input": { "slug": "c", "windows": windows } });
        let update = json!({ "input": { "slug": "b", "windows": windows } });
        for (text, variables) in [(CREATE_BOARD, create), (UPDATE_BOARD, update)] {
            let answer = api.ask(Some(api.token()), text, variables).await;
            assert_eq!(answer.codes(), [code], "{}", answer.body);
            assert!(answer.message().contains(says), "{}", answer.message());
        }
    }
}

#[tokio::test]
async fn what_comes_late_is_shown_by_the_nearest_score_that_the_window_can_hold() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    let board = Board { max: 10, windows: vec![Window::Daily], ..Board::default() };
    tests::api::submission::create_board(&api, &board).await;
    let send = async |score: i64, day: u32, accepted: u32| {
        let at = format!("2025-09-0{day}T12:00:00Z");
        let scores = json!([{ "member": "ann", "score": score, "at": at }]);
        let told = tests::api::submission::submit_durably(&api, "b", scores).await;
        assert_eq!(told["accepted"], accepted, "{told}");
    };
    send(10, 3, 1).await;
    send(-10, 4, 1).await;
    send(10, 3, 0).await;
    retain(&api, &board, 0).await;
    wait_until_sealed(&api, &board).await;
    let score = async |day: u32| {
        let text = "
            query($period: String!) { board(slug: \"b\") {
                standings(of: { window: \"daily\", period: $period }) { entry(member: \"ann\") { score } }
            } }";
        let data = api.data(text, json!({ "period": format!("2025-09-0{day}") })).await;
        data["board"]["standings"]["entry"]["score"].clone()
    };
    send(10, 3, 1).await;
    // The range of "all" still applies.
    send(1, 3, 0).await;
    let stored = "SELECT score FROM sealed_entry ORDER BY score DESC LIMIT 1";
    for _ in 0..2 {
        assert_eq!((score(3).await, score(4).await), (json!("10"), json!("-10")));
        assert_eq!(deployment.number(stored).await, 20);
        check_diff(&deployment);
        figures(&deployment, &["rebuild", "--board", "b"]);
        deployment.flush_redis().await;
    }
    send(-10, 3, 1).await;
    assert_eq!(score(3).await, "10");
    assert_eq!(deployment.number(stored).await, 10);
    let corrections = "SELECT CAST(MAX(corrections) AS BIGINT) FROM sealed_period";
    assert_eq!(deployment.number(corrections).await, 2);
    tests::jobs::seal::check_sizes(&deployment).await;
    tests::api::amendment::remove(&api, "b", "ann").await;
    assert_eq!((score(3).await, score(4).await), (Value::Null, Value::Null));
    tests::jobs::seal::check_sizes(&deployment).await;
}

#[tokio::test]
async fn what_a_rolling_window_retains_is_read_from_redis_though_it_began_long_ago() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "windows": [{ "name": "7d", "retain": 1 }] })).await;
    let day_s = 86_400;
    let at = |days: i64| {
        jiff::Timestamp::from_second(jiff::Timestamp::now().as_second() - days * day_s)
            .unwrap()
            .to_string()
    };
    let score = |days: i64| json!({ "member": format!("m{days}"), "score": 1, "at": at(days) });
    let scores: Vec<Value> = (0..20).map(score).collect();
    assert_eq!(
        tests::api::submission::submit_durably(&api, "b", json!(scores)).await["accepted"],
        20
    );
    // The server may seal at the same time; then one of them starts again.
    until("it is sealed", async || {
        let sealed = deployment.analytics(&["seal"]);
        sealed.status.success().then_some(())
    })
    .await;
    let ask = "
        query($at: DateTime!) { board(slug: \"b\") { standings(of: { window: \"7d\", at: $at }) {
            source size period { sealed }
        } } }";
    // Today's and yesterday's periods lie in Redis, older ones are sealed; each has seven days.
    for days in [0, 1, 2, 9] {
        let (source, sealed) = if days < 2 { ("LIVE", false) } else { ("ARCHIVE", true) };
        let expected = json!({ "source": source, "size": 7, "period": { "sealed": sealed } });
        let what = format!("{days} days ago: {expected}");
        until(&what, async || {
            let data = api.data(ask, json!({ "at": at(days) })).await;
            (data["board"]["standings"] == expected).then_some(())
        })
        .await;
    }
}
