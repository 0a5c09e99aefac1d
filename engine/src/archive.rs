//! What SQL has to do with archiving: which events may leave it, the one transaction that says that they have, and their rows going.
//!
//! 1. `close` says in the board's row and in marks how far is archived. From a partition's next commit on, which it makes, nobody voids an event up to there.
//! 2. Somebody writes files, and `stage` what the events add up to.
//! 3. `decide` makes both part of the history, in one transaction: readers look at files up to the mark, and at `score_event` after it.
//! 4. `drop_events` takes away the rows that nobody looks at any more.
//!
//! A run that ends before the decision leaves nothing that counts: `forget` clears it away. One that ends after it is finished by step 4.

mod plan;

use ranking::id::{BoardNo, Partition};
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, Condition, DatabaseTransaction, DbErr, EntityTrait, QueryFilter,
    QueryOrder, QuerySelect, TransactionTrait,
};

use crate::deployment::Deployment;
use crate::partition::barrier;
use crate::partition::recovery::settle;
use entity::archive::archive_file::{ARCHIVED, DROPPED, GONE, WRITING};
use entity::archive::{archive_file, archive_mark, archived_entry};
use entity::error::Result;
use entity::history::{dead_letter, score_event};
use entity::sql::insert_chunked;
use entity::sql::{cursor_lock, set_windows};
use entity::{board, by_member};

pub use plan::plan;

/// How many rows one statement takes away: the persister writes between two of them.
const ROWS_MAX: i64 = 5000;

/// Events of one partition that are to be archived: those after one seq, up to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The partition.
    pub partition: Partition,
    /// The last seq that is archived already; 0 for none.
    pub after_seq: i64,
    /// The last seq to be archived.
    pub through_seq: i64,
}

/// What of a board is to be archived.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The board as it is then.
    pub row: board::Model,
    /// All events are earned before it and accepted before it, in Unix milliseconds.
    pub before_ms: i64,
    /// Where they are.
    pub spans: Vec<Span>,
}

impl Plan {
    /// Before which instant, in Unix milliseconds, all events are earned that are archived then.
    fn archived_before_ms(&self) -> i64 {
        let former = self.row.archived_before_ms.unwrap_or(i64::MIN);
        Ord::max(former, self.before_ms)
    }
}

/// Says that the events of a plan are being archived, and waits until SQL has whatever was done by somebody who did not know; whether the board was still
/// as planned.
pub async fn close(deployment: &Deployment, plan: &Plan) -> Result<bool> {
    let transaction = deployment.db.begin().await?;
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
        partition: Set(span.partition.0.into()),
        archived_seq: Set(span.after_seq),
        closing_seq: Set(span.through_seq),
        archived_before_ms: Set(None),
    });
    let closing = OnConflict::columns([No, In]).update_column(ClosingSeq).to_owned();
    insert_chunked::<archive_mark::Entity, _>(&transaction, marks.collect(), Some(closing)).await?;
    transaction.commit().await?;
    for span in &plan.spans {
        barrier::pass(deployment, span.partition, BoardNo(plan.row.no)).await?;
        settle(deployment, span.partition).await?;
    }
    Ok(true)
}

/// Makes the files of a plan part of the history, and the events in them no part of `score_event`, at one moment; whether it did, or the board was changed
/// meanwhile.
pub async fn decide(deployment: &Deployment, plan: &Plan) -> Result<bool> {
    let transaction = deployment.db.begin().await?;
    if decide_in(&transaction, plan).await? {
        transaction.commit().await?;
        return Ok(true);
    }
    transaction.rollback().await?;
    Ok(false)
}

async fn decide_in(transaction: &DatabaseTransaction, plan: &Plan) -> Result<bool, DbErr> {
    // Whoever changes the windows, seals or deletes the board waits; then persisters do. In the same order as everywhere.
    let held = set_windows(&plan.row, &plan.row.windows).exec(transaction).await?;
    if held.rows_affected != 1 {
        return Ok(false);
    }
    for span in &plan.spans {
        use archive_mark::Column::{
            ArchivedBeforeMs, ArchivedSeq, BoardNo as No, ClosingSeq, Partition as In,
        };
        cursor_lock(span.partition).exec(transaction).await?;
        let partition = i32::from(span.partition.0);
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
            .filter(dead_letter::Column::State.eq("PENDING"))
            .one(transaction)
            .await?;
        let is_written = has_files(transaction, plan.row.no, span).await?;
        if moved.rows_affected != 1 || refused.is_some() || !is_written {
            return Ok(false);
        }
    }
    archive_file::Entity::update_many()
        .col_expr(archive_file::Column::State, Expr::value(ARCHIVED))
        .filter(archive_file::Column::BoardNo.eq(plan.row.no))
        .filter(archive_file::Column::State.eq(WRITING))
        .exec(transaction)
        .await?;
    Ok(true)
}

/// Whether files that were read back stand for all seqs of a span.
async fn has_files(
    transaction: &DatabaseTransaction,
    board_no: i64,
    span: &Span,
) -> Result<bool, DbErr> {
    let files = archive_file::Entity::find()
        .filter(archive_file::Column::BoardNo.eq(board_no))
        .filter(archive_file::Column::Partition.eq(i32::from(span.partition.0)))
        .filter(archive_file::Column::State.eq(WRITING))
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

/// Stages what archived events add up to; it counts from the decision on.
pub async fn stage(
    deployment: &Deployment,
    entries: Vec<archived_entry::ActiveModel>,
) -> Result<()> {
    let transaction = deployment.db.begin().await?;
    insert_chunked::<archived_entry::Entity, _>(
        &transaction,
        entries,
        Some(archived_entry::replace()),
    )
    .await?;
    Ok(transaction.commit().await?)
}

/// Takes away the rows of a file's events, in bounded steps, and then says so. Gives back how many there were.
///
/// # Errors
/// What SQL says; call it again.
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
        // The seq behind so many rows: a range of the primary key goes faster than a list of keys.
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
            // A commit's events are few: all of them go at once.
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
        .col_expr(archive_file::Column::State, Expr::value(DROPPED))
        .filter(archive_file::Column::Path.eq(&file.path))
        .filter(archive_file::Column::State.eq(ARCHIVED))
        .exec(db)
        .await?;
    Ok(gone)
}

/// Takes away what earlier archives added up to, where a later one has it.
pub async fn drop_superseded(deployment: &Deployment) -> Result<()> {
    let later = r#"EXISTS (SELECT 1 FROM "archived_entry" AS l JOIN "archive_mark" AS m ON m."board_no" = l."board_no" AND m."partition" = l."partition"
        WHERE l."board_no" = e."board_no" AND l."partition" = e."partition" AND l."member" = e."member" AND l."segment" = e."segment"
        AND l."through_seq" > e."through_seq" AND l."through_seq" <= m."archived_seq")"#;
    Ok(by_member::delete_archived(&deployment.db, None, later).await?)
}

/// The files that are left of an archive that ended early, or of a board that was deleted: they are to be removed, and are no part of anything.
pub async fn abandoned(deployment: &Deployment) -> Result<Vec<archive_file::Model>> {
    Ok(archive_file::Entity::find()
        .filter(archive_file::Column::State.is_in([WRITING, GONE]))
        .order_by_asc(archive_file::Column::Path)
        .all(&deployment.db)
        .await?)
}

/// Forgets what is left in SQL of archives that ended before their decision, and of boards that were deleted; their files are removed already.
pub async fn forget(deployment: &Deployment) -> Result<()> {
    let db = &deployment.db;
    archive_file::Entity::delete_many()
        .filter(archive_file::Column::State.is_in([WRITING, GONE]))
        .exec(db)
        .await?;
    let unknown = r#"NOT EXISTS (SELECT 1 FROM "archive_mark" AS m
        WHERE m."board_no" = e."board_no" AND m."partition" = e."partition" AND m."archived_seq" >= e."through_seq")"#;
    by_member::delete_archived(db, None, unknown).await?;
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
        .filter(archive_file::Column::State.eq(ARCHIVED))
        .order_by_asc(archive_file::Column::Path)
        .all(&deployment.db)
        .await?)
}
