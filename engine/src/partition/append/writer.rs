//! A transaction that writes commits, their events and all-time rows by the fastest statements of
//! its database: COPY in PostgreSQL, and INSERTs of many rows elsewhere.

use ranking::commit::Commit;
use ranking::id::PartitionNo;
use sea_orm::ActiveValue::Set;
use sea_orm::sqlx::{self, Postgres, Transaction};
use sea_orm::{
    ActiveEnum, ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr,
    EntityTrait, IntoActiveModel, QueryFilter, Statement, Value,
};

use super::copy::{CopyIn, EVENT_COLUMNS};
use crate::partition::persist::is_still;
use entity::history::{commit, log_cursor, score_event};
use entity::sql::{begin, begin_for_copy, insert_chunked, of_sqlx};
use entity::standings::standing::{self, replace};

/// The events of one INSERT: SQLite takes 32,766 values.
const ROWS_MAX: usize = 1000;

/// The rows of `standing` of one statement of PostgreSQL.
const STANDINGS_MAX: usize = 20_000;

/// Sets rows of `standing` from arrays, one for each column that differs.
const SET_STANDINGS: &str = r#"INSERT INTO "standing" ("board_no", "partition", "segment", "member", "score", "rank_key", "seq")
    SELECT $1, $2, * FROM UNNEST($3::TEXT[], $4::TEXT[], $5::BIGINT[], $6::BIGINT[], $7::BIGINT[])
    ON CONFLICT ("board_no", "segment", "member") DO UPDATE SET "score" = excluded."score",
    "rank_key" = excluded."rank_key", "partition" = excluded."partition", "seq" = excluded."seq""#;

/// Moves a cursor from exactly where it was.
const MOVE_CURSOR: &str = r#"UPDATE "log_cursor" SET "seq" = $1, "commit_id" = $2 WHERE "partition" = $3
    AND "run_id" = $4 AND "seq" = $5 AND "commit_id" = $6 AND "epoch" = $7"#;

/// Gives a connection of SQLite 128 MiB of memory for pages: rows go to all parts of two indexes,
/// and each page that does not fit is written and read again for each of them.
const LARGE_CACHE: &str = "PRAGMA cache_size = -131072";

/// The transaction.
pub(super) enum Writer {
    /// SeaORM's transactions give no access to COPY.
    Postgres(Transaction<'static, Postgres>),
    Other(DatabaseTransaction),
}

impl Writer {
    /// Begins a transaction. The caller may be dropped at any point of it. The process should end
    /// with its work: its connections keep their memory.
    pub(super) async fn begin(db: &DatabaseConnection) -> Result<Self, DbErr> {
        let backend = db.get_database_backend();
        if backend == DbBackend::Postgres {
            return Ok(Self::Postgres(begin_for_copy(db).await?));
        }
        let transaction = begin(db).await?;
        if backend == DbBackend::Sqlite {
            transaction.execute_unprepared(LARGE_CACHE).await?;
        }
        Ok(Self::Other(transaction))
    }

    /// Writes commits and their events.
    pub(super) async fn write(
        &mut self,
        partition: PartitionNo,
        commits: &[Commit],
    ) -> Result<(), DbErr> {
        let rows = commits.iter().map(|commit| commit::Model::of_commit(partition, commit, 0));
        let mut events = vec![];
        for commit in commits {
            let of_index = |index| score_event::Model::of_event(partition, commit, index);
            events.extend((0..commit.events.len()).map(of_index));
        }
        // The index by member costs less where a member's rows come one after the other.
        events.sort_by(|one, other| one.member.cmp(&other.member));
        match self {
            Self::Postgres(transaction) => {
                copy(transaction, CopyIn::of_commits(rows)).await?;
                copy(transaction, CopyIn::of_events(&events)).await
            }
            Self::Other(transaction) => {
                let rows = rows.map(IntoActiveModel::into_active_model).collect();
                insert_chunked::<commit::Entity, _>(transaction, rows, None).await?;
                insert_events(transaction, events).await
            }
        }
    }

    /// Sets rows of `standing`.
    pub(super) async fn set_standings(&mut self, rows: Vec<standing::Model>) -> Result<(), DbErr> {
        let transaction = match self {
            Self::Postgres(transaction) => transaction,
            Self::Other(transaction) => {
                let rows = rows.into_iter().map(IntoActiveModel::into_active_model).collect();
                return insert_chunked::<standing::Entity, _>(transaction, rows, Some(replace()))
                    .await;
            }
        };
        for rows in rows.chunks(STANDINGS_MAX) {
            let texts = |of: fn(&standing::Model) -> &String| rows.iter().map(of).collect();
            let numbers = |of: fn(&standing::Model) -> i64| rows.iter().map(of).collect();
            let (segments, members): (Vec<&String>, Vec<&String>) =
                (texts(|row| &row.segment), texts(|row| &row.member));
            let (scores, keys, seqs): (Vec<i64>, Vec<i64>, Vec<i64>) =
                (numbers(|row| row.score), numbers(|row| row.rank_key), numbers(|row| row.seq));
            sqlx::query(SET_STANDINGS)
                .bind(rows[0].board_no)
                .bind(rows[0].partition)
                .bind(segments)
                .bind(members)
                .bind(scores)
                .bind(keys)
                .bind(seqs)
                .execute(&mut **transaction)
                .await
                .map_err(of_sqlx)?;
        }
        Ok(())
    }

    /// Moves the cursor from exactly `from` to `to`. Returns false if it was elsewhere.
    pub(super) async fn move_cursor(
        &mut self,
        from: &log_cursor::Model,
        to: &log_cursor::Model,
    ) -> Result<bool, DbErr> {
        let moved = match self {
            Self::Postgres(transaction) => sqlx::query(MOVE_CURSOR)
                .bind(to.seq)
                .bind(&to.commit_id)
                .bind(from.partition)
                .bind(&from.run_id)
                .bind(from.seq)
                .bind(&from.commit_id)
                .bind(from.epoch)
                .execute(&mut **transaction)
                .await
                .map_err(of_sqlx)?
                .rows_affected(),
            Self::Other(transaction) => {
                let next = log_cursor::ActiveModel {
                    seq: Set(to.seq),
                    commit_id: Set(to.commit_id.clone()),
                    ..Default::default()
                };
                let update = log_cursor::Entity::update_many().set(next).filter(is_still(from));
                update.exec(transaction).await?.rows_affected
            }
        };
        Ok(moved == 1)
    }

    /// Commits the transaction.
    pub(super) async fn commit(self) -> Result<(), DbErr> {
        match self {
            Self::Postgres(transaction) => transaction.commit().await.map_err(of_sqlx),
            Self::Other(transaction) => transaction.commit().await,
        }
    }
}

async fn copy(transaction: &mut Transaction<'static, Postgres>, rows: CopyIn) -> Result<(), DbErr> {
    let mut copying = transaction.copy_in_raw(rows.statement()).await.map_err(of_sqlx)?;
    copying.send(rows.into_bytes()).await.map_err(of_sqlx)?;
    copying.finish().await.map_err(of_sqlx)?;
    Ok(())
}

/// Inserts events by statements of one text, which the connection prepares once. SeaORM would make
/// each of them again from its parts.
async fn insert_events(
    transaction: &DatabaseTransaction,
    events: Vec<score_event::Model>,
) -> Result<(), DbErr> {
    let mut events = events.into_iter().peekable();
    while events.peek().is_some() {
        let some: Vec<_> = events.by_ref().take(ROWS_MAX).collect();
        let sql = insert_sql(some.len());
        let values: Vec<Value> = some.into_iter().flat_map(values).collect();
        let backend = transaction.get_database_backend();
        let statement = Statement::from_sql_and_values(backend, sql, values);
        transaction.execute_raw(statement).await?;
    }
    Ok(())
}

fn insert_sql(rows: usize) -> String {
    let places = format!("({})", vec!["?"; EVENT_COLUMNS.len()].join(", "));
    let columns = EVENT_COLUMNS.map(|name| format!(r#""{name}""#)).join(", ");
    let rows = vec![&*places; rows].join(", ");
    format!(r#"INSERT INTO "score_event" ({columns}) VALUES {rows}"#)
}

/// The values of an event, in the order of the columns.
fn values(event: score_event::Model) -> [Value; EVENT_COLUMNS.len()] {
    [
        event.partition.into(),
        event.seq.into(),
        event.event_index.into(),
        event.board_no.into(),
        event.generation.into(),
        event.member.into(),
        event.kind.to_value().into(),
        event.score.into(),
        event.at_ms.into(),
        event.at_sent.into(),
        event.event_id.into(),
        event.segments.into(),
        event.salt.into(),
        event.metadata.into(),
    ]
}
