//! Work that a deployment does once a day, however many processes it has: the process that moves
//! the row on does the work.

use sea_orm::entity::prelude::*;
use sea_orm::{ActiveValue::Set, Condition, IntoActiveModel};

use crate::error::Result;
use crate::sql::insert_new;

/// The most attempts a day.
pub const ATTEMPTS_MAX: i32 = 3;

/// The pause from the start of an attempt to the next one, in milliseconds.
pub const AGAIN_MS: i64 = 600_000;

/// A day, in milliseconds.
const DAY_MS: i64 = 86_400_000;

/// A row of `schedule`.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "schedule")]
pub struct Model {
    /// The name of the work.
    #[sea_orm(primary_key, auto_increment = false)]
    pub name: String,
    /// The last due time, in Unix milliseconds.
    pub due_at_ms: i64,
    /// Start of the last attempt, in Unix milliseconds.
    pub taken_at_ms: i64,
    /// The number of attempts since it was due.
    pub attempts: i32,
    /// True once the work is done.
    pub finished: bool,
}

no_relations!();

/// The last instant, in Unix milliseconds, at which work of a given minute of each UTC day was due.
pub fn last_due_ms(minute_of_day: u16, now_ms: i64) -> i64 {
    let offset_ms = i64::from(minute_of_day) * 60_000;
    (now_ms - offset_ms).div_euclid(DAY_MS) * DAY_MS + offset_ms
}

/// Claims the work that was due at an instant. Returns true to one caller only. If the work is not
/// done [`AGAIN_MS`] later, the next caller may claim another of the [`ATTEMPTS_MAX`] attempts.
pub async fn take(
    db: &DatabaseConnection,
    name: &str,
    due_at_ms: i64,
    now_ms: i64,
) -> Result<bool> {
    let mut taken = Model {
        name: name.to_owned(),
        due_at_ms,
        taken_at_ms: now_ms,
        attempts: 1,
        finished: false,
    };
    let Some(row) = Entity::find_by_id(name).one(db).await? else {
        return Ok(insert_new(db, taken.into_active_model(), [Column::Name]).await?);
    };
    if row.due_at_ms == due_at_ms {
        let is_over = row.finished || row.attempts >= ATTEMPTS_MAX;
        if is_over || now_ms - row.taken_at_ms < AGAIN_MS {
            return Ok(false);
        }
        taken.attempts = row.attempts + 1;
    }
    if row.due_at_ms > due_at_ms {
        return Ok(false);
    }
    let as_it_was = Condition::all()
        .add(Column::Name.eq(name))
        .add(Column::DueAtMs.eq(row.due_at_ms))
        .add(Column::TakenAtMs.eq(row.taken_at_ms))
        .add(Column::Attempts.eq(row.attempts))
        .add(Column::Finished.eq(row.finished));
    let moved = Entity::update_many()
        .set(ActiveModel {
            due_at_ms: Set(taken.due_at_ms),
            taken_at_ms: Set(taken.taken_at_ms),
            attempts: Set(taken.attempts),
            finished: Set(taken.finished),
            ..Default::default()
        })
        .filter(as_it_was)
        .exec(db)
        .await?;
    Ok(moved.rows_affected == 1)
}

/// True if the work that was due at an instant is done.
pub async fn is_finished(db: &DatabaseConnection, name: &str, due_at_ms: i64) -> Result<bool> {
    let row = Entity::find_by_id(name).one(db).await?;
    Ok(row.is_some_and(|row| row.due_at_ms == due_at_ms && row.finished))
}

/// Returns the work that was due at an instant because its process is stopping. The next process
/// that asks may claim it at once.
pub async fn give_back(db: &DatabaseConnection, name: &str, due_at_ms: i64) -> Result<()> {
    Entity::update_many()
        .set(ActiveModel { taken_at_ms: Set(0), attempts: Set(1), ..Default::default() })
        .filter(Column::Name.eq(name))
        .filter(Column::DueAtMs.eq(due_at_ms))
        .exec(db)
        .await?;
    Ok(())
}

/// Marks the work that was due at an instant as done.
pub async fn finish(db: &DatabaseConnection, name: &str, due_at_ms: i64) -> Result<()> {
    Entity::update_many()
        .set(ActiveModel { finished: Set(true), ..Default::default() })
        .filter(Column::Name.eq(name))
        .filter(Column::DueAtMs.eq(due_at_ms))
        .exec(db)
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_time_of_day_is_today_or_yesterday() {
        let hour_ms = 3_600_000;
        let day = 20_000 * DAY_MS;
        assert_eq!(last_due_ms(0, day), day);
        assert_eq!(last_due_ms(0, day - 1), day - DAY_MS);
        let due_ms = day + 3 * hour_ms + hour_ms / 2;
        assert_eq!(last_due_ms(210, due_ms), due_ms);
        assert_eq!(last_due_ms(210, due_ms - 1), due_ms - DAY_MS);
        assert_eq!(last_due_ms(210, due_ms + DAY_MS - 1), due_ms);
        assert_eq!(last_due_ms(1439, day), day - 60_000);
    }
}
