//! How far a partition's history of a board is in the lake.

use ranking::id::{BoardNo, PartitionNo};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait};

/// A row of `mirror_mark`.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "mirror_mark")]
pub struct Model {
    /// The board.
    #[sea_orm(primary_key, auto_increment = false)]
    pub board_no: i64,
    /// The partition.
    #[sea_orm(primary_key, auto_increment = false)]
    pub partition: i32,
    /// Events up to this seq are in the lake.
    pub mirrored_seq: i64,
    /// Events up to this seq are in the lake, or being read for it.
    pub reading_seq: i64,
}

no_relations!();

/// The seq up to which a partition's history of a board is in the lake; 0 if nothing is.
pub async fn mirrored_seq(
    db: &impl ConnectionTrait,
    board: BoardNo,
    partition: PartitionNo,
) -> Result<i64, DbErr> {
    let row = Entity::find_by_id((board.0, i32::from(partition))).one(db).await?;
    Ok(row.map_or(0, |row| row.mirrored_seq))
}

/// True if events are being read for the lake, or a run that read some was killed.
pub async fn is_reading(db: &impl ConnectionTrait) -> Result<bool, DbErr> {
    let reading = Expr::col(Column::ReadingSeq).ne(Expr::col(Column::MirroredSeq));
    Ok(Entity::find().filter(reading).one(db).await?.is_some())
}
