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
        let db = manager.get_connection();
        if manager.get_database_backend() != DbBackend::Sqlite {
            let sql = format!(
                r#"ALTER TABLE "archived_entry" DROP CONSTRAINT "archived_entry_pkey";
                ALTER TABLE "archived_entry" ADD PRIMARY KEY ({ARCHIVED_KEY});
                DROP INDEX "archived_entry_partition""#
            );
            return all(db, &sql).await;
        }
        let key = r#""partition", "board_no", "member", "segment""#;
        again(db, "standing", STANDING, key, "WITHOUT ROWID").await?;
        again(
            db,
            "archived_entry",
            ARCHIVED,
            ARCHIVED_KEY,
            "WITHOUT ROWID",
        )
        .await?;
        let unique = r#"CREATE UNIQUE INDEX "standing_member" ON "standing" ("board_no", "member", "segment")"#;
        all(db, unique).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let db = manager.get_connection();
        if manager.get_database_backend() != DbBackend::Sqlite {
            let sql = format!(
                r#"ALTER TABLE "archived_entry" DROP CONSTRAINT "archived_entry_pkey";
                ALTER TABLE "archived_entry" ADD PRIMARY KEY ({ARCHIVED_KEY_BEFORE});
                CREATE INDEX "archived_entry_partition" ON "archived_entry" ("board_no", "partition", "through_seq")"#
            );
            return all(db, &sql).await;
        }
        let key = r#""board_no", "segment", "member""#;
        again(db, "standing", STANDING, key, "").await?;
        again(
            db,
            "archived_entry",
            ARCHIVED,
            ARCHIVED_KEY_BEFORE,
            "WITHOUT ROWID",
        )
        .await?;
        let sql = r#"CREATE INDEX "standing_member" ON "standing" ("board_no", "member");
            CREATE INDEX "standing_partition" ON "standing" ("partition", "board_no");
            CREATE INDEX "archived_entry_partition" ON "archived_entry" ("board_no", "partition", "through_seq", "member", "segment", "score", "tick", "events")"#;
        all(db, sql).await
    }
}

/// Makes a table of SQLite anew with another key, its rows in that order.
async fn again(
    db: &impl ConnectionTrait,
    table: &str,
    columns: &str,
    key: &str,
    ordered: &str,
) -> Result<(), DbErr> {
    let sql = format!(
        r#"CREATE TABLE "{table}_again" ({columns}, PRIMARY KEY ({key})) {ordered};
        INSERT INTO "{table}_again" SELECT * FROM "{table}" ORDER BY {key};
        DROP TABLE "{table}";
        ALTER TABLE "{table}_again" RENAME TO "{table}""#
    );
    all(db, &sql).await
}

async fn all(db: &impl ConnectionTrait, sql: &str) -> Result<(), DbErr> {
    for statement in sql.split(';') {
        db.execute_unprepared(statement).await?;
    }
    Ok(())
}
