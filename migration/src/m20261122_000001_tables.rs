//! The baseline: all tables of Laurel.
//!
//! The statements are in the SQL file of the same name. `{text}` is compared by bytes: `COLLATE
//! "C"` in PostgreSQL, the default in SQLite.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DbBackend;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: &str = include_str!("m20261122_000001_tables.sql");

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// On every database, so that an interrupted start leaves no partial schema.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut sql = statements();
        for (name, text) in dialect(manager.get_database_backend())? {
            sql = sql.replace(name, text);
        }
        for statement in sql.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
            manager.get_connection().execute_unprepared(statement).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let sql = statements();
        let tables = sql.match_indices("CREATE TABLE \"").map(|(at, before)| {
            let name = &sql[at + before.len()..];
            &name[..name.find('"').expect("a name ends")]
        });
        let mut tables: Vec<&str> = tables.collect();
        tables.reverse();
        for table in tables {
            manager.get_connection().execute_unprepared(&format!("DROP TABLE \"{table}\"")).await?;
        }
        Ok(())
    }
}

/// The SQL file without its comments.
fn statements() -> String {
    let lines = TABLES.lines().filter(|line| !line.starts_with("--"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The placeholders of the SQL file and their text in a dialect.
fn dialect(backend: DbBackend) -> Result<[(&'static str, &'static str); 7], DbErr> {
    match backend {
        DbBackend::Sqlite => Ok([
            // AUTOINCREMENT, so that SQLite never reuses a number, even after its row is gone.
            ("{serial}", "INTEGER PRIMARY KEY AUTOINCREMENT"),
            ("{text}", "TEXT"),
            ("{bytes}", "BLOB"),
            ("{double}", "DOUBLE"),
            ("{without_rowid}", " WITHOUT ROWID"),
            ("{standing_key}", r#""partition", "board_no", "member", "segment""#),
            (
                "{standing_indexes}",
                r#"CREATE UNIQUE INDEX "standing_member" ON "standing" ("board_no", "member", "segment")"#,
            ),
        ]),
        DbBackend::Postgres => Ok([
            ("{serial}", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"),
            ("{text}", r#"TEXT COLLATE "C""#),
            ("{bytes}", "BYTEA"),
            ("{double}", "DOUBLE PRECISION"),
            ("{without_rowid}", ""),
            ("{standing_key}", r#""board_no", "segment", "member""#),
            (
                "{standing_indexes}",
                r#"CREATE INDEX "standing_member" ON "standing" ("board_no", "member");
                CREATE INDEX "standing_partition" ON "standing" ("partition", "board_no")"#,
            ),
        ]),
        other => Err(DbErr::Migration(format!(
            "{other:?} is not supported: expected a sqlite: or postgres: URL"
        ))),
    }
}
