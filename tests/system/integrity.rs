//! Corruption by hand, of every kind and in every place: the diff names just that, a rebuild mends it.

use std::collections::BTreeSet;
use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value, json};

use crate::api::Api;
use crate::deployment::{Deployment, Redis, Sql};
use crate::load::{submit, submit_durably};

const CREATE: &str = "mutation($shards: Int!) { createBoard(input: { slug: \"b\", shards: $shards, tieBreakResolutionMs: 1000,
    windows: [{ name: \"daily\" }, { name: \"monthly\" }] }) { board { id } } }";

/// A board with entries in three months, and a raw connection to its Redis.
pub(crate) struct Corrupted {
    pub(crate) deployment: Arc<Deployment>,
    redis: MultiplexedConnection,
    pub(crate) api: Api,
}

/// A difference as the diff prints it: kind, member, window, period.
type Named = (String, String, String, String);

impl Corrupted {
    /// What there is of a deployment.
    pub(crate) async fn of(deployment: Arc<Deployment>, api: Api) -> Self {
        let redis = deployment.redis().await;
        Self { deployment, redis, api }
    }

    pub(crate) async fn new(sql: Sql, shards: u16) -> Self {
        let deployment = Deployment::new(sql, Redis::Private).await;
        let api = Api::start(&deployment).await;
        api.data(CREATE, json!({ "shards": shards })).await;
        for month in 1..=3 {
            let score = |member: i64| json!({ "member": format!("m{member:02}"), "score": member * month + 1, "at": format!("2026-{month:02}-1{}T12:00:00Z", member % 5) });
            submit_durably(&api, "b", (0..40).map(score).collect()).await;
        }
        Self::of(deployment, api).await
    }

    pub(crate) async fn redis<T: redis::FromRedisValue>(&mut self, words: &[&str]) -> T {
        redis::cmd(words[0]).arg(&words[1..]).query_async(&mut self.redis).await.unwrap()
    }

    pub(crate) async fn sql(&self, statement: &str) {
        let db = self.deployment.sql().await;
        let changed = db
            .execute_raw(Statement::from_string(db.get_database_backend(), statement))
            .await
            .unwrap();
        assert_eq!(changed.rows_affected(), 1, "{statement}");
        db.close().await.unwrap();
    }

    /// The sorted set that a member's entry of a window's period is in, and its double.
    pub(crate) async fn entry(&mut self, member: &str, standings: &str) -> (String, f64) {
        let keys: Vec<String> =
            self.redis(&["KEYS", &format!("laurel:*:z:1.1::{standings}")]).await;
        for key in keys {
            let double: Option<f64> = self.redis(&["ZSCORE", &key, member]).await;
            if let Some(double) = double {
                return (key, double);
            }
        }
        panic!("{member} has no entry in {standings}");
    }

    pub(crate) async fn set(&mut self, key: &str, double: f64, member: &str) {
        let () = self.redis(&["ZADD", key, &format!("{double:.16e}"), member]).await;
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> (i32, Value) {
        let output = self.deployment.analytics(&[&["--json"], arguments].concat());
        let code = output.status.code().unwrap();
        let value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        assert!(
            code != 1 && code != 2,
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        (code, value)
    }

    /// The diff finds just these, a rebuild mends them, and then it finds nothing.
    fn names_and_mends(&self, expected: &[(&str, &str, &str, &str)]) {
        let (code, found) = self.run(&["diff", "--board", "b"]);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let named: BTreeSet<Named> = found["findings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|finding| {
                (
                    text(&finding["kind"]),
                    text(&finding["member"]),
                    text(&finding["window"]),
                    text(&finding["period"]),
                )
            })
            .collect();
        let expected: BTreeSet<Named> = expected
            .iter()
            .map(|&(kind, member, window, period)| {
                (kind.into(), member.into(), window.into(), period.into())
            })
            .collect();
        assert_eq!(named, expected);
        assert_eq!(code, 3);
        assert_eq!(self.run(&["rebuild", "--board", "b"]).0, 0);
        let (code, found) = self.run(&["diff"]);
        assert_eq!((code, &found["findings"]), (0, &json!([])));
        assert_eq!(found["checked"], 40 + 3 * 40 + 3 * 40);
    }
}

#[tokio::test]
async fn corruption_of_any_kind_is_named_and_mended_on_sqlite() {
    check(Sql::Sqlite, 1).await;
}

#[tokio::test]
async fn corruption_of_any_kind_is_named_and_mended_on_postgres_in_four_shards() {
    check(Sql::Postgres, 4).await;
}

async fn check(sql: Sql, shards: u16) {
    let mut board = Corrupted::new(sql, shards).await;
    assert_eq!(board.run(&["diff"]).0, 0);
    in_redis(&mut board).await;
    foreign_in_redis(&mut board).await;
    in_sql(&mut board).await;
}

async fn in_redis(board: &mut Corrupted) {
    // Another member's key: another score.
    let (_, double) = board.entry("m07", "all:all").await;
    let (key, _) = board.entry("m05", "all:all").await;
    board.set(&key, double, "m05").await;
    board.names_and_mends(&[("WRONG_SCORE", "m05", "all", "all")]);

    // The next key: the same score, a second later.
    let (key, double) = board.entry("m05", "daily:2026-02-10").await;
    board.set(&key, f64::from_bits(double.to_bits() + 1), "m05").await;
    board.names_and_mends(&[("WRONG_TIE_BREAK", "m05", "daily", "2026-02-10")]);

    let (key, _) = board.entry("m11", "all:all").await;
    let () = board.redis(&["ZREM", &key, "m11"]).await;
    board.names_and_mends(&[("MISSING", "m11", "all", "all")]);

    let (key, double) = board.entry("m12", "monthly:2026-03").await;
    board.set(&key, double, "nobody").await;
    board.names_and_mends(&[("PHANTOM", "nobody", "monthly", "2026-03")]);

    let (key, double) = board.entry("m13", "monthly:2026-01").await;
    let () = board.redis(&["ZREM", &key, "m13"]).await;
    board.set(&key.replace("2026-01", "2026-07"), double, "m13").await;
    board.names_and_mends(&[
        ("MISSING", "m13", "monthly", "2026-01"),
        ("WRONG_WINDOW", "m13", "monthly", "2026-07"),
    ]);

    // Two at once, in two places.
    let (key, _) = board.entry("m14", "all:all").await;
    let () = board.redis(&["ZREM", &key, "m14"]).await;
    let (key, _) = board.entry("m15", "all:all").await;
    board.set(&key, 1.5, "m15").await;
    board
        .names_and_mends(&[("MISSING", "m14", "all", "all"), ("WRONG_SCORE", "m15", "all", "all")]);
}

/// What no program of ours would write.
async fn foreign_in_redis(board: &mut Corrupted) {
    let (key, _) = board.entry("m05", "all:all").await;
    let () = board.redis(&["ZADD", &key, "-7", "m05"]).await;
    board.names_and_mends(&[("WRONG_SCORE", "m05", "all", "all")]);

    let stray = key.replace("::all:all", "::daily:yesterday:or:so");
    let () = board.redis(&["ZADD", &stray, "1", "m05"]).await;
    board.names_and_mends(&[("PHANTOM", "*", &stray, "")]);

    let (key, _) = board.entry("m05", "daily:2026-02-10").await;
    let members: Vec<String> = board.redis(&["ZRANGE", &key, "0", "-1"]).await;
    let () = board.redis(&["DEL", &key]).await;
    let missing: Vec<_> =
        members.iter().map(|member| ("MISSING", member.as_str(), "daily", "2026-02-10")).collect();
    board.names_and_mends(&missing);

    let (key, _) = board.entry("m05", "daily:2026-01-10").await;
    let members: Vec<String> = board.redis(&["ZRANGE", &key, "0", "-1"]).await;
    let () = board.redis(&["SET", &key, "text"]).await;
    let mut named: Vec<_> =
        members.iter().map(|member| ("MISSING", member.as_str(), "daily", "2026-01-10")).collect();
    named.push(("PHANTOM", "*", &key, ""));
    board.names_and_mends(&named);
}

async fn in_sql(board: &mut Corrupted) {
    board.sql("UPDATE standing SET score = score + 1 WHERE member = 'm20'").await;
    board.names_and_mends(&[("WRONG_SCORE", "m20", "all", "all")]);

    board.sql("UPDATE standing SET rank_key = rank_key + 1 WHERE member = 'm21'").await;
    board.names_and_mends(&[("WRONG_TIE_BREAK", "m21", "all", "all")]);

    board.sql("DELETE FROM standing WHERE member = 'm22'").await;
    board.names_and_mends(&[("MISSING", "m22", "all", "all")]);

    board.sql("INSERT INTO member (key, created_at_ms) VALUES ('nobody', 0)").await;
    board
        .sql("INSERT INTO standing (board_no, segment, member, score, rank_key, partition, seq) SELECT board_no, segment, 'nobody', score, rank_key, partition, seq FROM standing WHERE member = 'm23'")
        .await;
    board.names_and_mends(&[("PHANTOM", "nobody", "all", "all")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_diff_beside_writers_finds_nothing_false() {
    let board = Corrupted::new(Sql::Sqlite, 2).await;
    let write = async || {
        for batch in 0..400 {
            let score = |member: i64| json!({ "member": format!("m{member:02}"), "score": batch % 7, "at": format!("2026-0{}-1{}T12:00:00Z", 1 + batch % 3, member % 5) });
            submit(&board.api, "b", (0..40).map(score).collect()).await;
        }
    };
    let compare = async || {
        for _ in 0..3 {
            let mut command = board.deployment.analytics_command(&["diff"]);
            let output =
                tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
            assert_eq!(
                output.status.code(),
                Some(0),
                "{}",
                String::from_utf8_lossy(&output.stdout)
            );
        }
    };
    futures::join!(write(), write(), compare());
}
