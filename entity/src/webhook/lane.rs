//! Lanes: how far a webhook has been told of one partition's history, or of the outbox. The events
//! of a lane are delivered one after the other.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;
use sea_orm::{ActiveValue::Set, Condition, QueryOrder};

use crate::history::log_cursor;
use crate::sql::dialect::statement;
use crate::sql::insert_chunked;

/// Stands for the outbox in the place of a partition.
pub const OUTBOX: i32 = -1;

/// The place behind all events of a commit.
pub const BEHIND_ALL: i32 = i32::MAX;

/// The most lanes of one look.
const LANES_MAX: u64 = 64;

/// A row of `webhook_lane`.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "webhook_lane")]
pub struct Model {
    /// The webhook.
    #[sea_orm(primary_key, auto_increment = false)]
    pub webhook: String,
    /// The partition, or [`OUTBOX`].
    #[sea_orm(primary_key, auto_increment = false)]
    pub partition: i32,
    /// The receiver has all events up to this seq and index.
    pub seq: i64,
    /// See `seq`.
    pub event_index: i32,
    /// The number of attempts that failed since the last one that did not.
    pub failures: i32,
    /// The time of the first of these, in Unix milliseconds.
    pub failing_since_ms: Option<i64>,
    /// No attempt is made before this instant, in Unix milliseconds.
    pub retry_at_ms: i64,
    /// The error of the last of these.
    pub error: Option<String>,
}

no_relations!();

impl Model {
    /// The pause before the attempt after one that fails now, in milliseconds: `first_ms`, doubled
    /// with each failure before, up to `most_ms`; and up to a quarter more, so that receivers are
    /// not asked by all lanes at once.
    pub fn pause_ms(&self, first_ms: u64, most_ms: u64) -> i64 {
        let doubled = first_ms.saturating_mul(1 << self.failures.clamp(0, 30));
        let pause_ms = doubled.min(most_ms);
        (pause_ms + rand::random_range(0..=pause_ms / 4)).cast_signed()
    }

    /// The lane of the outbox before its first failure.
    pub fn of_outbox(webhook: &str) -> Self {
        Self {
            webhook: webhook.to_owned(),
            partition: OUTBOX,
            seq: 0,
            event_index: BEHIND_ALL,
            failures: 0,
            failing_since_ms: None,
            retry_at_ms: 0,
            error: None,
        }
    }
}

/// The history that a webhook waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Behind {
    /// The number of partitions that have more.
    pub partitions: i64,
    /// The number of commits that they have more.
    pub commits: i64,
}

/// Lets a webhook begin at the present end of each partition's history. Part of a transaction.
pub(super) async fn begin_history(
    db: &impl ConnectionTrait,
    webhook: &str,
    partitions: u16,
) -> Result<(), DbErr> {
    let mut seqs = vec![0; usize::from(partitions)];
    for cursor in log_cursor::all(db).await? {
        if let Some(seq) = usize::try_from(cursor.partition).ok().and_then(|no| seqs.get_mut(no)) {
            *seq = cursor.seq;
        }
    }
    let rows = (0..).zip(seqs).map(|(partition, seq)| ActiveModel {
        webhook: Set(webhook.to_owned()),
        partition: Set(partition),
        seq: Set(seq),
        event_index: Set(BEHIND_ALL),
        failures: Set(0),
        failing_since_ms: Set(None),
        retry_at_ms: Set(0),
        error: Set(None),
    });
    insert_chunked::<Entity, _>(db, rows.collect(), None).await
}

/// Ends the lanes of the history. Part of a transaction.
pub(super) async fn end_history(db: &impl ConnectionTrait, webhook: &str) -> Result<(), DbErr> {
    let of_webhook = Entity::delete_many().filter(Column::Webhook.eq(webhook));
    of_webhook.filter(Column::Partition.ne(OUTBOX)).exec(db).await.map(drop)
}

/// Deletes all lanes of a webhook. Part of a transaction.
pub(super) async fn delete_of(db: &impl ConnectionTrait, webhook: &str) -> Result<(), DbErr> {
    Entity::delete_many().filter(Column::Webhook.eq(webhook)).exec(db).await.map(drop)
}

/// Lets the next attempt of each lane come at once. Part of a transaction.
pub(super) async fn forget_failures(db: &impl ConnectionTrait, webhook: &str) -> Result<(), DbErr> {
    let well = ActiveModel {
        failures: Set(0),
        failing_since_ms: Set(None),
        retry_at_ms: Set(0),
        error: Set(None),
        ..Default::default()
    };
    let of_webhook = Entity::update_many().set(well).filter(Column::Webhook.eq(webhook));
    of_webhook.filter(Column::Failures.gt(0)).exec(db).await.map(drop)
}

/// The lanes of the history that are behind SQL's cursors and may be tried at an instant, each with
/// that cursor's seq; those that are most behind first.
pub async fn due(
    db: &impl ConnectionTrait,
    webhook: &str,
    now_ms: i64,
) -> Result<Vec<(Model, i64)>, DbErr> {
    let sql = format!(
        r#"SELECT l."partition", l."seq", l."event_index", l."failures", l."failing_since_ms",
            l."retry_at_ms", l."error", c."seq" AS "end"
        FROM "webhook_lane" AS l JOIN "log_cursor" AS c ON c."partition" = l."partition"
        WHERE l."webhook" = $1 AND l."retry_at_ms" <= $2
            AND (c."seq" > l."seq" OR (c."seq" = l."seq" AND l."event_index" < {BEHIND_ALL}))
        ORDER BY c."seq" - l."seq" DESC LIMIT {LANES_MAX}"#
    );
    let asked = statement(db.get_database_backend(), sql, [webhook.into(), now_ms.into()]);
    let rows = db.query_all_raw(asked).await?;
    let lane = |row: sea_orm::QueryResult| {
        let lane = Model {
            webhook: webhook.to_owned(),
            partition: row.try_get("", "partition")?,
            seq: row.try_get("", "seq")?,
            event_index: row.try_get("", "event_index")?,
            failures: row.try_get("", "failures")?,
            failing_since_ms: row.try_get("", "failing_since_ms")?,
            retry_at_ms: row.try_get("", "retry_at_ms")?,
            error: row.try_get("", "error")?,
        };
        Ok((lane, row.try_get("", "end")?))
    };
    rows.into_iter().map(lane).collect()
}

/// The history that a webhook waits for.
pub async fn behind(db: &impl ConnectionTrait, webhook: &str) -> Result<Behind, DbErr> {
    let backend = db.get_database_backend();
    let sum = crate::sql::dialect::integer(backend, r#"COALESCE(SUM(c."seq" - l."seq"), 0)"#);
    let sql = format!(
        r#"SELECT COUNT(*), {sum} FROM "webhook_lane" AS l
        JOIN "log_cursor" AS c ON c."partition" = l."partition"
        WHERE l."webhook" = $1 AND c."seq" > l."seq""#
    );
    let row = db.query_one_raw(statement(backend, sql, [webhook.into()])).await?;
    let row = row.ok_or_else(|| DbErr::RecordNotFound("the lag of a webhook".to_owned()))?;
    Ok(Behind { partitions: row.try_get_by_index(0)?, commits: row.try_get_by_index(1)? })
}

/// The lane of the outbox.
pub async fn of_outbox(db: &impl ConnectionTrait, webhook: &str) -> Result<Model, DbErr> {
    let found = Entity::find_by_id((webhook.to_owned(), OUTBOX)).one(db).await?;
    Ok(found.unwrap_or_else(|| Model::of_outbox(webhook)))
}

/// The lane of a webhook that has failed longest.
pub async fn worst(db: &impl ConnectionTrait, webhook: &str) -> Result<Option<Model>, DbErr> {
    Entity::find()
        .filter(Column::Webhook.eq(webhook))
        .filter(Column::Failures.gt(0))
        .order_by_asc(Column::FailingSinceMs)
        .one(db)
        .await
}

/// Moves a lane on to a place, as the receiver has all events up to it. Returns false if the lane
/// is elsewhere by now.
pub async fn advance(
    db: &impl ConnectionTrait,
    lane: &Model,
    (seq, event_index): (i64, i32),
) -> Result<bool, DbErr> {
    let to = ActiveModel {
        seq: Set(seq),
        event_index: Set(event_index),
        failures: Set(0),
        failing_since_ms: Set(None),
        retry_at_ms: Set(0),
        error: Set(None),
        ..Default::default()
    };
    let place = Condition::all()
        .add(Column::Webhook.eq(&lane.webhook))
        .add(Column::Partition.eq(lane.partition))
        .add(Column::Seq.eq(lane.seq))
        .add(Column::EventIndex.eq(lane.event_index));
    let moved = Entity::update_many().set(to).filter(place).exec(db).await?;
    Ok(moved.rows_affected == 1)
}

/// Notes a failed attempt: the lane waits until an instant, in Unix milliseconds.
pub async fn note_failure(
    db: &impl ConnectionTrait,
    lane: &Model,
    error: &str,
    (now_ms, retry_at_ms): (i64, i64),
) -> Result<(), DbErr> {
    let failed = ActiveModel {
        webhook: Set(lane.webhook.clone()),
        partition: Set(lane.partition),
        seq: Set(lane.seq),
        event_index: Set(lane.event_index),
        failures: Set(lane.failures.saturating_add(1)),
        failing_since_ms: Set(Some(lane.failing_since_ms.unwrap_or(now_ms))),
        retry_at_ms: Set(retry_at_ms),
        error: Set(Some(error.to_owned())),
    };
    let mut known = OnConflict::columns([Column::Webhook, Column::Partition]);
    known.update_columns([
        Column::Failures,
        Column::FailingSinceMs,
        Column::RetryAtMs,
        Column::Error,
    ]);
    Entity::insert(failed).on_conflict(known).exec_without_returning(db).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_doubles_up_to_a_bound() {
        for (failures, pause_ms) in
            [(0, 5000), (1, 10_000), (3, 40_000), (9, 2_560_000), (10, 3_600_000), (400, 3_600_000)]
        {
            let lane = Model { failures, ..Model::of_outbox("w") };
            let pauses = pause_ms..=pause_ms + pause_ms / 4;
            assert!(pauses.contains(&lane.pause_ms(5000, 3_600_000)), "{failures}");
        }
    }
}
