//! Webhooks: their receivers, how far each has been told of every partition's history, and the
//! events that the history does not have.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The tables that this step makes.
pub(crate) const TABLES: [&str; 4] = ["webhook", "webhook_lane", "outbox", "ended_period"];

/// The statements of all databases. `{text}`, `{id}` and `{step}` are compared by bytes, as those
/// of the first step. A row of the outbox outlives the board and the member that it names.
const STATEMENTS: [&str; 6] = [
    r#"CREATE TABLE "webhook" (
        "id" {id} NOT NULL PRIMARY KEY,
        "name" {text} NOT NULL,
        "url" {text} NOT NULL,
        "types" {text} NOT NULL,
        "board_no" BIGINT,
        "secret" {text} NOT NULL,
        "former_secret" {text},
        "former_until_ms" BIGINT,
        "state" {step} NOT NULL CHECK ("state" IN ('ACTIVE', 'PAUSED', 'FAILED')),
        "reason" {text},
        "state_since_ms" BIGINT NOT NULL,
        "created_at_ms" BIGINT NOT NULL,
        "periods_since_ms" BIGINT NOT NULL,
        "delivered_at_ms" BIGINT,
        "dropped" BIGINT NOT NULL,
        "holder" {text},
        "held_until_ms" BIGINT NOT NULL,
        CHECK (("former_secret" IS NULL) = ("former_until_ms" IS NULL)),
        CHECK (("reason" IS NOT NULL) = ("state" = 'FAILED'))
    )"#,
    r#"CREATE TABLE "webhook_lane" (
        "webhook" {id} NOT NULL,
        "partition" INTEGER NOT NULL,
        "seq" BIGINT NOT NULL,
        "event_index" INTEGER NOT NULL,
        "failures" INTEGER NOT NULL,
        "failing_since_ms" BIGINT,
        "retry_at_ms" BIGINT NOT NULL,
        "error" {text},
        PRIMARY KEY ("webhook", "partition"),
        CHECK (("failures" = 0) = ("failing_since_ms" IS NULL))
    )"#,
    r#"CREATE TABLE "outbox" (
        "no" {serial},
        "id" {id} NOT NULL,
        "webhook" {id} NOT NULL,
        "kind" {id} NOT NULL,
        "board_no" BIGINT,
        "member" {id},
        "data" {text} NOT NULL,
        "created_at_ms" BIGINT NOT NULL
    )"#,
    r#"CREATE INDEX "outbox_webhook" ON "outbox" ("webhook", "no")"#,
    r#"CREATE INDEX "outbox_member" ON "outbox" ("member")"#,
    r#"CREATE TABLE "ended_period" (
        "board_no" BIGINT NOT NULL,
        "window" {id} NOT NULL,
        "until_ms" BIGINT NOT NULL,
        PRIMARY KEY ("board_no", "window")
    )"#,
];

tables_step!();
