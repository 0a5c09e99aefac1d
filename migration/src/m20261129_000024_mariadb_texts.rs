//! The texts that later steps added, on MariaDB and MySQL: in the character set of all others, and
//! no longer in that of the database, which may know few letters.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DbBackend;

use crate::m20261122_000001_tables::run_all;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const STATEMENTS: [&str; 2] = [
    r#"ALTER TABLE "member" MODIFY "attributes" {text}"#,
    r#"ALTER TABLE "access_token" MODIFY "name" {text}, MODIFY "boards" {text},
        MODIFY "scopes" {text} NOT NULL DEFAULT ('read')"#,
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// As the first step.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        match manager.get_database_backend() {
            DbBackend::MySql => run_all(manager, &STATEMENTS).await,
            _ => Ok(()),
        }
    }

    /// The columns take what they took before.
    async fn down(&self, _: &SchemaManager) -> Result<(), DbErr> {
        Ok(())
    }
}
