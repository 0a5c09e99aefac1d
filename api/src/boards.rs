//! The boards that this process knows: loaded from SQL when first asked for, so that reads and writes go on without SQL.

use std::sync::Arc;

use entity::board;
use moka::future::Cache;
use ranking::board::Board;
use sea_orm::{ColumnTrait, DatabaseConnection, EntityTrait, QueryFilter};

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
}

/// Boards by slug. A board's rules never change, so what is known stays known.
#[derive(Debug, Clone)]
pub struct Boards {
    known: Cache<String, Arc<KnownBoard>>,
}

impl KnownBoard {
    /// Reads a row's rules.
    ///
    /// # Errors
    /// `INTERNAL` where the row is broken.
    pub fn new(row: board::Model) -> Result<Arc<Self>> {
        let board = row.to_ranking()?;
        Ok(Arc::new(Self { row, board }))
    }
}

impl Boards {
    /// Knows none yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            known: Cache::new(BOARDS_MAX),
        }
    }

    /// The board of a slug; `None` where there is none.
    ///
    /// # Errors
    /// `UNAVAILABLE` where it has to be loaded and SQL does not answer.
    pub async fn find(
        &self,
        db: &DatabaseConnection,
        slug: &str,
    ) -> Result<Option<Arc<KnownBoard>>> {
        if let Some(known) = self.known.get(slug).await {
            return Ok(Some(known));
        }
        if ranking::id::check_slug(slug).is_err() {
            return Ok(None);
        }
        let row = board::Entity::find()
            .filter(board::Column::Slug.eq(slug))
            .one(db)
            .await?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(self.learn(row).await?))
    }

    /// Remembers a row.
    ///
    /// # Errors
    /// `INTERNAL` where the row is broken.
    pub async fn learn(&self, row: board::Model) -> Result<Arc<KnownBoard>> {
        let known = KnownBoard::new(row)?;
        self.known
            .insert(known.row.slug.clone(), known.clone())
            .await;
        Ok(known)
    }
}
