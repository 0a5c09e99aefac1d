//! All-time standings, written in the same transaction as the history that they follow from.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;
use sea_orm::{QueryOrder, QuerySelect};

/// A row of `standing`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "standing")]
pub struct Model {
    /// The board.
    #[sea_orm(primary_key, auto_increment = false)]
    pub board_no: i64,
    /// The segment; empty for everyone.
    #[sea_orm(primary_key, auto_increment = false)]
    pub segment: String,
    /// The member.
    #[sea_orm(primary_key, auto_increment = false)]
    pub member: String,
    /// The raw score.
    pub score: i64,
    /// The rank key; smaller is better.
    pub rank_key: i64,
    /// The member's partition. Just after the board got another number of shards, it may still be
    /// the former one.
    pub partition: i32,
    /// The seq of the commit that changed it last.
    pub seq: i64,
}

no_relations!();

/// Up to `limit` segments of a board after one, in order, each of which has entries: a SELECT for
/// each, as an index finds the next segment at once and no database skips by itself.
pub async fn segments_after(
    db: &impl ConnectionTrait,
    board_no: i64,
    after: String,
    limit: usize,
) -> Result<Vec<String>, DbErr> {
    let mut segments: Vec<String> = vec![];
    while segments.len() < limit {
        let last = segments.last().unwrap_or(&after);
        let next = Entity::find()
            .select_only()
            .column(Column::Segment)
            .filter(Column::BoardNo.eq(board_no))
            .filter(Column::Segment.gt(last.as_str()))
            .order_by_asc(Column::Segment)
            .limit(1);
        match next.into_tuple::<String>().one(db).await? {
            Some(segment) => segments.push(segment),
            None => break,
        }
    }
    Ok(segments)
}

/// Replaces the row of the same member.
pub fn replace() -> OnConflict {
    use Column::{Partition, RankKey, Score, Seq};
    replacing([Score, RankKey, Partition, Seq])
}

/// Replaces some columns of the row of the same member.
pub fn replacing(columns: impl IntoIterator<Item = Column>) -> OnConflict {
    OnConflict::columns([Column::BoardNo, Column::Member, Column::Segment])
        .update_columns(columns)
        .to_owned()
}
