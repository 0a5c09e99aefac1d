//! The rows of a partition lie together, in the order of their members: whoever goes through a partition reads them one after the other, where each of
//! them was looked for. And the tables keep fewer orders of their rows, so that writing costs less.
//!
//! SQLite orders a table by its key, so that of `standing` begins with the partition; what tells its rows apart stays the board, the member and the
//! segment, as a member may be on the way from one partition to another. Other databases have rows in the order of arrival whatever the key. What archived
//! events add up to never moves: the partition is part of its key on every database.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::{ConnectionTrait, DbBackend};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The columns of `standing` on SQLite.
const STANDING: &str = r#"
    "board_no" BIGINT NOT NULL REFERENCES "board" ("no"),
    "segment" TEXT NOT NULL,
    "member" TEXT NOT NULL REFERENCES "member" ("key"),
    "score" BIGINT NOT NULL,
    "rank_key" BIGINT NOT NULL CHECK ("rank_key" >= 0),
    "partition" INTEGER NOT NULL,
    "seq" BIGINT NOT NULL"#;

/// The columns of `archived_entry` on SQLite.
const ARCHIVED: &str = r#"
    "board_no" BIGINT NOT NULL REFERENCES "board" ("no"),
    "member" TEXT NOT NULL,
    "segment" TEXT NOT NULL,
    "through_seq" BIGINT NOT NULL CHECK ("through_seq" > 0),
    "partition" INTEGER NOT NULL,
    "score" BIGINT,
    "tick" BIGINT,
    "events" BIGINT NOT NULL CHECK ("events" >= 0),
    CHECK (("score" IS NULL) = ("tick" IS NULL))"#;

/// The key of `archived_entry`, after this step and before it.
const ARCHIVED_KEY: &str = r#""board_no", "partition", "member", "segment", "through_seq""#;
const ARCHIVED_KEY_BEFORE: &str = r#""board_no", "member", "segment", "through_seq""#;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// On every database: a start that is cut short leaves nothing half made.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let standing = (r#""partition", "board_no", "member", "segment""#, "WITHOUT ROWID");
        let indexes = match manager.get_database_backend() {
            DbBackend::Sqlite => {
                r#"CREATE UNIQUE INDEX "standing_member" ON "standing" ("board_no", "member", "segment")"#
            }
            _ => r#"DROP INDEX "archived_entry_partition""#,
        };
        again(manager, standing, ARCHIVED_KEY, indexes).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let standing = (r#""board_no", "segment", "member""#, "");
        let indexes = match manager.get_database_backend() {
            DbBackend::Sqlite => {
                r#"CREATE INDEX "standing_member" ON "standing" ("board_no", "member");
                CREATE INDEX "standing_partition" ON "standing" ("partition", "board_no");
                CREATE INDEX "archived_entry_partition" ON "archived_entry" ("board_no", "partition", "through_seq", "member", "segment", "score", "tick", "events")"#
            }
            _ => {
                r#"CREATE INDEX "archived_entry_partition" ON "archived_entry" ("board_no", "partition", "through_seq")"#
            }
        };
        again(manager, standing, ARCHIVED_KEY_BEFORE, indexes).await
    }
}

/// Gives the tables other keys: SQLite makes them anew, with their rows in that order.
async fn again(
    manager: &SchemaManager<'_>,
    (standing_key, standing_ordered): (&str, &str),
    archived_key: &str,
    indexes: &str,
) -> Result<(), DbErr> {
    let sql = match manager.get_database_backend() {
        DbBackend::Sqlite => {
            let tables = [
                ("standing", STANDING, standing_key, standing_ordered),
                ("archived_entry", ARCHIVED, archived_key, "WITHOUT ROWID"),
            ];
            let tables = tables.map(|(table, columns, key, ordered)| {
                format!(
                    r#"CREATE TABLE "{table}_again" ({columns}, PRIMARY KEY ({key})) {ordered};
                    INSERT INTO "{table}_again" SELECT * FROM "{table}" ORDER BY {key};
                    DROP TABLE "{table}";
                    ALTER TABLE "{table}_again" RENAME TO "{table}""#
                )
            });
            tables.join(";")
        }
        _ => format!(
            r#"ALTER TABLE "archived_entry" DROP CONSTRAINT "archived_entry_pkey";
            ALTER TABLE "archived_entry" ADD PRIMARY KEY ({archived_key})"#
        ),
    };
    for statement in sql.split(';').chain(indexes.split(';')) {
        manager.get_connection().execute_unprepared(statement).await?;
    }
    Ok(())
}
