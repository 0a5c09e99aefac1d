//! The archive: files of events that have left `score_event`, and what remains of them here.
//!
//! `archive_mark` says how far each partition's history of a board is archived, `archive_file` where it is, and `archived_entry` what the
//! archived events of a member add up to in "all": several rows of one member and segment differ by the seq that they reach to.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::{ConnectionTrait, DbBackend, Statement};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const UP: &str = r#"
ALTER TABLE "board" ADD COLUMN "archived_before_ms" BIGINT;
CREATE TABLE "archive_mark" (
    "board_no" BIGINT NOT NULL REFERENCES "board" ("no"),
    "partition" INTEGER NOT NULL,
    "archived_seq" BIGINT NOT NULL CHECK ("archived_seq" >= 0),
    "closing_seq" BIGINT NOT NULL CHECK ("closing_seq" >= "archived_seq"),
    PRIMARY KEY ("board_no", "partition")
);
CREATE TABLE "archive_file" (
    "path" {text} PRIMARY KEY,
    "board_no" BIGINT NOT NULL REFERENCES "board" ("no"),
    "partition" INTEGER NOT NULL,
    "month" {text} NOT NULL,
    "first_seq" BIGINT NOT NULL CHECK ("first_seq" > 0),
    "last_seq" BIGINT NOT NULL CHECK ("last_seq" >= "first_seq"),
    "events" BIGINT NOT NULL CHECK ("events" >= 0),
    "bytes" BIGINT NOT NULL CHECK ("bytes" >= 0),
    "sha256" {text} NOT NULL,
    "state" {text} NOT NULL CHECK ("state" IN ('WRITING', 'ARCHIVED', 'DROPPED', 'GONE')),
    "created_at_ms" BIGINT NOT NULL,
    UNIQUE ("board_no", "partition", "first_seq")
);
CREATE TABLE "archived_entry" (
    "board_no" BIGINT NOT NULL REFERENCES "board" ("no"),
    "member" {text} NOT NULL,
    "segment" {text} NOT NULL,
    "through_seq" BIGINT NOT NULL CHECK ("through_seq" > 0),
    "partition" INTEGER NOT NULL,
    "score" BIGINT,
    "tick" BIGINT,
    "events" BIGINT NOT NULL CHECK ("events" >= 0),
    PRIMARY KEY ("board_no", "member", "segment", "through_seq"),
    CHECK (("score" IS NULL) = ("tick" IS NULL))
){without_rowid};
CREATE INDEX "archived_entry_partition" ON "archived_entry" ("board_no", "partition", "through_seq")
"#;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// On every database: a start that is cut short leaves nothing half made.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let (text, without_rowid) = match manager.get_database_backend() {
            DbBackend::Sqlite => ("TEXT", " WITHOUT ROWID"),
            _ => ("TEXT COLLATE \"C\"", ""),
        };
        let sql = UP.replace("{text}", text).replace("{without_rowid}", without_rowid);
        for statement in sql.split(';').map(str::trim) {
            manager.get_connection().execute_unprepared(statement).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let db = manager.get_connection();
        let kept = r#"SELECT 1 FROM "archive_file""#;
        let backend = manager.get_database_backend();
        if db.query_one_raw(Statement::from_string(backend, kept)).await?.is_some() {
            return Err(DbErr::Migration(
                "there are archived events: the schema before this step cannot say where".into(),
            ));
        }
        for table in ["archived_entry", "archive_file", "archive_mark"] {
            db.execute_unprepared(&format!("DROP TABLE \"{table}\"")).await?;
        }
        db.execute_unprepared(r#"ALTER TABLE "board" DROP COLUMN "archived_before_ms""#).await?;
        Ok(())
    }
}
