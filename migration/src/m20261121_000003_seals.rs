//! Sealed periods: the final standings of past periods that have left Redis.
//!
//! A standings has a number here, so that its entries and their index are small. Entries are ordered as in Redis: by rank key, then by the
//! member's bytes.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::{ConnectionTrait, DbBackend, Statement};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const UP: &str = r#"
CREATE TABLE "sealed_period" (
    "no" {serial},
    "board_no" BIGINT NOT NULL REFERENCES "board" ("no"),
    "generation" INTEGER NOT NULL,
    "window" {text} NOT NULL,
    "segment" {text} NOT NULL,
    "start_ms" BIGINT NOT NULL,
    "label" {text} NOT NULL,
    "sealed_at_ms" BIGINT NOT NULL,
    "corrections" BIGINT NOT NULL,
    "corrected_at_ms" BIGINT,
    UNIQUE ("board_no", "generation", "window", "segment", "start_ms")
);
CREATE TABLE "sealed_entry" (
    "standings_no" BIGINT NOT NULL,
    "member" {text} NOT NULL,
    "score" BIGINT NOT NULL,
    "rank_key" BIGINT NOT NULL CHECK ("rank_key" >= 0),
    "partition" INTEGER NOT NULL,
    "seq" BIGINT NOT NULL,
    PRIMARY KEY ("standings_no", "member")
){without_rowid};
CREATE INDEX "sealed_entry_rank" ON "sealed_entry" ("standings_no", "rank_key", "member")
"#;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// On every database: a start that is cut short leaves nothing half made.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let (serial, text, without_rowid) = match manager.get_database_backend() {
            // AUTOINCREMENT: a number is never given twice, even after its row is gone.
            DbBackend::Sqlite => ("INTEGER PRIMARY KEY AUTOINCREMENT", "TEXT", " WITHOUT ROWID"),
            _ => ("BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "TEXT COLLATE \"C\"", ""),
        };
        let sql = UP
            .replace("{serial}", serial)
            .replace("{text}", text)
            .replace("{without_rowid}", without_rowid);
        for statement in sql.split(';').map(str::trim) {
            manager.get_connection().execute_unprepared(statement).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let db = manager.get_connection();
        let kept = r#"SELECT 1 FROM "sealed_period""#;
        let backend = manager.get_database_backend();
        if db.query_one_raw(Statement::from_string(backend, kept)).await?.is_some() {
            return Err(DbErr::Migration(
                "there are sealed periods: the schema before this step has no place for them"
                    .into(),
            ));
        }
        for table in ["sealed_entry", "sealed_period"] {
            db.execute_unprepared(&format!("DROP TABLE \"{table}\"")).await?;
        }
        Ok(())
    }
}
