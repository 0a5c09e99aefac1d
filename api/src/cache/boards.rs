//! The boards that this process knows, so that reads and writes go on without SQL.

use std::sync::Arc;

use entity::board;
use ranking::board::Board;
use sea_orm::{ColumnTrait, DatabaseConnection, QueryFilter};
use tokio::time::Instant;

use crate::cache::sql::{FRESH, Known};
use crate::error::Result;

/// How many boards are kept in memory.
const BOARDS_MAX: u64 = 10_000;

/// A board: its row, and what ranking needs of it.
#[derive(Debug)]
pub struct KnownBoard {
    /// The row in SQL.
    pub row: board::Model,
    /// Its rules.
    pub board: Board,
    /// The member attributes that it has standings by.
    pub segment_by: Vec<String>,
}

/// Boards by slug.
pub struct Boards(Known<String, Option<Arc<KnownBoard>>>);

impl KnownBoard {
    /// Reads a row's rules.
    ///
    /// # Errors
    /// `INTERNAL` where the row is broken.
    pub fn new(row: board::Model) -> Result<Arc<Self>> {
        let (board, segment_by) = (row.to_ranking()?, row.segment_attributes()?);
        Ok(Arc::new(Self { row, board, segment_by }))
    }
}

impl Boards {
    /// Knows none yet.
    #[must_use]
    pub fn new() -> Self {
        Self(Known::new(BOARDS_MAX, |_| 1))
    }

    /// The board of a slug, `None` where there is none; and until when it is good.
    ///
    /// # Errors
    /// `UNAVAILABLE` where it has to be loaded and SQL does not answer.
    pub async fn find(
        &self,
        db: &DatabaseConnection,
        slug: &str,
    ) -> Result<(Option<Arc<KnownBoard>>, Instant)> {
        if ranking::id::check_slug(slug).is_err() {
            return Ok((None, Instant::now() + FRESH));
        }
        let slug = slug.to_owned();
        let read = || async {
            let of_slug = board::living().filter(board::Column::Slug.eq(&slug));
            let row = of_slug.one(db).await?;
            row.map(KnownBoard::new).transpose()
        };
        self.0.find(&slug, read).await
    }

    /// Says that this process changed the board of a slug.
    pub fn changed(&self, slug: &str) {
        self.0.changed(&slug.to_owned());
    }
}
