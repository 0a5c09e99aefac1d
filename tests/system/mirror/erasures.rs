//! Erasures of members with events in the lake.

use std::fs;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{check, files, mirror, mirrored, play, rows, start};
use tests::api::Api;
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Sql};
use tests::documents::ERASE_MEMBER;
use tests::jobs::analytics::{figures, run};
use tests::jobs::archive::{age, archive};
use tests::jobs::erasure::{erase, traces};
use tests::jobs::seal::wait_until_dropped;

/// The key, which no other text contains.
const MEMBER: &str = "yan-8c1d";

/// Every step after which an erasure of mirrored events can be killed.
const STEPS: [&str; 10] = [
    "erasure-removed",
    "mirror-named",
    "mirror-put",
    "mirror-verified",
    "mirror-erased-file",
    "mirror-switched",
    "mirror-removed",
    "mirror-removed:2",
    "erasure-events",
    "erasure-deleted",
];

/// Checks that nothing of the member is left: the lake has as many events as SQL and the archive.
async fn check_erased(deployment: &Deployment, before: &[String], when: &str) {
    let mut left = traces(deployment, MEMBER).await;
    left.retain(|place| !place.contains(":seen:"));
    assert_eq!(left, Vec::<String>::new(), "{when}");
    let now = files(deployment);
    assert!(before.iter().any(|file| !now.contains(file)), "{when}: {now:?}");
    mirror(deployment);
    let checked = check(deployment, 0);
    assert_eq!(checked["events"], mirrored(deployment).await, "{when}");
    let (code, found, error) = run(deployment, &["diff", "--full"]);
    assert_eq!(code, 0, "{when}: {found} {error}");
}

/// The newest receipt.
async fn receipt(deployment: &Arc<Deployment>) -> Value {
    let receipts = deployment.api_output(&["erase", "receipts"]).await;
    serde_json::from_str(receipts.lines().next().unwrap()).unwrap()
}

async fn play_all(deployment: &Deployment, api: &Api) {
    play(deployment, api, &["ann", MEMBER, "bob", MEMBER, "cid"]).await;
    mirror(deployment);
    // These are in no file.
    play(deployment, api, &[MEMBER]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lake_has_nothing_of_an_erased_member_whenever_that_is_killed() {
    let all = Sql::all();
    for (turn, &sql) in all.iter().enumerate() {
        let (deployment, api) = start(sql).await;
        for step in STEPS.iter().skip(turn).step_by(all.len()) {
            play_all(&deployment, &api).await;
            let before = files(&deployment);
            let killed = erase(&deployment, MEMBER, Some(step)).await;
            assert!(!killed.status.success(), "{step}: {killed:?}");
            let output = erase(&deployment, MEMBER, None).await;
            let error = String::from_utf8_lossy(&output.stderr);
            // The background work may have been first.
            let is_over = output.status.success() || error.contains("no such member");
            assert!(is_over, "{step}: {error}");
            check_erased(&deployment, &before, &format!("{sql:?} {step}")).await;
            let counts = receipt(&deployment).await;
            assert_eq!(counts["counts"]["mirrored_event"], 4, "{sql:?} {step}: {counts}");
            assert!(counts["counts"]["mirror_file"].as_u64() >= Some(2), "{counts}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn archived_events_of_an_erased_member_leave_the_lake_too() {
    let (deployment, api) = start(Sql::any()).await;
    for member in ["ann", MEMBER, "bob"] {
        let score = json!([{ "member": member, "score": 1, "at": "2025-03-01T12:00:00Z" }]);
        submit_durably(&api, "b", score).await;
    }
    wait_until_dropped(&api, "b").await;
    age(&deployment, 100).await;
    assert_eq!(archive(&deployment, &["--board", "b"])["events"], 3);
    mirror(&deployment);
    let before = files(&deployment);
    let output = erase(&deployment, MEMBER, None).await;
    assert!(output.status.success(), "{output:?}");
    check_erased(&deployment, &before, "archived").await;
    let receipt = receipt(&deployment).await;
    let counts = &receipt["counts"];
    let told = json!([counts["mirrored_event"], counts["archived_event"]]);
    assert_eq!(told, json!([1, 1]), "{receipt}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_erasure_waits_for_a_lake_that_is_away_and_says_why() {
    let (deployment, api) = start(Sql::any()).await;
    play_all(&deployment, &api).await;
    let (lake, aside) = (deployment.path("lake"), deployment.path("aside"));
    fs::rename(&lake, &aside).unwrap();
    let output = erase(&deployment, MEMBER, None).await;
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("is not here"), "{error}");
    let begun = api.data(ERASE_MEMBER, json!({ "member": MEMBER })).await["eraseMember"].take();
    assert_eq!(begun["waitsForFiles"], true, "{begun}");
    assert_eq!(receipt(&deployment).await["done"], false);
    fs::rename(&aside, &lake).unwrap();
    let before = files(&deployment);
    // A run of the mirror does the part of the lake; the erasure is over a moment later.
    mirror(&deployment);
    figures(&deployment, &["erase-files"]);
    erase(&deployment, MEMBER, None).await;
    assert_eq!(receipt(&deployment).await["done"], true);
    check_erased(&deployment, &before, "away").await;
    assert!(rows(&deployment).await > 0);
}
