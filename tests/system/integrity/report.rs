//! Reports: their figures are those of the board, they load nothing else, and a browser shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::analytics::run;
use tests::servers::node::{self, chromium};

/// A member with tags in its name.
const EVIL: &str = "<script>alert(1)</script>";

/// A board with 300 members over 60 days, and the file of its events.
async fn board() -> (Arc<Deployment>, Api, Vec<(String, i64, String)>) {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(
        json!({ "slug": "b", "title": format!("Cups & {EVIL}"), "tieBreakResolutionMs": 1000 }),
    )
    .await;
    let path = deployment.path("events.csv");
    let made = ["generate", "--members", "300", "--events", "2500", "--days", "60", "--out", &path];
    assert_eq!(run(&deployment, &made).0, 0);
    let text = std::fs::read_to_string(&path).unwrap() + EVIL + ",900000,2025-01-15T12:00:00Z\n";
    std::fs::write(&path, text).unwrap();
    let (code, _, error) = run(&deployment, &["import", "--board", "b", &path]);
    assert_eq!(code, 0, "{error}");
    let reader = csv::Reader::from_path(&path).unwrap();
    let event =
        |row: csv::StringRecord| (row[0].to_owned(), row[1].parse().unwrap(), row[2].to_owned());
    let events = reader.into_records().map(|row| event(row.unwrap()));
    (deployment, api, events.collect())
}

/// Members with their totals, in rank order, of the events up to a day.
fn ranked<'a>(events: &'a [(String, i64, String)], last_day: &str) -> Vec<(&'a str, i64)> {
    let mut held: BTreeMap<&str, (i64, &str)> = BTreeMap::new();
    for (member, score, at) in events.iter().filter(|event| &event.2[..10] <= last_day) {
        let place = held.entry(member).or_insert((0, ""));
        place.0 += score;
        // To the second, like the board's tie-break.
        place.1 = place.1.max(&at[..19]);
    }
    let mut ranked: Vec<(&str, (i64, &str))> = held.into_iter().collect();
    ranked.sort_by_key(|&(member, (score, at))| (-score, at, member));
    ranked.into_iter().map(|(member, (score, _))| (member, score)).collect()
}

#[tokio::test]
async fn its_numbers_are_those_of_the_board() {
    let (deployment, _api, events) = board().await;
    let out = deployment.path("report.html");
    let (code, told, error) = run(&deployment, &["report", "--board", "b", "--out", &out]);
    assert_eq!(code, 0, "{error}");
    let figures = &told["figures"];
    let page = std::fs::read_to_string(out).unwrap();
    let (_, json) = page.split_once("<script type=\"application/json\" id=\"figures\">").unwrap();
    let json = json.split_once("</script>").unwrap().0;
    assert_eq!(serde_json::from_str::<Value>(json).unwrap(), *figures);

    let ranking = ranked(&events, "9");
    assert_eq!((&figures["members"], &figures["events"]), (&json!(ranking.len()), &json!(2501)));
    for (placed, (member, score)) in figures["top"].as_array().unwrap().iter().zip(&ranking) {
        let own = events.iter().filter(|event| event.0 == *member).count();
        let expected = (&json!(member), &json!(score.to_string()), &json!(own));
        assert_eq!((&placed["member"], &placed["score"], &placed["events"]), expected);
    }
    // Ties.
    let mut by_score: BTreeMap<i64, usize> = BTreeMap::new();
    for (_, score) in &ranking {
        *by_score.entry(*score).or_default() += 1;
    }
    by_score.retain(|_, count| *count > 1);
    let ties = &figures["ties"];
    assert_eq!(
        (&ties["members"], &ties["scores"]),
        (&json!(by_score.values().sum::<usize>()), &json!(by_score.len()))
    );
    assert_eq!(ties["largest"][0]["members"], json!(by_score.values().max().unwrap()));
    // The top 1 %: 3 of 201 to 300 members.
    let total: i64 = ranking.iter().map(|(_, score)| score).sum();
    let first = ranking.len().div_ceil(100);
    let top: i64 = ranking.iter().take(first).map(|(_, score)| score).sum();
    let share = figures["share"]["scores"].as_f64().unwrap();
    assert!((share - 100.0 * top as f64 / total as f64).abs() < 1e-9);
    // Scores: every member in a bucket.
    let buckets = figures["scores"]["buckets"].as_array().unwrap();
    for bucket in buckets {
        let bound = |name: &str| bucket[name].as_str().unwrap().parse::<i64>().unwrap();
        let is_last = bucket == buckets.last().unwrap();
        let inside = |score: i64| bound("from") <= score && (score < bound("to") || is_last);
        let count = ranking.iter().filter(|(_, score)| inside(*score)).count();
        assert_eq!(bucket["count"], count, "{bucket}");
    }
    check_days(figures, &events);
    check_movement(figures, &events);
}

fn check_days(figures: &Value, events: &[(String, i64, String)]) {
    let days = figures["activity"]["periods"].as_array().unwrap();
    assert_eq!((&figures["activity"]["window"], days.len()), (&json!("daily"), 60));
    for day in days {
        let label = day["period"].as_str().unwrap();
        let of_day: Vec<&str> = events
            .iter()
            .filter(|event| event.2.starts_with(label))
            .map(|event| &*event.0)
            .collect();
        let active: BTreeSet<&str> = of_day.iter().copied().collect();
        let members = ranked(events, label).len();
        let expected = json!({
            "period": label, "events": of_day.len(), "active": active.len(), "members": members,
        });
        assert_eq!(*day, expected);
    }
}

fn check_movement(figures: &Value, events: &[(String, i64, String)]) {
    let (days, movement) = (&figures["activity"]["periods"], &figures["movement"]);
    let periods = movement["periods"].as_array().unwrap();
    assert_eq!(periods.last(), Some(&json!(59)));
    for (count, period) in periods.iter().enumerate() {
        let label = days[period.as_u64().unwrap() as usize]["period"].as_str().unwrap();
        let ranking = ranked(events, label);
        for moved in movement["members"].as_array().unwrap() {
            let place = ranking.iter().position(|(member, _)| moved["member"] == *member);
            assert_eq!(
                moved["ranks"][count],
                json!(place.map(|place| place + 1)),
                "{label} {}",
                moved["member"]
            );
        }
    }
}

#[tokio::test]
async fn it_needs_nothing_but_itself_and_a_browser_shows_it() {
    let (deployment, _api, _) = board().await;
    let out = deployment.path("report.html");
    assert_eq!(run(&deployment, &["report", "--board", "b", "--out", &out]).0, 0);
    let page = std::fs::read_to_string(&out).unwrap();
    for loads in ["src=", "href=", "url(", "@import", "<link", "<iframe", "<img", EVIL] {
        assert!(!page.contains(loads), "{loads}");
    }
    let named = page.match_indices("http").map(|(at, _)| &page[at..at + 20]);
    let elsewhere: BTreeSet<&str> = named.filter(|name| !name.starts_with("http-equiv")).collect();
    assert_eq!(elsewhere, BTreeSet::from(["http://www.w3.org/20"]));

    let profile = tempfile::tempdir().unwrap();
    let (browser, address) = (chromium(), format!("file://{out}"));
    let arguments = [browser.to_str().unwrap(), &address, profile.path().to_str().unwrap()];
    let seen = node::run("report.js", &arguments).await;
    assert_eq!(seen["complaints"], json!([]));
    assert_eq!(seen["requests"], json!([address]));
    assert_eq!(seen["title"], format!("Cups & {EVIL}"));
    let headings =
        ["The top", "Scores", "Activity", "Growth", "How the top moved", "Ties", "The top 1 %"];
    assert_eq!(seen["headings"], json!(headings));
    // Each picture has a size, and its labels lie inside it.
    assert_eq!(seen["pictures"].as_array().unwrap().len(), 6);
    for picture in seen["pictures"].as_array().unwrap() {
        assert!(
            picture["width"].as_f64().unwrap() > 600.0
                && picture["height"].as_f64().unwrap() > 100.0,
            "{picture}"
        );
        assert_eq!(picture["outside"], json!([]), "{picture}");
    }
    assert!(seen["text"].as_str().unwrap().contains(EVIL));
    assert_eq!(seen["scrolls"], false);
}

#[tokio::test]
async fn a_board_without_entries_has_no_report_and_one_entry_is_enough() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(
        json!({ "slug": "b", "direction": "LOW_FIRST", "policy": "BEST", "minScore": "-5" }),
    )
    .await;
    let out = deployment.path("report.html");
    let (code, _, error) = run(&deployment, &["report", "--board", "b", "--out", &out]);
    assert!(code == 1 && error.contains("has no entries yet"), "{error}");
    assert!(!std::path::Path::new(&out).exists());
    tests::api::submission::submit_durably(&api, "b", json!([{ "member": "ann", "score": -3 }]))
        .await;
    let (code, told, error) = run(&deployment, &["report", "--board", "b", "--out", &out]);
    assert_eq!((code, &told["figures"]["members"]), (0, &json!(1)), "{error}");
    // The lowest is first: points do not add up.
    assert_eq!(told["figures"]["share"]["scores"], Value::Null);
    assert_eq!(told["figures"]["share"]["events"], 100.0);
}
