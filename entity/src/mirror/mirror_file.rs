//! The files of the lake. Each holds events of one board and partition.

use ranking::id::{BoardNo, PartitionNo};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

/// The state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum State {
    /// Being written or read back; not part of the lake yet.
    #[sea_orm(string_value = "WRITING")]
    Writing,
    /// Part of the lake.
    #[sea_orm(string_value = "MIRRORED")]
    Mirrored,
    /// No longer part of the lake: the file is due for removal.
    #[sea_orm(string_value = "FORMER")]
    Former,
}

/// A row of `mirror_file`.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "mirror_file")]
pub struct Model {
    /// The path below the lake's place. It ends with digits of the checksum, so no two contents
    /// share one.
    #[sea_orm(primary_key, auto_increment = false)]
    pub path: String,
    /// The board.
    pub board_no: i64,
    /// The partition.
    pub partition: i32,
    /// The first seq that it covers: the one after the previous file's last seq.
    pub first_seq: i64,
    /// The last seq that it covers.
    pub last_seq: i64,
    /// The number of events.
    pub events: i64,
    /// The size in bytes.
    pub bytes: i64,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
    /// The state.
    pub state: State,
    /// Creation time, in Unix milliseconds.
    pub created_at_ms: i64,
}

no_relations!();

/// The files of a board's partition that are part of the lake, by seq.
pub async fn of_partition(
    db: &impl ConnectionTrait,
    board: BoardNo,
    partition: PartitionNo,
) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::BoardNo.eq(board.0))
        .filter(Column::Partition.eq(i32::from(partition)))
        .filter(Column::State.eq(State::Mirrored))
        .order_by_asc(Column::FirstSeq)
        .all(db)
        .await
}

/// True if the lake has a file, or is about to.
pub async fn any(db: &impl ConnectionTrait) -> Result<bool, DbErr> {
    Ok(Entity::find().one(db).await?.is_some())
}
