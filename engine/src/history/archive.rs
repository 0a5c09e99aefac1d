//! The SQL side of archiving: which events may leave SQL, the one transaction that makes files part
//! of the history, and the removal of rows.
//!
//! 1. `close` records in the board's row and in marks up to where events are archived. It then
//!    makes a commit in each partition; from there on, events up to the mark cannot be voided.
//! 2. The archive job writes files, `stage` stores the sums of their events, and `stage_metadata`
//!    what SQL keeps of them for the metadata of entries.
//! 3. `decide` makes both part of the history in one transaction: readers use files up to the mark,
//!    and `score_event` after it.
//! 4. `drop_events` deletes the rows that readers no longer use.
//!
//! A run that ends before the decision leaves nothing that counts; `forget` clears it away. The
//! next run finishes step 4 of a run that ended after it.
//!
//! Files are written again without the events of a member that is [erased](erasing).

pub mod erasing;
mod plan;

use std::collections::BTreeMap;

use ranking::id::{BoardNo, PartitionNo};
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, Condition, ConnectionTrait, DatabaseTransaction, DbErr,
    EntityTrait, IntoActiveModel, QueryFilter, QueryOrder, QuerySelect,
};

use crate::deployment::Deployment;
use entity::archive::archive_file::State;
use entity::archive::{archive_file, archive_mark, archived_entry, archived_metadata, commit_file};
use entity::board;
use entity::error::Result;
use entity::history::{commit, dead_letter, score_event};
use entity::member::ban::removal;
use entity::member::erasure;
use entity::member::merge;
use entity::sql::dialect::statement;
use entity::sql::{begin, by_member, insert_chunked, lock_cursor, set_windows};

pub use plan::plan;

/// The rows of one DELETE. Chunks let the persister write in between.
const ROWS_MAX: i64 = 5000;

/// Events of one partition to be archived: those after one seq, up to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The partition.
    pub partition: PartitionNo,
    /// The last seq that is already archived; 0 if none is.
    pub after_seq: i64,
    /// The last seq to be archived.
    pub through_seq: i64,
}

/// The events of a board to be archived.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The board's row at the time of the plan.
    pub row: board::Model,
    /// All these events were earned and accepted before this instant, in Unix milliseconds.
    pub before_ms: i64,
    /// The events, by partition.
    pub spans: Vec<Span>,
}

impl Plan {
    /// The instant, in Unix milliseconds, before which all archived events were earned once the
    /// plan is carried out.
    fn archived_before_ms(&self) -> i64 {
        let former = self.row.archived_before_ms.unwrap_or(i64::MIN);
        Ord::max(former, self.before_ms)
    }
}

/// Records that the events of a plan are being archived. Then waits until SQL has all commits of
/// writers that did not know. Returns false if the board has changed since the plan.
pub async fn close(deployment: &Deployment, plan: &Plan) -> Result<bool> {
    let transaction = begin(&deployment.db).await?;
    let held = set_windows(&plan.row, &plan.row.windows).exec(&transaction).await?;
    if held.rows_affected != 1 {
        transaction.rollback().await?;
        return Ok(false);
    }
    board::Entity::update_many()
        .set(board::ActiveModel {
            archived_before_ms: Set(Some(plan.archived_before_ms())),
            ..Default::default()
        })
        .filter(board::Column::No.eq(plan.row.no))
        .exec(&transaction)
        .await?;
    use archive_mark::Column::{BoardNo as No, ClosingSeq, Partition as In};
    let marks = plan.spans.iter().map(|span| archive_mark::ActiveModel {
        board_no: Set(plan.row.no),
        partition: Set(span.partition.into()),
        archived_seq: Set(span.after_seq),
        closing_seq: Set(span.through_seq),
        archived_before_ms: Set(None),
    });
    let closing = OnConflict::columns([No, In]).update_column(ClosingSeq).to_owned();
    insert_chunked::<archive_mark::Entity, _>(&transaction, marks.collect(), Some(closing)).await?;
    transaction.commit().await?;
    for span in &plan.spans {
        let partition = deployment.partition(span.partition);
        partition.commit_barrier(BoardNo(plan.row.no)).await?;
        partition.settle().await?;
    }
    Ok(true)
}

/// Makes the files of a plan part of the history in place of their rows in `score_event`, in one
/// transaction. Returns false if the board has changed.
pub async fn decide(deployment: &Deployment, plan: &Plan) -> Result<bool> {
    let transaction = begin(&deployment.db).await?;
    if decide_in(&transaction, plan).await? {
        transaction.commit().await?;
        return Ok(true);
    }
    transaction.rollback().await?;
    Ok(false)
}

async fn decide_in(transaction: &DatabaseTransaction, plan: &Plan) -> Result<bool, DbErr> {
    // The locks keep out changes of the windows, seals and deletion of the board, then persisters.
    // All transactions take them in this order.
    let held = set_windows(&plan.row, &plan.row.windows).exec(transaction).await?;
    if held.rows_affected != 1 {
        return Ok(false);
    }
    for span in &plan.spans {
        use archive_mark::Column::{
            ArchivedBeforeMs, ArchivedSeq, BoardNo as No, ClosingSeq, Partition as In,
        };
        lock_cursor(span.partition).exec(transaction).await?;
        let partition = i32::from(span.partition);
        let moved = archive_mark::Entity::update_many()
            .col_expr(ArchivedSeq, Expr::value(span.through_seq))
            .col_expr(ArchivedBeforeMs, Expr::value(plan.archived_before_ms()))
            .filter(No.eq(plan.row.no))
            .filter(In.eq(partition))
            .filter(ArchivedSeq.eq(span.after_seq))
            .filter(ClosingSeq.eq(span.through_seq))
            .exec(transaction)
            .await?;
        let refused = dead_letter::Entity::find()
            .filter(dead_letter::Column::Partition.eq(partition))
            .filter(dead_letter::Column::Seq.lte(span.through_seq))
            .filter(dead_letter::Column::State.eq(dead_letter::State::Pending))
            .one(transaction)
            .await?;
        let is_written = has_files(transaction, plan.row.no, span).await?;
        if moved.rows_affected != 1 || refused.is_some() || !is_written {
            return Ok(false);
        }
    }
    // A merge or a ban moves the cursors after its row is there, so it sees what is decided here.
    let banned = removal::any_of_board(transaction, plan.row.no).await?;
    let is_erasing = erasure::is_under_way(transaction).await?;
    if banned.is_some() || is_erasing || merge::is_under_way(transaction).await? {
        return Ok(false);
    }
    archive_file::Entity::update_many()
        .col_expr(archive_file::Column::State, Expr::value(State::Archived))
        .filter(archive_file::Column::BoardNo.eq(plan.row.no))
        .filter(archive_file::Column::State.eq(State::Writing))
        .exec(transaction)
        .await?;
    Ok(true)
}

/// True if files that were read back cover all seqs of a span.
async fn has_files(
    transaction: &DatabaseTransaction,
    board_no: i64,
    span: &Span,
) -> Result<bool, DbErr> {
    let files = archive_file::Entity::find()
        .filter(archive_file::Column::BoardNo.eq(board_no))
        .filter(archive_file::Column::Partition.eq(i32::from(span.partition)))
        .filter(archive_file::Column::State.eq(State::Writing))
        .order_by_asc(archive_file::Column::FirstSeq)
        .all(transaction)
        .await?;
    let mut through_seq = span.after_seq;
    for file in files {
        if file.first_seq != through_seq + 1 || file.sha256.is_empty() {
            return Ok(false);
        }
        through_seq = file.last_seq;
    }
    Ok(through_seq == span.through_seq)
}

/// Stores the sums of archived events; they count from the decision on.
pub async fn stage(
    deployment: &Deployment,
    entries: Vec<archived_entry::ActiveModel>,
) -> Result<()> {
    let transaction = begin(&deployment.db).await?;
    insert_chunked::<archived_entry::Entity, _>(
        &transaction,
        entries,
        Some(archived_entry::replace()),
    )
    .await?;
    Ok(transaction.commit().await?)
}

/// Stores what SQL keeps of archived events for the metadata of entries. Until the decision these
/// are copies of what the events' own rows have.
pub async fn stage_metadata(
    deployment: &Deployment,
    rows: Vec<archived_metadata::Model>,
) -> Result<()> {
    let rows = rows.into_iter().map(IntoActiveModel::into_active_model).collect();
    let replace = Some(archived_metadata::replace());
    insert_chunked::<archived_metadata::Entity, _>(&deployment.db, rows, replace).await?;
    Ok(())
}

/// Deletes the rows of a file's events in bounded steps, then records that they are gone. Returns
/// their number.
///
/// # Errors
/// If SQL fails; call it again.
pub async fn drop_events(
    deployment: &Deployment,
    file: &archive_file::Model,
    mut each: impl FnMut(u64),
) -> Result<u64> {
    use score_event::Column as E;
    let db = &deployment.db;
    let of_file = Condition::all()
        .add(E::Partition.eq(file.partition))
        .add(E::Seq.gte(file.first_seq))
        .add(E::Seq.lte(file.last_seq))
        .add(E::BoardNo.eq(file.board_no));
    let mut gone = 0;
    loop {
        // The seq after the next rows: a range of the primary key is faster than a list of keys.
        let end: Option<i64> = score_event::Entity::find()
            .select_only()
            .column(E::Seq)
            .filter(of_file.clone())
            .order_by_asc(E::Seq)
            .offset(ROWS_MAX as u64)
            .limit(1)
            .into_tuple()
            .one(db)
            .await?;
        let part = of_file.clone();
        let part = match end {
            // A commit has few events, so they all go in one step.
            Some(end) => part.add(E::Seq.lte(end)),
            None => part,
        };
        let deleted = score_event::Entity::delete_many().filter(part).exec(db).await?;
        gone += deleted.rows_affected;
        each(deleted.rows_affected);
        if end.is_none() {
            break;
        }
    }
    archive_file::Entity::update_many()
        .col_expr(archive_file::Column::State, Expr::value(State::Dropped))
        .filter(archive_file::Column::Path.eq(&file.path))
        .filter(archive_file::Column::State.eq(State::Archived))
        .exec(db)
        .await?;
    Ok(gone)
}

/// Deletes sums of earlier archives that a later one includes.
pub async fn drop_superseded(deployment: &Deployment) -> Result<()> {
    let later = r#"EXISTS (SELECT 1 FROM "archived_entry" AS l JOIN "archive_mark" AS m ON m."board_no" = l."board_no" AND m."partition" = l."partition"
        WHERE l."board_no" = e."board_no" AND l."partition" = e."partition" AND l."member" = e."member" AND l."segment" = e."segment"
        AND l."through_seq" > e."through_seq" AND l."through_seq" <= m."archived_seq")"#;
    Ok(by_member::delete_archived(&deployment.db, None, later).await?)
}

/// The files of an archive that ended early, or of a deleted board whose commits count their events
/// as gone. They count nowhere and are due for removal.
pub async fn abandoned(deployment: &Deployment) -> Result<Vec<archive_file::Model>> {
    Ok(archive_file::Entity::find()
        .filter(archive_file::Column::State.eq(State::Writing))
        .order_by_asc(archive_file::Column::Path)
        .all(&deployment.db)
        .await?)
}

/// The files of deleted boards whose events their commits do not count as gone yet.
pub async fn of_deleted_boards(deployment: &Deployment) -> Result<Vec<archive_file::Model>> {
    Ok(archive_file::Entity::find()
        .filter(archive_file::Column::State.eq(State::Gone))
        .all(&deployment.db)
        .await?)
}

/// Counts the events of a deleted board's file as gone, by partition and seq; from here on the file
/// is as one that was never decided. Files of commits that were written once more, with these
/// counts, take the place of those at their former paths.
pub async fn abandon(
    deployment: &Deployment,
    file: &archive_file::Model,
    gone: &BTreeMap<(i32, i64), u32>,
    again: &[(String, commit_file::Model)],
) -> Result<()> {
    let transaction = begin(&deployment.db).await?;
    let abandoned = archive_file::Entity::update_many()
        .col_expr(archive_file::Column::State, Expr::value(State::Writing))
        .filter(archive_file::Column::Path.eq(&file.path))
        .filter(archive_file::Column::State.eq(State::Gone))
        .exec(&transaction)
        .await?;
    if abandoned.rows_affected == 1 {
        commit::count_gone(&transaction, gone).await?;
        switch_commit_files(&transaction, again).await?;
    }
    Ok(transaction.commit().await?)
}

/// Puts files of commits that were written once more in the place of those at their former paths.
async fn switch_commit_files(
    transaction: &DatabaseTransaction,
    again: &[(String, commit_file::Model)],
) -> Result<(), DbErr> {
    use commit_file::Column::{Bytes, Path, Sha256};
    for (former, file) in again {
        commit_file::Entity::update_many()
            .col_expr(Path, Expr::value(file.path.clone()))
            .col_expr(Bytes, Expr::value(file.bytes))
            .col_expr(Sha256, Expr::value(file.sha256.clone()))
            .filter(Path.eq(former))
            .exec(transaction)
            .await?;
    }
    Ok(())
}

/// Deletes the rows that are left of archives that ended before their decision, and of deleted
/// boards whose files [`abandon`] counted. These files must be gone already.
pub async fn forget(deployment: &Deployment) -> Result<()> {
    let db = &deployment.db;
    archive_file::Entity::delete_many()
        .filter(archive_file::Column::State.eq(State::Writing))
        .exec(db)
        .await?;
    let unknown = |seq: &str| {
        format!(
            r#"NOT EXISTS (SELECT 1 FROM "archive_mark" AS m
        WHERE m."board_no" = e."board_no" AND m."partition" = e."partition" AND m."archived_seq" >= e."{seq}")"#
        )
    };
    by_member::delete_archived(db, None, &unknown("through_seq")).await?;
    let unknown = unknown("seq");
    let boards =
        format!(r#"SELECT DISTINCT e."board_no" FROM "archived_metadata" AS e WHERE {unknown}"#);
    for board in db.query_all_raw(statement(db.get_database_backend(), boards, [])).await? {
        by_member::delete_archived_metadata(db, board.try_get_by_index(0)?, &unknown).await?;
    }
    use archive_mark::Column::{ArchivedSeq, ClosingSeq};
    archive_mark::Entity::update_many()
        .col_expr(ClosingSeq, Expr::col(ArchivedSeq))
        .filter(Expr::col(ClosingSeq).ne(Expr::col(ArchivedSeq)))
        .exec(db)
        .await?;
    Ok(())
}

/// The files whose events may still have rows.
pub async fn undropped(deployment: &Deployment) -> Result<Vec<archive_file::Model>> {
    Ok(archive_file::Entity::find()
        .filter(archive_file::Column::State.eq(State::Archived))
        .order_by_asc(archive_file::Column::Path)
        .all(&deployment.db)
        .await?)
}
