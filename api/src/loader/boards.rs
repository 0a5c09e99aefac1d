//! Boards by number, for one request: all boards of its jobs, runs and findings cost one SELECT.

use std::collections::HashMap;
use std::sync::Arc;

use dataloader::BatchFn;
use entity::board;
use futures::FutureExt;

use crate::cache::boards::CachedBoard;
use crate::error::{Error, Result};

use super::ROWS_MAX;
use super::lookups::Lookups;

/// A board, even if it was deleted; `None` if there never was one of that number.
pub(crate) type Numbered = Result<Option<Arc<CachedBoard>>>;

/// Loads boards by their numbers.
pub(crate) struct BoardBatch(pub(crate) Lookups);

impl BatchFn<i64, Numbered> for BoardBatch {
    async fn load(&mut self, numbers: &[i64]) -> HashMap<i64, Numbered> {
        boards(&self.0, numbers).boxed().await
    }
}

async fn boards(lookups: &Lookups, numbers: &[i64]) -> HashMap<i64, Numbered> {
    let mut found = HashMap::with_capacity(numbers.len());
    for chunk in numbers.chunks(ROWS_MAX) {
        match lookups.read(board::of_numbers(&lookups.app.deployment.reads, chunk)).await {
            Ok(rows) => {
                found.extend(chunk.iter().map(|no| (*no, Ok(None))));
                found.extend(rows.into_iter().map(|row| (row.no, CachedBoard::new(row).map(Some))));
            }
            Err(error) => {
                let error = Error::from(error);
                found.extend(chunk.iter().map(|no| (*no, Err(error.clone()))));
            }
        }
    }
    found
}
