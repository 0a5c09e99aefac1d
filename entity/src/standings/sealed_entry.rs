//! The entries of sealed standings. Each function that adds or deletes some returns by how much the
//! standings grow.

use std::collections::BTreeSet;

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;
use sea_orm::{Condition, IntoActiveModel, QuerySelect};

use super::sealed_period::Growth;
use crate::sql::insert_chunked;

/// The most entries in one statement.
const ROWS_MAX: usize = 1000;

/// The most standings in one DELETE.
const STANDINGS_MAX: usize = 500;

/// A row of `sealed_entry`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "sealed_entry")]
pub struct Model {
    /// The number of the standings in `sealed_period`.
    #[sea_orm(primary_key, auto_increment = false)]
    pub standings_no: i64,
    /// The member.
    #[sea_orm(primary_key, auto_increment = false)]
    pub member: String,
    /// The raw score. Late scores are not checked against ranges: if no key can hold this score,
    /// the entry has the nearest possible key, and is ranked and shown by that.
    pub score: i64,
    /// The rank key; smaller is better.
    pub rank_key: i64,
    /// The member's partition.
    pub partition: i32,
    /// The seq of the last commit that corrected it; 0 if it is unchanged since the period was
    /// sealed.
    pub seq: i64,
}

no_relations!();

/// Inserts entries into sealed standings that have numbers.
pub async fn insert(
    db: &impl ConnectionTrait,
    rows: Vec<Model>,
    on_conflict: OnConflict,
) -> Result<Growth, DbErr> {
    let mut growth = Growth::default();
    for chunk in rows.chunks(ROWS_MAX) {
        let numbers: BTreeSet<i64> = chunk.iter().map(|row| row.standings_no).collect();
        let members: BTreeSet<&str> = chunk.iter().map(|row| row.member.as_str()).collect();
        let known: Vec<(i64, String)> = Entity::find()
            .select_only()
            .columns([Column::StandingsNo, Column::Member])
            .filter(Column::StandingsNo.is_in(numbers))
            .filter(Column::Member.is_in(members))
            .into_tuple()
            .all(db)
            .await?;
        let known: BTreeSet<(i64, &str)> =
            known.iter().map(|(no, member)| (*no, member.as_str())).collect();
        let places: BTreeSet<(i64, &str)> =
            chunk.iter().map(|row| (row.standings_no, row.member.as_str())).collect();
        for (no, _) in places.difference(&known) {
            *growth.0.entry(*no).or_default() += 1;
        }
        let rows = chunk.iter().cloned().map(IntoActiveModel::into_active_model);
        insert_chunked::<Entity, _>(db, rows.collect(), Some(on_conflict.clone())).await?;
    }
    Ok(growth)
}

/// Deletes entries.
pub async fn delete(db: &impl ConnectionTrait, which: Condition) -> Result<Growth, DbErr> {
    let numbers: Vec<i64> = Entity::find()
        .select_only()
        .column(Column::StandingsNo)
        .filter(which.clone())
        .into_tuple()
        .all(db)
        .await?;
    let mut growth = Growth::default();
    for no in &numbers {
        *growth.0.entry(*no).or_default() -= 1;
    }
    let standings: Vec<i64> = growth.0.keys().copied().collect();
    for chunk in standings.chunks(STANDINGS_MAX) {
        // By the numbers MariaDB finds the rows in the key, and looks at no others.
        let of_chunk = Condition::all()
            .add(Column::StandingsNo.is_in(chunk.iter().copied()))
            .add(which.clone());
        Entity::delete_many().filter(of_chunk).exec(db).await?;
    }
    Ok(growth)
}

/// Leaves an existing row of the same member unchanged.
pub fn keep() -> OnConflict {
    OnConflict::columns([Column::StandingsNo, Column::Member])
        .do_nothing_on([Column::StandingsNo])
        .to_owned()
}

/// Replaces the row of the same member.
pub fn replace() -> OnConflict {
    use Column::{Member, Partition, RankKey, Score, Seq, StandingsNo};
    OnConflict::columns([StandingsNo, Member])
        .update_columns([Score, RankKey, Partition, Seq])
        .to_owned()
}
