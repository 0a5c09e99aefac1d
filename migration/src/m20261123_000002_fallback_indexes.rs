//! The indexes by which SQL answers reads while Redis is away: all-time standings in rank order,
//! and the events of a board by the time at which they were earned.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DbBackend;

use crate::statement::run;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The name, the table and the columns of each.
const INDEXES: [(&str, &str, &str); 2] = [
    ("standing_rank", "standing", r#""board_no", "segment", "rank_key", "member""#),
    // Removals and voids have no time.
    ("score_event_time", "score_event", r#""board_no", "at_ms""#),
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// As the first step.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (name, table, columns) in INDEXES {
            run(manager, &format!(r#"CREATE INDEX "{name}" ON "{table}" ({columns})"#)).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (name, table, _) in INDEXES {
            let of_table = match manager.get_database_backend() {
                DbBackend::MySql => format!(r#" ON "{table}""#),
                _ => String::new(),
            };
            run(manager, &format!(r#"DROP INDEX "{name}"{of_table}"#)).await?;
        }
        Ok(())
    }
}
