//! Imports from NDJSON and Parquet: with the checks and messages of CSV, each row once, and no
//! number that may have been rounded.

use serde_json::{Value, json};

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::analytics::run;
use tests::model::generator::{csv_events, generate};

const TOP: &str = "
    query($segment: String) { board(slug: \"b\") { standings(of: { segment: $segment }) { top {
        nodes { score member { key region } }
    } } } }";

/// Valid rows, and an empty line.
const GOOD: [&str; 5] = [
    r#"{"member":"ann","score":"30.125","at":"2026-01-02T03:04:05Z","event_id":"1","region":"eu","more":[1]}"#,
    r#"{"member":"bob","score":20.5,"at":1767323045,"event_id":"2","region":null}"#,
    "",
    r#"{"at":"2026-01-03T00:00:00+01:00","score":12,"member":"ann"}"#,
    r#"{"member":"c\u00e9\"d","score":"8007199254740.991","at":"2026-01-02T03:04:05Z"}"#,
];

/// Rows that are invalid for a board with three decimals and the scores of the valid ones, except
/// the last one of eve, which fits.
const BAD: [&str; 13] = [
    r#"{"member":"eve","score":0.1000000000000000055511,"at":1767323045}"#,
    r#"{"member":"eve","score":1234567890123456,"at":1767323045}"#,
    r#"{"member":"eve","score":1e3,"at":1767323045}"#,
    r#"{"member":"eve","score":1.5,"at":1767323045.5}"#,
    r#"{"member":"eve","score":1.2345,"at":1767323045}"#,
    r#"{"member":"eve","score":true,"at":1767323045}"#,
    r#"{"member":"eve","score":5}"#,
    r#"{"member":7,"score":5,"at":1767323045}"#,
    r#"{"member":"eve","score":5,"at":1767323045"#,
    r#"{"member":"ann","score":31,"at":"2026-01-02T03:04:05Z","event_id":"1"}"#,
    r#"{"member":"eve","score":"9007199254740.9","at":1767323045}"#,
    r#"{"member":"eve","score":"1","at":1767323045}"#,
    r#"["eve", 5, 1767323045]"#,
];

/// The messages about the invalid rows after the valid ones.
const COMPLAINTS: [&str; 12] = [
    "line 6: 0.1000000000000000055511 has more than 15 digits",
    "line 7: 1234567890123456 has more than 15 digits",
    "line 8: invalid score \"1e3\"",
    "line 9: invalid at \"1767323045.5\"",
    "line 10: 1.2345 has 4 decimals",
    "line 11: invalid score true: expected text or a number",
    "line 12: it has no at",
    "line 13: invalid member 7: expected text",
    "line 14: it is not a JSON object\n",
    "line 15: its event id \"1\" was used with another score",
    "line 17: the window all would hold",
    "line 18: it is not a JSON object",
];

#[tokio::test]
async fn ndjson_is_taken_by_the_same_rules_and_no_number_is_rounded() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let input = json!({
        "slug": "b", "policy": "SUM", "tieBreak": "MEMBER", "decimals": 3,
        "maxScore": "9007199254740.991", "segmentBy": ["region"],
    });
    api.create_board(input).await;
    let good = deployment.path("good.ndjson");
    std::fs::write(&good, GOOD.join("\r\n")).unwrap();
    let both = deployment.path("both.ndjson");
    let lines = [&GOOD[..], &BAD[..]].concat().join("\n") + "\n";
    std::fs::write(&both, lines).unwrap();

    let (code, _, error) = run(&deployment, &["import", "--board", "b", &both]);
    assert_eq!(code, 1);
    for line in COMPLAINTS {
        assert!(error.contains(line), "{line} in {error}");
    }
    let events = "SELECT count(*) FROM score_event";
    assert_eq!(deployment.number(events).await, 0);
    let (code, told, error) = run(&deployment, &["import", "--board", "b", &good]);
    assert_eq!((code, &told["accepted"]), (0, &json!(4)), "{error}");
    assert_eq!(run(&deployment, &["import", "--board", "b", &good]).1["known"], 4);

    let entry = |score: &str, key: &str, region: Value| {
        json!({
            "score": score, "member": { "key": key, "region": region },
        })
    };
    let ced = entry("8007199254740.991", "cé\"d", Value::Null);
    let (ann, bob) = (entry("42.125", "ann", json!("eu")), entry("20.500", "bob", Value::Null));
    let data = api.data(TOP, json!({})).await;
    let expected = json!([ced, ann, bob]);
    assert_eq!(data["board"]["standings"]["top"]["nodes"], expected);
    let data = api.data(TOP, json!({ "segment": "region:eu" })).await;
    // ann's second row has no region, and is imported before the member has one.
    let region = &data["board"]["standings"]["top"]["nodes"];
    assert_eq!(region[0]["member"]["key"], "ann");

    let rejects = deployment.path("rejects.csv");
    let (code, told, error) =
        run(&deployment, &["import", "--board", "b", "--skip-bad", &rejects, &both]);
    // Rows without an event id get ids from their file: this is another file, so they count again
    // if they fit.
    assert_eq!((code, &told["bad"]), (0, &json!(13)), "{error}");
    assert_eq!((&told["accepted"], &told["known"]), (&json!(2), &json!(2)));
    let rejected = std::fs::read_to_string(rejects).unwrap();
    assert!(rejected.starts_with("line,reason\n5,"), "{rejected}");
    assert_eq!(run(&deployment, &["diff"]).0, 0);
}

#[tokio::test]
async fn a_bad_row_of_parquet_is_named_by_its_number_and_nothing_is_written() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let input = json!({
        "slug": "b", "policy": "BEST", "tieBreak": "EARLIEST", "decimals": 3, "maxScore": "990",
        "segmentBy": ["region"],
    });
    api.create_board(input).await;
    let (parquet, csv) = (deployment.path("e.parquet"), deployment.path("e.csv"));
    for path in [&parquet, &csv] {
        let made = ["generate", "--members", "9", "--events", "300", "--out", path];
        assert_eq!(run(&deployment, &made).0, 0);
    }
    // The same events lead to the same rows; the CSV has a header besides.
    let rows = csv::Reader::from_path(&csv).unwrap().into_records();
    let scores = rows.map(|row| row.unwrap()[1].parse::<i64>().unwrap());
    let too_high: Vec<usize> =
        (1..).zip(scores).filter(|row| row.1 > 990).map(|row| row.0).collect();
    assert!(!too_high.is_empty());
    let (code, _, error) = run(&deployment, &["import", "--board", "b", &parquet]);
    assert_eq!(code, 1);
    let first = format!("row {}: the window all would hold", too_high[0]);
    assert!(error.contains(&first), "{first} in {error}");
    let events = "SELECT count(*) FROM score_event";
    assert_eq!(deployment.number(events).await, 0);

    let rejects = deployment.path("rejects.csv");
    let skip = ["import", "--board", "b", "--skip-bad", &rejects, &parquet];
    let (code, told, error) = run(&deployment, &skip);
    assert_eq!((code, &told["bad"]), (0, &json!(too_high.len())), "{error}");
    assert_eq!(told["accepted"], 300 - too_high.len());
    let mut rejected = csv::Reader::from_path(rejects).unwrap();
    assert_eq!(rejected.headers().unwrap(), vec!["row", "reason"]);
    let numbers: Vec<usize> =
        rejected.records().map(|row| row.unwrap()[0].parse().unwrap()).collect();
    assert_eq!(numbers, too_high);

    for (name, reason) in [("no.parquet", "cannot be read"), ("text.parquet", "cannot be read")] {
        let path = deployment.path(name);
        if name == "text.parquet" {
            std::fs::write(&path, "member,score,at\n").unwrap();
        }
        let (code, _, error) = run(&deployment, &["import", "--board", "b", &path]);
        assert!(code == 1 && error.contains(reason), "{error}");
    }
    let (code, _, error) = run(&deployment, &["import", &parquet]);
    assert!(code == 1 && error.contains("has no column board"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generated_events_are_imported_alike_from_every_format() {
    let deployment = Deployment::new(Sql::Postgres, Redis::Private).await;
    let api = Api::start(&deployment).await;
    let mut held = vec![];
    for format in ["csv", "ndjson", "parquet"] {
        api.create_board(json!({ "slug": format, "minScore": "-100000" })).await;
        let path = deployment.path(&format!("events.{format}"));
        let more = ["--events", "4000", "--negative", "0.1", "--late", "0.1"];
        generate(&deployment, &path, &more);
        let arguments = ["import", "--board", format, &path];
        let (code, told, error) = run(&deployment, &arguments);
        assert_eq!((code, &told["accepted"]), (0, &json!(4000)), "{error}");
        let (_, told, _) = run(&deployment, &arguments);
        assert_eq!((&told["accepted"], &told["known"]), (&json!(0), &json!(4000)));
        let select = format!(
            "SELECT member || ' ' || score || ' ' || at_ms FROM score_event WHERE board_no = \
                (SELECT no FROM board WHERE slug = '{format}') ORDER BY 1"
        );
        held.push(deployment.column::<String>(&select).await);
    }
    let mut expected: Vec<String> = csv_events(&deployment.path("events.csv"))
        .into_iter()
        .map(|(member, score, at_ms)| format!("{member} {score} {at_ms}"))
        .collect();
    expected.sort();
    for mut rows in held {
        rows.sort();
        assert_eq!(rows, expected);
    }
    assert_eq!(run(&deployment, &["diff"]).0, 0);
}
