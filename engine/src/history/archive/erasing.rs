//! The SQL side of erasing archived events: which files are in the way of an erasure, and the
//! transaction that puts files without the member's events in the place of those with them.

use std::collections::BTreeMap;

use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait, IntoActiveModel,
    QueryFilter, QueryResult, QuerySelect, QueryTrait, Value,
};

use super::switch_commit_files;
use crate::deployment::Deployment;
use entity::archive::archive_file::{self, State};
use entity::archive::{archive_mark, archived_entry, archived_metadata, commit_file};
use entity::board;
use entity::error::{Error, Result};
use entity::history::commit;
use entity::member::erasure::{self, Counts};
use entity::sql::begin;
use entity::sql::dialect::statement;

/// The distance of the seqs of a file that counts nowhere from those of the file in whose place it
/// is written: no two files of a board's partition begin with the same seq.
const BEYOND: i64 = 1 << 62;

/// A board's partition in which a member has archived events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The board.
    pub board_no: i64,
    /// The partition.
    pub partition: i32,
}

/// A file with events of a member, and the one without them that takes its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Again {
    /// The file.
    pub former: archive_file::Model,
    /// The other one, written and read back. Its row is as [`Again::named`] says.
    pub written: archive_file::Model,
}

impl Again {
    /// The row that names the file at another path before it exists.
    pub fn named(former: &archive_file::Model, path: String, now_ms: i64) -> archive_file::Model {
        archive_file::Model {
            path,
            first_seq: former.first_seq + BEYOND,
            last_seq: former.last_seq + BEYOND,
            events: 0,
            bytes: 0,
            sha256: String::new(),
            state: State::Writing,
            created_at_ms: now_ms,
            ..former.clone()
        }
    }
}

/// The board's partitions in which a member has archived events, in order.
pub async fn places(db: &impl ConnectionTrait, member: &str) -> Result<Vec<Place>, DbErr> {
    let select = r#"SELECT m."board_no", m."partition" FROM "archive_mark" AS m WHERE EXISTS
        (SELECT 1 FROM "archived_entry" AS e WHERE e."board_no" = m."board_no"
            AND e."partition" = m."partition" AND e."member" = $1)
        ORDER BY m."board_no", m."partition""#;
    let select = statement(db.get_database_backend(), select, [Value::from(member)]);
    let place = |row: QueryResult| {
        Ok(Place { board_no: row.try_get_by_index(0)?, partition: row.try_get_by_index(1)? })
    };
    db.query_all_raw(select).await?.into_iter().map(place).collect()
}

/// True if files have events of a member, or may have some: beside those of its archived events,
/// each file that an archive wrote and did not decide, or decided and did not finish, and each file
/// of a deleted board.
pub async fn is_in_the_way(db: &impl ConnectionTrait, member: &str) -> Result<bool, DbErr> {
    Ok(is_unfinished(db).await? || !places(db, member).await?.is_empty())
}

async fn is_unfinished(db: &impl ConnectionTrait) -> Result<bool, DbErr> {
    use archive_file::Column::{BoardNo, State as Of};
    let deleted = board::Entity::find()
        .select_only()
        .column(board::Column::No)
        .filter(board::Column::DeletedAtMs.is_not_null());
    let of_deleted = BoardNo.in_subquery(deleted.into_query());
    let unfinished =
        archive_file::Entity::find().filter(Of.ne(State::Dropped).or(of_deleted)).one(db).await?;
    use archive_mark::Column::{ArchivedSeq, ClosingSeq};
    let closing = archive_mark::Entity::find()
        .filter(Expr::col(ClosingSeq).ne(Expr::col(ArchivedSeq)))
        .one(db)
        .await?;
    Ok(unfinished.is_some() || closing.is_some())
}

/// Some file of the archive that SQL relies on; `None` if there is none.
pub async fn some_file(db: &impl ConnectionTrait) -> Result<Option<archive_file::Model>, DbErr> {
    archive_file::Entity::find()
        .filter(archive_file::Column::State.ne(State::Writing))
        .one(db)
        .await
}

/// Makes files without a member's events part of the history in place of those with them, in one
/// transaction, and deletes what SQL keeps of these events. The former files count nowhere from
/// here on: the next archive removes them, as those that it did not decide.
///
/// `gone` has the member's events in the former files, by partition and seq; `commits` the files of
/// their commits that were written again with these counts.
///
/// # Errors
/// `Overtaken` if the erasure or a file has changed since.
pub async fn replace(
    deployment: &Deployment,
    (row, member, place): (&erasure::Model, &str, Place),
    files: &[Again],
    gone: &BTreeMap<(i32, i64), u32>,
    commits: &[(String, commit_file::Model)],
) -> Result<()> {
    let transaction = begin(&deployment.db).await?;
    let mut counts = Counts::new();
    for again in files {
        if !switch(&transaction, again).await? {
            transaction.rollback().await?;
            let path = &again.former.path;
            return Err(Error::Overtaken(format!("the archive's file {path} changed")));
        }
    }
    counts.insert("archive_file".to_owned(), files.len() as u64);
    let events = gone.values().map(|&events| u64::from(events)).sum();
    counts.insert("archived_event".to_owned(), events);
    commit::count_gone(&transaction, gone).await?;
    erasure::event::count(&transaction, gone).await?;
    switch_commit_files(&transaction, commits).await?;
    let entries = archived_entry::Entity::delete_many()
        .filter(archived_entry::Column::BoardNo.eq(place.board_no))
        .filter(archived_entry::Column::Partition.eq(place.partition))
        .filter(archived_entry::Column::Member.eq(member));
    let entries = entries.exec(&transaction).await?.rows_affected;
    counts.insert("archived_entry".to_owned(), entries);
    let metadata = archived_metadata::Entity::delete_many()
        .filter(archived_metadata::Column::BoardNo.eq(place.board_no))
        .filter(archived_metadata::Column::Member.eq(member));
    let metadata = metadata.exec(&transaction).await?.rows_affected;
    counts.insert("archived_metadata".to_owned(), metadata);
    if !erasure::add_counts(&transaction, row, &counts).await? {
        transaction.rollback().await?;
        return Err(Error::Overtaken("this erasure is over".into()));
    }
    Ok(transaction.commit().await?)
}

/// Puts a file in the place of another one, which is as one that was never decided from here on.
/// Returns false if one of the two has changed.
async fn switch(transaction: &DatabaseTransaction, again: &Again) -> Result<bool, DbErr> {
    let Again { former, written } = again;
    use archive_file::Column::{Bytes, Events, Path, Sha256, State as Of};
    let named = archive_file::Entity::delete_many()
        .filter(Path.eq(&written.path))
        .filter(Of.eq(State::Writing))
        .exec(transaction)
        .await?;
    let replaced = archive_file::Entity::update_many()
        .col_expr(Path, Expr::value(written.path.clone()))
        .col_expr(Events, Expr::value(written.events))
        .col_expr(Bytes, Expr::value(written.bytes))
        .col_expr(Sha256, Expr::value(written.sha256.clone()))
        .filter(Path.eq(&former.path))
        .filter(Sha256.eq(&former.sha256))
        .filter(Of.eq(former.state))
        .exec(transaction)
        .await?;
    let due = Again::named(former, former.path.clone(), written.created_at_ms);
    archive_file::Entity::insert(due.into_active_model())
        .exec_without_returning(transaction)
        .await?;
    Ok((named.rows_affected, replaced.rows_affected) == (1, 1))
}
