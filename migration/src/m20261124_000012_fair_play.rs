//! Fair play: the limits of boards beyond which a member's scores are suspicious, the scores that
//! are quarantined, the bans of members, and the boards that they were removed from by a ban.

use sea_orm_migration::prelude::*;

use crate::m20261122_000001_tables::{drop_all, run_all};
use crate::statement::run;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The tables that this step makes.
pub(crate) const TABLES: [&str; 3] = ["quarantined_score", "member_ban", "ban_removal"];

/// The columns of `board`.
const COLUMNS: [(&str, &str); 3] = [
    ("per_minute_max", "INTEGER"),
    ("delta_max", "BIGINT"),
    ("excess_refused", "BOOLEAN NOT NULL DEFAULT FALSE"),
];

/// The statements of all databases. `{text}`, `{id}` and `{step}` are compared by bytes, as those
/// of the first step. The member of a quarantined score may be none yet.
const STATEMENTS: [&str; 6] = [
    r#"CREATE TABLE "quarantined_score" (
        "no" {serial},
        "board_no" BIGINT NOT NULL,
        "member" {id} NOT NULL,
        "score" BIGINT NOT NULL,
        "at_ms" BIGINT NOT NULL,
        "event_id" {id} NOT NULL,
        "event_id_sent" BOOLEAN NOT NULL,
        "segments" {text} NOT NULL,
        "metadata" {text},
        "suspicion" {step} NOT NULL CHECK ("suspicion" IN ('PER_MINUTE_MAX', 'DELTA_MAX', 'BANNED')),
        "message" {text} NOT NULL,
        "received_at_ms" BIGINT NOT NULL,
        "state" {step} NOT NULL CHECK ("state" IN ('HELD', 'RELEASING', 'RELEASED', 'VOIDED')),
        "decided_at_ms" BIGINT,
        CHECK (("decided_at_ms" IS NULL) = ("state" IN ('HELD', 'RELEASING')))
    )"#,
    r#"CREATE UNIQUE INDEX "quarantined_score_event" ON "quarantined_score" ("board_no", "member", "event_id")"#,
    r#"CREATE INDEX "quarantined_score_state" ON "quarantined_score" ("board_no", "state", "no")"#,
    r#"CREATE TABLE "member_ban" (
        "member" {id} NOT NULL PRIMARY KEY,
        "step" {step} NOT NULL CHECK ("step" IN ('CHANGING', 'RELEASING', 'SETTLED')),
        "bans" {text} NOT NULL,
        "lifting" {text} NOT NULL,
        "version" BIGINT NOT NULL,
        "changed_at_ms" BIGINT NOT NULL
    )"#,
    r#"CREATE INDEX "member_ban_step" ON "member_ban" ("step")"#,
    r#"CREATE TABLE "ban_removal" (
        "member" {id} NOT NULL,
        "board_no" BIGINT NOT NULL,
        PRIMARY KEY ("member", "board_no")
    )"#,
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// As the first step.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        run_all(manager, &STATEMENTS).await?;
        run(manager, r#"CREATE INDEX "ban_removal_board" ON "ban_removal" ("board_no")"#).await?;
        for (name, kind) in COLUMNS {
            run(manager, &format!(r#"ALTER TABLE "board" ADD COLUMN "{name}" {kind}"#)).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (name, _) in COLUMNS {
            run(manager, &format!(r#"ALTER TABLE "board" DROP COLUMN "{name}""#)).await?;
        }
        drop_all(manager, &TABLES).await
    }
}
