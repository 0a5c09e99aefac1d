//! Repairs outside Redis: sealed rows, the sums of archived events, the files of the archive.

use serde_json::{Value, json};

use tests::boards::corruption::CorruptedBoard;
use tests::deployment::Sql;
use tests::jobs::analytics::with_json;
use tests::jobs::archive::{archived, paths};
use tests::jobs::diff::{finding_set, findings};

/// The sealed entry of a member on a day.
const OF_DAY: &str = "standings_no = (SELECT no FROM sealed_period WHERE label = '2025-03-04') \
    AND member = 'm3'";

/// A finding: kind, place, member.
type Finding = (&'static str, &'static str, &'static str);

/// Statements that spoil a row, and the findings of the diff after each.
const CASES: [(&str, &[Finding]); 9] = [
    (
        "UPDATE sealed_entry SET score = score + 1 WHERE {of_day}",
        &[("WRONG_SCORE", "SEALED", "m3")],
    ),
    (
        "UPDATE sealed_entry SET rank_key = rank_key + 1 WHERE {of_day}",
        &[("WRONG_TIE_BREAK", "SEALED", "m3")],
    ),
    ("DELETE FROM sealed_entry WHERE {of_day}", &[("MISSING", "SEALED", "m3")]),
    (
        "INSERT INTO sealed_entry (standings_no, member, score, rank_key, \"partition\", seq) \
            SELECT standings_no, 'm4', score, rank_key, \"partition\", seq \
            FROM sealed_entry WHERE {of_day}",
        &[("PHANTOM", "SEALED", "m4")],
    ),
    (
        "UPDATE archived_entry SET score = score + 1 WHERE member = 'm5'",
        &[("WRONG_SCORE", "ARCHIVED", "m5")],
    ),
    (
        "UPDATE archived_entry SET tick = tick - 1 WHERE member = 'm6'",
        &[("WRONG_TIE_BREAK", "ARCHIVED", "m6")],
    ),
    (
        "UPDATE archived_entry SET events = events + 1 WHERE member = 'm7'",
        &[("WRONG_TIE_BREAK", "ARCHIVED", "m7")],
    ),
    ("DELETE FROM archived_entry WHERE member = 'm8'", &[("MISSING", "ARCHIVED", "m8")]),
    (
        "UPDATE archived_entry SET \"partition\" = (SELECT \"partition\" FROM archive_mark AS m \
            WHERE m.\"partition\" <> archived_entry.\"partition\") WHERE member = 'm5'",
        &[("MISSING", "ARCHIVED", "m5"), ("PHANTOM", "ARCHIVED", "m5")],
    ),
];

#[tokio::test]
async fn sealed_rows_and_what_archived_events_add_up_to_are_repaired() {
    for sql in Sql::all() {
        let (deployment, api) = archived(sql).await;
        let mut board = CorruptedBoard::of(deployment, api).await;
        let (code, found) = board.run(&["diff"]);
        assert_eq!(code, 0, "{found}");
        let whole = board.picture().await;
        for (statement, findings) in CASES {
            board.spoil(&[&statement.replace("{of_day}", OF_DAY)]).await;
            board.repairs(findings, &whole).await;
        }
        // With the files behind them: entries and rows of "all".
        let (key, _) = board.entry("m9", "all:all").await;
        let () = board.redis(&["ZREM", &key, "m9"]).await;
        board.spoil(&["UPDATE standing SET score = score + 1 WHERE member = 'm2'"]).await;
        board.repairs(&[("MISSING", "ENTRY", "m9"), ("WRONG_SCORE", "ENTRY", "m2")], &whole).await;
    }
}

#[tokio::test]
async fn a_damaged_file_is_put_back_from_a_copy_or_named() {
    let (deployment, api) = archived(Sql::any()).await;
    let mut board = CorruptedBoard::of(deployment.clone(), api).await;
    let whole = board.picture().await;
    let (copies, files) = (deployment.path("copies"), paths(&deployment));
    assert!(files.len() >= 2, "{files:?}");
    let good: Vec<Vec<u8>> = files
        .iter()
        .map(|file| std::fs::read(deployment.archive_dir().join(file)).unwrap())
        .collect();
    for (file, bytes) in files.iter().zip(&good) {
        let copy = std::path::Path::new(&copies).join(file);
        std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
        std::fs::write(copy, bytes).unwrap();
    }
    let with_copies = |arguments: &[&str]| {
        let mut command = deployment.analytics_command(&with_json(arguments));
        let output = command.env("LAUREL_ARCHIVE_COPY_DIR", &copies).output().unwrap();
        let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output.status.code().unwrap(), found)
    };
    let (path, bytes) = (deployment.archive_dir().join(&files[0]), &good[0]);
    let mut bit = bytes.clone();
    bit[bytes.len() / 2] ^= 1;
    for broken in [Some(&bit[..]), Some(&bytes[..bytes.len() - 1]), None] {
        match broken {
            Some(broken) => std::fs::write(&path, broken).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        // Without a copy the file stays a finding; the other partition is still compared and
        // repaired.
        let (code, found) = board.run(&["diff", "--repair"]);
        assert_eq!(
            (code, findings(&found)),
            (3, finding_set(&[("MISSING", "FILE", "*")])),
            "{found}"
        );
        assert_eq!(found["findings"][0]["window"], json!(files[0]));
        assert!(found["findings"][0]["note"].as_str().unwrap().contains("backup"), "{found}");
        assert!(found["checked"].as_i64().unwrap() > 0, "{found}");
        // A damaged copy does not help.
        let copy = std::path::Path::new(&copies).join(&files[0]);
        std::fs::write(&copy, &bit).unwrap();
        assert_eq!(with_copies(&["diff", "--repair"]).0, 3);
        std::fs::write(&copy, bytes).unwrap();
        // Corruption that the missing file hid is found and repaired once the file is back.
        board.spoil(&["UPDATE standing SET score = score + 1"]).await;
        let (code, found) = with_copies(&["diff", "--repair"]);
        assert_eq!(code, 0, "{found}");
        assert_eq!(&std::fs::read(&path).unwrap(), bytes);
        board.is_as(&whole).await;
        assert_eq!(board.run(&["diff"]).1["findings"], json!([]));
    }
    // The next archive writes copies that are missing.
    std::fs::remove_dir_all(&copies).unwrap();
    std::fs::create_dir(&copies).unwrap();
    assert_eq!(with_copies(&["archive", "--before", "2001-01-01"]).0, 0);
    for (file, bytes) in files.iter().zip(&good) {
        assert_eq!(&std::fs::read(std::path::Path::new(&copies).join(file)).unwrap(), bytes);
    }
}
