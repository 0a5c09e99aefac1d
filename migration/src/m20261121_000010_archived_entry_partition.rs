//! SQLite: what archived events add up to in a partition is read from the index alone. Its table has its rows by member, so that each of them was
//! looked for; other databases have them in the order of arrival, a partition's together.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::{ConnectionTrait, DbBackend};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// What finds the rows.
const PLACE: &str = r#""board_no", "partition", "through_seq""#;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// On every database: a start that is cut short leaves nothing half made.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let columns = format!(r#"{PLACE}, "member", "segment", "score", "tick", "events""#);
        again(manager, &columns).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        again(manager, PLACE).await
    }
}

/// Makes SQLite's index anew, of these columns.
async fn again(manager: &SchemaManager<'_>, columns: &str) -> Result<(), DbErr> {
    let db = manager.get_connection();
    if manager.get_database_backend() != DbBackend::Sqlite {
        return Ok(());
    }
    db.execute_unprepared(r#"DROP INDEX "archived_entry_partition""#).await?;
    let create =
        format!(r#"CREATE INDEX "archived_entry_partition" ON "archived_entry" ({columns})"#);
    db.execute_unprepared(&create).await?;
    Ok(())
}
