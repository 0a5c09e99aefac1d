//! Boards, members, the history and what follows from it.
//!
//! Times are Unix milliseconds, scores raw integers at the board's decimals. Text that is compared is compared by bytes:
//! `"C"` on PostgreSQL, the default on SQLite.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DbBackend;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: [&str; 13] = [
    "deployment",
    "board",
    "member",
    "friendship",
    "commit",
    "score_event",
    "standing",
    "log_cursor",
    "dead_letter",
    "job",
    "integrity_run",
    "integrity_finding",
    "access_token",
];

const UP: &str = r#"
CREATE TABLE "deployment" (
    "id" INTEGER PRIMARY KEY CHECK ("id" = 1),
    "partitions" INTEGER NOT NULL,
    "created_at_ms" BIGINT NOT NULL
);
CREATE TABLE "board" (
    "no" {serial},
    "slug" {text} NOT NULL UNIQUE,
    "title" {text} NOT NULL,
    "direction" {text} NOT NULL CHECK ("direction" IN ('HIGH_FIRST', 'LOW_FIRST')),
    "policy" {text} NOT NULL CHECK ("policy" IN ('SUM', 'BEST', 'LATEST')),
    "tie_break" {text} NOT NULL CHECK ("tie_break" IN ('EARLIEST', 'LATEST', 'MEMBER')),
    "tick_ms" INTEGER NOT NULL CHECK ("tick_ms" IN (1, 10, 100, 1000, 10000, 100000)),
    "decimals" INTEGER NOT NULL CHECK ("decimals" BETWEEN 0 AND 9),
    "min_score" BIGINT NOT NULL,
    "max_score" BIGINT NOT NULL,
    "time_zone" {text} NOT NULL,
    "shards" INTEGER NOT NULL CHECK ("shards" > 0),
    "segment_by" {text} NOT NULL,
    "visibility" {text} NOT NULL CHECK ("visibility" IN ('PUBLIC', 'PRIVATE')),
    "self_submit" BOOLEAN NOT NULL,
    "windows" {text} NOT NULL,
    "generation" INTEGER NOT NULL CHECK ("generation" > 0),
    "created_at_ms" BIGINT NOT NULL,
    CHECK ("min_score" < "max_score"),
    CHECK ("policy" <> 'LATEST' OR "tie_break" <> 'MEMBER')
);
CREATE TABLE "member" (
    "key" {text} PRIMARY KEY,
    "name" {text},
    "region" {text},
    "created_at_ms" BIGINT NOT NULL
);
CREATE TABLE "friendship" (
    "low" {text} NOT NULL REFERENCES "member" ("key"),
    "high" {text} NOT NULL REFERENCES "member" ("key"),
    "created_at_ms" BIGINT NOT NULL,
    PRIMARY KEY ("low", "high"),
    CHECK ("low" < "high")
);
CREATE INDEX "friendship_high" ON "friendship" ("high", "low");
CREATE TABLE "commit" (
    "partition" INTEGER NOT NULL,
    "seq" BIGINT NOT NULL CHECK ("seq" > 0),
    "id" {text} NOT NULL UNIQUE,
    "parent" {text} NOT NULL,
    "accepted_at_ms" BIGINT NOT NULL,
    "events" INTEGER NOT NULL,
    PRIMARY KEY ("partition", "seq"),
    UNIQUE ("partition", "parent")
);
CREATE INDEX "commit_accepted" ON "commit" ("partition", "accepted_at_ms");
CREATE TABLE "score_event" (
    "partition" INTEGER NOT NULL,
    "seq" BIGINT NOT NULL,
    "event_index" INTEGER NOT NULL CHECK ("event_index" >= 0),
    "board_no" BIGINT NOT NULL REFERENCES "board" ("no"),
    "generation" INTEGER NOT NULL,
    "member" {text} NOT NULL REFERENCES "member" ("key"),
    "kind" {text} NOT NULL CHECK ("kind" IN ('SCORE', 'REMOVAL')),
    "score" BIGINT,
    "at_ms" BIGINT,
    "at_sent" BOOLEAN NOT NULL,
    "event_id" {text},
    "segments" {text} NOT NULL,
    PRIMARY KEY ("partition", "seq", "event_index"),
    FOREIGN KEY ("partition", "seq") REFERENCES "commit" ("partition", "seq"),
    CHECK (("kind" = 'SCORE') = ("score" IS NOT NULL)),
    CHECK (("kind" = 'SCORE') = ("at_ms" IS NOT NULL))
);
CREATE INDEX "score_event_member" ON "score_event" ("board_no", "member", "event_id");
CREATE TABLE "standing" (
    "board_no" BIGINT NOT NULL REFERENCES "board" ("no"),
    "segment" {text} NOT NULL,
    "member" {text} NOT NULL REFERENCES "member" ("key"),
    "score" BIGINT NOT NULL,
    "rank_key" BIGINT NOT NULL CHECK ("rank_key" >= 0),
    "partition" INTEGER NOT NULL,
    "seq" BIGINT NOT NULL,
    PRIMARY KEY ("board_no", "segment", "member")
);
CREATE INDEX "standing_rank" ON "standing" ("board_no", "segment", "rank_key", "member");
CREATE INDEX "standing_partition" ON "standing" ("partition");
CREATE TABLE "log_cursor" (
    "partition" INTEGER PRIMARY KEY,
    "run_id" {text} NOT NULL,
    "seq" BIGINT NOT NULL CHECK ("seq" >= 0),
    "commit_id" {text} NOT NULL,
    "epoch" BIGINT NOT NULL
);
CREATE TABLE "dead_letter" (
    "partition" INTEGER NOT NULL,
    "seq" BIGINT NOT NULL,
    "event_index" INTEGER NOT NULL,
    "payload" {text} NOT NULL,
    "reason" {text} NOT NULL,
    "state" {text} NOT NULL CHECK ("state" IN ('PENDING', 'VOIDED')),
    "created_at_ms" BIGINT NOT NULL,
    PRIMARY KEY ("partition", "seq", "event_index"),
    FOREIGN KEY ("partition", "seq") REFERENCES "commit" ("partition", "seq")
);
CREATE TABLE "job" (
    "id" {serial},
    "kind" {text} NOT NULL CHECK ("kind" IN ('REBUILD', 'RESTORE', 'DIFF', 'ARCHIVE', 'ROLL', 'SEAL', 'IMPORT')),
    "board_no" BIGINT REFERENCES "board" ("no"),
    "state" {text} NOT NULL CHECK ("state" IN ('RUNNING', 'DONE', 'FAILED')),
    "progress" {double} NOT NULL CHECK ("progress" BETWEEN 0 AND 1),
    "started_at_ms" BIGINT NOT NULL,
    "finished_at_ms" BIGINT,
    "summary" {text},
    CHECK (("state" = 'RUNNING') = ("finished_at_ms" IS NULL))
);
CREATE TABLE "integrity_run" (
    "id" {serial},
    "board_no" BIGINT REFERENCES "board" ("no"),
    "started_at_ms" BIGINT NOT NULL,
    "finished_at_ms" BIGINT,
    "checked" BIGINT NOT NULL,
    "found" BIGINT NOT NULL,
    "repaired" BIGINT NOT NULL
);
CREATE TABLE "integrity_finding" (
    "run_id" BIGINT NOT NULL REFERENCES "integrity_run" ("id"),
    "finding_index" INTEGER NOT NULL,
    "board_no" BIGINT NOT NULL,
    "kind" {text} NOT NULL CHECK ("kind" IN ('MISSING', 'PHANTOM', 'WRONG_SCORE', 'WRONG_TIE_BREAK', 'WRONG_WINDOW')),
    "member" {text} NOT NULL,
    "window" {text} NOT NULL,
    "period" {text} NOT NULL,
    "segment" {text} NOT NULL,
    "history" BIGINT,
    "sql" BIGINT,
    "redis" BIGINT,
    "repaired" BOOLEAN NOT NULL,
    PRIMARY KEY ("run_id", "finding_index")
);
CREATE TABLE "access_token" (
    "id" {text} PRIMARY KEY,
    "hash" {text} NOT NULL,
    "scope" {text} NOT NULL CHECK ("scope" IN ('read', 'submit', 'admin')),
    "member" {text},
    "created_at_ms" BIGINT NOT NULL,
    "expires_at_ms" BIGINT,
    "revoked_at_ms" BIGINT
);
"#;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// On every database: a start that is cut short leaves nothing half made.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let (serial, text, double) = match manager.get_database_backend() {
            // AUTOINCREMENT: a number is never given twice, even after its row is gone.
            DbBackend::Sqlite => ("INTEGER PRIMARY KEY AUTOINCREMENT", "TEXT", "DOUBLE"),
            DbBackend::Postgres => (
                "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
                "TEXT COLLATE \"C\"",
                "DOUBLE PRECISION",
            ),
            other => {
                return Err(DbErr::Migration(format!(
                    "{other:?} is not supported yet; sqlite: and postgres: URLs are"
                )));
            }
        };
        let sql =
            UP.replace("{serial}", serial).replace("{text}", text).replace("{double}", double);
        for statement in sql.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
            manager.get_connection().execute_unprepared(statement).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in TABLES.into_iter().rev() {
            manager.get_connection().execute_unprepared(&format!("DROP TABLE \"{table}\"")).await?;
        }
        Ok(())
    }
}
