//! The positions in sources: how far each partition has taken the messages of a source partition,
//! for each board in each of its layouts.
//!
//! A row moves in the transaction of the events that moved it. Those of former layouts stay as they
//! were when the board moved, as later ones begin with them.

use std::collections::{BTreeMap, BTreeSet};

use ranking::commit::Commit;
use ranking::id::{BoardNo, PartitionNo, SourceName};
use ranking::position::Position;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{ExprTrait, OnConflict};
use sea_orm::{IntoActiveModel, QuerySelect};

use crate::sql::insert_chunked;

/// A row of `source_position`.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "source_position")]
pub struct Model {
    /// The board.
    #[sea_orm(primary_key, auto_increment = false)]
    pub board_no: i64,
    /// The generation that began the board's layout.
    #[sea_orm(primary_key, auto_increment = false)]
    pub layout_since: i32,
    /// The partition.
    #[sea_orm(primary_key, auto_increment = false)]
    pub partition: i32,
    /// The source.
    #[sea_orm(primary_key, auto_increment = false)]
    pub source: String,
    /// The source partition.
    #[sea_orm(primary_key, auto_increment = false)]
    pub source_partition: i64,
    /// The position, as [`Position::to_text`] writes it.
    pub position: String,
    /// When its last commit was accepted, in Unix milliseconds.
    pub moved_at_ms: i64,
}

no_relations!();

/// Some of the rows.
#[derive(Debug, Clone, Copy)]
pub enum Rows {
    /// Those of a partition.
    OfPartition(PartitionNo),
    /// Those of a board, in all of its layouts.
    OfBoard(BoardNo),
    /// Those of a board in the layout that a generation began, in a partition.
    OfPart(BoardNo, u32, PartitionNo),
}

impl Model {
    /// The source and the source partition.
    ///
    /// # Errors
    /// `Corrupt` if the row names none.
    pub fn source(&self) -> ranking::Result<(SourceName, u32)> {
        let of_partition = self.source_partition.try_into().map_err(|_| {
            ranking::Error::Corrupt(format!("{} is no source partition", self.source_partition))
        });
        Ok((SourceName::new(&self.source)?, of_partition?))
    }

    /// The position.
    ///
    /// # Errors
    /// `Corrupt` if the row has none.
    pub fn position(&self) -> ranking::Result<Position> {
        Position::parse(&self.position)
    }
}

/// Moves rows on to the positions of commits, of those boards that are not deleted. Part of the
/// transaction of the commits.
pub async fn advance(
    db: &impl ConnectionTrait,
    partition: PartitionNo,
    commits: &[Commit],
    is_living: impl Fn(BoardNo) -> bool,
) -> Result<(), DbErr> {
    // In one order, or two persisters would wait for each other's rows.
    let mut rows: BTreeMap<_, Model> = BTreeMap::new();
    for commit in commits {
        for moved in commit.positions.iter().filter(|moved| is_living(moved.board)) {
            let key = (moved.board, moved.layout_since, &moved.source, moved.source_partition);
            let row = Model {
                board_no: moved.board.0,
                layout_since: moved.layout_since as i32,
                partition: partition.into(),
                source: moved.source.to_string(),
                source_partition: moved.source_partition.into(),
                position: moved.position.to_text(),
                moved_at_ms: commit.accepted_at_ms,
            };
            rows.insert(key, row);
        }
    }
    let rows = rows.into_values().map(|row| row.into_active_model().reset_all()).collect();
    let known = OnConflict::columns([
        Column::BoardNo,
        Column::LayoutSince,
        Column::Partition,
        Column::Source,
        Column::SourcePartition,
    ])
    .update_columns([Column::Position, Column::MovedAtMs])
    .to_owned();
    insert_chunked::<Entity, _>(db, rows, Some(known)).await
}

/// Up to `limit` rows after a row, in the order of their keys.
pub async fn page_after(
    db: &impl ConnectionTrait,
    rows: Rows,
    last: Option<&Model>,
    limit: u64,
) -> Result<Vec<Model>, DbErr> {
    use Column::{LayoutSince, Source, SourcePartition};
    let select = Entity::find().filter(match rows {
        Rows::OfPartition(partition) => Column::Partition.eq(i32::from(partition)),
        Rows::OfBoard(board) => Column::BoardNo.eq(board.0),
        Rows::OfPart(board, layout_since, partition) => Column::BoardNo
            .eq(board.0)
            .and(LayoutSince.eq(layout_since as i32))
            .and(Column::Partition.eq(i32::from(partition))),
    });
    let key = (Column::BoardNo, LayoutSince, Column::Partition, Source, SourcePartition);
    let mut cursor = select.cursor_by(key);
    if let Some(Model { board_no, layout_since, partition, source, source_partition, .. }) = last {
        cursor.after((*board_no, *layout_since, *partition, source.clone(), *source_partition));
    }
    cursor.first(limit).all(db).await
}

/// The numbers of the boards that have rows.
pub async fn boards(db: &impl ConnectionTrait) -> Result<BTreeSet<i64>, DbErr> {
    let select = Entity::find().select_only().column(Column::BoardNo).distinct();
    let boards: Vec<i64> = select.into_tuple().all(db).await?;
    Ok(boards.into_iter().collect())
}

/// Deletes the rows of a board.
pub async fn delete_of(db: &impl ConnectionTrait, board: BoardNo) -> Result<(), DbErr> {
    Entity::delete_many().filter(Column::BoardNo.eq(board.0)).exec(db).await?;
    Ok(())
}
