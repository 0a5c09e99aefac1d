//! A mark says before which instant its archived events were earned. The board's row says it before an archive is decided, and of all partitions.

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
        db.execute_unprepared(
            r#"ALTER TABLE "archive_mark" ADD COLUMN "archived_before_ms" BIGINT"#,
        )
        .await?;
        let known = r#"UPDATE "archive_mark" SET "archived_before_ms" = (SELECT b."archived_before_ms" FROM "board" AS b WHERE b."no" = "archive_mark"."board_no")
            WHERE "archived_seq" > 0"#;
        db.execute_unprepared(known).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let db = manager.get_connection();
        db.execute_unprepared(r#"ALTER TABLE "archive_mark" DROP COLUMN "archived_before_ms""#)
            .await?;
        Ok(())
    }
}
