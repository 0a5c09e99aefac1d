//! The members who joined a board. The row of the board counts them, so that the lock of that row
//! makes a limit exact, and numbers the joinings.

use sea_orm_migration::prelude::*;

use crate::m20261122_000001_tables::in_dialect;
use crate::statement::run;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The tables that this step makes.
pub(crate) const TABLES: [&str; 1] = ["entrant"];

/// The columns of `board`.
const COLUMNS: [(&str, &str); 4] = [
    ("joining", "BOOLEAN NOT NULL DEFAULT FALSE"),
    ("entrants_max", "INTEGER"),
    ("entrants", "BIGINT NOT NULL DEFAULT 0"),
    ("entrants_no", "BIGINT NOT NULL DEFAULT 0"),
];

/// `{id}` is compared by bytes, as those of the first step.
const ENTRANT: &str = r#"CREATE TABLE "entrant" (
    "board_no" BIGINT NOT NULL,
    "member" {id} NOT NULL,
    "no" BIGINT NOT NULL,
    "joined_at_ms" BIGINT NOT NULL,
    PRIMARY KEY ("board_no", "member")
)"#;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// As the first step.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        run(manager, &in_dialect(ENTRANT, manager.get_database_backend())?).await?;
        run(manager, r#"CREATE INDEX "entrant_member" ON "entrant" ("member", "board_no")"#)
            .await?;
        for (name, kind) in COLUMNS {
            run(manager, &format!(r#"ALTER TABLE "board" ADD COLUMN "{name}" {kind}"#)).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (name, _) in COLUMNS {
            run(manager, &format!(r#"ALTER TABLE "board" DROP COLUMN "{name}""#)).await?;
        }
        run(manager, r#"DROP TABLE "entrant""#).await
    }
}
