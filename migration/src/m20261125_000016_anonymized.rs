//! Erasures that keep the scores: the mode of an erasure, and the new key of the member while its
//! scores are being given to that.

use sea_orm_migration::prelude::*;

use crate::m20261122_000001_tables::run_all;
use crate::statement::run;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The statements of all databases, with types of the first step.
const STATEMENTS: [&str; 2] = [
    r#"ALTER TABLE "member_erasure" ADD COLUMN "mode" {step} NOT NULL DEFAULT 'DELETE'"#,
    r#"ALTER TABLE "member_erasure" ADD COLUMN "target" {id}"#,
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// As the first step.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        run_all(manager, &STATEMENTS).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in ["target", "mode"] {
            run(manager, &format!(r#"ALTER TABLE "member_erasure" DROP COLUMN "{column}""#))
                .await?;
        }
        Ok(())
    }
}
