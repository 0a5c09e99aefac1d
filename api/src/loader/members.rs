//! The rows of members.

use std::collections::HashMap;

use dataloader::BatchFn;
use entity::member;
use futures::FutureExt;

use super::ROWS_MAX;
use super::lookups::Lookups;
use crate::error::Result;

/// Loads members by their keys.
pub(crate) struct MemberBatch(pub(crate) Lookups);

/// The row of a member; `None` if SQL has none.
pub(crate) type Row = Result<Option<member::Model>>;

impl BatchFn<String, Row> for MemberBatch {
    async fn load(&mut self, keys: &[String]) -> HashMap<String, Row> {
        rows(&self.0, keys).boxed().await
    }
}

async fn rows(lookups: &Lookups, keys: &[String]) -> HashMap<String, Row> {
    let mut found = HashMap::with_capacity(keys.len());
    for chunk in keys.chunks(ROWS_MAX) {
        let app = &lookups.app;
        let read = async { Ok(member::of_keys(&app.deployment.reads, chunk).await?) };
        match lookups.read(app.health.sql.read(read)).await {
            Ok(rows) => {
                found.extend(chunk.iter().map(|key| (key.clone(), Ok(None))));
                found.extend(rows.into_iter().map(|row| (row.key.clone(), Ok(Some(row)))));
            }
            Err(error) => {
                found.extend(chunk.iter().map(|key| (key.clone(), Err(error.clone()))));
            }
        }
    }
    found
}
