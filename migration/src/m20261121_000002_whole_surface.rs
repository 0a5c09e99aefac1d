//! What boards' lives, voids and the search of members need.
//!
//! A deleted board keeps its row: its number is never used again, and every partition has to know of it. An event of kind VOID names the
//! one that it voids. Members are found by the start of their names, whatever the case.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::{ConnectionTrait, DbBackend, Statement};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const COLUMNS: &str = r#"
ALTER TABLE "board" ADD COLUMN "opens_at_ms" BIGINT;
ALTER TABLE "board" ADD COLUMN "closes_at_ms" BIGINT;
ALTER TABLE "board" ADD COLUMN "lateness_max_ms" BIGINT;
ALTER TABLE "board" ADD COLUMN "deleted_at_ms" BIGINT;
ALTER TABLE "board" ADD COLUMN "purged_at_ms" BIGINT;
ALTER TABLE "member" ADD COLUMN "name_folded" {text};
CREATE INDEX "member_name" ON "member" ("name_folded", "key")
"#;

const DROP_COLUMNS: &str = r#"
DROP INDEX "member_name";
ALTER TABLE "member" DROP COLUMN "name_folded";
ALTER TABLE "board" DROP COLUMN "purged_at_ms";
ALTER TABLE "board" DROP COLUMN "deleted_at_ms";
ALTER TABLE "board" DROP COLUMN "lateness_max_ms";
ALTER TABLE "board" DROP COLUMN "closes_at_ms";
ALTER TABLE "board" DROP COLUMN "opens_at_ms"
"#;

const EVENTS_ON_POSTGRES: &str = r#"
ALTER TABLE "score_event" ADD COLUMN "void_partition" INTEGER;
ALTER TABLE "score_event" ADD COLUMN "void_seq" BIGINT;
ALTER TABLE "score_event" ADD COLUMN "void_index" INTEGER;
ALTER TABLE "score_event" DROP CONSTRAINT "score_event_kind_check";
ALTER TABLE "score_event" ADD CONSTRAINT "score_event_kind_check" CHECK ("kind" IN ('SCORE', 'REMOVAL', 'VOID'));
ALTER TABLE "score_event" ADD CONSTRAINT "score_event_void_check" CHECK
    (("kind" = 'VOID') = ("void_partition" IS NOT NULL AND "void_seq" IS NOT NULL AND "void_index" IS NOT NULL))
"#;

const EVENTS_BACK_ON_POSTGRES: &str = r#"
ALTER TABLE "score_event" DROP CONSTRAINT "score_event_void_check";
ALTER TABLE "score_event" DROP CONSTRAINT "score_event_kind_check";
ALTER TABLE "score_event" ADD CONSTRAINT "score_event_kind_check" CHECK ("kind" IN ('SCORE', 'REMOVAL'));
ALTER TABLE "score_event" DROP COLUMN "void_index";
ALTER TABLE "score_event" DROP COLUMN "void_seq";
ALTER TABLE "score_event" DROP COLUMN "void_partition"
"#;

/// SQLite changes no CHECK: the table is made anew. Nothing refers to it.
const EVENTS_ON_SQLITE: &str = r#"
ALTER TABLE "score_event" RENAME TO "score_event_before";
CREATE TABLE "score_event" (
    "partition" INTEGER NOT NULL,
    "seq" BIGINT NOT NULL,
    "event_index" INTEGER NOT NULL CHECK ("event_index" >= 0),
    "board_no" BIGINT NOT NULL REFERENCES "board" ("no"),
    "generation" INTEGER NOT NULL,
    "member" TEXT NOT NULL REFERENCES "member" ("key"),
    "kind" TEXT NOT NULL CHECK ("kind" IN ({kinds})),
    "score" BIGINT,
    "at_ms" BIGINT,
    "at_sent" BOOLEAN NOT NULL,
    "event_id" TEXT,
    "segments" TEXT NOT NULL,
    {void_columns}
    PRIMARY KEY ("partition", "seq", "event_index"),
    FOREIGN KEY ("partition", "seq") REFERENCES "commit" ("partition", "seq"),
    {void_check}
    CHECK (("kind" = 'SCORE') = ("score" IS NOT NULL)),
    CHECK (("kind" = 'SCORE') = ("at_ms" IS NOT NULL))
);
INSERT INTO "score_event" ({columns}) SELECT {columns} FROM "score_event_before";
DROP TABLE "score_event_before"
"#;

const EVENT_COLUMNS: &str = r#""partition", "seq", "event_index", "board_no", "generation", "member", "kind", "score", "at_ms", "at_sent", "event_id", "segments""#;

/// A member's history in its order; the few voids of a partition.
const INDICES: &str = r#"
DROP INDEX IF EXISTS "score_event_member";
CREATE INDEX "score_event_member" ON "score_event" ("board_no", "member", "seq", "event_index");
CREATE INDEX "score_event_void" ON "score_event" ("partition", "seq") WHERE "void_seq" IS NOT NULL
"#;

const INDICES_BACK: &str = r#"
DROP INDEX IF EXISTS "score_event_void";
DROP INDEX IF EXISTS "score_event_member";
CREATE INDEX "score_event_member" ON "score_event" ("board_no", "member", "event_id")
"#;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// On every database: a start that is cut short leaves nothing half made.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let (text, events) = match manager.get_database_backend() {
            DbBackend::Sqlite => {
                let events = EVENTS_ON_SQLITE
                    .replace("{kinds}", "'SCORE', 'REMOVAL', 'VOID'")
                    .replace(
                        "{void_columns}",
                        r#""void_partition" INTEGER, "void_seq" BIGINT, "void_index" INTEGER,"#,
                    )
                    .replace("{void_check}", r#"CHECK (("kind" = 'VOID') = ("void_partition" IS NOT NULL AND "void_seq" IS NOT NULL AND "void_index" IS NOT NULL)),"#);
                ("TEXT", events.replace("{columns}", EVENT_COLUMNS))
            }
            _ => ("TEXT COLLATE \"C\"", EVENTS_ON_POSTGRES.to_owned()),
        };
        let db = manager.get_connection();
        execute(db, &COLUMNS.replace("{text}", text)).await?;
        execute(db, &events).await?;
        execute(db, INDICES).await?;
        fold_names(db, manager.get_database_backend()).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let db = manager.get_connection();
        let backend = manager.get_database_backend();
        let kept = r#"SELECT 1 FROM "score_event" WHERE "kind" = 'VOID' UNION ALL SELECT 1 FROM "board" WHERE "deleted_at_ms" IS NOT NULL OR "opens_at_ms" IS NOT NULL OR "closes_at_ms" IS NOT NULL OR "lateness_max_ms" IS NOT NULL"#;
        if db.query_one_raw(Statement::from_string(backend, kept)).await?.is_some() {
            return Err(DbErr::Migration(
                "there are voided events, deleted boards or boards that open, close or limit lateness: the schema before this step cannot say so".into(),
            ));
        }
        let events = match backend {
            DbBackend::Sqlite => EVENTS_ON_SQLITE
                .replace("{kinds}", "'SCORE', 'REMOVAL'")
                .replace("{void_columns}", "")
                .replace("{void_check}", "")
                .replace("{columns}", EVENT_COLUMNS),
            _ => EVENTS_BACK_ON_POSTGRES.to_owned(),
        };
        execute(db, INDICES_BACK.split(';').next().unwrap_or_default()).await?;
        execute(db, &events).await?;
        execute(db, INDICES_BACK).await?;
        execute(db, DROP_COLUMNS).await
    }
}

async fn execute(db: &SchemaManagerConnection<'_>, statements: &str) -> Result<(), DbErr> {
    for statement in statements.split(';').map(str::trim) {
        db.execute_unprepared(statement).await?;
    }
    Ok(())
}

/// Databases fold the case of ASCII at most: it is done here.
async fn fold_names(db: &SchemaManagerConnection<'_>, backend: DbBackend) -> Result<(), DbErr> {
    let named = r#"SELECT "key", "name" FROM "member" WHERE "name" IS NOT NULL"#;
    for row in db.query_all_raw(Statement::from_string(backend, named)).await? {
        let (key, name): (String, String) = (row.try_get("", "key")?, row.try_get("", "name")?);
        let update = r#"UPDATE "member" SET "name_folded" = $1 WHERE "key" = $2"#;
        let folded: String = name.chars().flat_map(char::to_lowercase).collect();
        let values = [folded.into(), key.into()];
        db.execute_raw(Statement::from_sql_and_values(backend, update, values)).await?;
    }
    Ok(())
}
