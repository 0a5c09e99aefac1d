//! The attributes of members besides the region, by which boards may have segments: a JSON object
//! of texts.

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
        run(manager, r#"ALTER TABLE "member" ADD COLUMN "attributes" TEXT"#).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        run(manager, r#"ALTER TABLE "member" DROP COLUMN "attributes""#).await
    }
}
