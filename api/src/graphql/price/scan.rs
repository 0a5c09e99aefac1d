//! The price of rows that SQL passes on its way to a position.

use async_graphql::Context;
use ranking::store::read::Standings;

use super::{AROUND_SELECTS, LookUp, ROWS_SKIPPED, SELECT, is_counted, level};
use crate::error::{Error, Result};
use crate::graphql::request::{app, state};

/// The most points of the rows before a position: one alone is never refused.
const POSITION_MAX: u64 = 100_000;

/// Reads entries and, where SQL finds them by their position, pays for the rows that it passed:
/// `position` tells how many. The request shares them with no other read of its own.
///
/// # Errors
/// `LIMIT_EXCEEDED` if the request's points are spent; the error of the read.
pub(crate) async fn scanned<T, E>(
    ctx: &Context<'_>,
    read: &Standings,
    reading: impl Future<Output = std::result::Result<T, E>>,
    position: impl FnOnce(&T) -> u64,
) -> Result<T>
where
    Error: From<E>,
{
    if !is_counted(app(ctx), read) {
        return Ok(reading.await?);
    }
    let _place = state(ctx).budget.scan().await;
    let found = state(ctx).budget.settle(reading).await?;
    state(ctx).owe(rows_before(position(&found))).await?;
    Ok(found)
}

/// As [`scanned`], for a read that shares its rows with those of the fields of its level.
///
/// # Errors
/// As [`scanned`].
pub(crate) async fn counted<T>(
    ctx: &Context<'_>,
    read: &Standings,
    reading: impl Future<Output = Result<T>>,
    position: impl FnOnce(&T) -> u64,
) -> Result<T> {
    if !is_counted(app(ctx), read) {
        return reading.await;
    }
    let found = match state(ctx).loaders.is_new(&LookUp::Counted(&read.id, level(ctx))) {
        true => {
            state(ctx).spend(AROUND_SELECTS * SELECT).await?;
            state(ctx).budget.settle(reading).await?
        }
        false => reading.await?,
    };
    pay_position(ctx, read, position(&found)).await?;
    Ok(found)
}

/// Pays for the rows that SQL counted before a position, once it is known. Counts of fields of one
/// level share their scans.
///
/// # Errors
/// `LIMIT_EXCEEDED` if the request's points are spent.
pub(crate) async fn pay_position(ctx: &Context<'_>, read: &Standings, position: u64) -> Result<()> {
    let (state, depth) = (state(ctx), position.checked_ilog2().unwrap_or(0));
    let look_up = LookUp::Position(&read.id, depth, level(ctx));
    if !is_counted(app(ctx), read) || !state.loaders.is_new(&look_up) {
        return Ok(());
    }
    state.owe(rows_before(position)).await
}

/// The rows of SQL before a position.
fn rows_before(position: u64) -> u64 {
    (position / ROWS_SKIPPED).min(POSITION_MAX)
}
