//! The hour at which the days of a board begin, and the day with which its weeks do: boards that
//! exist have midnight and Monday.

use sea_orm_migration::prelude::*;

use crate::statement::run;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The columns and their defaults.
const COLUMNS: [(&str, i32); 2] = [("reset_hour", 0), ("week_start", 1)];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// As the first step.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (name, default) in COLUMNS {
            let column = format!(r#""{name}" INTEGER NOT NULL DEFAULT {default}"#);
            run(manager, &format!(r#"ALTER TABLE "board" ADD COLUMN {column}"#)).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (name, _) in COLUMNS {
            run(manager, &format!(r#"ALTER TABLE "board" DROP COLUMN "{name}""#)).await?;
        }
        Ok(())
    }
}
