//! The files of the archive. Each holds events of one board, partition and month that have left
//! `score_event`.

use ranking::id::{BoardNo, PartitionNo};
use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, QuerySelect};

/// The state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum State {
    /// Being written or read back; not part of the history yet.
    #[sea_orm(string_value = "WRITING")]
    Writing,
    /// Part of the history. Some of its events may still be in `score_event`, where no reader
    /// counts them.
    #[sea_orm(string_value = "ARCHIVED")]
    Archived,
    /// Part of the history, and gone from `score_event`.
    #[sea_orm(string_value = "DROPPED")]
    Dropped,
    /// Of a deleted board: the file is due for removal.
    #[sea_orm(string_value = "GONE")]
    Gone,
}

/// A row of `archive_file`.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "archive_file")]
pub struct Model {
    /// The path in the archive's directory.
    #[sea_orm(primary_key, auto_increment = false)]
    pub path: String,
    /// The board.
    pub board_no: i64,
    /// The partition.
    pub partition: i32,
    /// The month in which its events were accepted, in UTC: `2025-12`.
    pub month: String,
    /// The first seq that it covers: the one after the previous file's last seq.
    pub first_seq: i64,
    /// The last seq of its events.
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

/// The files that are part of a board's history in a partition, by seq.
pub async fn of_partition(
    db: &impl ConnectionTrait,
    board: BoardNo,
    partition: PartitionNo,
) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::BoardNo.eq(board.0))
        .filter(Column::Partition.eq(i32::from(partition)))
        .filter(Column::State.is_in([State::Archived, State::Dropped]))
        .order_by_asc(Column::FirstSeq)
        .all(db)
        .await
}

/// The files that are part of the history of any board in a partition, by path.
pub async fn all_of_partition(
    db: &impl ConnectionTrait,
    partition: PartitionNo,
) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::Partition.eq(i32::from(partition)))
        .filter(Column::State.is_in([State::Archived, State::Dropped]))
        .order_by_asc(Column::Path)
        .all(db)
        .await
}

/// True if a file of any board covers this commit.
pub async fn has(
    db: &impl ConnectionTrait,
    partition: PartitionNo,
    seq: u64,
) -> Result<bool, DbErr> {
    let found: Option<String> = Entity::find()
        .select_only()
        .column(Column::Path)
        .filter(Column::Partition.eq(i32::from(partition)))
        .filter(Column::FirstSeq.lte(seq as i64))
        .filter(Column::LastSeq.gte(seq as i64))
        .filter(Column::State.is_in([State::Archived, State::Dropped]))
        .into_tuple()
        .one(db)
        .await?;
    Ok(found.is_some())
}
