//! A board that is corrupted by hand, found by the diff, repaired, and compared with its picture.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value, json};

use crate::api::Api;
use crate::api::submission::submit_durably;
use crate::deployment::{Deployment, Redis, Sql};
use crate::jobs::analytics::with_json;
use crate::jobs::diff::{finding_set, findings};

/// A board with entries in three months, and a raw connection to its Redis.
pub struct CorruptedBoard {
    pub deployment: Arc<Deployment>,
    redis: MultiplexedConnection,
    pub api: Api,
}

/// A difference as the diff prints it: kind, member, window, period.
type Named = (String, String, String, String);

impl CorruptedBoard {
    /// The boards of a deployment, to be corrupted.
    pub async fn of(deployment: Arc<Deployment>, api: Api) -> Self {
        let redis = deployment.redis().await;
        Self { deployment, redis, api }
    }

    /// Creates the board `b` with 40 members in three months.
    pub async fn new(sql: Sql, shards: u16) -> Self {
        let deployment = Deployment::new(sql, Redis::Private).await;
        let api = Api::start(&deployment).await;
        let windows = json!([{ "name": "daily" }, { "name": "monthly" }]);
        let input = json!({
            "slug": "b", "shards": shards, "tieBreakResolutionMs": 1000, "windows": windows,
        });
        api.create_board(input).await;
        for month in 1..=3 {
            let score = |member: i64| {
                json!({
                    "member": format!("m{member:02}"), "score": member * month + 1,
                    "at": format!("2026-{month:02}-1{}T12:00:00Z", member % 5),
                })
            };
            submit_durably(&api, "b", (0..40).map(score).collect()).await;
        }
        Self::of(deployment, api).await
    }

    /// Sends a command to Redis.
    pub async fn redis<T: redis::FromRedisValue>(&mut self, words: &[&str]) -> T {
        redis::cmd(words[0]).arg(&words[1..]).query_async(&mut self.redis).await.unwrap()
    }

    /// Executes a statement that must change one row.
    pub async fn sql(&self, statement: &str) {
        let db = self.deployment.sql().await;
        let changed = db
            .execute_raw(Statement::from_string(db.get_database_backend(), statement))
            .await
            .unwrap();
        assert_eq!(changed.rows_affected(), 1, "{statement}");
        db.close().await.unwrap();
    }

    /// The sorted set that a member's entry of a window's period is in, and its double.
    pub async fn entry(&mut self, member: &str, standings: &str) -> (String, f64) {
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

    /// Sets the double of a member's entry.
    pub async fn set(&mut self, key: &str, double: f64, member: &str) {
        let () = self.redis(&["ZADD", key, &format!("{double:.16e}"), member]).await;
    }

    /// Runs a batch job that must not fail: its exit status, and the JSON it prints.
    pub fn run(&self, arguments: &[&str]) -> (i32, Value) {
        let output = self.deployment.analytics(&with_json(arguments));
        let code = output.status.code().unwrap();
        let value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        assert!(
            code != 1 && code != 2,
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        (code, value)
    }

    /// Checks that the diff finds just these, and nothing after a rebuild.
    pub fn names_and_mends(&self, expected: &[(&str, &str, &str, &str)]) {
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

/// The contents of Redis and SQL, except heads and logs, commits and jobs.
pub type Picture = BTreeMap<String, String>;

impl CorruptedBoard {
    /// A picture of all contents.
    pub async fn picture(&mut self) -> Picture {
        let keys: Vec<String> = self.redis(&["KEYS", "*"]).await;
        let mut all = Picture::new();
        for key in keys {
            if key.ends_with(":head") || key.ends_with(":log") {
                continue;
            }
            let kind: String = self.redis(&["TYPE", &key]).await;
            let held = match kind.as_str() {
                "zset" => {
                    let entries: Vec<(Vec<u8>, f64)> =
                        self.redis(&["ZRANGE", &key, "0", "-1", "WITHSCORES"]).await;
                    let entries = entries.iter().map(|(member, double)| (member, double.to_bits()));
                    format!("{:?}", entries.collect::<Vec<_>>())
                }
                "hash" => {
                    let fields: BTreeMap<String, String> = self.redis(&["HGETALL", &key]).await;
                    format!("{fields:?}")
                }
                other => format!("a {other}"),
            };
            all.insert(key, held);
        }
        for (table, columns) in [
            (
                "standing",
                "board_no || ' ' || segment || ' ' || member || ' ' || score || ' ' || rank_key || \
                    ' ' || \"partition\" || ' ' || seq",
            ),
            // Without the commit that corrected an entry last: it is lost with a deleted entry.
            (
                "sealed_entry",
                "standings_no || ' ' || member || ' ' || score || ' ' || rank_key || ' ' || \
                    \"partition\"",
            ),
            ("sealed_period", "no || ' ' || label || ' ' || corrections"),
            (
                "archived_entry",
                "member || ' ' || segment || ' ' || through_seq || ' ' || \"partition\" || ' ' || \
                    COALESCE(score, -1) || ' ' || COALESCE(tick, -1) || ' ' || events",
            ),
            (
                "score_event",
                "\"partition\" || ' ' || seq || ' ' || event_index || ' ' || member || ' ' || \
                    COALESCE(score, -1) || ' ' || COALESCE(at_ms, -1)",
            ),
            ("archive_file", "path || sha256 || state"),
            ("board", "no || windows || generation"),
        ] {
            let mut rows: Vec<String> =
                self.deployment.column(&format!("SELECT {columns} FROM {table}")).await;
            rows.sort();
            all.insert(table.to_owned(), rows.join("\n"));
        }
        all
    }

    /// Executes statements, each of which must change something.
    pub async fn spoil(&self, statements: &[&str]) {
        let db = self.deployment.sql().await;
        for statement in statements {
            let changed = db
                .execute_raw(Statement::from_string(db.get_database_backend(), *statement))
                .await
                .unwrap();
            let makes_table = statement.starts_with("CREATE");
            assert!(makes_table || changed.rows_affected() > 0, "{statement}");
        }
        db.close().await.unwrap();
    }

    /// Checks that `diff --repair` finds just these (kind, place, member) and restores all contents
    /// of the picture, and that another diff finds nothing.
    pub async fn repairs(&mut self, expected: &[(&str, &str, &str)], whole: &Picture) {
        let (code, found) = self.run(&["diff", "--repair"]);
        assert_eq!(findings(&found), finding_set(expected), "{found}");
        assert_eq!(code, 0, "{found}");
        assert_eq!((&found["left"], &found["repaired"]), (&json!(0), &found["found"]), "{found}");
        for finding in found["findings"].as_array().unwrap() {
            assert_eq!(finding["repaired"], true, "{finding}");
        }
        let kept = "SELECT CAST(COUNT(*) AS BIGINT) FROM integrity_finding WHERE run_id = \
            (SELECT MAX(id) FROM integrity_run) AND repaired";
        assert_eq!(self.deployment.number(kept).await, found["found"].as_i64().unwrap());
        self.is_as(whole).await;
        let (code, found) = self.run(&["diff"]);
        assert_eq!((code, &found["findings"]), (0, &json!([])));
    }

    /// Checks that all contents are as in a picture.
    pub async fn is_as(&mut self, whole: &Picture) {
        let now = self.picture().await;
        let keys: BTreeSet<&String> = whole.keys().chain(now.keys()).collect();
        for key in keys {
            assert_eq!(now.get(key), whole.get(key), "{key}");
        }
    }
}
