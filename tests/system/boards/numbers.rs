//! Boards by their numbers, many at once.

use entity::board;

use tests::boards::many::insert_many;
use tests::deployment::{Deployment, Redis, Sql};

/// More numbers than one statement of SQLite, or of PostgreSQL, takes values.
const NUMBERS: i64 = 70_000;

async fn check_numbers(sql: Sql) {
    let deployment = Deployment::new(sql, Redis::Private).await;
    let db = deployment.settings().sql.create().await.unwrap();
    insert_many(&db, 0..3, |_| {}).await;
    insert_many(&db, 3..1203, |row| row.deleted_at_ms = Some(1)).await;
    insert_many(&db, 1203..1206, |_| {}).await;
    let asked: Vec<i64> = (1..=NUMBERS).collect();

    let rows = board::of_numbers(&db, &asked).await.unwrap();
    let mut numbers: Vec<i64> = rows.iter().map(|row| row.no).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, asked[..1206]);

    let living = board::living_of_numbers(&db, &asked).await.unwrap();
    let slugs: Vec<&str> = living.values().map(|row| &*row.slug).collect();
    assert_eq!(slugs, ["b0", "b1", "b2", "b1203", "b1204", "b1205"]);
    assert!(living.iter().all(|(no, row)| *no == row.no));
    assert!(board::of_numbers(&db, &[]).await.unwrap().is_empty());
    db.close().await.unwrap();
}

#[tokio::test]
async fn boards_of_many_numbers_are_found_on_sqlite() {
    check_numbers(Sql::Sqlite).await;
}

#[tokio::test]
async fn boards_of_many_numbers_are_found_on_postgresql() {
    check_numbers(Sql::Postgres).await;
}

#[tokio::test]
async fn boards_of_many_numbers_are_found_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_numbers(sql).await;
    }
}
