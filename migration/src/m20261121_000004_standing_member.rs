//! The persister asks for the rows of the members that events are of: an index for it. Nobody asks for a place in order: without the index for
//! that, a changed score is written once.

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
        let db = manager.get_connection();
        let up = r#"CREATE INDEX "standing_member" ON "standing" ("board_no", "member")"#;
        db.execute_unprepared(up).await?;
        db.execute_unprepared(r#"DROP INDEX "standing_rank""#).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let db = manager.get_connection();
        let down = r#"CREATE INDEX "standing_rank" ON "standing" ("board_no", "segment", "rank_key", "member")"#;
        db.execute_unprepared(down).await?;
        db.execute_unprepared(r#"DROP INDEX "standing_member""#).await?;
        Ok(())
    }
}
