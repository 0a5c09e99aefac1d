//! Rank keys, in Redis and back.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use ranking::score::rank_key::RankKey;

use crate::server::{Server, key};

#[tokio::test]
async fn redis_orders_and_gives_back_every_key_exactly() {
    let mut server = Server::start(1).await;
    let mut runner = TestRunner::new(Config::with_cases(40));
    let keys = proptest::collection::vec(
        prop_oneof![0..1_i64 << 62, Just(0), Just((1 << 62) - 1), 0..3_i64],
        1..300,
    );
    for _ in 0..40 {
        let mut keys = keys.new_tree(&mut runner).unwrap().current();
        let mut command = redis::cmd("ZADD");
        command.arg("k");
        for (index, &number) in keys.iter().enumerate() {
            command.arg(key(number).to_redis()).arg(format!("{index:04}"));
        }
        let () = command.query_async(&mut server.raw).await.unwrap();
        let entries: Vec<(String, f64)> =
            server.raw(&["ZRANGE", "k", "0", "-1", "WITHSCORES"]).await;
        let read: Vec<i64> = entries
            .into_iter()
            .map(|(_, double)| RankKey::from_f64(double).unwrap().to_i64())
            .collect();
        keys.sort_unstable();
        assert_eq!(read, keys);
        let () = server.raw(&["DEL", "k"]).await;
    }
}
