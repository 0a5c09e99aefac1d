//! Deletes of many rows, in chunks so that the persister can write between two statements.
//!
//! The chunks are ranges of members. A list of keys in a DELETE makes SQLite scan all rows of the
//! board for each statement.

use sea_orm::{ConnectionTrait, DatabaseConnection, DbErr, Value};

use super::dialect::{self, statement};

/// The most rows that one statement examines.
const ROWS_MAX: usize = 5000;

/// Deletes rows of a table, range by range of members. `key` lists the columns of its key.
///
/// `among` is a condition on the columns that precede the member in an index of the table. Of the
/// rows that meet it, those that also meet `and`, a condition on `e`, are deleted.
///
/// # Errors
/// If a statement fails; rows that were deleted before it stay deleted.
pub async fn delete(
    db: &DatabaseConnection,
    (table, key): (&str, &str),
    among: &str,
    and: &str,
) -> Result<(), DbErr> {
    let backend = db.get_database_backend();
    let mut after: Option<String> = None;
    loop {
        let from = after.as_ref().map_or("", |_| r#" AND "member" > $1"#);
        let values: Vec<Value> = after.take().into_iter().map(Value::from).collect();
        let skipped = ROWS_MAX - 1;
        let last = format!(
            r#"SELECT "member" FROM "{table}" WHERE {among}{from} ORDER BY "member" LIMIT 1 OFFSET {skipped}"#
        );
        let last = db.query_one_raw(statement(backend, last, values.clone())).await?;
        after = last.map(|row| row.try_get_by_index(0)).transpose()?;
        let place = values.len() + 1;
        let to = after.as_ref().map_or(String::new(), |_| format!(r#" AND "member" <= ${place}"#));
        let which = format!("{among}{from}{to} AND {and}");
        let delete = dialect::delete(backend, table, key, &which);
        let values = values.into_iter().chain(after.clone().map(Value::from));
        db.execute_raw(statement(backend, delete, values)).await?;
        if after.is_none() {
            return Ok(());
        }
    }
}

/// Deletes the rows of `archived_metadata` of one board that meet `and`, a condition on `e`.
///
/// # Errors
/// As [`delete`].
pub async fn delete_archived_metadata(
    db: &DatabaseConnection,
    board: i64,
    and: &str,
) -> Result<(), DbErr> {
    const TABLE: (&str, &str) = ("archived_metadata", r#""partition", "seq", "event_index""#);
    delete(db, TABLE, &format!(r#""board_no" = {board}"#), and).await
}

/// Deletes the rows of `archived_entry`, of one board or of all, that meet `and`, a condition on
/// `e`.
///
/// # Errors
/// As [`delete`].
pub async fn delete_archived(
    db: &DatabaseConnection,
    board: Option<i64>,
    and: &str,
) -> Result<(), DbErr> {
    const TABLE: (&str, &str) =
        ("archived_entry", r#""board_no", "partition", "member", "segment", "through_seq""#);
    let of_board = board.map_or(String::new(), |no| format!(r#"WHERE "board_no" = {no}"#));
    let places =
        format!(r#"SELECT DISTINCT "board_no", "partition" FROM "archived_entry" {of_board}"#);
    let places = statement(db.get_database_backend(), places, []);
    for place in db.query_all_raw(places).await? {
        let (no, partition): (i64, i32) = (place.try_get_by_index(0)?, place.try_get_by_index(1)?);
        let among = format!(r#""board_no" = {no} AND "partition" = {partition}"#);
        delete(db, TABLE, &among, and).await?;
    }
    Ok(())
}
