//! The visibility of members to others, and requests for friendship.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The tables that this step makes.
pub(crate) const TABLES: [&str; 3] = ["visibility_head", "member_visibility", "friend_request"];

/// The statements of all databases. `{text}`, `{id}` and `{step}` are compared by bytes, as those
/// of the first step. The head has one row: the number of the last change, the members who are not
/// public, and the secret that hides their keys. A request has one row whichever way it goes, as a
/// friendship has.
const STATEMENTS: [&str; 6] = [
    r#"CREATE TABLE "visibility_head" (
        "id" INTEGER NOT NULL PRIMARY KEY CHECK ("id" = 1),
        "change_no" BIGINT NOT NULL,
        "members" BIGINT NOT NULL,
        "secret" {text} NOT NULL
    )"#,
    r#"CREATE TABLE "member_visibility" (
        "member" {id} NOT NULL PRIMARY KEY REFERENCES "member" ("key"),
        "visibility" {step} NOT NULL CHECK ("visibility" IN ('PUBLIC', 'FRIENDS', 'HIDDEN')),
        "change_no" BIGINT NOT NULL
    )"#,
    r#"CREATE UNIQUE INDEX "member_visibility_change" ON "member_visibility" ("change_no")"#,
    r#"CREATE TABLE "friend_request" (
        "low" {id} NOT NULL REFERENCES "member" ("key"),
        "high" {id} NOT NULL REFERENCES "member" ("key"),
        "asker" {id} NOT NULL,
        "asked" {id} NOT NULL,
        "created_at_ms" BIGINT NOT NULL,
        PRIMARY KEY ("low", "high"),
        CHECK ("low" < "high")
    )"#,
    r#"CREATE INDEX "friend_request_asked" ON "friend_request" ("asked", "asker")"#,
    r#"CREATE INDEX "friend_request_asker" ON "friend_request" ("asker")"#,
];

tables_step!();
