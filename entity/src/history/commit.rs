//! Commits that SQL has: every step of every partition's history.

use std::collections::BTreeMap;

use ranking::id::Partition;
use sea_orm::QuerySelect;
use sea_orm::entity::prelude::*;

/// A row of `commit`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "commit")]
pub struct Model {
    /// Its partition.
    #[sea_orm(primary_key, auto_increment = false)]
    pub partition: i32,
    /// Dense from 1.
    #[sea_orm(primary_key, auto_increment = false)]
    pub seq: i64,
    /// Its id.
    pub id: String,
    /// The id of the one before.
    pub parent: String,
    /// When it was accepted, in Unix milliseconds.
    pub accepted_at_ms: i64,
    /// How many events it brought.
    pub events: i32,
}

/// None that are followed.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// When the commits of a partition between two seqs were accepted, by seq.
pub async fn accepted_at_ms(
    db: &impl ConnectionTrait,
    partition: Partition,
    first_seq: i64,
    last_seq: i64,
) -> Result<BTreeMap<i64, i64>, DbErr> {
    use Column::{AcceptedAtMs, Partition as In, Seq};
    let rows: Vec<(i64, i64)> = Entity::find()
        .select_only()
        .columns([Seq, AcceptedAtMs])
        .filter(In.eq(i32::from(partition.0)))
        .filter(Seq.between(first_seq, last_seq))
        .into_tuple()
        .all(db)
        .await?;
    Ok(rows.into_iter().collect())
}
