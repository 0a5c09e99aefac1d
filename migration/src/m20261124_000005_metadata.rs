//! The metadata of events: a column of the events, one of the boards that says whether their events
//! have some, and a table of what SQL keeps of archived events, so that entries still show it.
//!
//! An index leads from an entry to the events with metadata of its time, and one to the removals
//! and voids of its member. SQLite and PostgreSQL have only those events in them. MariaDB and MySQL
//! have no such indexes, and look among the events of the member or of that time.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DbBackend;

use crate::m20261122_000001_tables::in_dialect;
use crate::statement::run;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The tables that this step makes.
pub(crate) const TABLES: [&str; 1] = ["archived_metadata"];

/// The statements of all databases. `{text}` and `{id}` are compared by bytes, as those of the
/// first step.
const STATEMENTS: [&str; 4] = [
    r#"ALTER TABLE "score_event" ADD COLUMN "metadata" {text}"#,
    r#"ALTER TABLE "board" ADD COLUMN "metadata" BOOLEAN NOT NULL DEFAULT FALSE"#,
    // A removal and a void have neither a score nor a time nor metadata.
    r#"CREATE TABLE "archived_metadata" (
        "partition" INTEGER NOT NULL,
        "seq" BIGINT NOT NULL,
        "event_index" INTEGER NOT NULL,
        "board_no" BIGINT NOT NULL,
        "generation" INTEGER NOT NULL,
        "member" {id} NOT NULL,
        "score" BIGINT,
        "at_ms" BIGINT,
        "segments" {text} NOT NULL,
        "metadata" {text},
        "void_partition" INTEGER,
        "void_seq" BIGINT,
        "void_index" INTEGER,
        PRIMARY KEY ("partition", "seq", "event_index"),
        CHECK (("score" IS NULL) = ("at_ms" IS NULL)),
        CHECK (("score" IS NULL) = ("metadata" IS NULL))
    )"#,
    r#"CREATE INDEX "archived_metadata_member" ON "archived_metadata" ("board_no", "member", "at_ms")"#,
];

const INDEXES: [&str; 2] = [
    r#"CREATE INDEX "score_event_metadata" ON "score_event" ("board_no", "member", "at_ms") WHERE "metadata" IS NOT NULL"#,
    r#"CREATE INDEX "score_event_amendment" ON "score_event" ("board_no", "member") WHERE "at_ms" IS NULL"#,
];

const DROPS: [&str; 3] = [
    r#"DROP TABLE "archived_metadata""#,
    r#"ALTER TABLE "board" DROP COLUMN "metadata""#,
    r#"ALTER TABLE "score_event" DROP COLUMN "metadata""#,
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// As the first step.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let backend = manager.get_database_backend();
        for statement in STATEMENTS {
            run(manager, &in_dialect(statement, backend)?).await?;
        }
        if backend != DbBackend::MySql {
            for index in INDEXES {
                run(manager, index).await?;
            }
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        if manager.get_database_backend() != DbBackend::MySql {
            run(manager, r#"DROP INDEX "score_event_amendment""#).await?;
            run(manager, r#"DROP INDEX "score_event_metadata""#).await?;
        }
        for statement in DROPS {
            run(manager, statement).await?;
        }
        Ok(())
    }
}
