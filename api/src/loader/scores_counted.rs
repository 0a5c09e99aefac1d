//! The numbers of scores that count in entries.

use std::collections::HashMap;

use dataloader::BatchFn;
use engine::read::ScoresCounted;
use entity::history::counted::COUNTED_TOGETHER_MAX;
use ranking::id::MemberId;

use super::lookups::Lookups;
use super::metadata::{EntryMaker, by_standings};
use crate::error::{Error, Result};

/// The scores of an entry.
pub(super) type Counted = Result<ScoresCounted>;

/// Counts scores: in one batch for each of the standings, one after the other, as events that one
/// passes are no longer left for the next.
pub(crate) struct ScoresCountedBatch {
    lookups: Lookups,
    /// The events that the request may still pass.
    left: u64,
}

impl ScoresCountedBatch {
    pub(crate) fn new(lookups: Lookups) -> Self {
        Self { lookups, left: COUNTED_TOGETHER_MAX }
    }

    async fn count(&mut self, entries: Vec<&EntryMaker>) -> Vec<(EntryMaker, Counted)> {
        let EntryMaker { board, standings, .. } = entries[0];
        let members: Vec<MemberId> = entries.iter().map(|entry| entry.key.0.clone()).collect();
        let (app, left) = (&self.lookups.app, self.left);
        let read = async {
            let counts = app.reader().scores_counted(&board.board, standings, &members, left);
            Ok::<_, Error>(counts.await?)
        };
        let counts = self.lookups.read(app.health.sql.read(read)).await;
        let entries = entries.into_iter().cloned();
        match counts {
            Ok(counts) => {
                let passed = counts.iter().flatten().map(|count| count.passed).sum();
                self.left = left.saturating_sub(passed);
                entries.zip(counts.into_iter().map(|count| Ok(count?))).collect()
            }
            Err(error) => entries.map(|entry| (entry, Err(error.clone()))).collect(),
        }
    }
}

impl BatchFn<EntryMaker, Counted> for ScoresCountedBatch {
    async fn load(&mut self, all: &[EntryMaker]) -> HashMap<EntryMaker, Counted> {
        let mut counted = HashMap::new();
        for entries in by_standings(all) {
            counted.extend(self.count(entries).await);
        }
        counted
    }
}
