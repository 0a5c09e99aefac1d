//! The positions in sources: how far each partition has taken the messages of a topic or a stream.

use sea_orm_migration::prelude::*;

use crate::m20261122_000001_tables::{drop_all, run_all};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The tables that this step makes.
pub(crate) const TABLES: [&str; 1] = ["source_position"];

/// The statements of all databases. `{id}` and `{text}` are compared by bytes, as those of the
/// first step.
const STATEMENTS: [&str; 2] = [
    r#"CREATE TABLE "source_position" (
        "board_no" BIGINT NOT NULL,
        "layout_since" INTEGER NOT NULL,
        "partition" INTEGER NOT NULL,
        "source" {id} NOT NULL,
        "source_partition" BIGINT NOT NULL,
        "position" {text} NOT NULL,
        "moved_at_ms" BIGINT NOT NULL,
        PRIMARY KEY ("board_no", "layout_since", "partition", "source", "source_partition")
    )"#,
    r#"CREATE INDEX "source_position_partition" ON "source_position" ("partition")"#,
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// As the first step.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        run_all(manager, &STATEMENTS).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_all(manager, &TABLES).await
    }
}
