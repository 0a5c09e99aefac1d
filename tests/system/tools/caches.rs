//! The caches of clients: those of Relay, Apollo and urql page through a list, fetch it again, and
//! follow a submission and a removal, without a complaint.

use std::fs;

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::friends::change_friends;
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::ADD_FRIEND;
use tests::servers::{node, program};

/// The members of the board `ladder`.
const MEMBERS: i64 = 25;

/// The best score there; each next member has 100 less.
const BEST: i64 = 2500;

/// A server with the board `ladder`, four others beside it, and three friends of m09.
async fn server() -> Api {
    let api = Api::start(&Deployment::new(Sql::Sqlite, Redis::Own).await).await;
    for slug in ["b1", "b2", "b3", "b4", "ladder"] {
        let windows = json!([{ "name": "daily" }]);
        api.create_board(json!({ "slug": slug, "policy": "BEST", "windows": windows })).await;
    }
    let scores = (1..=MEMBERS).map(
        |place| json!({ "member": format!("m{place:02}"), "score": BEST - 100 * (place - 1) }),
    );
    submit_durably(&api, "ladder", scores.collect()).await;
    for friend in ["m01", "m02", "m20"] {
        change_friends(&api, ADD_FRIEND, ("m09", friend)).await;
    }
    api
}

/// Runs a client's program; checks what all of them see, and returns it.
async fn run(script: &str) -> Value {
    let api = server().await;
    let directory = tempfile::tempdir().unwrap();
    let arguments = [api.url(), api.token(), directory.path().to_str().unwrap()];
    let seen = node::run(&format!("clients/{script}"), &arguments).await;
    assert_eq!(seen["complaints"], json!([]), "{seen}");
    assert_eq!(seen["heard"], true, "{script} does not hear its library: {seen}");
    let all =
        (1..=MEMBERS).map(|place| format!("{place} m{place:02} {}", BEST - 100 * (place - 1)));
    let all: Vec<String> = all.collect();
    assert_eq!(seen["pages"], json!({ "requests": 3, "lines": all }), "{seen}");
    // Another client gave m25 2450 points, and then m09 2425.
    let lines = ["1 m01 2500", "2 m25 2450", "3 m02 2400"];
    assert_eq!(seen["refetched"], json!({ "requests": 1, "lines": lines }), "{seen}");
    assert_eq!(seen["entry"], json!(["3 m09 2425"]), "{seen}");
    // This client gave m03 2600 points, and then removed m01.
    assert_eq!(seen["submitted"], json!({ "requests": 1, "lines": ["1 m03 2600"] }), "{seen}");
    let lines = ["1 m03 2600", "2 m25 2450", "3 m09 2425", "4 m02 2400"];
    let removed = json!({ "requests": 1, "size": MEMBERS - 1, "lines": lines });
    assert_eq!(seen["removed"], removed, "{seen}");
    seen
}

#[tokio::test]
async fn relay_compiles_pages_refetches_and_updates() {
    let seen = run("relay.js").await;
    assert_eq!(seen["boards"], json!(["b1", "b2", "b3", "b4", "ladder"]), "{seen}");
    assert_eq!(seen["friends"], json!(["m01", "m02", "m20"]), "{seen}");
}

#[tokio::test]
async fn apollo_pages_refetches_and_updates() {
    let seen = run("apollo.js").await;
    assert_eq!(seen["kept"], json!([true, true]), "{seen}");
}

#[tokio::test]
async fn graphcache_pages_refetches_and_updates() {
    let seen = run("graphcache.js").await;
    assert_eq!(seen["kept"], json!([true, true]), "{seen}");
}

#[test]
fn the_page_shows_what_the_programs_have() {
    let read = |path: &str| fs::read_to_string(program::root().join(path)).unwrap();
    let programs = ["relay.js", "apollo.js", "graphcache.js"];
    let programs = programs.map(|name| read(&format!("tests/web/clients/{name}")));
    let page = read("docs/how-to/client-caches.md");
    let blocks: Vec<&str> = page.split("```js\n").skip(1).collect();
    assert!(blocks.len() >= 4, "the page has {} blocks", blocks.len());
    for block in blocks {
        let (block, _) = block.split_once("```").unwrap();
        assert!(programs.iter().any(|program| program.contains(block)), "{block}");
    }
}
