//! The differences between the databases in statements on whole tables, as backups need them.

use sea_orm::DbBackend;

/// A SELECT of the names and types of a table's columns, in their order.
pub fn columns_of(backend: DbBackend, table: &str) -> String {
    let (text, schema) = match backend {
        DbBackend::Postgres => ("TEXT", "current_schema()"),
        DbBackend::MySql => ("CHAR", "DATABASE()"),
        _ => return format!("SELECT name, type FROM pragma_table_info('{table}') ORDER BY cid"),
    };
    format!(
        "SELECT CAST(column_name AS {text}), CAST(data_type AS {text}) FROM information_schema.columns \
         WHERE table_schema = {schema} AND table_name = '{table}' ORDER BY ordinal_position"
    )
}

/// An expression for the bytes of a column as hexadecimal digits.
pub fn hexadecimal(backend: DbBackend, column: &str) -> String {
    match backend {
        DbBackend::Postgres => format!(r#"encode("{column}", 'hex')"#),
        _ => format!(r#"CASE WHEN "{column}" IS NOT NULL THEN lower(hex("{column}")) END"#),
    }
}

/// An expression for the floating-point number of a column as a text that keeps every bit.
pub fn exact(backend: DbBackend, column: &str) -> String {
    match backend {
        DbBackend::Postgres => format!(r#"CAST("{column}" AS TEXT)"#),
        DbBackend::MySql => format!(r#"CAST("{column}" AS CHAR)"#),
        _ => format!(r#"CASE WHEN "{column}" IS NOT NULL THEN printf('%!.17g', "{column}") END"#),
    }
}

/// A SELECT of all rows of a table, each as an array of JSON with the values of some expressions.
pub fn rows(backend: DbBackend, table: &str, values: &[String]) -> String {
    let values = values.join(", ");
    let row = match backend {
        DbBackend::Postgres => format!("CAST(json_build_array({values}) AS TEXT)"),
        // MySQL has a type of its own for JSON, which is no text to the driver.
        DbBackend::MySql => format!("CONVERT(json_array({values}) USING utf8mb4)"),
        _ => format!("json_array({values})"),
    };
    format!(r#"SELECT {row} FROM "{table}""#)
}

/// A SELECT of the last number that the database gave to a row of a table: no row, or 0, for none.
pub fn last_number(backend: DbBackend, table: &str) -> String {
    match backend {
        DbBackend::Postgres => format!(
            "SELECT COALESCE(pg_sequence_last_value(CAST({} AS regclass)), 0) {}",
            sequence(table),
            numbered_column(table)
        ),
        DbBackend::MySql => format!(
            r#"SELECT CAST(COALESCE(MAX("auto_increment") - 1, 0) AS SIGNED) FROM information_schema.tables
            WHERE table_schema = DATABASE() AND table_name = '{table}'"#
        ),
        _ => format!("SELECT COALESCE(MAX(seq), 0) FROM sqlite_sequence WHERE name = '{table}'"),
    }
}

/// The statements by which the database goes on after a number that it gave to a row of a table. On
/// MariaDB and MySQL they change the schema.
pub fn set_last_number(backend: DbBackend, table: &str, number: i64) -> String {
    match backend {
        DbBackend::Postgres => {
            format!("SELECT setval({}, {number}) {}", sequence(table), numbered_column(table))
        }
        DbBackend::MySql => format!(r#"ALTER TABLE "{table}" AUTO_INCREMENT = {}"#, number + 1),
        _ => format!(
            "DELETE FROM sqlite_sequence WHERE name = '{table}'; \
             INSERT INTO sqlite_sequence (name, seq) VALUES ('{table}', {number})"
        ),
    }
}

/// The sequence of PostgreSQL that belongs to [`numbered_column`].
fn sequence(table: &str) -> String {
    format!(r#"pg_get_serial_sequence('"{table}"', column_name)"#)
}

/// The end of a SELECT of the column to whose rows PostgreSQL gives numbers; most tables have none.
fn numbered_column(table: &str) -> String {
    format!(
        "FROM information_schema.columns WHERE table_schema = current_schema() \
         AND table_name = '{table}' AND is_identity = 'YES'"
    )
}

/// An INSERT of rows with values for all columns of a table, its numbers included.
pub fn insert(backend: DbBackend, table: &str, columns: &[&str], rows: usize) -> String {
    // PostgreSQL would number the rows by itself. SQLite looks a numbered place up among all
    // others.
    let (numbered, places_are_numbered) = match backend {
        DbBackend::Postgres => ("OVERRIDING SYSTEM VALUE ", true),
        _ => ("", false),
    };
    let place = |number: usize| match places_are_numbered {
        true => format!("${number}"),
        false => "?".to_owned(),
    };
    let width = columns.len();
    let rows = (0..rows).map(|row| {
        let places = (1..=width).map(|column| place(row * width + column));
        format!("({})", places.collect::<Vec<_>>().join(", "))
    });
    let rows = rows.collect::<Vec<_>>().join(", ");
    let columns = columns.iter().map(|name| format!(r#""{name}""#)).collect::<Vec<_>>().join(", ");
    format!(r#"INSERT INTO "{table}" ({columns}) {numbered}VALUES {rows}"#)
}
