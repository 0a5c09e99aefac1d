//! The positions in sources: how far each partition has taken the messages of a topic or a stream.

use sea_orm_migration::prelude::*;

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

tables_step!();
