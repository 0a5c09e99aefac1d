//! The changes of a webhook that administrators make.

use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::{DatabaseTransaction, QuerySelect};

use super::circle::{self, Circle};
use super::{ActiveModel, Column, Entity, FORMER_SECRETS_MAX, Kind, Model, lane};
use crate::audit::Act;
use crate::error::Result;
use crate::sql::begin;

/// Gives a webhook the name, the address, the kinds and the board in which `row` differs from
/// `seen`, and a circle or none, if that is given, with the row of the audit log. A new kind begins
/// now, and so does another circle. Returns the changed row; `None` if the webhook is gone.
pub async fn update(
    db: &DatabaseConnection,
    seen: &Model,
    (row, circle): (&Model, Option<Option<Circle>>),
    partitions: u16,
    act: Act,
) -> Result<Option<Model>> {
    let transaction = begin(db).await?;
    let Some(before) = locked(&transaction, &row.id).await? else { return Ok(None) };
    // Another administrator may have changed the rest meanwhile.
    let changed = Model {
        name: changed(&seen.name, &row.name).unwrap_or(&before.name).clone(),
        url: changed(&seen.url, &row.url).unwrap_or(&before.url).clone(),
        types: changed(&seen.types, &row.types).unwrap_or(&before.types).clone(),
        board_no: *changed(&seen.board_no, &row.board_no).unwrap_or(&before.board_no),
        periods_since_ms: Ord::max(before.periods_since_ms, row.periods_since_ms),
        ..before.clone()
    };
    let set = ActiveModel {
        name: Set(changed.name.clone()),
        url: Set(changed.url.clone()),
        types: Set(changed.types.clone()),
        board_no: Set(changed.board_no),
        periods_since_ms: Set(changed.periods_since_ms),
        ..Default::default()
    };
    Entity::update_many().set(set).filter(Column::Id.eq(&row.id)).exec(&transaction).await?;
    match (before.asks_for(Kind::Score), changed.asks_for(Kind::Score)) {
        (false, true) => lane::begin_history(&transaction, &row.id, partitions).await?,
        (true, false) => lane::end_history(&transaction, &row.id).await?,
        _ => {}
    }
    let circle = match circle {
        Some(circle) => {
            circle::set(&transaction, &row.id, circle.as_ref()).await?;
            circle
        }
        None => circle::of(&transaction, &row.id).await?,
    };
    changed.of_act(circle.as_ref(), act).write(&transaction).await?;
    transaction.commit().await?;
    Ok(Some(changed))
}

/// The value that a caller changed, if it did.
fn changed<'v, T: PartialEq>(seen: &T, wanted: &'v T) -> Option<&'v T> {
    (seen != wanted).then_some(wanted)
}

/// Gives a webhook a new secret, with the row of the audit log. Those before it sign as well until
/// `until_ms`, and until an earlier overlap ends; without `until_ms` none does. Returns the changed
/// row; `None` if the webhook is gone.
pub async fn rotate(
    db: &DatabaseConnection,
    id: &str,
    secret: String,
    (now_ms, until_ms): (i64, Option<i64>),
    act: Act,
) -> Result<Option<Model>> {
    let transaction = begin(db).await?;
    let Some(before) = locked(&transaction, id).await? else { return Ok(None) };
    // The answer with the present one may have been lost, and the receiver still has one before.
    let former = before.secrets(now_ms).into_iter().take(FORMER_SECRETS_MAX);
    let former = until_ms.map(|_| former.collect::<Vec<_>>().join(" "));
    let still_ms = before.former_until_ms.filter(|still_ms| now_ms < *still_ms);
    let row = Model {
        secret,
        former_secret: former,
        former_until_ms: until_ms.map(|until_ms| Ord::max(until_ms, still_ms.unwrap_or(until_ms))),
        ..before
    };
    let set = ActiveModel {
        secret: Set(row.secret.clone()),
        former_secret: Set(row.former_secret.clone()),
        former_until_ms: Set(row.former_until_ms),
        ..Default::default()
    };
    Entity::update_many().set(set).filter(Column::Id.eq(id)).exec(&transaction).await?;
    let circle = circle::of(&transaction, id).await?;
    row.of_act(circle.as_ref(), act).write(&transaction).await?;
    transaction.commit().await?;
    Ok(Some(row))
}

/// The webhook of an id, which no other transaction changes meanwhile.
async fn locked(transaction: &DatabaseTransaction, id: &str) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(id).lock_exclusive().one(transaction).await
}
