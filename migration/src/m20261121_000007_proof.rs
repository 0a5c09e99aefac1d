//! What proves a board clean without folding its history, and what a finding is about.
//!
//! `integrity_finding.place` says where it was found: ENTRY (a standings in Redis, or a row of `standing`), SEALED (a row of `sealed_entry`), ARCHIVED (one of
//! `archived_entry`), FILE (a file of the archive), KEY (a key in Redis that nothing of ours is), PERIODS (a period that its list does not name).

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DbBackend;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const UP: &str = r#"
ALTER TABLE "integrity_finding" ADD COLUMN "place" {text} NOT NULL DEFAULT 'ENTRY';
ALTER TABLE "integrity_finding" ADD COLUMN "note" {text};
CREATE TABLE "integrity_proof" (
    "board_no" BIGINT NOT NULL REFERENCES "board" ("no"),
    "partition" INTEGER NOT NULL,
    "seq" BIGINT NOT NULL,
    "commit_id" {text} NOT NULL,
    "layout" {text} NOT NULL,
    "redis" {text} NOT NULL,
    "sql" {text} NOT NULL,
    "files" {text} NOT NULL,
    "entries" BIGINT NOT NULL,
    "proven_at_ms" BIGINT NOT NULL,
    PRIMARY KEY ("board_no", "partition")
)
"#;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// On every database: a start that is cut short leaves nothing half made.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let text = match manager.get_database_backend() {
            DbBackend::Sqlite => "TEXT",
            _ => "TEXT COLLATE \"C\"",
        };
        let sql = UP.replace("{text}", text);
        for statement in sql.split(';').map(str::trim) {
            manager.get_connection().execute_unprepared(statement).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let db = manager.get_connection();
        for statement in [
            r#"DROP TABLE "integrity_proof""#,
            r#"ALTER TABLE "integrity_finding" DROP COLUMN "note""#,
            r#"ALTER TABLE "integrity_finding" DROP COLUMN "place""#,
        ] {
            db.execute_unprepared(statement).await?;
        }
        Ok(())
    }
}
