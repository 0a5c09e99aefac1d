//! How far a partition's history of a board is archived: events up to a seq lie in files, later
//! ones in `score_event`.

use ranking::id::{BoardNo, PartitionNo};
use sea_orm::QueryOrder;
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
    /// Events up to this seq are in files and count nowhere else; 0 if there are none.
    pub archived_seq: i64,
    /// Events up to this seq are archived or being archived; they can no longer be voided.
    pub closing_seq: i64,
    /// Archived events were earned before this instant, in Unix milliseconds; none if there are
    /// none.
    pub archived_before_ms: Option<i64>,
}

no_relations!();

/// The mark of a partition's history of a board; a mark of zeros if nothing is archived.
pub async fn of(
    db: &impl ConnectionTrait,
    board: BoardNo,
    partition: PartitionNo,
) -> Result<Model, DbErr> {
    let key = (board.0, i32::from(partition));
    let row = Entity::find_by_id(key).one(db).await?;
    Ok(row.unwrap_or(Model {
        board_no: key.0,
        partition: key.1,
        archived_seq: 0,
        closing_seq: 0,
        archived_before_ms: None,
    }))
}

/// The marks of all boards that have one in a partition, by board.
pub async fn of_partition(
    db: &impl ConnectionTrait,
    partition: PartitionNo,
) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::Partition.eq(i32::from(partition)))
        .order_by_asc(Column::BoardNo)
        .all(db)
        .await
}
