//! Deleting a board.
//!
//! The board's row is marked first, which frees the slug: from then on no client finds the board.
//! Then a commit tells each of its partitions, and from that commit on no score is accepted for it.
//! Once SQL has those commits, nothing of the board can follow, and its history, standings and keys
//! are deleted. Each step can be repeated. The row stays, as the number is never reused.

use std::collections::{BTreeMap, HashMap};

use ranking::board::mark::BoardMark;
use ranking::id::BoardNo;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, Condition, DatabaseConnection, EntityTrait, QueryFilter,
};

use crate::deployment::Deployment;
use crate::{reshard, seal};
use entity::archive::{archive_file, archive_mark};
use entity::audit::{Act, board_value};
use entity::board;
use entity::error::Result;
use entity::history::{commit, dead_letter, score_event, source_position};
use entity::integrity::{integrity_finding, integrity_proof};
use entity::sql::dialect::delete_returning;
use entity::sql::{begin, by_member};
use entity::webhook::outbox::{self, Notice};
use entity::webhook::{circle, ended_period, told_period};

/// The rows of one DELETE. Chunks let the persister write in between.
const ROWS_MAX: u64 = 5000;

/// Marks the board with a slug as deleted, which frees the slug, with the row of the audit log.
/// `None` if there is no such board.
pub async fn mark(deployment: &Deployment, slug: &str, act: Act) -> Result<Option<board::Model>> {
    let db = &deployment.db;
    let Some(row) = board::of_slug(db, slug).await? else { return Ok(None) };
    let deleted = board::ActiveModel {
        // An impossible slug.
        slug: Set(format!("~{}", row.no)),
        deleted_at_ms: Set(Some(deployment.clock.now_ms())),
        ..Default::default()
    };
    let still_there = Condition::all()
        .add(board::Column::No.eq(row.no))
        .add(board::Column::DeletedAtMs.is_null());
    let transaction = begin(db).await?;
    let marking = board::Entity::update_many().set(deleted).filter(still_there);
    if marking.exec(&transaction).await?.rows_affected != 1 {
        transaction.rollback().await?;
        return Ok(None);
    }
    outbox::tell(&transaction, &[Notice::of_board(&row, "DELETED", act.at_ms())]).await?;
    act.on(&row).before(board_value(&row)).write(&transaction).await?;
    transaction.commit().await?;
    Ok(Some(row))
}

/// A board, by number, if it is marked as deleted and not yet purged.
pub async fn left_over(deployment: &Deployment, no: i64) -> Result<Option<board::Model>> {
    let row = board::find(&deployment.db, no).await?;
    Ok(row.filter(|row| row.deleted_at_ms.is_some() && row.purged_at_ms.is_none()))
}

/// Deletes all data of a board marked as deleted: events in flight, history, standings, keys.
///
/// # Errors
/// If a store fails; call it again.
pub async fn purge(deployment: &Deployment, row: &board::Model) -> Result<()> {
    let board = row.to_ranking()?;
    let partitions = reshard::partitions(deployment, row)?;
    for &partition in &partitions {
        partition.mark(board.no, BoardMark::Deleted).await?;
        partition.settle().await?;
    }
    purge_sql(deployment, board.no).await?;
    seal::purge(deployment, board.no, None).await?;
    // Last: writers that knew the board have been refused since the mark, so no new keys can
    // appear.
    for &partition in &partitions {
        partition.drop_keys(&board, |_| true).await?;
    }
    let purged = board::ActiveModel {
        no: Set(row.no),
        title: Set(String::new()),
        purged_at_ms: Set(Some(deployment.clock.now_ms())),
        ..Default::default()
    };
    board::Entity::update(purged).exec_without_returning(&deployment.db).await?;
    Ok(())
}

/// Deletes a board's events. Their commits keep the leaves, and count them as gone; but not those
/// of archived events that still have rows, as their files are counted once they are removed.
async fn purge_events(db: &DatabaseConnection, no: BoardNo) -> Result<()> {
    let marks = archive_mark::Entity::find().filter(archive_mark::Column::BoardNo.eq(no.0));
    let marks: HashMap<i32, i64> =
        marks.all(db).await?.into_iter().map(|mark| (mark.partition, mark.archived_seq)).collect();
    const KEY: (&str, usize) = (r#""partition", "seq", "event_index""#, 3);
    let of_board = || score_event::Entity::find().filter(score_event::Column::BoardNo.eq(no.0));
    // Deleting nothing does not mean that nothing is left: another process may be deleting the
    // same rows.
    while of_board().one(db).await?.is_some() {
        let some = format!(
            r#"SELECT {} FROM "score_event" WHERE "board_no" = $1 LIMIT {ROWS_MAX}"#,
            KEY.0
        );
        let transaction = begin(db).await?;
        let values = vec![no.0.into()];
        let deleted = delete_returning(&transaction, "score_event", KEY, &some, values).await?;
        let mut gone = BTreeMap::new();
        for row in deleted {
            let place: (i32, i64) = (row.try_get("", "partition")?, row.try_get("", "seq")?);
            if marks.get(&place.0).is_none_or(|&archived_seq| place.1 > archived_seq) {
                *gone.entry(place).or_default() += 1;
            }
        }
        commit::count_gone(&transaction, &gone).await?;
        transaction.commit().await?;
    }
    Ok(())
}

async fn purge_sql(deployment: &Deployment, no: BoardNo) -> Result<()> {
    let db = &deployment.db;
    const STANDING: (&str, &str) = ("standing", r#""board_no", "segment", "member""#);
    const ENTRANT: (&str, &str) = ("entrant", r#""board_no", "member""#);
    const BAN: (&str, &str) = ("ban_removal", r#""board_no", "member""#);
    const QUARANTINE: (&str, &str) = ("quarantined_score", r#""no""#);
    const REPORT: (&str, &str) = ("member_report", r#""no""#);
    let of_board = format!(r#""board_no" = {no}"#);
    by_member::delete(db, STANDING, &of_board, "TRUE").await?;
    by_member::delete_archived(db, Some(no.0), "TRUE").await?;
    purge_events(db, no).await?;
    by_member::delete_archived_metadata(db, no.0, "TRUE").await?;
    by_member::delete(db, ENTRANT, &of_board, "TRUE").await?;
    by_member::delete(db, BAN, &of_board, "TRUE").await?;
    by_member::delete(db, QUARANTINE, &of_board, "TRUE").await?;
    by_member::delete(db, REPORT, &of_board, "TRUE").await?;
    ended_period::delete_of(db, no.0).await?;
    told_period::delete_of(db, no.0).await?;
    circle::delete_of(db, no.0).await?;
    source_position::delete_of(db, no).await?;
    archive_mark::Entity::delete_many()
        .filter(archive_mark::Column::BoardNo.eq(no.0))
        .exec(db)
        .await?;
    // The next archive job removes the files. One that was never decided counts nowhere: its events
    // had rows.
    use archive_file::State::{Archived, Dropped};
    archive_file::Entity::update_many()
        .col_expr(archive_file::Column::State, Expr::value(archive_file::State::Gone))
        .filter(archive_file::Column::BoardNo.eq(no.0))
        .filter(archive_file::Column::State.is_in([Archived, Dropped]))
        .exec(db)
        .await?;
    integrity_finding::Entity::delete_many()
        .filter(integrity_finding::Column::BoardNo.eq(no.0))
        .exec(db)
        .await?;
    integrity_proof::Entity::delete_many()
        .filter(integrity_proof::Column::BoardNo.eq(no.0))
        .exec(db)
        .await?;
    for letter in dead_letter::Entity::find().all(db).await? {
        if letter.event().is_ok_and(|(_, event)| event.board == no) {
            let key = (letter.partition, letter.seq, letter.event_index);
            dead_letter::Entity::delete_by_id(key).exec(db).await?;
        }
    }
    Ok(())
}
