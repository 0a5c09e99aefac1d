//! Checks whether a board can move, and waits for obstacles that pass by themselves.

use std::time::{Duration, Instant};

use ranking::window::seal::NEVER_MS;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use tokio::time::sleep;

use super::{invalid, take_over};
use crate::deployment::Deployment;
use entity::archive::archive_mark;
use entity::board;
use entity::deployment::clock::sql_now_ms;
use entity::error::Result;
use entity::history::dead_letter;
use entity::member::erasure;

/// The pause between two checks.
const PAUSE: Duration = Duration::from_millis(200);

/// The time limit for obstacles that may pass, such as a seal.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The row of a board that is not moving; `None` if it was deleted. Waits for a move to end, and
/// takes over one whose lease has expired.
///
/// # Errors
/// `Invalid` if the move does not end in time.
pub async fn at_rest(deployment: &Deployment, no: i64) -> Result<Option<board::Model>> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let living = board::living().filter(board::Column::No.eq(no));
        let row = living.one(&deployment.db).await?;
        let Some(moving) = row.as_ref().filter(|row| row.reshard.is_some()) else {
            return Ok(row);
        };
        wait(deployment, moving, IS_MOVING, deadline).await?;
    }
}

/// Waits a little for an obstacle to pass, or takes over a move whose lease has expired.
async fn wait(
    deployment: &Deployment,
    row: &board::Model,
    reason: &str,
    deadline: Instant,
) -> Result<()> {
    if Instant::now() >= deadline {
        return Err(invalid(format!("board {}: {reason}", row.slug)));
    }
    if let Some(until_ms) = row.reshard_until_ms
        && until_ms < sql_now_ms(&deployment.db).await?
    {
        return take_over(deployment, row.clone(), &|_| {}).await;
    }
    sleep(PAUSE).await;
    Ok(())
}

/// The obstacle of a move under way.
const IS_MOVING: &str = "it is moving to another number of shards; wait until it is done";

/// The row of a board that is not moving, being filled, sealed or archived.
pub(super) async fn ready(deployment: &Deployment, no: i64) -> Result<board::Model> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let row = board::living().filter(board::Column::No.eq(no)).one(&deployment.db).await?;
        let row = row.ok_or(ranking::Error::BoardGone)?;
        let reason = match obstacle(deployment, &row).await? {
            None => return Ok(row),
            Some(reason) => reason,
        };
        wait(deployment, &row, reason, deadline).await?;
    }
}

/// The obstacle to moving a board now. An obstacle that does not pass by itself is an error.
async fn obstacle(deployment: &Deployment, row: &board::Model) -> Result<Option<&'static str>> {
    if row.reshard.is_some() {
        return Ok(Some(IS_MOVING));
    }
    if erasure::is_under_way(&deployment.db).await? {
        return Ok(Some("a member is being erased; move it afterwards"));
    }
    let archived = archive_mark::Entity::find()
        .filter(archive_mark::Column::BoardNo.eq(row.no))
        .one(&deployment.db)
        .await?;
    if archived.is_some() || row.archived_before_ms.is_some() {
        return Err(invalid(format!(
            "events of board {} are archived or being archived: only boards with all their events in the database can move",
            row.slug
        )));
    }
    for window in row.window_rows()? {
        let sealed = window.sealed();
        if !window.is_settled() {
            return Ok(Some("one of its windows is being filled or dropped; move it afterwards"));
        }
        let dropped_before_ms = window.dropped_before_ms.unwrap_or(NEVER_MS);
        if sealed.sealing_before_ms != sealed.sealed_before_ms
            || sealed.sealed_before_ms != dropped_before_ms
        {
            return Ok(Some("its past periods are being sealed; move it afterwards"));
        }
    }
    if has_refused(deployment, row.no).await? {
        return Ok(Some(
            "the database refused one of its events; move it once the background work has voided the event",
        ));
    }
    Ok(None)
}

/// True if a board has refused events that still count in Redis.
pub(super) async fn has_refused(deployment: &Deployment, no: i64) -> Result<bool> {
    for letter in dead_letter::pending(&deployment.db, None).await? {
        if letter.event()?.1.board.0 == no {
            return Ok(true);
        }
    }
    Ok(false)
}
