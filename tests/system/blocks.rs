//! Blocks of rows give what a SELECT gives, across their ends, on each database.

use std::collections::BTreeSet;

use entity::blocks::Columns;
use futures::TryStreamExt;
use ranking::id::{BoardNo, Partition};
use sea_orm::{ConnectionTrait, DatabaseConnection, Statement};
use serde_json::json;

use crate::api::Api;
use crate::deployment::{Deployment, Redis, Sql};

/// More than two blocks of rows for each board and partition.
const MEMBERS: i64 = 45_000;

/// A row: its texts, then its numbers.
type Row = (Vec<String>, Vec<Option<i64>>);

async fn rows(db: &DatabaseConnection, columns: Columns) -> BTreeSet<Row> {
    let (mut rows, mut count) = (BTreeSet::new(), 0);
    let mut blocks = columns.read(db);
    while let Some(block) = blocks.try_next().await.unwrap() {
        count += block.len();
        for row in 0..block.len() {
            let texts = block.texts.iter().map(|column| column[row].clone());
            let numbers = block.numbers.iter().map(|column| column[row]);
            rows.insert((texts.collect(), numbers.collect()));
        }
    }
    assert_eq!(rows.len(), count, "a row is there twice");
    rows
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
        (
            (0..texts).map(text).collect(),
            (texts..texts + numbers).map(number).collect(),
        )
    });
    rows.collect()
}

async fn check(sql: Sql) {
    let deployment = Deployment::new(sql, Redis::Private).await;
    let api = Api::start(&deployment).await;
    let db = deployment.sql().await;
    for slug in ["one", "two"] {
        let create =
            "mutation($slug: String!) { createBoard(input: { slug: $slug }) { board { slug } } }";
        api.data(create, json!({ "slug": slug })).await;
    }
    // Names with what JSON writes in another way, and of two segments; rows of two boards in two partitions, in another order than that of names.
    let numbers = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MEMBERS})"
    );
    let name = r#"'ü"\' || (i * 7919 % 100003) || ',]'"#;
    let segment = "CASE WHEN i % 3 = 0 THEN 'eu' ELSE '' END";
    for insert in [
        format!("{numbers} INSERT INTO member (key, created_at_ms) SELECT {name}, 0 FROM n"),
        format!(
            "{numbers} INSERT INTO standing (board_no, segment, member, score, rank_key, partition, seq)
            SELECT b.no, {segment}, {name}, 9007199254740993 + i, i * b.no, CASE WHEN i % 10 = 0 THEN 1 ELSE 0 END, i FROM n, board AS b"
        ),
        format!(
            "{numbers} INSERT INTO archived_entry (board_no, member, segment, through_seq, partition, score, tick, events)
            SELECT b.no, {name}, {segment}, 1 + i % 5, 1, CASE WHEN i % 7 > 0 THEN i - 9 END, CASE WHEN i % 7 > 0 THEN i END, i % 4 FROM n, board AS b"
        ),
    ] {
        db.execute_unprepared(&insert).await.unwrap();
    }
    let standing =
        "SELECT segment, member, score, rank_key, seq, board_no FROM standing WHERE partition = 0";
    for (board, which) in [(None, ""), (Some(BoardNo(2)), " AND board_no = 2")] {
        let expected = selected(&db, 2, 4, &format!("{standing}{which}")).await;
        assert!(expected.len() > 40_000);
        let found = rows(&db, Columns::of_standing(Partition(0), board)).await;
        assert!(found == expected, "standing{which}");
    }
    let archived = "SELECT segment, member, score, tick, events, through_seq FROM archived_entry WHERE board_no = 2 AND partition = 1 AND through_seq <= 4";
    let expected = selected(&db, 2, 4, archived).await;
    assert!(expected.len() > 30_000);
    let found = rows(&db, Columns::of_archived(Partition(1), BoardNo(2), 4)).await;
    assert!(found == expected, "archived");
    let nothing = Columns::of_standing(Partition(9), None);
    assert!(rows(&db, nothing).await.is_empty());
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
