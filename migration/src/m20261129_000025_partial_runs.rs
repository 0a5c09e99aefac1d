//! Runs of the integrity diff that compared less than everything, so that none of them is taken for
//! a clean one.

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
        let add =
            r#"ALTER TABLE "integrity_run" ADD COLUMN "is_partial" BOOLEAN NOT NULL DEFAULT FALSE"#;
        run(manager, add).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        run(manager, r#"ALTER TABLE "integrity_run" DROP COLUMN "is_partial""#).await
    }
}
