//! Exports: the same standings as the API lists, of every kind of window, from Redis and from
//! sealed periods.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rand::prelude::*;
use ranking::window::Window;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::listing::{Listing, Way};
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::analytics::run;
use tests::model::game::seeded;
use tests::wait::until;

const PERIODS: &str = "
    query($window: String!) { board(slug: \"b\") { periods(window: $window, first: 100) {
        nodes { label sealed }
    } } }";

const TOP: &str = "
    query($window: String!, $period: String!, $segment: String!) { board(slug: \"b\") {
        standings(of: { window: $window, period: $period, segment: $segment }) {
            source
            top(first: 1000) { nodes {
                rank competition: rank(method: COMPETITION) dense: rank(method: DENSE) score value
                reachedAt member { key }
            } }
        }
    } }";

/// A row of an exported file: rank, member, score, when it was reached.
type Row = (i64, String, String, Option<String>);

fn csv_rows(path: &str) -> Vec<Row> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    let names = vec!["rank", "member", "score", "reached_at"];
    assert_eq!(reader.headers().unwrap(), names);
    let row = |row: csv::StringRecord| {
        let reached = Some(row[3].to_owned()).filter(|text| !text.is_empty());
        (row[0].parse().unwrap(), row[1].to_owned(), row[2].to_owned(), reached)
    };
    reader.records().map(|record| row(record.unwrap())).collect()
}

fn ndjson_rows(path: &str) -> Vec<Row> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let row = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        assert_eq!(row.as_object().unwrap().len(), 4);
        let (member, score) = (text(&row["member"]).unwrap(), text(&row["score"]).unwrap());
        (row["rank"].as_i64().unwrap(), member, score, text(&row["reached_at"]))
    };
    std::fs::read_to_string(path).unwrap().lines().map(row).collect()
}

/// Exports with these arguments and a ranking method, in CSV or NDJSON.
fn exported(deployment: &Deployment, more: &[&str], method: &str) -> Vec<Row> {
    let format = if method == "DENSE" { "ndjson" } else { "csv" };
    let path = deployment.path(&format!("out.{format}"));
    let base = ["export", "--board", "b", "--method", method, "--out", &path];
    let (code, told, error) = run(deployment, &[&base[..], more].concat());
    assert_eq!(code, 0, "{more:?}: {error}");
    let rows = match format {
        "csv" => csv_rows(&path),
        _ => ndjson_rows(&path),
    };
    assert_eq!(told["entries"], rows.len());
    rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standings_of_many_pages_are_exported_as_they_are_listed() {
    check_large(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standings_of_many_pages_in_sixteen_shards_are_exported_as_they_are_listed() {
    check_large(16).await;
}

async fn check_large(shards: u16) {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "shards": shards, "policy": "BEST" })).await;
    let events = deployment.path("events.csv");
    let row = |member: usize| format!("u{member},{},{}\n", member % 97, 1_767_000_000 + member % 3);
    let rows: String = (0..4300).map(row).collect();
    std::fs::write(&events, format!("member,score,at\n{rows}")).unwrap();
    let (code, _, error) = run(&deployment, &["import", "--board", "b", &events]);
    assert_eq!(code, 0, "{error}");
    let listing = Listing { slug: "b".into(), window: Window::All, period: "all".into() };
    let listed = listing.walk(&api, 1000, Way::Forward).await;
    assert_eq!(listed.len(), 4300, "more than a page");
    for method in ["ORDINAL", "COMPETITION", "DENSE"] {
        let expected = listed.iter().map(|row| {
            let rank = match method {
                "ORDINAL" => row.rank,
                "COMPETITION" => row.competition_rank,
                _ => row.dense_rank,
            };
            (rank, row.member.clone(), row.score.clone(), row.reached_at.clone())
        });
        let expected: Vec<Row> = expected.collect();
        assert!(exported(&deployment, &[], method) == expected, "{method}");
    }
    let parquet = deployment.path("out.parquet");
    let (code, told, error) = run(&deployment, &["export", "--board", "b", "--out", &parquet]);
    assert_eq!((code, &told["entries"]), (0, &json!(listed.len())), "{error}");
    let bytes = std::fs::read(parquet).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_window_is_exported_as_it_is_listed() {
    check_windows(Sql::any(), 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_window_in_sixteen_shards_is_exported_as_it_is_listed() {
    check_windows(Sql::Postgres, 16).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_window_in_sixteen_shards_is_exported_as_it_is_listed_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_windows(sql, 16).await;
    }
}

async fn check_windows(sql: Sql, shards: u16) {
    let deployment = Deployment::new(sql, Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({
        "slug": "b", "shards": shards, "decimals": 2, "minScore": "-1000", "maxScore": 100000,
        "segmentBy": ["region"], "timeZone": "Europe/London", "tieBreakResolutionMs": 1000,
        "windows": [
            { "name": "hourly" }, { "name": "daily", "retain": 1 }, { "name": "monthly" },
            { "name": "3d", "retain": 1 }, { "name": "5h" }, { "name": "decay:7d" },
        ],
    }))
    .await;
    let mut rng = seeded();
    let regions: Vec<Value> = (0..30)
        .map(|member| json!({ "key": format!("m{member}"), "region": (["eu", "u:s"][member % 2]) }))
        .collect();
    api.upsert_members(regions).await;
    let now_s = Timestamp::now().as_second();
    let scores: Vec<Value> = (0..400)
        .map(|_| {
            let age_s = [3600, 86_400, 7 * 86_400].choose(&mut rng).unwrap();
            let at = Timestamp::from_second(now_s - rng.random_range(0..*age_s)).unwrap();
            let score = rng.random_range(-2..6);
            json!({
                "member": format!("m{}", rng.random_range(0..40)), "score": score,
                "at": at.to_string(),
            })
        })
        .collect();
    for batch in scores.chunks(100) {
        let told = submit_durably(&api, "b", json!(batch)).await;
        assert_eq!(told["rejected"], 0, "{told}");
    }
    // The server may seal at the same time; then one of them starts again.
    until("what is not retained is sealed", async || {
        (run(&deployment, &["seal"]).0 == 0).then_some(())
    })
    .await;
    // The server learns of seals after a moment.
    let mut sources: BTreeMap<String, usize> = BTreeMap::new();
    until("old days are in the archive", async || {
        let data = api.data(PERIODS, json!({ "window": "daily" })).await;
        let periods = data["board"]["periods"]["nodes"].as_array().unwrap();
        periods.iter().any(|period| period["sealed"] == true).then_some(())
    })
    .await;
    for window in ["all", "hourly", "daily", "monthly", "3d", "5h", "decay:7d"] {
        let data = api.data(PERIODS, json!({ "window": window })).await;
        let periods = data["board"]["periods"]["nodes"].as_array().unwrap();
        assert!(!periods.is_empty());
        // There are many hours: some of them are enough.
        for period in periods.iter().step_by(1 + periods.len() / 12) {
            let segment = *["", "region:eu", "region:u:s"].choose(&mut rng).unwrap();
            let method = *["ORDINAL", "COMPETITION", "DENSE"].choose(&mut rng).unwrap();
            let label = period["label"].as_str().unwrap();
            let source = check_one(&api, window, label, segment, method).await;
            *sources.entry(source).or_default() += 1;
        }
    }
    assert!(sources["ARCHIVE"] >= 8 && sources["LIVE"] >= 20, "{sources:?}");
}

/// Compares an export with the listing, and returns the source of the listing.
async fn check_one(api: &Api, window: &str, period: &str, segment: &str, method: &str) -> String {
    let what = format!("{window} {period} {segment:?} {method}");
    let variables = json!({ "window": window, "period": period, "segment": segment });
    let standings = api.data(TOP, variables).await["board"]["standings"].take();
    let nodes = standings["top"]["nodes"].as_array().unwrap();
    // A period is listed only if a member has an entry in it.
    assert!(!nodes.is_empty() || !segment.is_empty(), "{what}");
    let arguments = ["--window", window, "--period", period, "--segment", segment];
    let rows = exported(api.deployment(), &arguments, method);
    assert_eq!(rows.len(), nodes.len(), "{what}");
    let rank = match method {
        "ORDINAL" => "rank",
        "COMPETITION" => "competition",
        _ => "dense",
    };
    for (row, node) in rows.iter().zip(nodes) {
        let place = (&json!(row.0), row.1.as_str(), row.3.as_deref());
        let expected =
            (&node[rank], node["member"]["key"].as_str().unwrap(), node["reachedAt"].as_str());
        assert_eq!(place, expected, "{what}");
        if !window.starts_with("decay") {
            assert_eq!(node["score"], row.2, "{what}");
            continue;
        }
        // A moment later the score is worth a little less.
        let (value, shown) = (node["value"].as_f64().unwrap(), row.2.parse::<f64>().unwrap());
        assert!((value - shown).abs() <= 1e-3 * value.abs() + 1e-6, "{what}: {value} {shown}");
        assert_eq!(row.2.split_once('.').unwrap().1.len(), 8, "{what}");
    }
    standings["source"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn what_is_not_there_is_refused_and_leaves_no_file() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({
        "slug": "b", "shards": 1, "decimals": 2, "minScore": "-1000", "maxScore": 100000,
        "segmentBy": ["region"], "timeZone": "Europe/London", "tieBreakResolutionMs": 1000,
        "windows": [
            { "name": "hourly" }, { "name": "daily", "retain": 1 }, { "name": "monthly" },
            { "name": "3d", "retain": 1 }, { "name": "5h" }, { "name": "decay:7d" },
        ],
    }))
    .await;
    let out = deployment.path("out.csv");
    for (more, reason) in [
        (&["--window", "weekly"][..], "has no window weekly: expected all, hourly"),
        (&["--window", "daily", "--period", "2025-13-01"], "a label such as"),
        (&["--window", "3d", "--period", "2999-01-01"], "has not begun"),
        (&["--segment", "team:7"], "expected a segment such as \"region:eu\""),
        (&["--board", "c"], "cannot be used multiple times"),
    ] {
        let base = ["export", "--board", "b", "--out", &out];
        let (code, _, error) = run(&deployment, &[&base[..], more].concat());
        assert!(code != 0 && error.contains(reason), "{error}");
        assert!(!std::path::Path::new(&out).exists());
    }
    let (code, _, error) = run(&deployment, &["export", "--board", "c", "--out", &out]);
    assert!(code == 1 && error.contains("unknown board \"c\""), "{error}");
    // No member has a score yet: the file has no rows.
    assert!(exported(&deployment, &["--window", "daily"], "ORDINAL").is_empty());
}

#[tokio::test]
async fn a_safe_csv_has_no_text_that_a_spreadsheet_takes_for_a_formula() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "minScore": -10, "maxScore": 10 })).await;
    let scores = json!([
        { "member": "=1+2", "score": 3 }, { "member": "@x", "score": 2 },
        { "member": "ann", "score": 1 }, { "member": "-5", "score": -5 },
    ]);
    submit_durably(&api, "b", scores).await;
    let out = deployment.path("out.csv");
    let members = |more: &[&str]| {
        let base = ["export", "--board", "b", "--out", &out];
        let (code, _, error) = run(&deployment, &[&base[..], more].concat());
        assert_eq!(code, 0, "{error}");
        let row = |(_, member, score, _): Row| (member, score);
        csv_rows(&out).into_iter().map(row).collect::<Vec<_>>()
    };
    let pairs = |pairs: [(&str, &str); 4]| pairs.map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(
        members(&["--safe-csv"]),
        pairs([("'=1+2", "3"), ("'@x", "2"), ("ann", "1"), ("-5", "-5")])
    );
    assert_eq!(members(&[]), pairs([("=1+2", "3"), ("@x", "2"), ("ann", "1"), ("-5", "-5")]));
    let out = deployment.path("out.ndjson");
    let (code, _, error) =
        run(&deployment, &["export", "--board", "b", "--out", &out, "--safe-csv"]);
    assert_eq!(code, 1);
    assert!(error.contains("expected a .csv file"), "{error}");
}
