//! Erasures that keep the scores: the mode of an erasure, and the new key of the member while its
//! scores are being given to that.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DbBackend;

use crate::m20261122_000001_tables::in_dialect;
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
        let backend = manager.get_database_backend();
        let step = match backend {
            DbBackend::Postgres => r#"TEXT COLLATE "C""#,
            DbBackend::MySql => text!("VARCHAR(16)"),
            _ => "TEXT",
        };
        let mode = format!(
            r#"ALTER TABLE "member_erasure" ADD COLUMN "mode" {step} NOT NULL DEFAULT 'DELETE'"#
        );
        run(manager, &mode).await?;
        let target = r#"ALTER TABLE "member_erasure" ADD COLUMN "target" {id}"#;
        run(manager, &in_dialect(target, backend)?).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in ["target", "mode"] {
            run(manager, &format!(r#"ALTER TABLE "member_erasure" DROP COLUMN "{column}""#))
                .await?;
        }
        Ok(())
    }
}
