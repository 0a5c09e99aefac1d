//! The display of boards and members, the search for boards, and the boards of a member.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::{DbBackend, Statement};

use crate::statement::run;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The boards whose lines are written at once.
const BOARDS_AT_ONCE: i64 = 500;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// As the first step.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let (text, none) = match manager.get_database_backend() {
            DbBackend::Sqlite => ("TEXT", "''"),
            DbBackend::Postgres => (r#"TEXT COLLATE "C""#, "''"),
            _ => (text!("LONGTEXT"), "('')"),
        };
        for statement in [
            format!(r#"ALTER TABLE "board" ADD COLUMN "display" {text}"#),
            format!(r#"ALTER TABLE "board" ADD COLUMN "search" {text} NOT NULL DEFAULT {none}"#),
            format!(r#"ALTER TABLE "member" ADD COLUMN "avatar_url" {text}"#),
            r#"CREATE INDEX "standing_of_member" ON "standing" ("member", "board_no")"#.to_owned(),
        ] {
            run(manager, &statement).await?;
        }
        fill_search(manager).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let of_table = match manager.get_database_backend() {
            DbBackend::MySql => r#" ON "standing""#,
            _ => "",
        };
        for statement in [
            format!(r#"DROP INDEX "standing_of_member"{of_table}"#),
            r#"ALTER TABLE "member" DROP COLUMN "avatar_url""#.to_owned(),
            r#"ALTER TABLE "board" DROP COLUMN "search""#.to_owned(),
            r#"ALTER TABLE "board" DROP COLUMN "display""#.to_owned(),
        ] {
            run(manager, &statement).await?;
        }
        Ok(())
    }
}

/// Writes the lines of the boards that exist: no database folds the case of every letter as the
/// search does.
async fn fill_search(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let (db, backend) = (manager.get_connection(), manager.get_database_backend());
    let (lines_at, no_at) = match backend {
        DbBackend::Postgres => ("$1", "$2"),
        _ => ("?", "?"),
    };
    let mut last = 0_i64;
    loop {
        let select = format!(
            r#"SELECT "no", "slug", "title" FROM "board" WHERE "no" > {last} ORDER BY "no" LIMIT {BOARDS_AT_ONCE}"#
        );
        let rows = db.query_all_raw(Statement::from_string(backend, select)).await?;
        if rows.is_empty() {
            return Ok(());
        }
        for row in rows {
            last = row.try_get("", "no")?;
            let (name, title): (String, String) =
                (row.try_get("", "slug")?, row.try_get("", "title")?);
            let folded: String = title.chars().flat_map(char::to_lowercase).collect();
            let lines = format!("\n{name}\n{folded}\n");
            let update =
                format!(r#"UPDATE "board" SET "search" = {lines_at} WHERE "no" = {no_at}"#);
            let values = [lines.into(), last.into()];
            db.execute_raw(Statement::from_sql_and_values(backend, update, values)).await?;
        }
    }
}
