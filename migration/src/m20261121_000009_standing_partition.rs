//! A board's rows of `standing` in one partition are found without those of other boards.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::ConnectionTrait;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// On every database: a start that is cut short leaves nothing half made.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        again(manager, r#""partition", "board_no""#).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        again(manager, r#""partition""#).await
    }
}

/// Makes the index anew, of these columns.
async fn again(manager: &SchemaManager<'_>, columns: &str) -> Result<(), DbErr> {
    let db = manager.get_connection();
    db.execute_unprepared(r#"DROP INDEX "standing_partition""#).await?;
    let create = format!(r#"CREATE INDEX "standing_partition" ON "standing" ({columns})"#);
    db.execute_unprepared(&create).await?;
    Ok(())
}
