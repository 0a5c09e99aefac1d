//! Rolling windows as users meet them: over GraphQL, with real events, added to boards under load,
//! rebuilt and compared.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures::stream::{self, StreamExt};
use jiff::ToSpan;
use jiff::tz::TimeZone;
use rand::prelude::*;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::remove;
use tests::api::submission::submit;
use tests::api::window::{set_windows, wait_until_ready};
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::CREATE_BOARD;
use tests::jobs::analytics::figures;
use tests::jobs::diff::check_diff;
use tests::jobs::rebuild::{corrupt, rebuild};
use tests::model::demo::{Row, rows};
use tests::model::game::seeded;

const ZONE: &str = "Europe/London";

const ASK: &str = "
    query($slug: String!, $window: String!, $at: DateTime!) { board(slug: $slug) {
        standings(of: { window: $window, at: $at }) {
            size period { label start end sealed }
            top(first: 100) { nodes { score member { key } } }
        }
    } }";

async fn create(api: &Api, slug: &str, windows: &[&str]) {
    let windows: Vec<Value> = windows.iter().map(|name| json!({ "name": name })).collect();
    let input = json!({
        "slug": slug, "timeZone": ZONE, "tieBreak": "MEMBER", "maxScore": 9007199254740_i64,
        "windows": windows,
    });
    let created = api.create_board(input).await;
    let names = created["windows"].as_array().unwrap();
    assert_eq!(names.len(), windows.len() + 1, "{names:?}");
}

/// Changes the windows of a board, and waits until it has them.
async fn change_windows(api: &Api, slug: &str, windows: &[&str]) {
    set_windows(api, slug, windows).await;
    wait_until_ready(api, slug, windows).await;
}

/// The expected entries of a window of so many days at an instant, from the file alone: by total,
/// then by name.
fn expected(rows: &[Row], days: i32, at: jiff::Timestamp) -> Vec<(String, String)> {
    let zone = TimeZone::get(ZONE).unwrap();
    let today = at.to_zoned(zone.clone()).date();
    let end = today.tomorrow().unwrap().to_zoned(zone.clone()).unwrap();
    let first = today.checked_sub((days - 1).days()).unwrap();
    let start = first.to_zoned(zone).unwrap();
    let span = start.timestamp().as_second()..end.timestamp().as_second();
    let mut totals: BTreeMap<&str, i64> = BTreeMap::new();
    for row in rows.iter().filter(|row| span.contains(&row.2)) {
        *totals.entry(&row.1).or_default() += row.3;
    }
    let mut list: Vec<(&str, i64)> = totals.into_iter().collect();
    list.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.as_bytes().cmp(b.0.as_bytes())));
    list.into_iter().map(|(member, total)| (member.to_owned(), total.to_string())).collect()
}

async fn check_at(api: &Api, rows: &[Row], days: i32, at: jiff::Timestamp) {
    let variables = json!({ "slug": "demo", "window": format!("{days}d"), "at": at.to_string() });
    let data = api.data(ASK, variables).await;
    let standings = &data["board"]["standings"];
    let expected = expected(rows, days, at);
    let nodes = standings["top"]["nodes"].as_array().unwrap();
    let got = nodes.iter().map(|node| {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&node["member"]["key"]), text(&node["score"]))
    });
    assert_eq!(standings["size"], expected.len(), "{days}d at {at}");
    let top: Vec<_> = expected.into_iter().take(100).collect();
    assert_eq!(got.collect::<Vec<_>>(), top, "{days}d at {at}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seven_days_of_real_events_are_what_their_file_adds_up_to() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let rows: Vec<Row> = rows().into_iter().filter(|row| row.0 == "ripgrep").collect();
    create(&api, "demo", &["7d"]).await;
    let file = deployment.new_file("csv");
    let mut text = "member,score,at\n".to_owned();
    for (_, member, at, lines) in &rows {
        text.push_str(&format!("{member},{lines},{at}\n"));
    }
    std::fs::write(&file, text).unwrap();
    let imported = deployment.analytics(&["import", "--board", "demo", file.to_str().unwrap()]);
    let error = String::from_utf8_lossy(&imported.stderr);
    assert!(imported.status.success(), "{error}");

    let mut rng = seeded();
    let seconds = rows.iter().map(|row| row.2);
    let (first, last) = (seconds.clone().min().unwrap(), seconds.max().unwrap());
    for _ in 0..200 {
        let near = rows.choose(&mut rng).unwrap().2 + rng.random_range(-86_400..9 * 86_400);
        let second = if rng.random_bool(0.8) { near } else { rng.random_range(first..last) };
        let at = jiff::Timestamp::from_second(second.clamp(0, 1_790_000_000)).unwrap();
        check_at(&api, &rows, 7, at).await;
    }
    check_diff(&deployment);

    // A second window from the history; then everything rebuilt and restored.
    change_windows(&api, "demo", &["7d", "30d"]).await;
    let check_some = async |rng: &mut StdRng| {
        for _ in 0..10 {
            let second = rows.choose(rng).unwrap().2 + rng.random_range(0..40 * 86_400);
            let at = jiff::Timestamp::from_second(second.clamp(0, 1_790_000_000)).unwrap();
            check_at(&api, &rows, 30, at).await;
            check_at(&api, &rows, 7, at).await;
        }
    };
    check_some(&mut rng).await;
    figures(&deployment, &["rebuild", "--board", "demo"]);
    check_diff(&deployment);
    check_some(&mut rng).await;
    assert!(deployment.analytics(&["roll"]).status.success());
    deployment.flush_redis().await;
    check_some(&mut rng).await;
    check_diff(&deployment);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_window_added_under_load_has_all_events_from_before_and_since() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let apis = futures::join!(Api::start(&deployment), Api::start(&deployment));
    let apis = [apis.0, apis.1];
    create(&apis[0], "b", &["weekly"]).await;
    let now = jiff::Timestamp::now();
    let mut rng = seeded();
    let mut scores: Vec<(String, i64, jiff::Timestamp)> = vec![];
    for _ in 0..600 {
        let member = format!("m{}", rng.random_range(0..40));
        let late = rng.random_range(0..9_i64 * 86_400).seconds();
        scores.push((member, rng.random_range(1..9), now - late));
    }
    let batches: Vec<Value> = scores
        .chunks(20)
        .map(|chunk| {
            let score = |(member, score, at): &(String, i64, jiff::Timestamp)| {
                json!({
                    "member": member, "score": score, "at": at.to_string(),
                })
            };
            chunk.iter().map(score).collect()
        })
        .collect();
    let (before, meanwhile) = batches.split_at(15);
    for batch in before {
        submit(&apis[0], "b", batch.clone()).await;
    }
    let playing = stream::iter(meanwhile.iter().enumerate()).for_each_concurrent(
        3,
        async |(number, batch)| {
            submit(&apis[number % 2], "b", batch.clone()).await;
        },
    );
    futures::join!(playing, change_windows(&apis[1], "b", &["7d", "24h", "daily"]));
    let rows: Vec<Row> = scores
        .into_iter()
        .map(|(member, score, at)| (String::new(), member, at.as_second(), score))
        .collect();
    for api in &apis {
        let data = api.data(ASK, json!({ "slug": "b", "window": "7d", "at": now.to_string() }));
        let data = data.await;
        let expected = expected(&rows, 7, now);
        assert_eq!(data["board"]["standings"]["size"], expected.len());
        let first = &data["board"]["standings"]["top"]["nodes"][0];
        assert_eq!(first["member"]["key"], expected[0].0);
        assert_eq!(first["score"], expected[0].1);
    }
    check_diff(&deployment);
    // The daily periods that 7d consists of stay when the board drops "daily", and go with the last
    // window that needs them.
    change_windows(&apis[0], "b", &["7d"]).await;
    let hidden = apis[0]
        .ask(
            None,
            "{ board(slug: \"b\") { standings(of: { window: \"daily\" }) { size } } }",
            json!({}),
        )
        .await;
    assert!(hidden.message().contains("expected all, 7d"), "{}", hidden.message());
    check_diff(&deployment);
    change_windows(&apis[0], "b", &[]).await;
    check_diff(&deployment);
}

#[tokio::test]
async fn a_member_moves_up_and_down_since_yesterday() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    create(&api, "b", &["daily", "7d"]).await;
    let scores = json!([
        { "member": "ann", "score": 5, "at": "2026-01-02T12:00:00Z" },
        { "member": "bob", "score": 3, "at": "2026-01-02T12:00:00Z" },
        { "member": "bob", "score": 7, "at": "2026-01-03T12:00:00Z" },
        { "member": "eve", "score": 6, "at": "2026-01-03T12:00:00Z" },
        { "member": "ann", "score": 1, "at": "2026-01-03T12:00:00Z" },
    ]);
    submit(&api, "b", scores).await;
    let ask = "
        query($window: String!) { board(slug: \"b\") {
            standings(of: { window: $window, at: \"2026-01-03T13:00:00Z\" }) { top { nodes {
                member { key } change
            } } }
        } }";
    let changes = async |window: &str| {
        let data = api.data(ask, json!({ "window": window })).await;
        let nodes = data["board"]["standings"]["top"]["nodes"].as_array().unwrap().clone();
        nodes.iter().map(|node| json!([node["member"]["key"], node["change"]])).collect::<Vec<_>>()
    };
    assert_eq!(changes("7d").await, [json!(["bob", 1]), json!(["ann", -1]), json!(["eve", null])]);
    assert_eq!(
        changes("daily").await,
        [json!(["bob", 1]), json!(["eve", null]), json!(["ann", -2])]
    );
    assert_eq!(
        changes("all").await,
        [json!(["bob", null]), json!(["ann", null]), json!(["eve", null])],
        "a window without periods has no period before"
    );
}

#[tokio::test]
async fn what_no_rolling_window_is_is_refused() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    for (name, max, reason) in [
        ("0d", "9", "such as 24h, 7d, 12w or 3mo"),
        ("367d", "9", "1 to 366"),
        ("07d", "9", "invalid window"),
        ("7y", "9", "invalid window"),
        ("366d", "9007199254740991", "more than 62 bits"),
    ] {
        let windows = json!([{ "name": name }]);
        let input =
            json!({ "slug": "x", "tieBreak": "MEMBER", "maxScore": max, "windows": windows });
        let refused = api.ask(Some(api.token()), CREATE_BOARD, json!({ "input": input })).await;
        assert_eq!(refused.codes(), ["BAD_USER_INPUT"], "{name}");
        assert!(refused.message().contains(reason), "{}", refused.message());
    }
    create(&api, "b", &["7d"]).await;
    let ask = "
        { board(slug: \"b\") { standings(of: { window: \"7d\", at: \"2900-01-01T00:00:00Z\" }) {
            size
        } } }";
    let refused = api.ask(None, ask, json!({})).await;
    assert!(refused.message().contains("has not begun yet"));
    submit(&api, "b", json!([{ "member": "ann", "score": 4 }])).await;
    // The period that is prepared ahead of time is not listed.
    let ask = "
        { board(slug: \"b\") {
            periods(window: \"7d\") { totalCount nodes { label nextResetAt end } }
            windows { name kind current { label } }
        } }";
    let data = api.data(ask, json!({})).await;
    let (periods, windows) = (&data["board"]["periods"], &data["board"]["windows"]);
    assert_eq!(periods["totalCount"], 1);
    assert_eq!(periods["nodes"][0]["label"], windows[1]["current"]["label"]);
    assert_eq!(periods["nodes"][0]["nextResetAt"], periods["nodes"][0]["end"]);
    assert_eq!((&windows[1]["name"], &windows[1]["kind"]), (&json!("7d"), &json!("ROLLING")));
}

/// Windows that roll, windows that decay and segments: the diff is the judge.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_and_decaying_windows_of_segments_are_rebuilt_beside_players() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    let windows = ["7d", "24h", "decay:1d", "monthly"].map(|name| json!({ "name": name }));
    let input = json!({
        "slug": "b", "shards": 2, "segmentBy": ["region"], "minScore": -100000,
        "tieBreak": "EARLIEST", "windows": windows,
    });
    api.create_board(input).await;
    let member = |number: usize| {
        json!({
            "key": format!("m{number}"), "region": if number.is_multiple_of(2) { "eu" } else { "us" },
        })
    };
    let members: Vec<Value> = (0..30).map(member).collect();
    api.upsert_members(members).await;
    let now_ms = jiff::Timestamp::now().as_millisecond();
    let batch = |round: usize| {
        let score = |number: usize| {
            let late_ms = (round * 37 + number * 11) as i64 % 40 * 3_600_000;
            let at = jiff::Timestamp::from_millisecond(now_ms - late_ms).unwrap();
            json!({
                "member": format!("m{number}"), "score": (round * number) as i64 % 9 - 2,
                "at": at.to_string(),
            })
        };
        let of_round = (0..30).filter(|number| !(number + round).is_multiple_of(3));
        json!(of_round.map(score).collect::<Vec<_>>())
    };
    for round in 0..20 {
        submit(&api, "b", batch(round)).await;
    }
    let stop = AtomicBool::new(false);
    let round = AtomicUsize::new(20);
    let play = async || {
        while !stop.load(Ordering::Relaxed) {
            let round = round.fetch_add(1, Ordering::Relaxed);
            submit(&api, "b", batch(round)).await;
            if round.is_multiple_of(5) {
                remove(&api, "b", &format!("m{}", round % 30)).await;
            }
        }
    };
    let rebuild = async || {
        let mut later = 0;
        for _ in 0..2 {
            corrupt(&deployment, "b").await;
            let figures = rebuild(&deployment, "b").await;
            later += figures["laterEvents"].as_u64().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        later
    };
    let ((), later) = futures::join!(play(), rebuild());
    println!("{later} later events");
    assert!(later > 0);
    check_diff(&deployment);
    deployment.flush_redis().await;
    check_diff(&deployment);
}
