//! Generated events: the same for a seed, and of the requested shape.

use std::collections::BTreeMap;

use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::analytics::run;
use tests::model::generator::{Event, csv_events, generate, ms};

fn ndjson_events(path: &str) -> Vec<Event> {
    let text = std::fs::read_to_string(path).unwrap();
    let event = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let member = row["member"].as_str().unwrap().to_owned();
        let at_ms = ms(row["at"].as_str().unwrap());
        (member, row["score"].as_i64().unwrap(), at_ms)
    };
    text.lines().map(event).collect()
}

#[tokio::test]
async fn a_seed_gives_the_same_events_in_every_format_and_another_one_others() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let path = |name: &str| deployment.path(name);
    for name in ["a.csv", "b.csv", "c.ndjson"] {
        generate(&deployment, &path(name), &["--events", "3000"]);
    }
    generate(&deployment, &path("d.csv"), &["--events", "3000", "--seed", "2"]);
    let events = csv_events(&path("a.csv"));
    assert_eq!(events.len(), 3000);
    assert_eq!(events, csv_events(&path("b.csv")));
    assert_eq!(events, ndjson_events(&path("c.ndjson")));
    assert_ne!(events, csv_events(&path("d.csv")));
    // As generated on another machine by an earlier version.
    let golden = include_str!("generate.golden.csv");
    let text = std::fs::read_to_string(path("a.csv")).unwrap();
    assert!(text.starts_with(golden), "{}", &text[..golden.len()]);
    // No deployment was needed, and no unfinished file is left.
    assert!(!std::path::Path::new(&path("data")).exists());
    let left = std::fs::read_dir(path(".")).unwrap();
    let names = left.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    assert_eq!(names, ["a.csv", "b.csv", "c.ndjson", "d.csv"]);
}

#[tokio::test]
async fn generated_events_have_the_shape_that_is_asked_for() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let path = deployment.path("events.csv");
    let more = [
        "--events",
        "20000",
        "--start",
        "2025-03-01T00:00:00Z",
        "--days",
        "10",
        "--late",
        "0.2",
        "--negative",
        "0.1",
    ];
    generate(&deployment, &path, &more);
    let events = csv_events(&path);
    let count = |meant: &dyn Fn(&Event) -> bool| events.iter().filter(|event| meant(event)).count();
    let near = |count: usize, expected: f64| (count as f64 - expected).abs() < 0.15 * expected;
    // Zipf: the k-th of 500 members has 1 / k of the first one's share.
    let harmonic: f64 = (1..=500).map(|k| 1.0 / f64::from(k)).sum();
    for (member, k) in [("m001", 1.0), ("m002", 2.0), ("m010", 10.0)] {
        let found = count(&|event| event.0 == member);
        assert!(near(found, 20_000.0 / harmonic / k), "{member} {found}");
    }
    let negatives = count(&|event| event.1 < 0);
    assert!(near(negatives, 2000.0), "{negatives}");
    let scores = |event: &Event| (-100..=-1).contains(&event.1) || (1..=1000).contains(&event.1);
    assert_eq!(count(&scores), events.len());
    let (start, end) = (ms("2025-03-01T00:00:00Z"), ms("2025-03-11T00:00:00Z"));
    assert_eq!(count(&|event| (start..end).contains(&event.2)), events.len());
    // Late events stand among later ones; the others are in order.
    let mut latest = 0;
    let mut late = 0;
    for event in &events {
        late += usize::from(event.2 < latest);
        latest = latest.max(event.2);
    }
    assert!(near(late, 4000.0), "{late}");
    let mut instants: BTreeMap<(i64, i64), usize> = BTreeMap::new();
    let mut hours: BTreeMap<i64, usize> = BTreeMap::new();
    for event in &events {
        *instants.entry((event.1, event.2)).or_default() += 1;
        *hours.entry(event.2 / 3_600_000).or_default() += 1;
    }
    let ties: usize = instants.values().filter(|count| **count > 1).sum();
    assert!(ties > 3000, "{ties} events tie with another");
    let busiest = hours.values().max().unwrap();
    assert!(busiest * 240 > 20_000 * 4, "{busiest} in the busiest hour");
}

#[tokio::test]
async fn what_cannot_be_generated_is_refused_with_what_can() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let refused = |out: &str, more: &[&str], code: i32, reason: &str| {
        let base = ["generate", "--members", "5", "--events", "5", "--out", out];
        let (got, _, error) = run(&deployment, &[&base[..], more].concat());
        assert_eq!(got, code, "{error}");
        assert!(error.contains(reason), "{error}");
    };
    refused("e.txt", &[], 1, "expected .csv, .ndjson or .parquet");
    refused("none/e.csv", &[], 1, "none/e.csv cannot be written");
    refused("e.csv", &["--late", "2"], 2, "expected 0 to 1");
    refused("e.csv", &["--days", "0"], 2, "1..=3660");
    refused("e.csv", &["--start", "1969-01-01T00:00:00Z"], 1, "1970");
    refused("e.csv", &["--start", "yesterday"], 2, "yesterday");
}
