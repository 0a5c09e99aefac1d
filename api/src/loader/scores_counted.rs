//! The numbers of scores that count in entries.

use std::collections::HashMap;

use dataloader::BatchFn;
use engine::read::ScoresCounted;
use ranking::id::MemberId;

use super::lookups::Lookups;
use super::metadata::{EntryMaker, by_standings};
use crate::error::{Error, Result};

/// The scores of an entry.
pub(super) type Counted = Result<ScoresCounted>;

/// Counts scores: in one batch for each of the standings.
pub(crate) struct ScoresCountedBatch(pub(crate) Lookups);

impl BatchFn<EntryMaker, Counted> for ScoresCountedBatch {
    async fn load(&mut self, all: &[EntryMaker]) -> HashMap<EntryMaker, Counted> {
        let lookups = &self.0;
        lookups.read_all(by_standings(all).map(|entries| count(lookups, entries))).await
    }
}

async fn count(lookups: &Lookups, entries: Vec<&EntryMaker>) -> Vec<(EntryMaker, Counted)> {
    let EntryMaker { board, standings, .. } = entries[0];
    let members: Vec<MemberId> = entries.iter().map(|entry| entry.key.0.clone()).collect();
    let app = &lookups.app;
    let read = async {
        Ok::<_, Error>(app.reader.scores_counted(&board.board, standings, &members).await?)
    };
    let entries = entries.into_iter().cloned();
    match app.health.sql.read(read).await {
        Ok(counts) => entries.zip(counts.into_iter().map(|count| Ok(count?))).collect(),
        Err(error) => entries.map(|entry| (entry, Err(error.clone()))).collect(),
    }
}
