//! The statements of steps, one at a time.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::RuntimeErr;
use sea_orm_migration::sea_orm::sqlx::mysql::MySqlDatabaseError;

/// The answers of MariaDB and MySQL to a statement that was done before: the table, the column, the
/// index, the trigger or the row is there, or is gone.
const DONE: [u16; 8] = [1050, 1051, 1060, 1061, 1062, 1091, 1359, 1360];

/// Runs a statement of a step.
///
/// MariaDB and MySQL commit each statement that changes the schema. So a step that was cut short
/// is run again there, and passes over what is done. A table of another program is not taken for
/// that: [`crate::found`] refuses it before the first step.
pub(crate) async fn run(manager: &SchemaManager<'_>, statement: &str) -> Result<(), DbErr> {
    match manager.get_connection().execute_unprepared(statement).await {
        Err(error) if !is_done(&error) => Err(error),
        _ => Ok(()),
    }
}

fn is_done(error: &DbErr) -> bool {
    let DbErr::Exec(RuntimeErr::SqlxError(source)) = error else {
        return false;
    };
    let answer = source.as_database_error();
    let answer = answer.and_then(|answer| answer.try_downcast_ref::<MySqlDatabaseError>());
    answer.is_some_and(|answer| DONE.contains(&answer.number()))
}

/// Implements the `Migration` of a file whose `STATEMENTS` make its `TABLES`, and nothing else.
macro_rules! tables_step {
    () => {
        #[async_trait::async_trait]
        impl MigrationTrait for Migration {
            /// As the first step.
            fn use_transaction(&self) -> Option<bool> {
                Some(true)
            }

            async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
                $crate::m20261122_000001_tables::run_all(manager, &STATEMENTS).await
            }

            async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
                $crate::m20261122_000001_tables::drop_all(manager, &TABLES).await
            }
        }
    };
}

/// Implements the `Migration` of a file that adds a column, and nothing else: its table, its name,
/// and its type with what follows it.
macro_rules! column_step {
    ($table:literal, $column:literal, $of:literal) => {
        #[async_trait::async_trait]
        impl MigrationTrait for Migration {
            /// As the first step.
            fn use_transaction(&self) -> Option<bool> {
                Some(true)
            }

            async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
                let add =
                    concat!(r#"ALTER TABLE ""#, $table, r#"" ADD COLUMN ""#, $column, r#"" "#, $of);
                $crate::statement::run(manager, add).await
            }

            async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
                let drop =
                    concat!(r#"ALTER TABLE ""#, $table, r#"" DROP COLUMN ""#, $column, r#"""#);
                $crate::statement::run(manager, drop).await
            }
        }
    };
}
