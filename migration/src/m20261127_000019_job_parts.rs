//! Jobs that several processes run, each a part: what all of them must agree on, and their parts.

use sea_orm_migration::prelude::*;

use crate::m20261122_000001_tables::{drop_all, run_all};
use crate::statement::run;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The tables that this step makes.
pub(crate) const TABLES: [&str; 1] = ["job_part"];

/// The statements of all databases. The parts of a job are there while it runs.
const STATEMENTS: [&str; 3] = [
    r#"ALTER TABLE "job" ADD COLUMN "parts" INTEGER"#,
    r#"ALTER TABLE "job" ADD COLUMN "terms" {text}"#,
    r#"CREATE TABLE "job_part" (
        "job_id" BIGINT NOT NULL,
        "part" INTEGER NOT NULL CHECK ("part" >= 0),
        "state" {step} NOT NULL CHECK ("state" IN ('WAITING', 'RUNNING', 'DONE', 'FAILED')),
        "progress" {double} NOT NULL CHECK ("progress" BETWEEN 0 AND 1),
        "holder" {text},
        "heartbeat_at_ms" BIGINT,
        "summary" {text},
        "figures" {text},
        PRIMARY KEY ("job_id", "part"),
        FOREIGN KEY ("job_id") REFERENCES "job" ("id"),
        CHECK (("state" = 'RUNNING') = ("holder" IS NOT NULL)),
        CHECK (("holder" IS NULL) = ("heartbeat_at_ms" IS NULL)),
        CHECK (("state" = 'DONE') = ("figures" IS NOT NULL))
    )"#,
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
        drop_all(manager, &TABLES).await?;
        for column in ["terms", "parts"] {
            run(manager, &format!(r#"ALTER TABLE "job" DROP COLUMN "{column}""#)).await?;
        }
        Ok(())
    }
}
