//! All-time standings: what the history adds up to, kept with it in the same transaction.

use sea_orm::entity::prelude::*;

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
    /// Who.
    #[sea_orm(primary_key, auto_increment = false)]
    pub member: String,
    /// The raw score.
    pub score: i64,
    /// The rank key; smaller is better.
    pub rank_key: i64,
    /// The partition that the member is in.
    pub partition: i32,
    /// The commit that changed it last.
    pub seq: i64,
}

/// None that are followed.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
