//! The commits that SQL has: every step of every partition's history.

use std::collections::BTreeMap;

use ranking::id::PartitionNo;
use sea_orm::QuerySelect;
use sea_orm::entity::prelude::*;

/// A row of `commit`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "commit")]
pub struct Model {
    /// The partition.
    #[sea_orm(primary_key, auto_increment = false)]
    pub partition: i32,
    /// The seq, dense from 1.
    #[sea_orm(primary_key, auto_increment = false)]
    pub seq: i64,
    /// The commit id.
    pub id: String,
    /// The id of the previous commit.
    pub parent: String,
    /// Time of acceptance, in Unix milliseconds, by the clock of the process that accepted it.
    pub accepted_at_ms: i64,
    /// The deployment's clock, in Unix milliseconds: that of Redis, but never before the previous
    /// commit's. Event ids are kept by it.
    pub clock_ms: i64,
    /// The number of its events.
    pub events: i32,
}

no_relations!();

/// The times of a commit, in Unix milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// The time of acceptance.
    pub accepted_at_ms: i64,
    /// The deployment's clock.
    pub clock_ms: i64,
}

impl Model {
    /// Its times.
    pub fn times(&self) -> Times {
        Times { accepted_at_ms: self.accepted_at_ms, clock_ms: self.clock_ms }
    }
}

/// The times, by seq, of a partition's commits from `first_seq` to `last_seq`.
pub async fn times(
    db: &impl ConnectionTrait,
    partition: PartitionNo,
    first_seq: i64,
    last_seq: i64,
) -> Result<BTreeMap<i64, Times>, DbErr> {
    use Column::{AcceptedAtMs, ClockMs, Partition as In, Seq};
    let rows: Vec<(i64, i64, i64)> = Entity::find()
        .select_only()
        .columns([Seq, AcceptedAtMs, ClockMs])
        .filter(In.eq(i32::from(partition)))
        .filter(Seq.between(first_seq, last_seq))
        .into_tuple()
        .all(db)
        .await?;
    let times = |(seq, accepted_at_ms, clock_ms)| (seq, Times { accepted_at_ms, clock_ms });
    Ok(rows.into_iter().map(times).collect())
}

/// The commit of a partition and seq.
pub async fn find(
    db: &impl ConnectionTrait,
    partition: PartitionNo,
    seq: u64,
) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id((i32::from(partition), seq as i64)).one(db).await
}

/// The commits of a partition that have one of these seqs.
pub async fn of_seqs(
    db: &impl ConnectionTrait,
    partition: i32,
    seqs: Vec<i64>,
) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::Partition.eq(partition))
        .filter(Column::Seq.is_in(seqs))
        .all(db)
        .await
}
