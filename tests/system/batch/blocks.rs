//! Blocks of rows give what a SELECT gives, across their ends, on each database.

use std::collections::BTreeSet;

use entity::sql::blocks::Columns;
use futures::TryStreamExt;
use ranking::id::{BoardNo, PartitionNo};
use sea_orm::{ConnectionTrait, DatabaseConnection, Statement};
use serde_json::json;

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};

/// More than two blocks of rows for each board and partition.
const MEMBERS: i64 = 45_000;

/// A row: its texts, then its numbers.
type Row = (Vec<String>, Vec<Option<i64>>);

/// The columns of numbers that are read of each table.
static STANDING: [&str; 4] = ["score", "rank_key", "seq", "board_no"];

const ARCHIVED: [&str; 4] = ["score", "tick", "events", "through_seq"];

async fn rows<const N: usize>(
    db: &DatabaseConnection,
    columns: Columns,
    numbers: [&str; N],
) -> BTreeSet<Row> {
    let (mut rows, mut count) = (BTreeSet::new(), 0);
    let mut blocks = columns.read(db);
    while let Some(block) = blocks.try_next().await.unwrap() {
        count += block.len();
        for (segment, member, numbers) in block.rows(numbers).unwrap().iter() {
            let texts = [segment, member].map(str::to_owned);
            rows.insert((texts.into(), numbers.into()));
        }
    }
    assert_eq!(rows.len(), count, "a row is there twice");
    rows
}

/// The sum of the blocks' hashes.
async fn hashes(db: &DatabaseConnection, columns: Columns) -> u128 {
    let blocks: Vec<_> = columns.read(db).try_collect().await.unwrap();
    let hashes = blocks.iter().map(|block| block.hash().unwrap());
    hashes.fold(0, u128::wrapping_add)
}

async fn selected(
    db: &DatabaseConnection,
    texts: usize,
    numbers: usize,
    sql: &str,
) -> BTreeSet<Row> {
    let statement = Statement::from_string(db.get_database_backend(), sql);
    let rows = db.query_all_raw(statement).await.unwrap();
    let rows = rows.iter().map(|row| {
        let text = |place| row.try_get_by_index(place).unwrap();
        let number = |place| row.try_get_by_index(place).unwrap();
        ((0..texts).map(text).collect(), (texts..texts + numbers).map(number).collect())
    });
    rows.collect()
}

/// The rows of a board or of all, with these columns of numbers, and with the last of them alone.
async fn check_standing<const N: usize>(
    db: &DatabaseConnection,
    board: Option<BoardNo>,
    numbers: [&str; N],
    last: &'static [&'static str],
    which: &str,
) {
    let names = numbers.join(", ");
    let sql =
        format!("SELECT segment, member, {names} FROM standing WHERE \"partition\" = 0{which}");
    let expected = selected(db, 2, N, &sql).await;
    assert!(expected.len() > 40_000);
    let of_standing = || Columns::of_standing(PartitionNo(0), board);
    let found = rows(db, of_standing(), numbers).await;
    assert!(found == expected, "standing{which}");
    let found = rows(db, of_standing().with(last), [last[0]]).await;
    assert_eq!(found.len(), expected.len());
}

async fn check(sql: Sql) {
    let deployment = Deployment::new(sql, Redis::Private).await;
    let api = Api::start(&deployment).await;
    let db = deployment.sql().await;
    for slug in ["one", "two"] {
        api.create_board(json!({ "slug": slug })).await;
    }
    // Names that JSON escapes, in two segments; rows of two boards in two partitions, not in the
    // order of names.
    let numbers = sql.numbers(MEMBERS);
    let name = r#"'ü"\' || (i * 7919 % 100003) || ',]'"#;
    let segment = "CASE WHEN i % 3 = 0 THEN 'eu' ELSE '' END";
    for insert in [
        format!("INSERT INTO member (\"key\", created_at_ms) SELECT {name}, 0 FROM {numbers}"),
        format!(
            "INSERT INTO standing
                (board_no, segment, member, score, rank_key, \"partition\", seq)
            SELECT b.no, {segment}, {name}, 9007199254740993 + i, i * b.no,
                CASE WHEN i % 10 = 0 THEN 1 ELSE 0 END, i FROM {numbers}, board AS b"
        ),
        format!(
            "INSERT INTO archived_entry
                (board_no, member, segment, through_seq, \"partition\", score, tick, events)
            SELECT b.no, {name}, {segment}, 1 + i % 5, 1, CASE WHEN i % 7 > 0 THEN i - 9 END,
                CASE WHEN i % 7 > 0 THEN i END, i % 4 FROM {numbers}, board AS b"
        ),
    ] {
        db.execute_unprepared(&insert).await.unwrap();
    }
    let [score, key, seq, _] = STANDING;
    check_standing(&db, None, STANDING, &STANDING[3..], "").await;
    let (one, which) = (Some(BoardNo(2)), " AND board_no = 2");
    check_standing(&db, one, [score, key, seq], &STANDING[2..3], which).await;
    let of_archived = || Columns::of_archived(PartitionNo(1), BoardNo(2), 4);
    let archived = "SELECT segment, member, score, tick, events, through_seq FROM archived_entry \
        WHERE board_no = 2 AND \"partition\" = 1 AND through_seq <= 4";
    let expected = selected(&db, 2, 4, archived).await;
    assert!(expected.len() > 30_000);
    let found = rows(&db, of_archived(), ARCHIVED).await;
    assert!(found == expected, "archived");
    let nothing = Columns::of_standing(PartitionNo(9), None);
    assert!(rows(&db, nothing, STANDING).await.is_empty());
    // Any change leads to another hash, and its reversal to the same one.
    let of_standing = || Columns::of_standing(PartitionNo(0), Some(BoardNo(2)));
    let before = [hashes(&db, of_standing()).await, hashes(&db, of_archived()).await];
    let (standing, archived) = ("\"partition\" = 0", "score IS NOT NULL AND through_seq = 1");
    for (table, which, column) in [
        ("standing", standing, "score"),
        ("standing", standing, "seq"),
        ("archived_entry", archived, "tick"),
        ("archived_entry", archived, "events"),
    ] {
        let which = format!("board_no = 2 AND {which}");
        for (step, is_same) in [("+", false), ("-", true)] {
            let update = format!(
                "UPDATE {table} SET {column} = {column} {step} 1 WHERE {which} AND member = \
                    (SELECT max(member) FROM {table} WHERE {which})"
            );
            let updated = db.execute_unprepared(&update).await.unwrap();
            assert_eq!(updated.rows_affected(), 1, "{update}");
            let after = [hashes(&db, of_standing()).await, hashes(&db, of_archived()).await];
            assert_eq!(before == after, is_same, "{update}");
        }
    }
    db.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_give_every_row_once_on_sqlite() {
    check(Sql::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_give_every_row_once_on_postgres() {
    check(Sql::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_give_every_row_once_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check(sql).await;
    }
}
