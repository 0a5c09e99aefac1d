//! Windows in local time: events around the days when clocks change land in the period of the local
//! clock.

use ranking::window::Window;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::submit;
use tests::deployment::{Deployment, Redis, Sql};

/// The number of windows with periods and without a number in their names.
const WINDOWS: usize = Window::CALENDAR.len();

/// An instant, and the hour, day, week, month and so on that it belongs to.
type Event = (&'static str, [&'static str; WINDOWS]);

/// The events in each zone.
const EVENTS: [(&str, &[Event]); 4] = [
    (
        "Europe/London",
        &[
            (
                "2025-03-30T00:59:59Z",
                ["2025-03-30T00+00:00", "2025-03-30", "2025-W13", "2025-03", "2025-Q1", "2025"],
            ),
            (
                "2025-03-30T01:00:00Z",
                ["2025-03-30T02+01:00", "2025-03-30", "2025-W13", "2025-03", "2025-Q1", "2025"],
            ),
            (
                "2025-03-30T23:00:00Z",
                ["2025-03-31T00+01:00", "2025-03-31", "2025-W14", "2025-03", "2025-Q1", "2025"],
            ),
            (
                "2025-10-26T00:30:00Z",
                ["2025-10-26T01+01:00", "2025-10-26", "2025-W43", "2025-10", "2025-Q4", "2025"],
            ),
            (
                "2025-10-26T01:30:00Z",
                ["2025-10-26T01+00:00", "2025-10-26", "2025-W43", "2025-10", "2025-Q4", "2025"],
            ),
            (
                "2025-10-26T23:59:59.999Z",
                ["2025-10-26T23+00:00", "2025-10-26", "2025-W43", "2025-10", "2025-Q4", "2025"],
            ),
        ],
    ),
    (
        "Australia/Lord_Howe",
        &[
            (
                "2025-04-05T14:59:59Z",
                ["2025-04-06T01+11:00", "2025-04-06", "2025-W14", "2025-04", "2025-Q2", "2025"],
            ),
            (
                "2025-04-05T15:00:00Z",
                ["2025-04-06T01+10:30", "2025-04-06", "2025-W14", "2025-04", "2025-Q2", "2025"],
            ),
            (
                "2025-04-05T15:30:00Z",
                ["2025-04-06T02+10:30", "2025-04-06", "2025-W14", "2025-04", "2025-Q2", "2025"],
            ),
            (
                "2025-10-04T15:29:59Z",
                ["2025-10-05T01+10:30", "2025-10-05", "2025-W40", "2025-10", "2025-Q4", "2025"],
            ),
            (
                "2025-10-04T15:30:00Z",
                ["2025-10-05T02+11:00", "2025-10-05", "2025-W40", "2025-10", "2025-Q4", "2025"],
            ),
        ],
    ),
    (
        "America/St_Johns",
        &[
            // Clocks went back from 00:01 to 23:01: the day was left and entered again, and is one
            // day.
            (
                "2010-11-07T02:29:59Z",
                ["2010-11-06T23-02:30", "2010-11-06", "2010-W44", "2010-11", "2010-Q4", "2010"],
            ),
            (
                "2010-11-07T02:30:30Z",
                ["2010-11-07T00-02:30", "2010-11-07", "2010-W44", "2010-11", "2010-Q4", "2010"],
            ),
            (
                "2010-11-07T02:45:00Z",
                ["2010-11-06T23-03:30", "2010-11-07", "2010-W44", "2010-11", "2010-Q4", "2010"],
            ),
            (
                "2025-11-02T03:30:00Z",
                ["2025-11-02T01-02:30", "2025-11-02", "2025-W44", "2025-11", "2025-Q4", "2025"],
            ),
            (
                "2025-11-02T04:30:00Z",
                ["2025-11-02T01-03:30", "2025-11-02", "2025-W44", "2025-11", "2025-Q4", "2025"],
            ),
        ],
    ),
    (
        "Asia/Kathmandu",
        &[
            (
                "2025-06-30T18:14:59.999Z",
                ["2025-06-30T23+05:45", "2025-06-30", "2025-W27", "2025-06", "2025-Q2", "2025"],
            ),
            (
                "2025-06-30T18:15:00Z",
                ["2025-07-01T00+05:45", "2025-07-01", "2025-W27", "2025-07", "2025-Q3", "2025"],
            ),
            (
                "2024-12-29T18:15:00Z",
                ["2024-12-30T00+05:45", "2024-12-30", "2025-W01", "2024-12", "2024-Q4", "2024"],
            ),
        ],
    ),
];

const STANDINGS: &str = "
    query($slug: String!, $window: String!, $at: DateTime, $period: String) {
        board(slug: $slug) { standings(of: { window: $window, at: $at, period: $period }) {
            period { label start end } top(first: 100) { nodes { member { key } } }
        } }
    }";

#[tokio::test]
async fn an_event_lands_in_the_period_of_its_local_clock() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    for (zone, events) in EVENTS {
        let slug = zone.to_lowercase().replace('/', "-");
        let windows = Window::CALENDAR.iter().map(|window| json!({ "name": window.to_string() }));
        let windows: Vec<Value> = windows.collect();
        api.create_board(json!({
            "slug": slug, "timeZone": zone, "policy": "LATEST", "windows": windows,
        }))
        .await;
        let scores: Vec<Value> =
            events.iter().map(|(at, _)| json!({ "member": at, "score": 1, "at": at })).collect();
        let payload = submit(&api, &slug, json!(scores)).await;
        assert_eq!(payload["accepted"], events.len());
        for (at, labels) in events {
            for (window, label) in Window::CALENDAR.iter().zip(labels) {
                check(&api, &slug, at, *window, label, events).await;
            }
        }
    }
}

async fn check(api: &Api, slug: &str, at: &str, window: Window, label: &str, events: &[Event]) {
    let by = async |at: Option<&str>, period: Option<&str>| {
        let variables =
            json!({ "slug": slug, "window": window.to_string(), "at": at, "period": period });
        api.data(STANDINGS, variables).await["board"]["standings"].take()
    };
    let standings = by(Some(at), None).await;
    assert_eq!(standings["period"]["label"], label, "{at} {window} {slug}");
    assert_eq!(standings, by(None, Some(label)).await, "{at} {window} {slug}");
    let (start, end) = (&standings["period"]["start"], &standings["period"]["end"]);
    let instant = |text: &Value| text.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert!((instant(start)..instant(end)).contains(&instant(&json!(at))), "{at} {window} {slug}");
    assert_eq!(by(start.as_str(), None).await["period"]["label"], label, "{at} {window} {slug}");
    assert_ne!(by(end.as_str(), None).await["period"]["label"], label, "{at} {window} {slug}");
    let index = Window::CALENDAR.iter().position(|other| *other == window).unwrap();
    let mut expected: Vec<&str> =
        events.iter().filter(|(_, labels)| labels[index] == label).map(|(at, _)| *at).collect();
    let mut members: Vec<&str> = standings["top"]["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["member"]["key"].as_str().unwrap())
        .collect();
    expected.sort_unstable();
    members.sort_unstable();
    assert_eq!(members, expected, "{label} {window} {slug}");
}
