//! Corruption by hand, of every kind and in every place: the diff names just that, and a rebuild
//! repairs it.

use serde_json::json;

use tests::api::submission::submit;
use tests::boards::corruption::CorruptedBoard;
use tests::deployment::Sql;
use tests::extent;

#[tokio::test]
async fn corruption_of_any_kind_is_named_and_mended_on_sqlite() {
    if let Some(sql) = extent::drawn(Sql::Sqlite) {
        check(sql, 1).await;
    }
}

#[tokio::test]
async fn corruption_of_any_kind_is_named_and_mended_on_postgres_in_four_shards() {
    if let Some(sql) = extent::drawn(Sql::Postgres) {
        check(sql, 4).await;
    }
}

#[tokio::test]
async fn corruption_of_any_kind_is_named_and_mended_on_mariadb_in_four_shards() {
    check(Sql::Mariadb, 4).await;
}

async fn check(sql: Sql, shards: u16) {
    let mut board = CorruptedBoard::new(sql, shards).await;
    assert_eq!(board.run(&["diff"]).0, 0);
    in_redis(&mut board).await;
    foreign_in_redis(&mut board).await;
    in_sql(&mut board).await;
}

async fn in_redis(board: &mut CorruptedBoard) {
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

/// Entries that no program of ours would write.
async fn foreign_in_redis(board: &mut CorruptedBoard) {
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

async fn in_sql(board: &mut CorruptedBoard) {
    board.sql("UPDATE standing SET score = score + 1 WHERE member = 'm20'").await;
    board.names_and_mends(&[("WRONG_SCORE", "m20", "all", "all")]);

    board.sql("UPDATE standing SET rank_key = rank_key + 1 WHERE member = 'm21'").await;
    board.names_and_mends(&[("WRONG_TIE_BREAK", "m21", "all", "all")]);

    board.sql("DELETE FROM standing WHERE member = 'm22'").await;
    board.names_and_mends(&[("MISSING", "m22", "all", "all")]);

    board.sql("INSERT INTO member (\"key\", created_at_ms) VALUES ('nobody', 0)").await;
    board
        .sql(
            "INSERT INTO standing (board_no, segment, member, score, rank_key, \"partition\", seq) \
            SELECT board_no, segment, 'nobody', score, rank_key, \"partition\", seq FROM standing \
            WHERE member = 'm23'",
        )
        .await;
    board.names_and_mends(&[("PHANTOM", "nobody", "all", "all")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_diff_beside_writers_finds_nothing_false() {
    let board = CorruptedBoard::new(Sql::any(), 2).await;
    let write = async || {
        for batch in 0..400 {
            let score = |member: i64| {
                json!({
                    "member": format!("m{member:02}"), "score": batch % 7,
                    "at": format!("2026-0{}-1{}T12:00:00Z", 1 + batch % 3, member % 5),
                })
            };
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
