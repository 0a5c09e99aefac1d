//! The circles within which webhooks hear of members who were overtaken.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The tables that this step makes.
pub(crate) const TABLES: [&str; 1] = ["webhook_circle"];

/// The statements of all databases.
const STATEMENTS: [&str; 1] = [r#"CREATE TABLE "webhook_circle" (
        "webhook" {id} NOT NULL PRIMARY KEY,
        "board_no" BIGINT NOT NULL,
        "window" {id} NOT NULL,
        "segment" {text} NOT NULL,
        "top" INTEGER,
        "members" {text},
        "version" BIGINT NOT NULL,
        "standings" {text},
        "places" {text},
        CHECK (("top" IS NULL) <> ("members" IS NULL)),
        CHECK (("standings" IS NULL) = ("places" IS NULL))
    )"#];

tables_step!();
