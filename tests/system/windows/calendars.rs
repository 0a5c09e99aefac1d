//! The reset hour of a board, and the first day of its weeks.

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::{CREATE_BOARD, UPDATE_BOARD};
use tests::jobs::analytics::figures;
use tests::jobs::diff::check_diff;

const PERIODS: &str = "
    query($window: String!) { board(slug: \"b\") {
        resetHour weekStart
        periods(window: $window, first: 100) { nodes { label start end } }
    } }";

/// Instants of scores. London's clocks skip 01:00 to 02:00 on March 30, a Sunday.
const SCORES: [&str; 5] = [
    "2025-03-28T23:59:59Z",
    "2025-03-29T01:00:00Z",
    "2025-03-30T00:59:59Z",
    "2025-03-30T01:00:00Z",
    "2025-03-31T00:00:00Z",
];

/// The label, start and end of each period that has a score, newest first.
const EXPECTED: [(&str, &[[&str; 3]]); 5] = [
    (
        "daily",
        &[
            ["2025-03-31", "2025-03-31T00:00:00.000Z", "2025-04-01T00:00:00.000Z"],
            ["2025-03-30", "2025-03-30T01:00:00.000Z", "2025-03-31T00:00:00.000Z"],
            ["2025-03-29", "2025-03-29T01:00:00.000Z", "2025-03-30T01:00:00.000Z"],
            ["2025-03-28", "2025-03-28T01:00:00.000Z", "2025-03-29T01:00:00.000Z"],
        ],
    ),
    (
        "weekly",
        &[
            ["2025-03-30/P7D", "2025-03-30T01:00:00.000Z", "2025-04-06T00:00:00.000Z"],
            ["2025-03-23/P7D", "2025-03-23T01:00:00.000Z", "2025-03-30T01:00:00.000Z"],
        ],
    ),
    ("monthly", &[["2025-03", "2025-03-01T01:00:00.000Z", "2025-04-01T00:00:00.000Z"]]),
    (
        "1d",
        &[
            ["2025-03-31", "2025-03-31T00:00:00.000Z", "2025-04-01T00:00:00.000Z"],
            ["2025-03-30", "2025-03-30T01:00:00.000Z", "2025-03-31T00:00:00.000Z"],
            ["2025-03-29", "2025-03-29T01:00:00.000Z", "2025-03-30T01:00:00.000Z"],
            ["2025-03-28", "2025-03-28T01:00:00.000Z", "2025-03-29T01:00:00.000Z"],
        ],
    ),
    (
        "1w",
        &[
            ["2025-03-30/P7D", "2025-03-30T01:00:00.000Z", "2025-04-06T00:00:00.000Z"],
            ["2025-03-23/P7D", "2025-03-23T01:00:00.000Z", "2025-03-30T01:00:00.000Z"],
        ],
    ),
];

async fn check(api: &Api) {
    for (window, expected) in EXPECTED {
        let board = api.data(PERIODS, json!({ "window": window })).await["board"].take();
        assert_eq!((&board["resetHour"], &board["weekStart"]), (&json!(1), &json!("SUNDAY")));
        let period =
            |[label, start, end]: &[&str; 3]| json!({ "label": label, "start": start, "end": end });
        let expected: Vec<Value> = expected.iter().map(period).collect();
        assert_eq!(board["periods"]["nodes"], json!(expected), "{window}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn periods_begin_at_the_reset_hour_and_weeks_on_their_first_day() {
    for sql in Sql::all() {
        let deployment = Deployment::new(sql, Redis::Own).await;
        let api = Api::start(&deployment).await;
        let windows = EXPECTED.map(|(name, _)| json!({ "name": name }));
        api.create_board(json!({
            "slug": "b", "timeZone": "Europe/London", "resetHour": 1, "weekStart": "SUNDAY",
            "windows": windows,
        }))
        .await;
        let scores = SCORES.map(|at| json!({ "member": "ann", "score": 1, "at": at }));
        assert_eq!(submit_durably(&api, "b", json!(scores)).await["accepted"], SCORES.len());
        check(&api).await;
        figures(&deployment, &["rebuild", "--board", "b"]);
        check(&api).await;
        deployment.flush_redis().await;
        check(&api).await;
        check_diff(&deployment);
    }
}

#[tokio::test]
async fn the_rules_by_which_periods_begin_are_fixed_when_a_board_is_created() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    for (name, value) in [("resetHour", json!(5)), ("weekStart", json!("SUNDAY"))] {
        let variables = json!({ "input": { "slug": "b", name: value } });
        let literal = value.to_string().replace('"', "");
        let text = format!(
            "mutation {{ updateBoard(input: {{ slug: \"b\", {name}: {literal} }}) {{ board {{ id }} }} }}"
        );
        for answer in [
            api.ask(Some(api.token()), UPDATE_BOARD, variables).await,
            api.ask(Some(api.token()), &text, json!({})).await,
        ] {
            assert_eq!(answer.codes(), ["BAD_USER_INPUT"], "{:?}", answer.body);
            let error = &answer.body["errors"][0];
            assert_eq!(error["extensions"]["argument"], format!("input.{name}"));
            let message = error["message"].as_str().unwrap();
            assert!(message.contains("fixed when a board is created"), "{message}");
        }
    }
    let refused = json!({ "input": { "slug": "c", "resetHour": 24 } });
    let answer = api.ask(Some(api.token()), CREATE_BOARD, refused).await;
    assert_eq!(answer.body["errors"][0]["extensions"]["argument"], "input.resetHour");
}
