//! What the archived events of a member add up to in "all", so that its history can be folded on without them.

use std::collections::BTreeMap;

use ranking::fold::State;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;
use sea_orm::{DbErr, QueryOrder};

use crate::archive::archive_mark;

/// A row of `archived_entry`. Of a member and segment the one counts that reaches farthest without going beyond the
/// [mark](archive_mark); one beyond it is of an archive that is being made.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "archived_entry")]
pub struct Model {
    /// The board.
    #[sea_orm(primary_key, auto_increment = false)]
    pub board_no: i64,
    /// The partition that the member is in.
    #[sea_orm(primary_key, auto_increment = false)]
    pub partition: i32,
    /// Who.
    #[sea_orm(primary_key, auto_increment = false)]
    pub member: String,
    /// The segment; empty for everyone, which each member with archived events has.
    #[sea_orm(primary_key, auto_increment = false)]
    pub segment: String,
    /// The last commit of the partition that is in it.
    #[sea_orm(primary_key, auto_increment = false)]
    pub through_seq: i64,
    /// The raw score; none where a removal or voids left nothing.
    pub score: Option<i64>,
    /// When it was reached, in ticks.
    pub tick: Option<i64>,
    /// How many archived events the member has, whatever they do; 0 but for everyone.
    pub events: i64,
}

/// None that are followed.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl Model {
    /// What it holds; `None` where nothing was left.
    #[must_use]
    pub fn state(&self) -> Option<State> {
        Some(State { score: self.score?, tick: self.tick? })
    }
}

/// What the archived events of members add up to, as far as a mark says: by member and segment. Of at most some thousand members.
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
    // The later ones replace the earlier ones.
    let of_place = |row: Model| ((row.member.clone(), row.segment.clone()), row);
    Ok(rows.into_iter().map(of_place).collect())
}

/// How many archived events a member has.
pub async fn events(
    db: &impl ConnectionTrait,
    mark: &archive_mark::Model,
    member: &str,
) -> Result<u64, DbErr> {
    let rows = of_members(db, mark, [member]).await?;
    Ok(rows.values().map(|row| row.events.unsigned_abs()).sum())
}

/// How a row replaces the one of the same place.
#[must_use]
pub fn replace() -> OnConflict {
    use Column::{BoardNo, Events, Member, Partition, Score, Segment, ThroughSeq, Tick};
    OnConflict::columns([BoardNo, Partition, Member, Segment, ThroughSeq])
        .update_columns([Score, Tick, Events])
        .to_owned()
}
