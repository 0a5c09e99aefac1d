//! The SQL side of the lake: which events it lacks, the transactions that make files part of it,
//! and the files that have events of a member.
//!
//! 1. `begin` says in `mirror_mark` up to where a run reads. From there on an erasure waits.
//! 2. `name` names a file before it exists.
//! 3. `decide` makes the file part of the lake once it was read back, in one transaction, unless an
//!    erasure, an archive or a deletion came in between.
//! 4. `end` moves the mark past events of other boards.
//!
//! No event leaves SQL. A run that ends early leaves files that count nowhere: `due` lists them.

use std::collections::BTreeMap;

use ranking::id::{BoardNo, PartitionNo};
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, Condition, ConnectionTrait, DatabaseTransaction, DbErr,
    EntityTrait, IntoActiveModel, QueryFilter, QueryOrder, QuerySelect, QueryTrait, Value,
};

use crate::deployment::Deployment;
use entity::archive::archive_mark;
use entity::board;
use entity::error::{Error, Result};
use entity::history::{dead_letter, log_cursor, score_event};
use entity::member::erasure::{self, Counts};
use entity::mirror::mirror_file::{self, State};
use entity::mirror::{mirror_mark, mirror_place};
use entity::sql::dialect::statement;
use entity::sql::{begin as begin_transaction, insert_chunked};

/// The count of an erasure that says that the lake has nothing of the member any more: the files
/// that were looked through.
const CHECKED: &str = "mirror_checked";

/// The seqs without events of a board after which its mark moves past them. Each move is a write.
const IDLE_SEQS_MAX: i64 = 10_000;

/// The events of a board's partition that the lake lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// The board.
    pub board: BoardNo,
    /// The partition.
    pub partition: PartitionNo,
    /// The last seq that is in the lake.
    pub after_seq: i64,
    /// The last seq that SQL has for good.
    pub through_seq: i64,
    /// Events up to this seq are in the archive.
    pub archived_seq: i64,
}

/// The outcome of [`decide`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    /// The file is part of the lake.
    Mirrored,
    /// The board was archived since, or another run was first: begin again.
    Overtaken,
    /// A member is being erased: nothing is mirrored until that is over.
    Erasing,
    /// The board is deleted.
    Deleted,
}

/// Says that the events that the lake lacks are being read; `None` if it lacks none.
///
/// # Errors
/// If SQL does not answer.
pub async fn begin(
    deployment: &Deployment,
    board: BoardNo,
    partition: PartitionNo,
) -> Result<Option<Reach>> {
    let db = &deployment.db;
    let after_seq = mirror_mark::mirrored_seq(db, board, partition).await?;
    let mut through_seq = log_cursor::of(db, partition).await?.map_or(0, |cursor| cursor.seq);
    for letter in dead_letter::pending(db, Some(partition)).await? {
        through_seq = Ord::min(through_seq, letter.seq - 1);
    }
    if through_seq <= after_seq {
        return Ok(None);
    }
    let archived_seq = archive_mark::of(db, board, partition).await?.archived_seq;
    let reach = Reach { board, partition, after_seq, through_seq, archived_seq };
    let lacks = archived_seq > after_seq || lacking(&reach).one(db).await?.is_some();
    if !lacks && through_seq - after_seq < IDLE_SEQS_MAX {
        return Ok(None);
    }
    let mark = mirror_mark::ActiveModel {
        board_no: Set(board.0),
        partition: Set(partition.into()),
        mirrored_seq: Set(after_seq),
        reading_seq: Set(through_seq),
    };
    use mirror_mark::Column::{BoardNo as No, Partition as In, ReadingSeq};
    let reading = OnConflict::columns([No, In]).update_column(ReadingSeq).to_owned();
    insert_chunked::<mirror_mark::Entity, _>(db, vec![mark], Some(reading)).await?;
    Ok(Some(reach))
}

/// The events in SQL that the lake lacks.
fn lacking(reach: &Reach) -> sea_orm::Select<score_event::Entity> {
    let after_seq = Ord::max(reach.after_seq, reach.archived_seq);
    of_seqs(reach.board, reach.partition, after_seq, reach.through_seq)
}

fn of_seqs(
    board: BoardNo,
    partition: PartitionNo,
    after_seq: i64,
    through_seq: i64,
) -> sea_orm::Select<score_event::Entity> {
    use score_event::Column::{BoardNo as No, Partition as In, Seq};
    score_event::Entity::find()
        .filter(In.eq(i32::from(partition)))
        .filter(Seq.gt(after_seq))
        .filter(Seq.lte(through_seq))
        .filter(No.eq(board.0))
}

/// The number of a board's events in SQL after a seq, up to another.
///
/// # Errors
/// If SQL does not answer.
pub async fn count(
    db: &impl ConnectionTrait,
    board: BoardNo,
    partition: PartitionNo,
    (after_seq, through_seq): (i64, i64),
) -> Result<u64> {
    use sea_orm::PaginatorTrait;
    Ok(of_seqs(board, partition, after_seq, through_seq).count(db).await?)
}

/// Names a file before it exists.
///
/// # Errors
/// If SQL does not answer.
pub async fn name(db: &impl ConnectionTrait, file: &mirror_file::Model) -> Result<()> {
    mirror_file::Entity::insert(file.clone().into_active_model())
        .exec_without_returning(db)
        .await?;
    Ok(())
}

/// Makes a file part of the lake that was read back, and moves the mark to its last seq.
///
/// # Errors
/// If SQL does not answer.
pub async fn decide(
    deployment: &Deployment,
    reach: &Reach,
    file: &mirror_file::Model,
) -> Result<Decided> {
    let transaction = begin_transaction(&deployment.db).await?;
    let decided = decide_in(&transaction, reach, file).await?;
    if decided == Decided::Mirrored {
        transaction.commit().await?;
    } else {
        transaction.rollback().await?;
    }
    Ok(decided)
}

async fn decide_in(
    transaction: &DatabaseTransaction,
    reach: &Reach,
    file: &mirror_file::Model,
) -> Result<Decided> {
    if !move_mark(transaction, reach, (file.first_seq - 1, file.last_seq)).await?
        || !change_state(transaction, &file.path, State::Writing, State::Mirrored).await?
    {
        return Ok(Decided::Overtaken);
    }
    // An erasure that is recorded later waits for the mark, and then finds the file.
    if erasure::is_under_way(transaction).await? {
        return Ok(Decided::Erasing);
    }
    let living = board::living_of_numbers(transaction, &[reach.board.0]).await?;
    if living.is_empty() {
        return Ok(Decided::Deleted);
    }
    // Rows of archived events are deleted only after the archive's mark has moved past them.
    let archived = archive_mark::of(transaction, reach.board, reach.partition).await?;
    let is_same = archived.archived_seq == reach.archived_seq;
    Ok(if is_same { Decided::Mirrored } else { Decided::Overtaken })
}

async fn move_mark(
    db: &impl ConnectionTrait,
    reach: &Reach,
    (from_seq, to_seq): (i64, i64),
) -> Result<bool, DbErr> {
    use mirror_mark::Column::{BoardNo as No, MirroredSeq, Partition as In, ReadingSeq};
    let moved = mirror_mark::Entity::update_many()
        .col_expr(MirroredSeq, Expr::value(to_seq))
        .filter(No.eq(reach.board.0))
        .filter(In.eq(i32::from(reach.partition)))
        .filter(MirroredSeq.eq(from_seq))
        .filter(ReadingSeq.gte(to_seq))
        .exec(db)
        .await?;
    Ok(moved.rows_affected == 1)
}

async fn change_state(
    db: &impl ConnectionTrait,
    path: &str,
    from: State,
    to: State,
) -> Result<bool, DbErr> {
    let changed = mirror_file::Entity::update_many()
        .col_expr(mirror_file::Column::State, Expr::value(to))
        .filter(mirror_file::Column::Path.eq(path))
        .filter(mirror_file::Column::State.eq(from))
        .exec(db)
        .await?;
    Ok(changed.rows_affected == 1)
}

/// Ends the reading of a board's partition whose last file is decided: the rest has no events.
///
/// # Errors
/// If SQL does not answer.
pub async fn end(deployment: &Deployment, reach: &Reach, last_seq: i64) -> Result<()> {
    if last_seq < reach.through_seq {
        move_mark(&deployment.db, reach, (last_seq, reach.through_seq)).await?;
    }
    Ok(())
}

/// The files that are not part of the lake: of runs that ended early, of erasures, and of deleted
/// boards. Their removal is due.
///
/// # Errors
/// If SQL does not answer.
pub async fn due(db: &impl ConnectionTrait) -> Result<Vec<mirror_file::Model>> {
    use mirror_file::Column::{BoardNo as No, Path, State as Of};
    let due = Condition::any()
        .add(Of.ne(State::Mirrored))
        .add(No.in_subquery(deleted_boards().into_query()));
    Ok(mirror_file::Entity::find().filter(due).order_by_asc(Path).all(db).await?)
}

fn deleted_boards() -> sea_orm::Select<board::Entity> {
    board::Entity::find()
        .select_only()
        .column(board::Column::No)
        .filter(board::Column::DeletedAtMs.is_not_null())
}

/// Takes a file that is not part of the lake for removal. False if another run has decided it or
/// removed it meanwhile: a run that woke up late may come after the next one.
///
/// # Errors
/// If SQL does not answer.
pub async fn take(db: &impl ConnectionTrait, file: &mirror_file::Model) -> Result<bool> {
    match file.state {
        State::Former => Ok(true),
        state => Ok(change_state(db, &file.path, state, State::Former).await?),
    }
}

/// Lists a file for removal whose row another run has removed meanwhile.
///
/// # Errors
/// If SQL does not answer.
pub async fn give_up(db: &impl ConnectionTrait, file: &mirror_file::Model) -> Result<()> {
    let former = mirror_file::Model { state: State::Former, ..file.clone() };
    let path = mirror_file::Column::Path;
    let known = OnConflict::column(path).do_nothing_on([path]).to_owned();
    let rows = vec![former.into_active_model()];
    Ok(insert_chunked::<mirror_file::Entity, _>(db, rows, Some(known)).await?)
}

/// Forgets a file that was taken and removed.
///
/// # Errors
/// If SQL does not answer.
pub async fn forget(db: &impl ConnectionTrait, file: &mirror_file::Model) -> Result<()> {
    mirror_file::Entity::delete_by_id(&file.path)
        .filter(mirror_file::Column::State.eq(State::Former))
        .exec(db)
        .await?;
    Ok(())
}

/// Forgets what runs that ended early were reading, and the marks of deleted boards. No other run
/// is under way.
///
/// # Errors
/// If SQL does not answer.
pub async fn forget_reading(db: &impl ConnectionTrait) -> Result<()> {
    use mirror_mark::Column::{BoardNo as No, MirroredSeq, ReadingSeq};
    mirror_mark::Entity::delete_many()
        .filter(No.in_subquery(deleted_boards().into_query()))
        .exec(db)
        .await?;
    mirror_mark::Entity::update_many()
        .col_expr(ReadingSeq, Expr::col(MirroredSeq))
        .filter(Expr::col(ReadingSeq).ne(Expr::col(MirroredSeq)))
        .exec(db)
        .await?;
    Ok(())
}

/// Forgets the whole lake, whose files were removed or stay where they are.
///
/// # Errors
/// If SQL does not answer.
pub async fn forget_all(deployment: &Deployment) -> Result<()> {
    let transaction = begin_transaction(&deployment.db).await?;
    mirror_file::Entity::delete_many().exec(&transaction).await?;
    mirror_mark::Entity::delete_many().exec(&transaction).await?;
    mirror_place::Entity::delete_many().exec(&transaction).await?;
    Ok(transaction.commit().await?)
}

/// True if an erasure goes on once the lake has nothing of its member, or no longer may have some.
///
/// # Errors
/// If SQL does not answer.
pub async fn is_in_the_way(
    db: &impl ConnectionTrait,
    row: &erasure::Model,
    member: &str,
) -> Result<bool> {
    if mirror_mark::is_reading(db).await? || !due(db).await?.is_empty() {
        return Ok(true);
    }
    let now = erasure::find(db, &row.id).await?;
    let is_checked = match now {
        Some(now) => now.counts()?.contains_key(CHECKED),
        None => false,
    };
    Ok(!is_checked && !of_member(db, member).await?.is_empty())
}

/// The files that have events of a member, or may have archived ones, in order. SQL tells as long
/// as it has the member's events.
///
/// # Errors
/// If SQL does not answer.
pub async fn of_member(
    db: &impl ConnectionTrait,
    member: &str,
) -> Result<Vec<mirror_file::Model>, DbErr> {
    let select = r#"SELECT f.* FROM "mirror_file" AS f WHERE f."state" = 'MIRRORED' AND (
        EXISTS (SELECT 1 FROM "score_event" AS e WHERE e."board_no" = f."board_no" AND e."member" = $1
            AND e."partition" = f."partition" AND e."seq" BETWEEN f."first_seq" AND f."last_seq")
        OR EXISTS (SELECT 1 FROM "archived_entry" AS a JOIN "archive_mark" AS m
            ON m."board_no" = a."board_no" AND m."partition" = a."partition"
            WHERE a."board_no" = f."board_no" AND a."partition" = f."partition" AND a."member" = $2
            AND f."first_seq" <= m."archived_seq"))
        ORDER BY f."path""#;
    let values: [Value; 2] = [member.into(), member.into()];
    let select = statement(db.get_database_backend(), select, values);
    mirror_file::Entity::find().from_raw_sql(select).all(db).await
}

/// Puts files without a member's events in the place of those with them, in one transaction, and
/// tells the receipt: of `checked` files, these were written again without so many events.
///
/// # Errors
/// `Overtaken` if the erasure or a file has changed since.
pub async fn replace(
    deployment: &Deployment,
    row: &erasure::Model,
    files: &[(mirror_file::Model, mirror_file::Model)],
    checked: usize,
) -> Result<()> {
    let transaction = begin_transaction(&deployment.db).await?;
    let mut gone = 0;
    for (former, written) in files {
        let is_switched = change_state(&transaction, &former.path, State::Mirrored, State::Former)
            .await?
            && change_state(&transaction, &written.path, State::Writing, State::Mirrored).await?;
        if !is_switched {
            transaction.rollback().await?;
            return Err(Error::Overtaken(format!("the lake's file {} changed", former.path)));
        }
        gone += former.events - written.events;
    }
    let counts: Counts = BTreeMap::from([
        (CHECKED.to_owned(), checked as u64),
        ("mirror_file".to_owned(), files.len() as u64),
        ("mirrored_event".to_owned(), gone.unsigned_abs()),
    ]);
    if !erasure::add_counts(&transaction, row, &counts).await? {
        transaction.rollback().await?;
        return Err(Error::Overtaken("this erasure is over".into()));
    }
    Ok(transaction.commit().await?)
}
