//! Numbers the changes of boards, so that a process learns by one number which boards it must read
//! again.
//!
//! Triggers give out the numbers, so every writer takes part. Each change takes the lock of the one
//! row of `board_change`, so numbers appear in the order of their commits: a reader that sees one
//! sees all before it.
//!
//! Only the columns that background work depends on count. An update that changes none of them, as
//! of a lease or a lock of the row, takes no number and no lock.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DbBackend;

use crate::statement::run;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The columns that background work depends on.
const COLUMNS: [&str; 8] = [
    "windows",
    "generation",
    "time_zone",
    "shards",
    "former_layouts",
    "reshard",
    "deleted_at_ms",
    "purged_at_ms",
];

/// The statements of all databases, before their triggers. Boards that exist have their numbers as
/// changes.
const TABLES: [&str; 5] = [
    r#"CREATE TABLE "board_change" ("id" INTEGER PRIMARY KEY CHECK ("id" = 1), "changes" BIGINT NOT NULL)"#,
    r#"INSERT INTO "board_change" SELECT 1, COALESCE(MAX("no"), 0) FROM "board""#,
    r#"ALTER TABLE "board" ADD COLUMN "change" BIGINT NOT NULL DEFAULT 0"#,
    r#"UPDATE "board" SET "change" = "no""#,
    r#"CREATE INDEX "board_by_change" ON "board" ("change")"#,
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// As the first step.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let triggers = triggers(manager.get_database_backend())?;
        for statement in TABLES.into_iter().map(str::to_owned).chain(triggers) {
            run(manager, &statement).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let drops: &[&str] = match manager.get_database_backend() {
            DbBackend::Postgres => &[
                r#"DROP TRIGGER "board_inserted" ON "board""#,
                r#"DROP TRIGGER "board_updated" ON "board""#,
                r#"DROP FUNCTION "number_board_change"()"#,
            ],
            _ => &[r#"DROP TRIGGER "board_inserted""#, r#"DROP TRIGGER "board_updated""#],
        };
        let index = match manager.get_database_backend() {
            DbBackend::MySql => r#"DROP INDEX "board_by_change" ON "board""#,
            _ => r#"DROP INDEX "board_by_change""#,
        };
        let tables =
            [index, r#"ALTER TABLE "board" DROP COLUMN "change""#, r#"DROP TABLE "board_change""#];
        for statement in drops.iter().chain(&tables) {
            run(manager, statement).await?;
        }
        Ok(())
    }
}

/// The statements that create the triggers of a database.
fn triggers(backend: DbBackend) -> Result<Vec<String>, DbErr> {
    let differs = COLUMNS.map(|name| match backend {
        DbBackend::MySql => format!(r#"NOT (NEW."{name}" <=> OLD."{name}")"#),
        _ => format!(r#"NEW."{name}" IS DISTINCT FROM OLD."{name}""#),
    });
    let differs = differs.join(" OR ");
    match backend {
        DbBackend::Sqlite => {
            // An assignment by a trigger fires no trigger: `change` is none of the columns.
            let number = r#"BEGIN
                UPDATE "board_change" SET "changes" = "changes" + 1;
                UPDATE "board" SET "change" = (SELECT "changes" FROM "board_change") WHERE "no" = NEW."no";
            END"#;
            Ok(vec![
                format!(r#"CREATE TRIGGER "board_inserted" AFTER INSERT ON "board" {number}"#),
                format!(
                    r#"CREATE TRIGGER "board_updated" AFTER UPDATE ON "board" WHEN {differs} {number}"#
                ),
            ])
        }
        DbBackend::Postgres => {
            let each = "FOR EACH ROW";
            let number = r#"EXECUTE FUNCTION "number_board_change"()"#;
            Ok(vec![
                r#"CREATE FUNCTION "number_board_change"() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    UPDATE "board_change" SET "changes" = "changes" + 1
                    RETURNING "changes" INTO NEW."change";
                    RETURN NEW;
                END $$"#
                    .to_owned(),
                format!(
                    r#"CREATE TRIGGER "board_inserted" BEFORE INSERT ON "board" {each} {number}"#
                ),
                format!(
                    r#"CREATE TRIGGER "board_updated" BEFORE UPDATE ON "board" {each} WHEN ({differs}) {number}"#
                ),
            ])
        }
        DbBackend::MySql => {
            // A trigger cannot write its own table, so it sets the row before it is written.
            let number = r#"UPDATE "board_change" SET "changes" = "changes" + 1;
                SET NEW."change" = (SELECT "changes" FROM "board_change");"#;
            Ok(vec![
                format!(
                    r#"CREATE TRIGGER "board_inserted" BEFORE INSERT ON "board" FOR EACH ROW BEGIN {number} END"#
                ),
                format!(
                    r#"CREATE TRIGGER "board_updated" BEFORE UPDATE ON "board" FOR EACH ROW BEGIN IF {differs} THEN {number} END IF; END"#
                ),
            ])
        }
        other => Err(DbErr::Migration(format!("{other:?} has no triggers here"))),
    }
}
