//! Another number of shards: those that a board had before, as its history lies where they say, and a move that is under way.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::{ConnectionTrait, DbBackend, Statement};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const UP: &str = r#"
ALTER TABLE "board" ADD COLUMN "former_layouts" {text} NOT NULL DEFAULT '[]';
ALTER TABLE "board" ADD COLUMN "reshard" {text};
ALTER TABLE "board" ADD COLUMN "reshard_until_ms" BIGINT
"#;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// On every database: a start that is cut short leaves nothing half made.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let text = match manager.get_database_backend() {
            DbBackend::Sqlite => "TEXT",
            _ => "TEXT COLLATE \"C\"",
        };
        for statement in UP.replace("{text}", text).split(';').map(str::trim) {
            manager.get_connection().execute_unprepared(statement).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let db = manager.get_connection();
        let moved =
            r#"SELECT 1 FROM "board" WHERE "former_layouts" <> '[]' OR "reshard" IS NOT NULL"#;
        let backend = manager.get_database_backend();
        if db.query_one_raw(Statement::from_string(backend, moved)).await?.is_some() {
            return Err(DbErr::Migration(
                "a board had another number of shards: the schema before this step cannot say where its history is"
                    .into(),
            ));
        }
        for column in ["reshard_until_ms", "reshard", "former_layouts"] {
            db.execute_unprepared(&format!("ALTER TABLE \"board\" DROP COLUMN \"{column}\""))
                .await?;
        }
        Ok(())
    }
}
