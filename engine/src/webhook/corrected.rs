//! Corrections of final standings that were told, told to the webhooks that ask for them.
//!
//! The persister notes each change of the history that is older than an end that was told. Then the
//! standings are read again. If they are others than the ones that were told last, one transaction
//! raises the version of the period by compare-and-set, and writes the events: each version once,
//! and only what differs from the one before.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use entity::board;
use entity::error::Result;
use entity::sql::begin;
use entity::webhook::outbox::{Asking, Notice, asking, tell_some};
use entity::webhook::{Kind, told_period};
use futures::stream::{self, StreamExt};
use ranking::commit::{Commit, EventKind};
use ranking::id::BoardNo;
use ranking::window::Window;
use sea_orm::{ConnectionTrait, DbErr};

use super::ended::{READ_TIMEOUT, final_from_ms, final_standings};
use crate::board::agenda::Agenda;
use crate::deployment::Deployment;
use crate::read::reader::Reader;

/// The periods of one look, and those that are read side by side.
const PERIODS_MAX: u64 = 1000;
const PERIODS_AT_ONCE: usize = 8;

/// A score counts as late if it is older than this when it is accepted, in milliseconds: less than
/// [`super::ended::GRACE_MS`] by as much as the clocks of two processes may differ.
const LATE_MS: i64 = 5000;

/// Notes the periods that commits may change after their ends were told. Part of the transaction
/// that writes the commits.
pub(crate) async fn note(db: &impl ConnectionTrait, commits: &[Commit]) -> Result<(), DbErr> {
    told_period::note_changes(db, &changed_since(commits)).await
}

/// The instant from which on commits change the past of each board, in Unix milliseconds. A removal
/// or a void may change all of it.
fn changed_since(commits: &[Commit]) -> BTreeMap<BoardNo, i64> {
    let mut since: BTreeMap<BoardNo, i64> = BTreeMap::new();
    for commit in commits {
        for event in &commit.events {
            let since_ms = match event.kind {
                EventKind::Score { at_ms, .. } if at_ms > commit.accepted_at_ms - LATE_MS => {
                    continue;
                }
                EventKind::Score { at_ms, .. } => at_ms,
                EventKind::Removal | EventKind::Void { .. } => i64::MIN,
            };
            let known = since.entry(event.board).or_insert(since_ms);
            *known = since_ms.min(*known);
        }
    }
    since
}

/// Tells of the periods whose final standings have changed since they were told. Looks at no period
/// unless a webhook asks for corrections.
///
/// # Errors
/// If SQL fails, or the last period that failed. It does not stop the others.
pub async fn tell_corrected(deployment: &Deployment, agenda: &Agenda, now_ms: i64) -> Result<()> {
    if agenda.signs().webhooks == 0 {
        return Ok(());
    }
    let asking = &asking(&deployment.db, Kind::PeriodCorrected).await?;
    if asking.is_empty() {
        return Ok(());
    }
    let changed = told_period::changed(&deployment.db, PERIODS_MAX).await?;
    let mut numbers: Vec<i64> = changed.iter().map(|told| told.board_no).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let boards = &board::living_of_numbers(&deployment.db, &numbers).await?;
    let reader = &Reader::new(deployment, READ_TIMEOUT);
    let failed = Mutex::new(None);
    let telling = stream::iter(changed).for_each_concurrent(PERIODS_AT_ONCE, async |told| {
        let Some(row) = boards.get(&told.board_no) else { return };
        if let Err(error) = tell((deployment, reader), row, &told, asking, now_ms).await {
            let (board, window) = (&row.slug, &told.window);
            tracing::debug!(board, window, %error, "the correction of a period waits");
            failed.lock().unwrap_or_else(PoisonError::into_inner).replace(error);
        }
    });
    telling.await;
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Tells of a period, if it has changed.
async fn tell(
    (deployment, reader): (&Deployment, &Reader),
    row: &board::Model,
    told: &told_period::Model,
    asking: &[Asking],
    now_ms: i64,
) -> Result<()> {
    let board = row.to_ranking()?;
    let window: Window = told.window.parse()?;
    let period = window.period_at(told.start_ms, &board.rules.calendar)?;
    // A season may have been moved, and a window dropped.
    let is_known = board.rules.shown().any(|shown| shown == window)
        && (period.start_ms, period.end_ms) == (told.start_ms, Some(told.end_ms));
    if !is_known {
        told_period::settle(&deployment.db, told, (told.version, &told.digest)).await?;
        return Ok(());
    }
    if board.sealed(window).is_moving(&period) {
        return Ok(());
    }
    let found = final_standings((deployment, reader), (row, &board), window, &period).await?;
    let digest = found.digest();
    if digest == told.digest {
        told_period::settle(&deployment.db, told, (told.version, &digest)).await?;
        return Ok(());
    }
    let version = told.version.saturating_add(1);
    let transaction = begin(&deployment.db).await?;
    if !told_period::settle(&transaction, told, (version, &digest)).await? {
        return Ok(transaction.rollback().await?);
    }
    let final_ms = final_from_ms(row, told.end_ms);
    let wanted = asking
        .iter()
        .filter(|of| of.board_no.is_none_or(|no| no == row.no) && of.periods_since_ms < final_ms);
    let notice = Notice {
        kind: Kind::PeriodCorrected,
        board_no: Some(row.no),
        member: None,
        data: found.data(version),
        at_ms: now_ms,
    };
    tell_some(&transaction, &notice, wanted.map(|of| of.id.as_str())).await?;
    Ok(transaction.commit().await?)
}
