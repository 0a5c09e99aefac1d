//! The metadata of entries.

use std::collections::HashMap;
use std::collections::hash_map::IntoValues;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use dataloader::BatchFn;
use ranking::id::MemberId;
use ranking::metadata::Metadata;
use ranking::score::rank_key::RankKey;
use ranking::standings_id::StandingsId;
use ranking::store::read::{RankedEntry, Standings};

use super::lookups::Lookups;
use crate::cache::boards::CachedBoard;
use crate::error::{Error, Result};
use crate::http::turns;

/// An entry of standings, by its member and its key, as the key of a loader.
#[derive(Debug, Clone)]
pub(crate) struct EntryMaker {
    /// The board of the standings.
    pub(crate) board: Arc<CachedBoard>,
    /// The standings.
    pub(crate) standings: Arc<Standings>,
    /// The member and the key.
    pub(crate) key: (MemberId, RankKey),
}

impl PartialEq for EntryMaker {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key && self.standings.id == other.standings.id
    }
}

impl Eq for EntryMaker {}

impl Hash for EntryMaker {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.standings.id.hash(state);
        self.key.hash(state);
    }
}

/// Finds the events that made entries: in one batch for each of the standings.
pub(crate) struct MetadataBatch(pub(crate) Lookups);

/// The metadata of an entry; `None` if it has none.
type Of = Result<Option<Metadata>>;

impl BatchFn<EntryMaker, Of> for MetadataBatch {
    async fn load(&mut self, all: &[EntryMaker]) -> HashMap<EntryMaker, Of> {
        let lookups = &self.0;
        lookups.read_all(by_standings(all).map(|made| find(lookups, made))).await
    }
}

/// Groups entries by their standings.
pub(super) fn by_standings(all: &[EntryMaker]) -> IntoValues<&StandingsId, Vec<&EntryMaker>> {
    let mut groups: HashMap<&StandingsId, Vec<&EntryMaker>> = HashMap::new();
    for made in all {
        groups.entry(&made.standings.id).or_default().push(made);
    }
    groups.into_values()
}

async fn find(lookups: &Lookups, all: Vec<&EntryMaker>) -> Vec<(EntryMaker, Of)> {
    let EntryMaker { board, standings, .. } = all[0];
    let entry = |made: &&EntryMaker| {
        let (member, key) = made.key.clone();
        RankedEntry { key, member }
    };
    let entries: Vec<RankedEntry> = all.iter().map(entry).collect();
    let app = &lookups.app;
    // Others wait for the ends of logs that it reads.
    let _shared = turns::share();
    let read =
        async { Ok::<_, Error>(app.reader().metadata(&board.board, standings, &entries).await?) };
    match app.health.sql.read(read).await {
        Ok(found) => all.into_iter().cloned().zip(found.into_iter().map(Ok)).collect(),
        Err(error) => all.into_iter().map(|made| (made.clone(), Err(error.clone()))).collect(),
    }
}
