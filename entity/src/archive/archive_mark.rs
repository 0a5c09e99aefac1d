//! How far a partition's history of a board is archived: its events up to a seq lie in files, those after it in `score_event`.

use ranking::id::{BoardNo, Partition};
use sea_orm::entity::prelude::*;

/// A row of `archive_mark`.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "archive_mark")]
pub struct Model {
    /// The board.
    #[sea_orm(primary_key, auto_increment = false)]
    pub board_no: i64,
    /// The partition.
    #[sea_orm(primary_key, auto_increment = false)]
    pub partition: i32,
    /// Events up to it are in files, and count nowhere else; 0 where none are.
    pub archived_seq: i64,
    /// Events up to it are being archived, or are: nobody voids them from here on.
    pub closing_seq: i64,
    /// Archived events were earned before it, in Unix milliseconds; none where there are none.
    pub archived_before_ms: Option<i64>,
}

/// None that are followed.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// How far a partition's history of a board is archived.
pub async fn of(
    db: &impl ConnectionTrait,
    board: BoardNo,
    partition: Partition,
) -> Result<Model, DbErr> {
    let key = (board.0, i32::from(partition.0));
    let row = Entity::find_by_id(key).one(db).await?;
    Ok(row.unwrap_or(Model {
        board_no: key.0,
        partition: key.1,
        archived_seq: 0,
        closing_seq: 0,
        archived_before_ms: None,
    }))
}
