//! The tables that a database has before Laurel makes its own: a step must never pass over, or
//! write to, the table of another program that has the same name.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::{ConnectionTrait, DbBackend, Statement};

/// The table that the first step makes first and takes back last, so that a schema that was cut
/// short has it too, and a column that no other program's table of that name has.
const MARK: (&str, &str) = ("deployment", "dedup_hours");

/// The table that names the applied steps. A start that was killed may have made it alone.
const STEPS: &str = "seaql_migrations";

/// The tables of a database that Laurel did not make.
///
/// # Errors
/// If the database does not answer.
pub async fn strange_tables(db: &impl ConnectionTrait) -> Result<Vec<String>, DbErr> {
    let mut found = tables(db).await?;
    let is_laurels = has_mark(db).await?;
    found.retain(|name| name != STEPS && !(is_laurels && is_own(name)));
    Ok(found)
}

/// Refuses a database in which another program has a table of a name that the steps use.
pub(crate) async fn check(db: &impl ConnectionTrait) -> Result<(), DbErr> {
    match strange_tables(db).await?.iter().find(|name| is_own(name)) {
        None => Ok(()),
        Some(name) => Err(DbErr::Custom(format!(
            "the database has a table {name} that Laurel did not make, and nothing was changed: expected an empty database, which LAUREL_DATABASE_URL or --database-url names"
        ))),
    }
}

/// True if a step makes a table of this name.
fn is_own(name: &str) -> bool {
    name == "board_change" || crate::tables().iter().any(|own| own == name)
}

async fn tables(db: &impl ConnectionTrait) -> Result<Vec<String>, DbErr> {
    let select = match db.get_database_backend() {
        DbBackend::Postgres => {
            "SELECT CAST(tablename AS TEXT) FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1"
        }
        DbBackend::MySql => {
            "SELECT CAST(table_name AS CHAR) FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY 1"
        }
        _ => {
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY 1"
        }
    };
    let rows = db.query_all_raw(Statement::from_string(db.get_database_backend(), select)).await?;
    rows.iter().map(|row| row.try_get_by_index(0)).collect()
}

async fn has_mark(db: &impl ConnectionTrait) -> Result<bool, DbErr> {
    let (table, column) = MARK;
    let schema = match db.get_database_backend() {
        DbBackend::Sqlite => None,
        DbBackend::MySql => Some("DATABASE()"),
        _ => Some("current_schema()"),
    };
    let select = match schema {
        None => format!("SELECT 1 FROM pragma_table_info('{table}') WHERE name = '{column}'"),
        Some(schema) => format!(
            "SELECT 1 FROM information_schema.columns WHERE table_schema = {schema} \
             AND table_name = '{table}' AND column_name = '{column}'"
        ),
    };
    let select = Statement::from_string(db.get_database_backend(), select);
    Ok(db.query_one_raw(select).await?.is_some())
}
