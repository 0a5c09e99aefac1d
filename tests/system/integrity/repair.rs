//! Repairs: the diff names corrupted entries, puts them right, and touches nothing else.

use serde_json::json;

use tests::boards::corruption::{CorruptedBoard, Picture};
use tests::deployment::Sql;
use tests::jobs::diff::{finding_set, findings};

#[tokio::test]
async fn corruption_in_redis_is_repaired_and_nothing_else_is_touched() {
    for (sql, shards) in Sql::all_with([1, 4]) {
        let mut board = CorruptedBoard::new(sql, shards).await;
        let whole = board.picture().await;
        assert_eq!(board.run(&["diff"]).0, 0);

        repair_entries(&mut board, &whole).await;
        repair_another_period(&mut board, &whole).await;
        repair_keys(&mut board, &whole).await;
        repair_lists(&mut board, &whole).await;
    }
}

async fn repair_entries(board: &mut CorruptedBoard, whole: &Picture) {
    let (key, double) = board.entry("m05", "all:all").await;
    let (_, other) = board.entry("m07", "all:all").await;
    board.set(&key, other, "m05").await;
    board.repairs(&[("WRONG_SCORE", "ENTRY", "m05")], whole).await;

    board.set(&key, f64::from_bits(double.to_bits() + 1), "m05").await;
    board.repairs(&[("WRONG_TIE_BREAK", "ENTRY", "m05")], whole).await;

    // No program of ours would write these: doubles that are not keys, members that
    // cannot be.
    for foreign in ["-7", "inf", "-inf", "0", "5e-324"] {
        let () = board.redis(&["ZADD", &key, foreign, "m05"]).await;
        board.repairs(&[("WRONG_SCORE", "ENTRY", "m05")], whole).await;
    }
    let mut add = redis::cmd("ZADD");
    add.arg(&key)
        .arg("1.5")
        .arg(&b"\xff\x00bytes"[..])
        .arg("1.25")
        .arg("")
        .arg("1.75")
        .arg("two\nlines")
        .arg("1.875")
        .arg("a\0b");
    let () = add.query_async(&mut board.deployment.redis().await).await.unwrap();
    let (_, found) = board.run(&["diff"]);
    assert_eq!(found["found"], 4, "{found}");
    let (code, found) = board.run(&["diff", "--repair"]);
    assert_eq!((code, &found["repaired"]), (0, &json!(4)), "{found}");
    board.is_as(whole).await;

    let () = board.redis(&["ZREM", &key, "m05"]).await;
    board.repairs(&[("MISSING", "ENTRY", "m05")], whole).await;

    board.set(&key, double, "nobody").await;
    board.repairs(&[("PHANTOM", "ENTRY", "nobody")], whole).await;
}

/// An entry in another period, which then is one of its own.
async fn repair_another_period(board: &mut CorruptedBoard, whole: &Picture) {
    let (month, double) = board.entry("m13", "monthly:2026-01").await;
    let () = board.redis(&["ZREM", &month, "m13"]).await;
    board.set(&month.replace("2026-01", "2026-07"), double, "m13").await;
    let (code, found) = board.run(&["diff", "--repair"]);
    let kinds = [("MISSING", "ENTRY", "m13"), ("WRONG_WINDOW", "ENTRY", "m13")];
    assert_eq!((code, findings(&found)), (0, finding_set(&kinds)), "{found}");
    board.is_as(whole).await;
}

async fn repair_keys(board: &mut CorruptedBoard, whole: &Picture) {
    // A whole key, and one that became another type.
    let (day, _) = board.entry("m05", "daily:2026-02-10").await;
    let members: Vec<String> = board.redis(&["ZRANGE", &day, "0", "-1"]).await;
    let missing = members.iter().map(|member| ("MISSING", "ENTRY", member.as_str()));
    let mut missing: Vec<_> = missing.collect();
    let () = board.redis(&["DEL", &day]).await;
    board.repairs(&missing, whole).await;
    let () = board.redis(&["SET", &day, "text"]).await;
    missing.push(("PHANTOM", "KEY", "*"));
    board.repairs(&missing, whole).await;

    // Names that no program writes, and boards that do not exist.
    let stray = day.replace("::daily:2026-02-10", "::daily:yesterday:or:so");
    let gone = day.replace("z:1.1:", "z:77.1:");
    let () = board.redis(&["ZADD", &stray, "1", "m05"]).await;
    let () = board.redis(&["ZADD", &gone, "1", "m05"]).await;
    board.repairs(&[("PHANTOM", "KEY", "*")], whole).await;
}

/// A period that its list does not name, or names with another start.
async fn repair_lists(board: &mut CorruptedBoard, whole: &Picture) {
    let (day, _) = board.entry("m05", "daily:2026-02-10").await;
    let list = day.replace(":z:", ":periods:").replace(":2026-02-10", "");
    let () = board.redis(&["ZREM", &list, "2026-02-10"]).await;
    board.repairs(&[("MISSING", "PERIODS", "*")], whole).await;
    let () = board.redis(&["ZADD", &list, "17", "2026-02-10"]).await;
    board.repairs(&[("MISSING", "PERIODS", "*")], whole).await;
    let () = board.redis(&["DEL", &list]).await;
    let (code, found) = board.run(&["diff", "--repair"]);
    assert_eq!(
        (code, findings(&found)),
        (0, finding_set(&[("MISSING", "PERIODS", "*")])),
        "{found}"
    );
    board.is_as(whole).await;
}

#[tokio::test]
async fn rows_of_standings_are_repaired_and_nothing_else_is_touched() {
    for (sql, shards) in Sql::all_with([1, 2]) {
        let mut board = CorruptedBoard::new(sql, shards).await;
        let whole = board.picture().await;
        board.spoil(&["UPDATE standing SET score = score + 1 WHERE member = 'm20'"]).await;
        board.repairs(&[("WRONG_SCORE", "ENTRY", "m20")], &whole).await;
        board.spoil(&["UPDATE standing SET rank_key = rank_key + 1 WHERE member = 'm21'"]).await;
        board.repairs(&[("WRONG_TIE_BREAK", "ENTRY", "m21")], &whole).await;
        board.spoil(&["DELETE FROM standing WHERE member = 'm22'"]).await;
        board.repairs(&[("MISSING", "ENTRY", "m22")], &whole).await;
        board
            .spoil(&["UPDATE standing SET \"partition\" = \"partition\" + 1 WHERE member = 'm24'"])
            .await;
        board.repairs(&[("WRONG_SCORE", "ENTRY", "m24")], &whole).await;
        board
            .spoil(&[
                "INSERT INTO member (\"key\", created_at_ms) VALUES ('nobody', 0)",
                "INSERT INTO standing (board_no, segment, member, score, rank_key, \"partition\", seq) \
                    SELECT board_no, segment, 'nobody', score, rank_key, \"partition\", seq \
                    FROM standing WHERE member = 'm23'",
            ])
            .await;
        let (code, found) = board.run(&["diff", "--repair"]);
        assert_eq!(code, 0, "{found}");
        board.is_as(&whole).await;
        // Two members' scores, swapped: the same sums, but not the same rows.
        let (_, found) = board.run(&["diff"]);
        assert_eq!(found["proven"]["unproven"], 0, "{found}");
        board
            .spoil(&[
                "CREATE TABLE kept AS SELECT * FROM standing WHERE member IN ('m30', 'm31')",
                "UPDATE standing SET score = (SELECT score FROM kept \
                    WHERE kept.member <> standing.member), rank_key = (SELECT rank_key FROM kept \
                    WHERE kept.member <> standing.member) WHERE member IN ('m30', 'm31')",
            ])
            .await;
        board
            .repairs(&[("WRONG_SCORE", "ENTRY", "m30"), ("WRONG_SCORE", "ENTRY", "m31")], &whole)
            .await;
    }
}

#[tokio::test]
async fn history_that_stands_alone_is_followed_only_when_it_is_named() {
    for sql in Sql::all() {
        let mut board = CorruptedBoard::new(sql, 2).await;
        assert_eq!(board.run(&["diff"]).0, 0);
        let (redis, rows) = (
            "UPDATE score_event SET score = score + 1 WHERE member = 'm30' AND at_ms = \
                (SELECT MIN(at_ms) FROM score_event WHERE member = 'm30')",
            "UPDATE score_event SET score = score - 1 WHERE member = 'm30' AND at_ms = \
                (SELECT MIN(at_ms) FROM score_event WHERE member = 'm30')",
        );
        let whole = board.picture().await;
        board.spoil(&[redis]).await;
        let corrupted = board.picture().await;
        let (code, found) = board.run(&["diff", "--repair"]);
        assert_eq!(
            (code, findings(&found)),
            (3, finding_set(&[("WRONG_SCORE", "ENTRY", "m30"), ("ALTERED", "EVENT", "m30")])),
            "{found}"
        );
        for finding in found["findings"].as_array().unwrap() {
            assert_eq!(finding["repaired"], false);
            assert!(
                finding["place"] == "EVENT"
                    || finding["note"].as_str().unwrap().contains("agree with each other"),
                "{finding}"
            );
        }
        assert_eq!(found["found"], 4, "all, a day, a month, the event: {found}");
        board.is_as(&corrupted).await;
        let (code, found) = board.run(&["diff", "--repair", "--against", "history"]);
        assert_eq!((code, &found["left"]), (3, &json!(1)), "{found}");
        board.spoil(&[rows]).await;
        assert_eq!(board.run(&["diff", "--repair"]).0, 3);
        assert_eq!(board.run(&["diff", "--repair", "--against", "history"]).0, 0);
        board.is_as(&whole).await;

        // A lost event: its day has one too few, or lacks the whole entry.
        board
            .spoil(&[
                "CREATE TABLE kept AS SELECT * FROM score_event WHERE member = 'm31'",
                "DELETE FROM score_event WHERE member = 'm31'",
            ])
            .await;
        let (code, found) = board.run(&["diff", "--repair"]);
        assert_eq!(
            (code, findings(&found)),
            (3, finding_set(&[("PHANTOM", "ENTRY", "m31"), ("MISSING", "EVENT", "*")])),
            "{found}"
        );
        board.spoil(&["INSERT INTO score_event SELECT * FROM kept"]).await;
        assert_eq!(board.run(&["diff"]).0, 0);
        board.is_as(&whole).await;
    }
}
