//! The audit log, and reports of members by players.

use sea_orm_migration::prelude::*;

use crate::m20261122_000001_tables::{drop_all, run_all};
use crate::statement::run;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The tables that this step makes.
pub(crate) const TABLES: [&str; 2] = ["audit_log", "member_report"];

/// The statements of all databases. `{text}`, `{id}`, `{key}` and `{step}` are compared by bytes,
/// as those of the first step. A row of the audit log outlives the board and the member that it
/// names.
const STATEMENTS: [&str; 9] = [
    r#"CREATE TABLE "audit_log" (
        "no" {serial},
        "at_ms" BIGINT NOT NULL,
        "act" {id} NOT NULL,
        "actor" {key} NOT NULL,
        "actor_name" {text},
        "board_no" BIGINT,
        "board" {id},
        "member" {id},
        "outcome" {step} NOT NULL CHECK ("outcome" IN ('BEGUN', 'DONE', 'FAILED')),
        "error" {text},
        "before" {text},
        "after" {text},
        CHECK (("error" IS NOT NULL) = ("outcome" = 'FAILED'))
    )"#,
    r#"CREATE INDEX "audit_log_at" ON "audit_log" ("at_ms", "no")"#,
    r#"CREATE INDEX "audit_log_actor" ON "audit_log" ("actor", "at_ms", "no")"#,
    r#"CREATE INDEX "audit_log_act" ON "audit_log" ("act", "at_ms", "no")"#,
    r#"CREATE INDEX "audit_log_board" ON "audit_log" ("board", "at_ms", "no")"#,
    r#"CREATE INDEX "audit_log_member" ON "audit_log" ("member", "at_ms", "no")"#,
    r#"CREATE TABLE "member_report" (
        "no" {serial},
        "board_no" BIGINT NOT NULL,
        "member" {id} NOT NULL,
        "reporter" {id} NOT NULL,
        "reason" {step} NOT NULL,
        "text" {text},
        "further" BIGINT NOT NULL DEFAULT 0,
        "reported_at_ms" BIGINT NOT NULL,
        "state" {step} NOT NULL CHECK ("state" IN ('OPEN', 'DISMISSED', 'UPHELD')),
        "resolved_at_ms" BIGINT,
        CHECK (("resolved_at_ms" IS NULL) = ("state" = 'OPEN'))
    )"#,
    r#"CREATE UNIQUE INDEX "member_report_of" ON "member_report" ("board_no", "member", "reporter")"#,
    r#"CREATE INDEX "member_report_state" ON "member_report" ("board_no", "state", "no")"#,
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// As the first step.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        run_all(manager, &STATEMENTS).await?;
        for column in ["member", "reporter"] {
            let index =
                format!(r#"CREATE INDEX "member_report_{column}" ON "member_report" ("{column}")"#);
            run(manager, &index).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_all(manager, &TABLES).await
    }
}
