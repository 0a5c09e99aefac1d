//! The names of access tokens, which tell their operator what each is for.

use sea_orm_migration::prelude::*;

use crate::statement::run;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// As the first step.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        run(manager, r#"ALTER TABLE "access_token" ADD COLUMN "name" TEXT"#).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        run(manager, r#"ALTER TABLE "access_token" DROP COLUMN "name""#).await
    }
}
