//! PostgreSQL without keys from events and all-time rows to boards and members, as MariaDB is: each
//! row of those looked up and locked the other row, which took three quarters of the time of a
//! COPY.
//!
//! Boards are never deleted from their table, and the transaction that writes an event has written
//! its member. The key from an event to its commit stays: it keeps a commit that still has events.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DbBackend;

use crate::statement::run;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The table, the column and the row that it refers to, of each key.
const KEYS: [(&str, &str, &str); 4] = [
    ("score_event", "board_no", r#""board" ("no")"#),
    ("score_event", "member", r#""member" ("key")"#),
    ("standing", "board_no", r#""board" ("no")"#),
    ("standing", "member", r#""member" ("key")"#),
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// As the first step.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (table, column, _) in of_backend(manager) {
            // The name that PostgreSQL gives a key without one.
            let sql = format!(
                r#"ALTER TABLE "{table}" DROP CONSTRAINT IF EXISTS "{table}_{column}_fkey""#
            );
            run(manager, &sql).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (table, column, row) in of_backend(manager) {
            let sql =
                format!(r#"ALTER TABLE "{table}" ADD FOREIGN KEY ("{column}") REFERENCES {row}"#);
            run(manager, &sql).await?;
        }
        Ok(())
    }
}

fn of_backend(
    manager: &SchemaManager<'_>,
) -> impl Iterator<Item = &'static (&'static str, &'static str, &'static str)> {
    let is_postgres = manager.get_database_backend() == DbBackend::Postgres;
    KEYS.iter().filter(move |_| is_postgres)
}
