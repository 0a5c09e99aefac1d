//! The lake: files of events on an object store beside those in SQL, how far each partition's
//! history of a board is in them, and the one place where they are.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The tables that this step makes.
pub(crate) const TABLES: [&str; 3] = ["mirror_place", "mirror_mark", "mirror_file"];

/// The statements of all databases.
const STATEMENTS: [&str; 4] = [
    r#"CREATE TABLE "mirror_place" (
        "id" INTEGER NOT NULL CHECK ("id" = 1),
        "url" {text} NOT NULL,
        "created_at_ms" BIGINT NOT NULL,
        PRIMARY KEY ("id")
    )"#,
    r#"CREATE TABLE "mirror_mark" (
        "board_no" BIGINT NOT NULL,
        "partition" INTEGER NOT NULL,
        "mirrored_seq" BIGINT NOT NULL CHECK ("mirrored_seq" >= 0),
        "reading_seq" BIGINT NOT NULL CHECK ("reading_seq" >= "mirrored_seq"),
        PRIMARY KEY ("board_no", "partition")
    )"#,
    r#"CREATE TABLE "mirror_file" (
        "path" {key} NOT NULL,
        "board_no" BIGINT NOT NULL,
        "partition" INTEGER NOT NULL,
        "first_seq" BIGINT NOT NULL CHECK ("first_seq" > 0),
        "last_seq" BIGINT NOT NULL CHECK ("last_seq" >= "first_seq"),
        "events" BIGINT NOT NULL CHECK ("events" >= 0),
        "bytes" BIGINT NOT NULL CHECK ("bytes" >= 0),
        "sha256" {id} NOT NULL,
        "state" {step} NOT NULL CHECK ("state" IN ('WRITING', 'MIRRORED', 'FORMER')),
        "created_at_ms" BIGINT NOT NULL,
        PRIMARY KEY ("path")
    )"#,
    r#"CREATE INDEX "mirror_file_seqs" ON "mirror_file" ("board_no", "partition", "first_seq")"#,
];

tables_step!();
