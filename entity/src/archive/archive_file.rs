//! The files of the archive: events that have left `score_event`, each file of one board, partition and month.

use ranking::id::{BoardNo, Partition};
use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, QuerySelect};

/// Being written, or read back already; not part of the history yet.
pub const WRITING: &str = "WRITING";
/// Part of the history; some of its events may still lie in `score_event` too, where nobody looks at them.
pub const ARCHIVED: &str = "ARCHIVED";
/// Part of the history, and gone from `score_event`.
pub const DROPPED: &str = "DROPPED";
/// Of a board that was deleted: the file is to be removed.
pub const GONE: &str = "GONE";

/// A row of `archive_file`.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "archive_file")]
pub struct Model {
    /// Where it lies in the archive's directory.
    #[sea_orm(primary_key, auto_increment = false)]
    pub path: String,
    /// The board.
    pub board_no: i64,
    /// The partition.
    pub partition: i32,
    /// The month in which its events were accepted, in UTC: `2025-12`.
    pub month: String,
    /// The first seq that it stands for: that after the last one of the file before it.
    pub first_seq: i64,
    /// The last seq that it has events of.
    pub last_seq: i64,
    /// How many events it has.
    pub events: i64,
    /// Its size.
    pub bytes: i64,
    /// The SHA-256 of its bytes, in hexadecimal digits.
    pub sha256: String,
    /// [`WRITING`], [`ARCHIVED`], [`DROPPED`] or [`GONE`].
    pub state: String,
    /// When it was written, in Unix milliseconds.
    pub created_at_ms: i64,
}

/// None that are followed.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The files that are part of a board's history in a partition, in its order.
pub async fn of_partition(
    db: &impl ConnectionTrait,
    board: BoardNo,
    partition: Partition,
) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::BoardNo.eq(board.0))
        .filter(Column::Partition.eq(i32::from(partition.0)))
        .filter(Column::State.is_in([ARCHIVED, DROPPED]))
        .order_by_asc(Column::FirstSeq)
        .all(db)
        .await
}

/// Whether events of a commit are archived, of whichever board.
pub async fn has(db: &impl ConnectionTrait, partition: Partition, seq: u64) -> Result<bool, DbErr> {
    let found: Option<String> = Entity::find()
        .select_only()
        .column(Column::Path)
        .filter(Column::Partition.eq(i32::from(partition.0)))
        .filter(Column::FirstSeq.lte(seq as i64))
        .filter(Column::LastSeq.gte(seq as i64))
        .filter(Column::State.is_in([ARCHIVED, DROPPED]))
        .into_tuple()
        .one(db)
        .await?;
    Ok(found.is_some())
}
