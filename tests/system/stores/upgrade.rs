//! Deployments that earlier versions have stored, each taken up by this one: `tests/upgrades`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::submit_durably;
use tests::deployment::Deployment;
use tests::documents::SUBMIT_SCORES;
use tests::jobs::archive::check_files;
use tests::jobs::diff::check_diff;
use tests::servers::program::root;

const TOP: &str = "
    query($board: String!, $window: String!, $at: DateTime, $segment: String) {
        board(slug: $board) { standings(of: { window: $window, at: $at, segment: $segment }) {
            top(first: 100) { nodes { rank score member { key } } }
        } }
    }";

const FRIENDS: &str = "{ member(key: \"m2\") { name }
    board(slug: \"total\") { standings { friends(member: \"m1\") { nodes { entry { member { key } } } } } } }";

/// The league of the later ones.
const LEAGUE: &str = "{
    webhooks { nodes { name url events } }
    hidden: member(key: \"m3\") { visibility }
    merged: member(key: \"m8\") { mergedInto { key } }
    board(slug: \"league\") {
        seasons { name }
        periods(window: \"season\") { nodes { label sealed } }
        standings(of: { window: \"daily\", at: \"2026-08-10T12:00:00Z\" }) { attempts(member: \"m1\") { used } }
    } }";

/// The stored deployments, oldest first.
fn stored() -> Vec<PathBuf> {
    let dir = root().join("tests/upgrades");
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut stored: Vec<PathBuf> =
        paths.filter(|path| path.extension() == Some("gz".as_ref())).collect();
    stored.sort();
    stored
}

/// Checks that each of the standings whose entries an earlier version has noted is as it was.
/// A file is named for the board, window, instant and segment.
async fn check_standings(api: &Api, expected: &Path) {
    let mut count = 0;
    for entry in fs::read_dir(expected).unwrap() {
        let path = entry.unwrap().path();
        if path.extension() != Some("json".as_ref()) {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap();
        let [board, window, at, segment] = *name.split('_').collect::<Vec<_>>() else {
            panic!("{name}");
        };
        // Instants have "-" for ":" there, and segments too.
        let at = at.split_once('T').map(|(day, time)| format!("{day}T{}", time.replace('-', ":")));
        let segment = (!segment.is_empty()).then(|| segment.replacen('-', ":", 1));
        let variables = json!({ "board": board, "window": window, "at": at, "segment": segment });
        let found = &api.data(TOP, variables).await["board"]["standings"]["top"]["nodes"];
        let expected: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(*found, expected, "{name}");
        count += 1;
    }
    assert!(count >= 8, "{}", expected.display());
}

/// Checks that seasons, attempts, bans, merges, hidden members and webhooks are as they were.
async fn check_league(api: &Api) {
    let data = api.data(LEAGUE, json!({})).await;
    let expected = json!({
        "webhooks": { "nodes": [
            { "name": "all", "url": "feed:all", "events": ["SCORE", "PERIOD_ENDED", "MEMBER"] },
        ] },
        "hidden": { "visibility": "HIDDEN" },
        "merged": { "mergedInto": { "key": "m9" } },
        "board": {
            "seasons": [{ "name": "august" }],
            "periods": { "nodes": [{ "label": "august", "sealed": true }] },
            "standings": { "attempts": { "used": 1 } },
        },
    });
    assert_eq!(data, expected);
    let stranger = api.ask(None, "{ member(key: \"m3\") { name } }", json!({})).await;
    assert_eq!(stranger.body["data"]["member"], Value::Null);
    let score = |member: &str| json!({ "member": member, "score": 80 });
    let told = submit_durably(api, "league", json!(["m5", "m8", "m9"].map(score))).await;
    let statuses = told["results"].as_array().unwrap().iter().map(|result| &result["status"]);
    assert_eq!(statuses.collect::<Vec<_>>(), ["QUARANTINED", "REJECTED", "APPLIED"]);
    let top = json!({ "board": "league", "window": "all" });
    let top = &api.data(TOP, top).await["board"]["standings"]["top"]["nodes"][0];
    assert_eq!(*top, json!({ "rank": 1, "score": "80", "member": { "key": "m9" } }));
}

#[tokio::test]
async fn a_deployment_of_each_earlier_version_goes_up() {
    let all = stored();
    assert!(!all.is_empty());
    for path in all {
        let deployment = Deployment::stored(&path);
        let expected = PathBuf::from(deployment.path("expected"));
        let read = |name: &str| fs::read_to_string(expected.join(name)).unwrap().trim().to_owned();
        println!("{}", read("version"));
        // As the page about upgrades has it: one server starts, and a diff follows.
        let api = Api::spawn(&deployment, &[], read("admin-token")).await;
        api.wait_until_ready().await;
        check_standings(&api, &expected).await;
        let data = api.data(FRIENDS, json!({})).await;
        assert_eq!(data["member"]["name"], "Zoë");
        let friends = data["board"]["standings"]["friends"]["nodes"].as_array().unwrap();
        assert!(friends.iter().any(|node| node["entry"]["member"]["key"] == "m2"), "{friends:?}");
        check_diff(&deployment);
        check_files(&deployment).await;
        // Scores count on what was there; a client's token is as good as ever, and no better.
        let scores = json!([{ "member": "m1", "score": 100 }]);
        assert_eq!(submit_durably(&api, "total", scores.clone()).await["accepted"], 1);
        let top = json!({ "board": "total", "window": "all" });
        let top = &api.data(TOP, top).await["board"]["standings"]["top"]["nodes"][0];
        assert_eq!(*top, json!({ "rank": 1, "score": "115", "member": { "key": "m1" } }));
        let variables = json!({ "board": "total", "scores": scores, "ack": "APPLIED" });
        let refused = api.ask(Some(&read("token")), SUBMIT_SCORES, variables).await;
        assert_eq!(refused.codes(), ["FORBIDDEN"], "{:?}", refused.body);
        // The first versions had no leagues.
        if expected.join("league_all__.json").exists() {
            check_league(&api).await;
        }
        deployment.settle().await;
        check_diff(&deployment);
        api.stop().await;
    }
}
