//! The cache of boards, so that reads and writes go on without SQL.

use std::sync::Arc;

use entity::board;
use entity::board::display::Display;
use ranking::board::Board;
use sea_orm::DatabaseConnection;
use tokio::time::Instant;

use crate::cache::sql::{FRESH, Lane, SqlCache};
use crate::error::Result;
use crate::health::Health;

/// The most boards kept in memory.
const BOARDS_MAX: u64 = 10_000;

/// A board: its row, and its rules as `ranking` has them.
#[derive(Debug)]
pub struct CachedBoard {
    /// The row in SQL.
    pub row: board::Model,
    /// The rules.
    pub board: Board,
    /// The member attributes that have standings of their own.
    pub segment_by: Vec<String>,
    /// The texts and tags by which people know it.
    pub display: Display,
}

/// The cache of boards by slug.
pub struct Boards(SqlCache<String, Option<Arc<CachedBoard>>>);

impl CachedBoard {
    /// Parses the rules of a row.
    ///
    /// # Errors
    /// `INTERNAL` if the row is corrupt.
    pub fn new(row: board::Model) -> Result<Arc<Self>> {
        let (board, segment_by) = (row.to_ranking()?, row.segment_attributes()?);
        let display = row.display()?;
        Ok(Arc::new(Self { row, board, segment_by, display }))
    }
}

impl Boards {
    /// Starts empty.
    pub fn new(health: &Arc<Health>) -> Self {
        Self(SqlCache::new(health, Lane::LookUps, BOARDS_MAX, |_| 1))
    }

    /// Finds the board of a slug, `None` if there is none; and the instant until which that is
    /// good.
    ///
    /// # Errors
    /// `UNAVAILABLE` if the board must be loaded and SQL does not answer.
    pub async fn find(
        &self,
        db: &DatabaseConnection,
        slug: &str,
    ) -> Result<(Option<Arc<CachedBoard>>, Instant)> {
        if ranking::id::check_slug(slug).is_err() {
            return Ok((None, Instant::now() + FRESH));
        }
        let slug = slug.to_owned();
        // In a box, as most look-ups read nothing.
        let read = || {
            Box::pin(async {
                let row = board::of_slug(db, &slug).await?;
                row.map(CachedBoard::new).transpose()
            })
        };
        self.0.find(&slug, read).await
    }

    /// Invalidates the board of a slug, as this process has changed it.
    pub fn changed(&self, slug: &str) {
        self.0.changed(&slug.to_owned());
    }
}
