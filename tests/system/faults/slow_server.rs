//! A server of a Redis Cluster that falls silent: scores of the partitions on other servers get to
//! SQL as before.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;
use tokio::time::timeout;

use tests::api::Api;
use tests::api::submission::submit_durably;
use tests::api::subscriber::Subscriber;
use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::program::signal;

/// The boards, each of one shard: enough that every server has some.
const BOARDS: usize = 24;

/// The longest usual time of a score on a server that answers. The silent one would take 4 s and
/// more.
const SLOWEST: Duration = Duration::from_secs(3);

const PLACES: &str = "SELECT board.slug || ' ' || CAST(MIN(score_event.partition) AS TEXT)
    FROM score_event JOIN board ON board.no = score_event.board_no GROUP BY board.slug";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_keeps_no_score_of_another_one_from_sql() {
    let deployment = Deployment::new(Sql::Postgres, Redis::Cluster).await;
    let api = Api::start(&deployment).await;
    let slugs: Vec<String> = (0..BOARDS).map(|number| format!("b{number}")).collect();
    for slug in &slugs {
        api.create_board(json!({ "slug": slug })).await;
        let told = submit_durably(&api, slug, json!([{ "member": "ann", "score": 1 }])).await;
        assert_eq!(told["accepted"], 1);
    }
    let places: Vec<String> = deployment.column(PLACES).await;
    let cluster = deployment.cluster();
    let masters: BTreeMap<&str, u16> = places
        .iter()
        .map(|place| {
            let (slug, partition) = place.split_once(' ').unwrap();
            (slug, cluster.master_of(&format!("laurel:{{{partition}}}:head")))
        })
        .collect();
    let silent = masters["b0"];
    let pid = cluster.pid(silent);
    let others = masters.iter().filter(|(_, master)| **master != silent).map(|(slug, _)| *slug);
    let others: Vec<&str> = others.collect();
    assert!(!others.is_empty(), "every board is on one server: {masters:?}");
    let mut follower = Subscriber::connect(&api, None).await;
    let query = format!(
        "subscription {{ top(board: \"{}\", first: 1) {{ nodes {{ score }} }} }}",
        others[0]
    );
    let payload = json!({ "query": query });
    follower.send(json!({ "type": "subscribe", "id": "1", "payload": payload })).await;
    assert_eq!(follower.next().await["type"], "next");
    signal("STOP", pid);
    // Before a replica takes its place, and after.
    for round in 0..5 {
        let times = join_all(others.iter().map(async |slug| {
            let began = Instant::now();
            let scores = json!([{ "member": "ann", "score": 1, "eventId": round.to_string() }]);
            let told = submit_durably(&api, slug, scores).await;
            assert_eq!(told["results"][0]["status"], "APPLIED", "{slug}: {told}");
            began.elapsed()
        }));
        // A machine that is busy for a moment does not move the median.
        let mut times = times.await;
        times.sort();
        let usual = times[times.len() / 2];
        assert!(usual < SLOWEST, "round {round}: {usual:?}");
        let pushed = timeout(SLOWEST, follower.next()).await.expect("a follower waits too");
        assert_eq!(pushed["type"], "next", "{pushed}");
    }
    signal("CONT", pid);
}
