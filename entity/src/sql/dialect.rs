//! The differences between the databases, in statements that SeaORM does not build.
//!
//! Statements have one form: names in double quotes, and `$1` for the first value. The functions
//! here give the parts that differ. MySQL stands for MariaDB too: one driver reaches both, and each
//! reads comments that are its own.

pub mod tables;

use std::fmt::Write;

use sea_orm::sea_query::{Expr, ExprTrait, Func, SimpleExpr};
use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, QueryResult, Statement, Value,
};

/// The first statements of a session of MariaDB or MySQL: names and texts as other databases read
/// them, errors instead of values cut off, and transactions that see what others have committed
/// before a statement, as on PostgreSQL.
pub const MYSQL_SESSION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; \
    SET SESSION sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES,\
    NO_ENGINE_SUBSTITUTION'";

/// The largest LIMIT. A SELECT that has one is computed as a table of its own.
const LIMIT_MAX: i64 = i64::MAX;

/// A statement with its values.
pub fn statement(
    backend: DbBackend,
    sql: impl Into<String>,
    values: impl IntoIterator<Item = Value>,
) -> Statement {
    let sql: String = sql.into();
    let values: Vec<Value> = values.into_iter().collect();
    let (sql, values) = match backend {
        DbBackend::MySql => in_order(&sql, values),
        _ => (sql, values),
    };
    Statement::from_sql_and_values(backend, sql, values)
}

/// A statement with `?` in place of `$1`, and a value for each, as MySQL knows places by their
/// order alone.
fn in_order(sql: &str, values: Vec<Value>) -> (String, Vec<Value>) {
    let mut parts = sql.split('$');
    let mut text = parts.next().unwrap_or_default().to_owned();
    let mut taken = vec![];
    for part in parts {
        let rest = part.trim_start_matches(|character: char| character.is_ascii_digit());
        let place: Option<usize> = part[..part.len() - rest.len()].parse().ok();
        match place.and_then(|place| values.get(place.checked_sub(1)?)) {
            Some(value) => {
                taken.push(value.clone());
                text.push('?');
                text.push_str(rest);
            }
            None => {
                text.push('$');
                text.push_str(part);
            }
        }
    }
    (text, taken)
}

/// The expression for Unix milliseconds by SQL's clock, at the time of a statement.
pub fn sql_now(backend: DbBackend) -> &'static str {
    match backend {
        DbBackend::Postgres => "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
        DbBackend::MySql => "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)",
        _ => "CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)",
    }
}

/// The statement after which no other one of the session has a limit of time; `None` where none has
/// one.
pub fn unlimited(backend: DbBackend) -> Option<&'static str> {
    match backend {
        DbBackend::Postgres => Some("SET statement_timeout = 0"),
        // MySQL has its limit under another name, and MariaDB takes the statement for a comment.
        DbBackend::MySql => Some(
            "SET @laurel = 0 /*M! , max_statement_time = 0 */ /*!80000 , max_execution_time = 0 */",
        ),
        _ => None,
    }
}

/// The name of the numbers of 64 bits in a CAST.
fn integer_type(backend: DbBackend) -> &'static str {
    match backend {
        DbBackend::MySql => "SIGNED",
        _ => "BIGINT",
    }
}

/// An expression as a number of 64 bits.
pub fn integer(backend: DbBackend, expression: &str) -> String {
    format!("CAST({expression} AS {})", integer_type(backend))
}

/// As [`integer`], for a statement that SeaORM builds.
pub fn as_integer(backend: DbBackend, expression: SimpleExpr) -> SimpleExpr {
    expression.cast_as(integer_type(backend))
}

/// The condition that a text contains another one, letter by letter.
pub fn contains(backend: DbBackend, text: SimpleExpr, part: String) -> SimpleExpr {
    let name = match backend {
        DbBackend::Postgres => "strpos",
        _ => "instr",
    };
    Expr::from(Func::cust(name).arg(text).arg(part)).gt(0)
}

/// The comparison of two columns with two values: by the first ones, and by the second ones where
/// those are equal. `sign` is `<`, `<=`, `>` or `>=`.
pub fn pair(backend: DbBackend, columns: [&str; 2], sign: &str, values: [&str; 2]) -> String {
    let ([first, second], [major, minor]) = (columns, values);
    match backend {
        // It finds no place in an index by a comparison of rows.
        DbBackend::MySql => {
            let strict = sign.trim_end_matches('=');
            format!(
                r#"("{first}" {strict}= {major} AND ("{first}" {strict} {major} OR "{second}" {sign} {minor}))"#
            )
        }
        _ => format!(r#"("{first}", "{second}") {sign} ({major}, {minor})"#),
    }
}

/// The end of an INSERT that changes the row that is there, if one with the same key is.
pub fn or_update(backend: DbBackend, key: &str, set: &str) -> String {
    match backend {
        DbBackend::MySql => format!("ON DUPLICATE KEY UPDATE {set}"),
        _ => format!("ON CONFLICT ({key}) DO UPDATE SET {set}"),
    }
}

/// A DELETE of the rows that meet a condition on `e`. `key` lists the columns of the table's key.
pub fn delete(backend: DbBackend, table: &str, key: &str, which: &str) -> String {
    match backend {
        // The condition may look at the same table.
        DbBackend::MySql => {
            let keys =
                format!(r#"SELECT {key} FROM "{table}" AS e WHERE {which} LIMIT {LIMIT_MAX}"#);
            delete_among(backend, table, key, &keys)
        }
        _ => format!(r#"DELETE FROM "{table}" AS e WHERE {which}"#),
    }
}

/// A DELETE of the rows whose keys a SELECT finds, which has a LIMIT.
pub fn delete_among(backend: DbBackend, table: &str, key: &str, select: &str) -> String {
    match backend {
        // It takes no LIMIT behind IN.
        DbBackend::MySql => {
            format!(r#"DELETE d FROM "{table}" AS d JOIN ({select}) AS "gone" USING ({key})"#)
        }
        _ => format!(r#"DELETE FROM "{table}" WHERE ({key}) IN ({select})"#),
    }
}

/// Deletes the rows whose keys a SELECT finds, which has a LIMIT and takes `values`, and returns
/// their keys. The columns of the key are numbers.
pub async fn delete_returning(
    transaction: &DatabaseTransaction,
    table: &str,
    (key, columns): (&str, usize),
    select: &str,
    values: Vec<Value>,
) -> Result<Vec<QueryResult>, DbErr> {
    let backend = transaction.get_database_backend();
    if backend != DbBackend::MySql {
        let delete = delete_among(backend, table, key, select);
        let delete = statement(backend, format!("{delete} RETURNING {key}"), values);
        return transaction.query_all_raw(delete).await;
    }
    // MySQL has no RETURNING. Another process waits here, and then finds none of these rows.
    let found = statement(backend, format!("{select} FOR UPDATE"), values);
    let found = transaction.query_all_raw(found).await?;
    let mut keys = String::new();
    for row in &found {
        keys.push_str(if keys.is_empty() { "(" } else { ", (" });
        for column in 0..columns {
            let number: i64 = row.try_get_by_index(column)?;
            let comma = if column == 0 { "" } else { ", " };
            let _ = write!(keys, "{comma}{number}");
        }
        keys.push(')');
    }
    if !found.is_empty() {
        let delete = format!(r#"DELETE FROM "{table}" WHERE ({key}) IN ({keys})"#);
        transaction.execute_unprepared(&delete).await?;
    }
    Ok(found)
}

/// An UPDATE that adds numbers to a column of rows whose keys have two columns. Each of `rows` is a
/// key and the number to add.
pub fn add_to_each(
    backend: DbBackend,
    (table, column): (&str, &str),
    [first, second]: [&str; 2],
    rows: impl Iterator<Item = (i64, i64, i64)>,
) -> String {
    let (open, close) = match backend {
        DbBackend::MySql => ('[', ']'),
        _ => ('(', ')'),
    };
    let rows = rows.map(|(major, minor, more)| format!("{open}{major}, {minor}, {more}{close}"));
    let rows = rows.collect::<Vec<_>>().join(", ");
    let same = format!(
        r#""{table}"."{first}" = "more"."{first}" AND "{table}"."{second}" = "more"."{second}""#
    );
    let set = format!(r#""{column}" = "{table}"."{column}" + "more"."{column}""#);
    match backend {
        // MariaDB and MySQL write lists of rows in different ways, and read the same JSON.
        DbBackend::MySql => format!(
            r#"UPDATE "{table}" JOIN JSON_TABLE('[{rows}]', '$[*]' COLUMNS ("{first}" BIGINT PATH '$[0]', "{second}" BIGINT PATH '$[1]', "{column}" BIGINT PATH '$[2]')) AS "more" ON {same} SET "{table}".{set}"#
        ),
        _ => format!(
            r#"WITH "more" ("{first}", "{second}", "{column}") AS (VALUES {rows}) UPDATE "{table}" SET {set} FROM "more" WHERE {same}"#
        ),
    }
}

/// An expression for a number of 16 bits made of a row's member and of its other texts.
pub fn mixed(backend: DbBackend, texts: &[&str]) -> String {
    match backend {
        DbBackend::Postgres => {
            let texts = texts.iter().map(|text| format!(r#"COALESCE("{text}", '') || ' ' || "#));
            let texts: String = texts.collect();
            format!(r#"(CAST(hashtext({texts}"member") AS BIGINT) & 65535)"#)
        }
        DbBackend::MySql => {
            let texts = texts.iter().map(|text| format!(r#"COALESCE("{text}", ''), ' ', "#));
            let texts: String = texts.collect();
            integer(backend, &format!(r#"CRC32(CONCAT({texts}"member")) & 65535"#))
        }
        _ => mixed_by_letters(texts),
    }
}

/// SQLite has no hash. A member's length and last three characters count; of other texts, the
/// length and the third last character.
fn mixed_by_letters(texts: &[&str]) -> String {
    let letter = |text: &str, place: i64, times: i64| {
        format!(r#"COALESCE(unicode(substr("{text}", {place}, 1)), 0) * {times}"#)
    };
    let mut parts = vec![
        r#"length("member") * 8191"#.to_owned(),
        letter("member", -1, 31),
        letter("member", -2, 4099),
        letter("member", -3, 131_071),
    ];
    for text in texts {
        parts.push(format!(r#"COALESCE(length("{text}"), 0) * 257"#));
        parts.push(letter(text, -3, 16_381));
    }
    format!("(({}) & 65535)", parts.join(" + "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mysql_gets_a_value_for_each_place_in_order() {
        let values = || [1_i64, 2, 3].map(Value::from);
        let sql = "SELECT $3, $1 WHERE a = $1 OR b = '$' OR c = $2";
        let of = |backend| statement(backend, sql, values());
        let here = of(DbBackend::MySql);
        assert_eq!(here.sql, "SELECT ?, ? WHERE a = ? OR b = '$' OR c = ?");
        assert_eq!(
            here.values.map(|values| values.0),
            Some([3_i64, 1, 1, 2].map(Value::from).into())
        );
        for backend in [DbBackend::Postgres, DbBackend::Sqlite] {
            assert_eq!(of(backend).sql, sql);
        }
    }

    #[test]
    fn two_columns_are_compared_by_the_first_one_first() {
        let of = |sign| pair(DbBackend::MySql, ["a", "b"], sign, ["$1", "$2"]);
        assert_eq!(of("<"), r#"("a" <= $1 AND ("a" < $1 OR "b" < $2))"#);
        assert_eq!(of(">="), r#"("a" >= $1 AND ("a" > $1 OR "b" >= $2))"#);
        let other = pair(DbBackend::Sqlite, ["a", "b"], "<", ["$1", "$2"]);
        assert_eq!(other, r#"("a", "b") < ($1, $2)"#);
    }
}
