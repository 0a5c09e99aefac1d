//! Sums of a member's archived events in `all`, so that its history can be folded on without them.

use std::collections::BTreeMap;

use ranking::board::State;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;
use sea_orm::{DbErr, QueryOrder};

use crate::archive::archive_mark;

/// A row of `archived_entry`.
///
/// Of the rows of a member and segment, the one with the largest `through_seq` up to the
/// [mark](archive_mark) counts. Rows beyond the mark belong to an archive that is still being made.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "archived_entry")]
pub struct Model {
    /// The board.
    #[sea_orm(primary_key, auto_increment = false)]
    pub board_no: i64,
    /// The member's partition.
    #[sea_orm(primary_key, auto_increment = false)]
    pub partition: i32,
    /// The member.
    #[sea_orm(primary_key, auto_increment = false)]
    pub member: String,
    /// The segment; empty for everyone. Each member with archived events has a row for everyone.
    #[sea_orm(primary_key, auto_increment = false)]
    pub segment: String,
    /// The last commit of the partition that the sums include.
    #[sea_orm(primary_key, auto_increment = false)]
    pub through_seq: i64,
    /// The raw score; none if removals or voids left nothing.
    pub score: Option<i64>,
    /// The time at which the score was reached, in ticks.
    pub tick: Option<i64>,
    /// The number of the member's archived events of all kinds, in the row for everyone; otherwise
    /// 0.
    pub events: i64,
}

no_relations!();

impl Model {
    /// The state that the archived events add up to; `None` if nothing is left.
    pub fn state(&self) -> Option<State> {
        Some(State { score: self.score?, tick: self.tick? })
    }
}

/// The sums of members' archived events up to a mark, by member and segment. The call takes at most
/// some thousand members.
pub async fn of_members(
    db: &impl ConnectionTrait,
    mark: &archive_mark::Model,
    members: impl IntoIterator<Item = &str>,
) -> Result<BTreeMap<(String, String), Model>, DbErr> {
    if mark.archived_seq == 0 {
        return Ok(BTreeMap::new());
    }
    let rows = Entity::find()
        .filter(Column::BoardNo.eq(mark.board_no))
        .filter(Column::Partition.eq(mark.partition))
        .filter(Column::Member.is_in(members))
        .filter(Column::ThroughSeq.lte(mark.archived_seq))
        .order_by_asc(Column::ThroughSeq)
        .all(db)
        .await?;
    // Rows with a larger seq replace those with a smaller one.
    let of_place = |row: Model| ((row.member.clone(), row.segment.clone()), row);
    Ok(rows.into_iter().map(of_place).collect())
}

/// The number of a member's archived events.
pub async fn events(
    db: &impl ConnectionTrait,
    mark: &archive_mark::Model,
    member: &str,
) -> Result<u64, DbErr> {
    let rows = of_members(db, mark, [member]).await?;
    Ok(rows.values().map(|row| row.events.unsigned_abs()).sum())
}

/// Replaces an existing row with the same key.
pub fn replace() -> OnConflict {
    use Column::{BoardNo, Events, Member, Partition, Score, Segment, ThroughSeq, Tick};
    OnConflict::columns([BoardNo, Partition, Member, Segment, ThroughSeq])
        .update_columns([Score, Tick, Events])
        .to_owned()
}
