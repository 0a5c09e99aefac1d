//! Jobs with a lease: one of a kind at a time on a board, known to be dead when its process is; and what is done once a day.
//!
//! `running` names what a running job keeps others from; it is unique, and null once the job has ended. A job may be of any kind: what kinds
//! there are is the programs' to say.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::{ConnectionTrait, DbBackend, Statement};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// Jobs that never said how they ended: there is nobody left to say it.
const END_LEFT_OVERS: &str = r#"
UPDATE "job" SET "state" = 'FAILED', "finished_at_ms" = "started_at_ms", "summary" = 'its process ended without a word' WHERE "state" = 'RUNNING'
"#;

/// SQLite changes no CHECK: the table is made anew. Nothing refers to it.
const ON_SQLITE: &str = r#"
ALTER TABLE "job" RENAME TO "job_before";
CREATE TABLE "job" (
    "id" INTEGER PRIMARY KEY AUTOINCREMENT,
    "kind" TEXT NOT NULL{kinds},
    "board_no" BIGINT REFERENCES "board" ("no"),
    "state" TEXT NOT NULL CHECK ("state" IN ('RUNNING', 'DONE', 'FAILED')),
    "progress" DOUBLE NOT NULL CHECK ("progress" BETWEEN 0 AND 1),
    "started_at_ms" BIGINT NOT NULL,
    "finished_at_ms" BIGINT,
    "summary" TEXT,
    {columns}
    CHECK (("state" = 'RUNNING') = ("finished_at_ms" IS NULL))
);
INSERT INTO "job" ("id", "kind", "board_no", "state", "progress", "started_at_ms", "finished_at_ms", "summary")
    SELECT "id", "kind", "board_no", "state", "progress", "started_at_ms", "finished_at_ms", "summary" FROM "job_before" ORDER BY "id";
DROP TABLE "job_before"
"#;

const COLUMNS_ON_SQLITE: &str = r#""running" TEXT,
    "holder" TEXT,
    "heartbeat_at_ms" BIGINT,
    CHECK (("state" = 'RUNNING') = ("running" IS NOT NULL)),
    CHECK (("running" IS NULL) = ("holder" IS NULL)),
    CHECK (("running" IS NULL) = ("heartbeat_at_ms" IS NULL)),"#;

const KINDS: &str =
    r#" CHECK ("kind" IN ('REBUILD', 'RESTORE', 'DIFF', 'ARCHIVE', 'ROLL', 'SEAL', 'IMPORT'))"#;

const ON_POSTGRES: &str = r#"
ALTER TABLE "job" DROP CONSTRAINT "job_kind_check";
ALTER TABLE "job" ADD COLUMN "running" TEXT COLLATE "C";
ALTER TABLE "job" ADD COLUMN "holder" TEXT COLLATE "C";
ALTER TABLE "job" ADD COLUMN "heartbeat_at_ms" BIGINT;
ALTER TABLE "job" ADD CONSTRAINT "job_running_check" CHECK (("state" = 'RUNNING') = ("running" IS NOT NULL));
ALTER TABLE "job" ADD CONSTRAINT "job_holder_check" CHECK (("running" IS NULL) = ("holder" IS NULL));
ALTER TABLE "job" ADD CONSTRAINT "job_heartbeat_check" CHECK (("running" IS NULL) = ("heartbeat_at_ms" IS NULL))
"#;

const BACK_ON_POSTGRES: &str = r#"
ALTER TABLE "job" DROP CONSTRAINT "job_heartbeat_check";
ALTER TABLE "job" DROP CONSTRAINT "job_holder_check";
ALTER TABLE "job" DROP CONSTRAINT "job_running_check";
ALTER TABLE "job" DROP COLUMN "heartbeat_at_ms";
ALTER TABLE "job" DROP COLUMN "holder";
ALTER TABLE "job" DROP COLUMN "running";
ALTER TABLE "job" ADD CONSTRAINT "job_kind_check" CHECK ("kind" IN ('REBUILD', 'RESTORE', 'DIFF', 'ARCHIVE', 'ROLL', 'SEAL', 'IMPORT'))
"#;

/// Who runs now, what ended lately, and the last jobs of a kind or board are asked for all the time.
const INDICES_AND_SCHEDULE: &str = r#"
CREATE UNIQUE INDEX "job_running" ON "job" ("running");
CREATE INDEX "job_finished" ON "job" ("finished_at_ms");
CREATE INDEX "job_kind" ON "job" ("kind", "id");
CREATE INDEX "job_board" ON "job" ("board_no", "id");
CREATE TABLE "schedule" (
    "name" {text} PRIMARY KEY,
    "due_at_ms" BIGINT NOT NULL,
    "taken_at_ms" BIGINT NOT NULL,
    "attempts" INTEGER NOT NULL CHECK ("attempts" > 0),
    "finished" BOOLEAN NOT NULL
)
"#;

const INDICES_AND_SCHEDULE_BACK: &str = r#"
DROP TABLE "schedule";
DROP INDEX "job_board";
DROP INDEX "job_kind";
DROP INDEX "job_finished";
DROP INDEX "job_running"
"#;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// On every database: a start that is cut short leaves nothing half made.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let db = manager.get_connection();
        execute(db, END_LEFT_OVERS).await?;
        let (text, table) = match manager.get_database_backend() {
            DbBackend::Sqlite => {
                ("TEXT", ON_SQLITE.replace("{kinds}", "").replace("{columns}", COLUMNS_ON_SQLITE))
            }
            _ => ("TEXT COLLATE \"C\"", ON_POSTGRES.to_owned()),
        };
        execute(db, &table).await?;
        execute(db, &INDICES_AND_SCHEDULE.replace("{text}", text)).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let (db, backend) = (manager.get_connection(), manager.get_database_backend());
        let kept = r#"SELECT 1 FROM "job" WHERE "state" = 'RUNNING' OR "kind" NOT IN ('REBUILD', 'RESTORE', 'DIFF', 'ARCHIVE', 'ROLL', 'SEAL', 'IMPORT')"#;
        if db.query_one_raw(Statement::from_string(backend, kept)).await?.is_some() {
            return Err(DbErr::Migration(
                "a job is running, or of a kind that the schema before this step does not know"
                    .into(),
            ));
        }
        execute(db, INDICES_AND_SCHEDULE_BACK).await?;
        let table = match backend {
            DbBackend::Sqlite => ON_SQLITE.replace("{kinds}", KINDS).replace("{columns}", ""),
            _ => BACK_ON_POSTGRES.to_owned(),
        };
        execute(db, &table).await
    }
}

async fn execute(db: &SchemaManagerConnection<'_>, statements: &str) -> Result<(), DbErr> {
    for statement in statements.split(';').map(str::trim) {
        db.execute_unprepared(statement).await?;
    }
    Ok(())
}
