//! Erasures of members: the records that decide them, which become receipts, and the numbers of
//! erased events of commits.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The tables that this step makes.
pub(crate) const TABLES: [&str; 2] = ["member_erasure", "erased_event"];

/// The statements of all databases. `{text}`, `{id}` and `{step}` are compared by bytes, as those
/// of the first step. A receipt names no member.
const STATEMENTS: [&str; 4] = [
    r#"CREATE TABLE "member_erasure" (
        "id" {id} NOT NULL PRIMARY KEY,
        "member" {id},
        "step" {step} NOT NULL CHECK ("step" IN ('HELD', 'REFUSED', 'ERASING', 'RELEASING', 'DONE')),
        "salt" {text} NOT NULL,
        "hash" {text} NOT NULL,
        "counts" {text} NOT NULL,
        "started_at_ms" BIGINT NOT NULL,
        "erased_at_ms" BIGINT,
        CHECK (("member" IS NULL) = ("step" = 'DONE')),
        CHECK (("erased_at_ms" IS NULL) = ("step" <> 'DONE'))
    )"#,
    r#"CREATE UNIQUE INDEX "member_erasure_member" ON "member_erasure" ("member")"#,
    r#"CREATE INDEX "member_erasure_step" ON "member_erasure" ("step")"#,
    r#"CREATE TABLE "erased_event" (
        "partition" INTEGER NOT NULL,
        "seq" BIGINT NOT NULL,
        "events" INTEGER NOT NULL,
        PRIMARY KEY ("partition", "seq")
    )"#,
];

tables_step!();
