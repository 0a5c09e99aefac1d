//! Ranks read over shards beside a member that moves: each is one that was true.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::submit;
use tests::deployment::{Deployment, Redis, Sql};

/// Members who stand still at 500.
const MEMBERS: usize = 2000;

/// The reads of each reader.
const READS: usize = 400;

const ASK: &str = "{ board(slug: \"b\") { standings {
    entry(member: \"X\") { rank score }
    entries(members: [\"X\", \"m7\"]) { rank score }
    neighbors(member: \"X\", above: 1, below: 1) { rank score member { key } }
    entryAt(rank: 1001) { rank score }
} } }";

/// Moves X between the top and the bottom until it is stopped.
async fn toggle(api: &Api, stop: &AtomicBool) {
    for score in [1000, 0].into_iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let told = submit(api, "b", json!([{ "member": "X", "score": score }])).await;
        assert_eq!(told["accepted"], 1, "{told}");
    }
}

/// Checks the answer; `above_m7` stand before m7 while X is at the bottom.
fn check(standings: &Value, above_m7: usize) {
    let is_true = |entry: &Value| {
        let (rank, score) = (entry["rank"].as_u64(), entry["score"].as_str());
        matches!((rank, score), (Some(1), Some("1000")) | (Some(2001), Some("0")))
    };
    assert!(is_true(&standings["entry"]), "{standings}");
    let ranks = &standings["entries"];
    assert!(is_true(&ranks[0]), "{standings}");
    let rank = ranks[1]["rank"].as_u64().unwrap() as usize;
    assert!([above_m7 + 1, above_m7 + 2].contains(&rank), "{standings}");
    let neighbors = standings["neighbors"].as_array().unwrap();
    let own = neighbors.iter().find(|entry| entry["member"]["key"] == "X");
    assert!(own.is_some_and(is_true), "{standings}");
    assert_eq!(standings["entryAt"]["score"], "500", "{standings}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rank_over_shards_is_of_the_score_beside_it() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let settings = [("LAUREL_CACHE_AGE_MS", "0")];
    let api = Api::start_with_settings(&deployment, &settings).await;
    let input = json!({ "slug": "b", "shards": 2, "policy": "LATEST", "tieBreak": "EARLIEST" });
    api.create_board(input).await;
    // Equal scores of one instant are in the order of the members' bytes.
    let at = "2026-01-01T00:00:00Z";
    let scores: Vec<Value> = (0..MEMBERS)
        .map(|number| json!({ "member": format!("m{number}"), "score": 500, "at": at }))
        .chain([json!({ "member": "X", "score": 1000 })])
        .collect();
    for scores in scores.chunks(1000) {
        assert_eq!(submit(&api, "b", json!(scores)).await["accepted"], scores.len());
    }
    let above_m7 = (0..MEMBERS).filter(|number| format!("m{number}").as_str() < "m7").count();
    let stop = AtomicBool::new(false);
    let read = async || {
        for _ in 0..READS {
            check(&api.data(ASK, json!({})).await["board"]["standings"], above_m7);
        }
    };
    let reads = async {
        futures::join!(read(), read(), read(), read());
        stop.store(true, Ordering::Relaxed);
    };
    futures::join!(toggle(&api, &stop), reads);
}
