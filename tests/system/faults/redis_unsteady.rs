//! Reads while Redis is neither well nor gone, and what they cost while SQL answers them.

use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::json;

use super::redis_away::{SLOWEST, rank, settle, start};
use tests::api::Api;
use tests::api::submission::submit_durably;
use tests::attack::request::Attack;
use tests::deployment::{Deployment, Sql};
use tests::servers::proxy::{Mode, Proxy};
use tests::servers::redis_node::RedisNode;
use tests::wait::until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_a_period_folded_pays_for_it_once() {
    const FOLD: u64 = 10_000;
    let (api, mut redis) = start(Sql::Sqlite).await;
    settle(&api).await;
    let points = async |fields: &str| {
        let attack = Attack::query("a fold", &format!("{{board(slug:\"b\"){{{fields}}}}}"));
        let reply = attack.send(&Client::new(), api.url(), api.token()).await.unwrap();
        assert!(reply.codes().is_empty(), "{}", reply.shown());
        reply.points().unwrap()
    };
    let daily = "standings(of:{window:\"daily\"}){entry(member:\"m5\"){rank}}";
    let of_segments = "segments(of:{window:\"weekly\"}){nodes{entry(member:\"m5\"){rank}}}";
    let periods = "periods(window:\"monthly\"){nodes{label}}";
    let change = "standings(of:{window:\"3d\"}){entry(member:\"m5\"){change}}";
    let live = points(daily).await;
    redis.kill();
    until("SQL answers", async || (rank(&api, "all").await["source"] == "FALLBACK").then_some(()))
        .await;
    // The last one needs a fold of the period before, too.
    for (fields, folds) in [(daily, 1), (of_segments, 1), (periods, 1), (change, 2)] {
        let paid = points(fields).await;
        assert!((folds * FOLD..(folds + 1) * FOLD).contains(&paid), "{fields}: {paid}");
        let again = points(fields).await;
        assert!(again < FOLD, "{fields}: {again}");
    }
    assert!(live < FOLD, "{live}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_do_not_go_to_and_fro_while_redis_is_slow() {
    let dir = tempfile::tempdir().unwrap();
    let files = dir.path().join("redis");
    std::fs::create_dir(&files).unwrap();
    let redis = RedisNode::start(&files, vec![]);
    let proxy = Proxy::before(redis.port()).await;
    let database_url = Sql::Sqlite.new_database(dir.path()).await;
    let redis_url = format!("redis://127.0.0.1:{}", proxy.port());
    let deployment = Deployment::elsewhere(dir, database_url, redis_url);
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "windows": [{ "name": "daily" }] })).await;
    submit_durably(&api, "b", json!([{ "member": "m5", "score": 1 }])).await;
    settle(&api).await;
    assert_eq!(rank(&api, "all").await["source"], "LIVE");
    // Each answer takes 0.9 s, which is more than a reader waits.
    proxy.set(Mode::Delay(Duration::from_millis(450)));
    until("SQL answers", async || (rank(&api, "all").await["source"] == "FALLBACK").then_some(()))
        .await;
    for _ in 0..25 {
        let began = Instant::now();
        assert_eq!(rank(&api, "all").await["source"], "FALLBACK");
        assert!(began.elapsed() < SLOWEST);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    proxy.set(Mode::Pass);
    until("Redis answers again", async || {
        (rank(&api, "all").await["source"] == "LIVE").then_some(())
    })
    .await;
}
