//! The final standings that webhooks have been told of, so that they hear of corrections.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The tables that this step makes.
pub(crate) const TABLES: [&str; 1] = ["told_period"];

/// The statements of all databases.
const STATEMENTS: [&str; 2] = [
    r#"CREATE TABLE "told_period" (
        "board_no" BIGINT NOT NULL,
        "window" {id} NOT NULL,
        "start_ms" BIGINT NOT NULL,
        "end_ms" BIGINT NOT NULL,
        "version" INTEGER NOT NULL CHECK ("version" > 0),
        "digest" {id} NOT NULL,
        "changes" BIGINT NOT NULL CHECK ("changes" >= 0),
        PRIMARY KEY ("board_no", "window", "start_ms")
    )"#,
    r#"CREATE INDEX "told_period_changes" ON "told_period" ("changes")"#,
];

tables_step!();
