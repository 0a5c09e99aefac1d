//! Merges of members: the members that were merged or are being merged into others, and a column of
//! the events that says of which event one is a copy.

use sea_orm_migration::prelude::*;

use crate::m20261122_000001_tables::run_all;
use crate::statement::run;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The tables that this step makes.
pub(crate) const TABLES: [&str; 1] = ["member_merge"];

/// The statements of all databases.
/// `{text}`, `{id}` and `{step}` are compared by bytes, as those of the first step.
/// A merged member has no events of its own any more, but its key stays taken.
const STATEMENTS: [&str; 4] = [
    r#"ALTER TABLE "score_event" ADD COLUMN "origin" {text}"#,
    r#"CREATE TABLE "member_merge" (
        "source" {id} NOT NULL PRIMARY KEY,
        "target" {id} NOT NULL,
        "step" {step} NOT NULL CHECK ("step" IN ('HELD', 'REFUSED', 'DECIDED', 'MERGED', 'DONE')),
        "started_at_ms" BIGINT NOT NULL
    )"#,
    r#"CREATE INDEX "member_merge_target" ON "member_merge" ("target")"#,
    r#"CREATE INDEX "member_merge_step" ON "member_merge" ("step")"#,
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
        run(manager, r#"DROP TABLE "member_merge""#).await?;
        run(manager, r#"ALTER TABLE "score_event" DROP COLUMN "origin""#).await
    }
}
