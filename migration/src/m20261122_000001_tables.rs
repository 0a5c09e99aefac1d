//! The baseline: all tables of Laurel.
//!
//! The statements are in the SQL file of the same name. `{text}` is compared by bytes: `COLLATE
//! "C"` in PostgreSQL, the default in SQLite, and in MariaDB and MySQL a collation by code points
//! that counts trailing spaces.
//!
//! There no key refers to a board or a member: each insert of an event would lock their rows, and
//! partitions that are written at once would end each other's transactions.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DbBackend;

use crate::statement::run;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: &str = include_str!("m20261122_000001_tables.sql");

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// On every database, so that an interrupted start leaves no partial schema. MariaDB commits
    /// each statement for itself.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let sql = in_dialect(&statements(), manager.get_database_backend())?;
        for statement in sql.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
            run(manager, statement).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_all(manager, &tables()).await
    }
}

/// The tables that this step makes, in their order.
pub(crate) fn tables() -> Vec<String> {
    let sql = statements();
    let names = sql.match_indices("CREATE TABLE \"").map(|(at, before)| {
        let name = &sql[at + before.len()..];
        name[..name.find('"').expect("a name ends")].to_owned()
    });
    names.collect()
}

/// The SQL file without its comments.
fn statements() -> String {
    let lines = TABLES.lines().filter(|line| !line.starts_with("--"));
    lines.collect::<Vec<_>>().join("\n")
}

/// A type of MariaDB and MySQL with the character set and the collation of text. Each reads its own
/// comment.
macro_rules! text {
    ($kind:literal) => {
        concat!(
            $kind,
            " CHARACTER SET utf8mb4 COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */"
        )
    };
}

/// Runs the statements of a step in the dialect of its database.
pub(crate) async fn run_all(manager: &SchemaManager<'_>, statements: &[&str]) -> Result<(), DbErr> {
    for statement in statements {
        run(manager, &in_dialect(statement, manager.get_database_backend())?).await?;
    }
    Ok(())
}

/// Drops the tables of a step, the last one first.
pub(crate) async fn drop_all(
    manager: &SchemaManager<'_>,
    tables: &[impl AsRef<str>],
) -> Result<(), DbErr> {
    for table in tables.iter().rev() {
        run(manager, &format!(r#"DROP TABLE "{}""#, table.as_ref())).await?;
    }
    Ok(())
}

/// A text with the types of a database in place of their names, such as `{text}`.
pub(crate) fn in_dialect(sql: &str, backend: DbBackend) -> Result<String, DbErr> {
    let names = dialect(backend)?.into_iter();
    Ok(names.fold(sql.to_owned(), |sql, (name, text)| sql.replace(name, text)))
}

/// The parts of the SQL file that differ, most of them placeholders, and their text in a dialect.
fn dialect(backend: DbBackend) -> Result<Vec<(&'static str, &'static str)>, DbErr> {
    match backend {
        DbBackend::Sqlite => Ok(vec![
            // AUTOINCREMENT, so that SQLite never reuses a number, even after its row is gone.
            ("{serial}", "INTEGER PRIMARY KEY AUTOINCREMENT"),
            ("{text}", "TEXT"),
            ("{id}", "TEXT"),
            ("{step}", "TEXT"),
            ("{key}", "TEXT"),
            ("{folded}", "TEXT"),
            ("{bytes}", "BLOB"),
            ("{double}", "DOUBLE"),
            ("{without_rowid}", " WITHOUT ROWID"),
            ("{standing_key}", r#""partition", "board_no", "member", "segment""#),
            (
                "{standing_indexes}",
                r#"CREATE UNIQUE INDEX "standing_member" ON "standing" ("board_no", "member", "segment")"#,
            ),
        ]),
        DbBackend::Postgres => Ok(vec![
            ("{serial}", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"),
            ("{text}", r#"TEXT COLLATE "C""#),
            ("{id}", r#"TEXT COLLATE "C""#),
            ("{step}", r#"TEXT COLLATE "C""#),
            ("{key}", r#"TEXT COLLATE "C""#),
            ("{folded}", r#"TEXT COLLATE "C""#),
            ("{bytes}", "BYTEA"),
            ("{double}", "DOUBLE PRECISION"),
            ("{without_rowid}", ""),
            ("{standing_key}", r#""board_no", "segment", "member""#),
            ("{standing_indexes}", STANDING_INDEXES),
        ]),
        DbBackend::MySql => Ok(vec![
            ("{serial}", "BIGINT AUTO_INCREMENT PRIMARY KEY"),
            ("{text}", text!("LONGTEXT")),
            ("{id}", text!("VARCHAR(128)")),
            ("{step}", text!("VARCHAR(16)")),
            ("{key}", text!("VARCHAR(255)")),
            ("{folded}", text!("VARCHAR(600)")),
            ("{bytes}", "LONGBLOB"),
            ("{double}", "DOUBLE"),
            ("{without_rowid}", ""),
            ("{standing_key}", r#""board_no", "segment", "member""#),
            ("{standing_indexes}", STANDING_INDEXES),
            (r#" REFERENCES "board" ("no")"#, ""),
            (r#" REFERENCES "member" ("key")"#, ""),
            ("DEFAULT '[]'", "DEFAULT ('[]')"),
            // The index has all rows, those without a void first.
            (
                r#"("partition", "seq") WHERE "void_seq" IS NOT NULL"#,
                r#"("partition", "void_seq")"#,
            ),
        ]),
        other => Err(DbErr::Migration(format!(
            "{other:?} is not supported: expected a sqlite:, postgres: or mysql: URL"
        ))),
    }
}

/// The indexes of `standing` where its key does not begin with the partition.
const STANDING_INDEXES: &str = r#"CREATE INDEX "standing_member" ON "standing" ("board_no", "member");
                CREATE INDEX "standing_partition" ON "standing" ("partition", "board_no")"#;
