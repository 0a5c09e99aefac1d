//! The rights of access tokens: scopes that do not include each other, the boards that a token is
//! for, and its last use.
//!
//! A token that was made before keeps what it could do: one of scope submit may change friendships,
//! and all of them see private boards.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DbBackend;

use crate::statement::run;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    /// As the first step.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for statement in [
            r#"ALTER TABLE "access_token" ADD COLUMN "scopes" TEXT NOT NULL DEFAULT ('read')"#,
            r#"ALTER TABLE "access_token" ADD COLUMN "boards" TEXT"#,
            r#"ALTER TABLE "access_token" ADD COLUMN "last_used_at_ms" BIGINT"#,
            r#"CREATE INDEX "access_token_revoked" ON "access_token" ("revoked_at_ms")"#,
        ] {
            run(manager, statement).await?;
        }
        // A step that was cut short may have come this far.
        if manager.has_column("access_token", "scope").await? {
            let kept = r#"UPDATE "access_token" SET "boards" = 'all', "scopes" =
                CASE "scope" WHEN 'submit' THEN 'submit friends' ELSE "scope" END"#;
            run(manager, kept).await?;
            run(manager, r#"ALTER TABLE "access_token" DROP COLUMN "scope""#).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let scope = r#"ALTER TABLE "access_token" ADD COLUMN "scope" VARCHAR(16) NOT NULL
            DEFAULT 'read' CHECK ("scope" IN ('read', 'submit', 'admin'))"#;
        run(manager, scope).await?;
        if manager.has_column("access_token", "scopes").await? {
            let greatest = r#"UPDATE "access_token" SET "scope" = CASE
                WHEN "scopes" LIKE '%admin%' THEN 'admin'
                WHEN "scopes" LIKE '%submit%' THEN 'submit' ELSE 'read' END"#;
            run(manager, greatest).await?;
        }
        let of_table = match manager.get_database_backend() {
            DbBackend::MySql => r#" ON "access_token""#,
            _ => "",
        };
        run(manager, &format!(r#"DROP INDEX "access_token_revoked"{of_table}"#)).await?;
        for column in ["scopes", "boards", "last_used_at_ms"] {
            let statement = format!(r#"ALTER TABLE "access_token" DROP COLUMN "{column}""#);
            run(manager, &statement).await?;
        }
        Ok(())
    }
}
