//! One table of a backup: its rows as lines of JSON, in the same form from every database.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

use entity::error::Result;
use entity::sql::dialect::{statement, tables};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use futures::TryStreamExt;
use ranking::Error;
use ranking::commit::content::from_hex;
use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, Statement, StreamTrait, Value,
};
use serde::{Deserialize, Serialize};

use super::file::HashedFile;
use super::{TableColumn, TableFile};
use crate::deployment::files::failed;

/// The most values of one INSERT: SQLite takes 32,766.
const VALUES_MAX: usize = 30_000;

/// The most rows of one INSERT, and the most bytes of their lines, but for the last one: MariaDB
/// takes statements of 16 MB.
const ROWS_MAX: usize = 1000;
const BYTES_MAX: usize = 4 << 20;

/// The most bytes of a row: a commit of 1,000 events has some 64 KB of leaves.
const ROW_BYTES_MAX: u64 = 64 << 20;

/// The kind of a column's values, and their form in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A number.
    Number,
    /// A string.
    Text,
    /// A string of hexadecimal digits.
    Bytes,
    /// A string, which keeps every bit.
    Double,
    /// A Boolean, or a number, 0 or 1.
    Boolean,
}

impl Kind {
    /// The kind of a type of SQL.
    fn of_type(name: &str) -> Option<Self> {
        Some(match name.to_ascii_uppercase().as_str() {
            "INTEGER" | "INT" | "BIGINT" => Self::Number,
            "TEXT" | "VARCHAR" | "LONGTEXT" => Self::Text,
            "BLOB" | "BYTEA" | "LONGBLOB" => Self::Bytes,
            "DOUBLE" | "DOUBLE PRECISION" => Self::Double,
            "BOOLEAN" | "TINYINT" => Self::Boolean,
            _ => return None,
        })
    }

    /// The value of a column in an argument of a function that makes a JSON array.
    fn expression(self, column: &str, backend: DbBackend) -> String {
        match self {
            Self::Bytes => tables::hexadecimal(backend, column),
            Self::Double => tables::exact(backend, column),
            _ => format!(r#""{column}""#),
        }
    }

    /// The value for a statement; `None` if the JSON is of another kind.
    fn value(self, json: &serde_json::Value) -> Option<Value> {
        use serde_json::Value as Json;
        Some(match (self, json) {
            (Self::Number, Json::Null) => Value::BigInt(None),
            (Self::Text, Json::Null) => Value::from(None::<String>),
            (Self::Bytes, Json::Null) => Value::from(None::<Vec<u8>>),
            (Self::Double, Json::Null) => Value::Double(None),
            (Self::Boolean, Json::Null) => Value::Bool(None),
            (Self::Number, json) => json.as_i64()?.into(),
            (Self::Text, json) => json.as_str()?.into(),
            (Self::Bytes, json) => from_hex(json.as_str()?)?.into(),
            (Self::Double, json) => json.as_str()?.parse::<f64>().ok()?.into(),
            (Self::Boolean, Json::Bool(is_true)) => (*is_true).into(),
            (Self::Boolean, json) => (json.as_i64()? != 0).into(),
        })
    }
}

/// The columns of a table.
///
/// # Errors
/// `Corrupt` if there are none, or if one is of a type that no step of the schema uses.
async fn columns_of(view: &DatabaseTransaction, table: &str) -> Result<Vec<TableColumn>> {
    let backend = ConnectionTrait::get_database_backend(view);
    let select = tables::columns_of(backend, table);
    let mut columns = vec![];
    for row in view.query_all_raw(statement(backend, select, [])).await? {
        let (name, kind): (String, String) = (row.try_get_by_index(0)?, row.try_get_by_index(1)?);
        let unknown = || {
            Error::Corrupt(format!(
                "column {name} of table {table} is of type {kind}, which Laurel does not use: expected the schema that `laurel migrate` made"
            ))
        };
        let kind = Kind::of_type(&kind).ok_or_else(unknown)?;
        columns.push(TableColumn { name, kind });
    }
    if columns.is_empty() {
        return Err(Error::Corrupt(format!("the table {table} is missing")).into());
    }
    Ok(columns)
}

/// The last number that the database gave to a row of a table; 0 for none.
async fn last_number(view: &DatabaseTransaction, table: &str) -> Result<i64, DbErr> {
    let backend = ConnectionTrait::get_database_backend(view);
    let select = tables::last_number(backend, table);
    let row = view.query_one_raw(statement(backend, select, [])).await?;
    row.map_or(Ok(0), |row| row.try_get_by_index(0))
}

/// Lets the database go on after the last number that it gave to a row of a table. On MariaDB and
/// MySQL this is a change of the schema.
pub(super) async fn set_last_number(
    db: &impl ConnectionTrait,
    table: &TableFile,
) -> Result<(), DbErr> {
    if table.last_number > 0 {
        let backend = db.get_database_backend();
        let set = tables::set_last_number(backend, &table.name, table.last_number);
        db.execute_unprepared(&set).await?;
    }
    Ok(())
}

/// Writes the rows of a table to a new file.
///
/// # Errors
/// If SQL or the system fails.
pub(super) async fn write(
    view: &DatabaseTransaction,
    table: &str,
    path: &Path,
) -> Result<TableFile> {
    let columns = columns_of(view, table).await?;
    let last_number = last_number(view, table).await?;
    let backend = ConnectionTrait::get_database_backend(view);
    let values = columns.iter().map(|column| column.kind.expression(&column.name, backend));
    let select = tables::rows(backend, table, &values.collect::<Vec<_>>());
    let of_file = |error: std::io::Error| failed(path, &error);
    let file = HashedFile::create(path).map_err(of_file)?;
    let (mut gzip, mut rows) = (GzEncoder::new(file, Compression::fast()), 0);
    {
        // While there are rows to come, the transaction takes no other statement.
        let found = view.stream_raw(statement(backend, select, [])).await?;
        let mut found = std::pin::pin!(found);
        while let Some(row) = found.try_next().await? {
            let mut line: String = row.try_get_by_index(0)?;
            line.push('\n');
            gzip.write_all(line.as_bytes()).map_err(of_file)?;
            rows += 1;
        }
    }
    let sum = gzip.finish().and_then(HashedFile::finish).map_err(of_file)?;
    let (bytes, sha256) = (sum.bytes, sum.sha256);
    Ok(TableFile { name: table.to_owned(), columns, rows, last_number, bytes, sha256 })
}

/// Inserts the rows of a file into its table, which is empty.
///
/// # Errors
/// `Corrupt` if the file is not what the manifest says; if SQL or the system fails.
pub(super) async fn insert(
    transaction: &DatabaseTransaction,
    table: &TableFile,
    path: &Path,
) -> Result<()> {
    let of_file = |error: std::io::Error| failed(path, &error);
    let file = File::open(path).map_err(of_file)?;
    let mut lines = BufReader::new(GzDecoder::new(BufReader::new(file)));
    let rows_max = (VALUES_MAX / table.columns.len().max(1)).clamp(1, ROWS_MAX);
    let (mut rows, mut values, mut line, mut bytes) = (0, vec![], vec![], 0);
    loop {
        line.clear();
        let read = lines.by_ref().take(ROW_BYTES_MAX).read_until(b'\n', &mut line);
        let is_end = read.map_err(of_file)? == 0;
        if !is_end {
            let row = row_of(table, &line).ok_or_else(|| {
                Error::Corrupt(format!("{}: row {} is damaged", path.display(), rows + 1))
            })?;
            values.extend(row);
            bytes += line.len();
            rows += 1;
        }
        let is_full = values.len() == rows_max * table.columns.len() || bytes >= BYTES_MAX;
        if is_full || is_end && !values.is_empty() {
            insert_rows(transaction, table, std::mem::take(&mut values)).await?;
            bytes = 0;
        }
        if is_end {
            break;
        }
    }
    if rows != table.rows {
        return Err(Error::Corrupt(format!(
            "{} has {rows} rows: expected {}",
            path.display(),
            table.rows
        ))
        .into());
    }
    let backend = ConnectionTrait::get_database_backend(transaction);
    if migration::is_transactional(backend) {
        set_last_number(transaction, table).await?;
    }
    Ok(())
}

/// The values of a line; `None` if it does not fit the columns.
fn row_of(table: &TableFile, line: &[u8]) -> Option<Vec<Value>> {
    let row: Vec<serde_json::Value> = serde_json::from_slice(line).ok()?;
    if row.len() != table.columns.len() {
        return None;
    }
    table.columns.iter().zip(&row).map(|(column, json)| column.kind.value(json)).collect()
}

/// Inserts rows by one statement.
async fn insert_rows(
    transaction: &DatabaseTransaction,
    table: &TableFile,
    values: Vec<Value>,
) -> Result<(), DbErr> {
    let backend = ConnectionTrait::get_database_backend(transaction);
    let columns: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let rows = values.len() / columns.len();
    let sql = tables::insert(backend, &table.name, &columns, rows);
    let insert = Statement::from_sql_and_values(backend, sql, values);
    transaction.execute_raw(insert).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_keep_their_kind_and_others_are_refused() {
        let one = |kind: Kind, json: serde_json::Value| kind.value(&json);
        assert_eq!(one(Kind::Number, json!(i64::MIN)), Some(Value::from(i64::MIN)));
        assert_eq!(one(Kind::Bytes, json!("00ff")), Some(Value::from(vec![0_u8, 255])));
        assert_eq!(one(Kind::Double, json!("0.1")), Some(Value::from(0.1)));
        assert_eq!(one(Kind::Boolean, json!(1)), Some(Value::from(true)));
        assert_eq!(one(Kind::Boolean, json!(false)), Some(Value::from(false)));
        assert_eq!(one(Kind::Text, json!(null)), Some(Value::from(None::<String>)));
        assert_eq!(one(Kind::Number, json!("1")), None);
        assert_eq!(one(Kind::Bytes, json!("0x")), None);
        assert_eq!(Kind::of_type("jsonb"), None);
    }
}
