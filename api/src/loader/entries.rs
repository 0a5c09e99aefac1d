//! Entries of members, and counts of entries.

use std::collections::HashMap;

use dataloader::BatchFn;
use ranking::id::MemberId;
use ranking::score::rank_key::RankKey;
use ranking::store::read::RankedEntry;

use super::lookups::{In, Lookups, by_standings};
use crate::app::SharedApp;
use crate::error::{Error, Result};

/// A member in standings.
pub type Place = In<MemberId>;

/// A rank key in standings, for a loader that counts the entries with smaller keys. `None` counts
/// all.
pub type Bound = In<Option<RankKey>>;

/// An entry in standings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The rank key.
    pub key: RankKey,
    /// The number of entries before it.
    pub position: u64,
}

/// Finds entries in one round trip, or two if there are several shards; more for members that move.
pub(crate) struct EntryBatch(pub(crate) Lookups);

/// Counts entries.
pub(crate) struct CountBatch(pub(crate) Lookups);

/// Counts distinct scores.
pub(crate) struct BetterScoresBatch(pub(crate) Lookups);

impl BatchFn<Place, Result<Option<Found>>> for EntryBatch {
    async fn load(&mut self, places: &[Place]) -> HashMap<Place, Result<Option<Found>>> {
        let groups = by_standings(places);
        self.0.read_all(groups.map(|places| find(&self.0.app, places))).await
    }
}

impl BatchFn<Bound, Result<u64>> for CountBatch {
    async fn load(&mut self, bounds: &[Bound]) -> HashMap<Bound, Result<u64>> {
        let groups = by_standings(bounds);
        self.0.read_all(groups.map(|bounds| count(&self.0.app, bounds))).await
    }
}

impl BatchFn<Bound, Result<u64>> for BetterScoresBatch {
    async fn load(&mut self, bounds: &[Bound]) -> HashMap<Bound, Result<u64>> {
        let groups = by_standings(bounds);
        self.0.read_all(groups.map(|bounds| count_better(&self.0, bounds))).await
    }
}

async fn find(app: &SharedApp, places: Vec<&Place>) -> Vec<(Place, Result<Option<Found>>)> {
    let members: Vec<MemberId> = places.iter().map(|place| place.key.clone()).collect();
    match app.reader().find(&places[0].standings, &members).await {
        Ok(found) => {
            let entry = |(RankedEntry { key, .. }, position)| Found { key, position };
            let found = found.into_iter().map(|found| Ok(found.map(entry)));
            places.into_iter().cloned().zip(found).collect()
        }
        Err(error) => failed(places, error),
    }
}

async fn count(app: &SharedApp, bounds: Vec<&Bound>) -> Vec<(Bound, Result<u64>)> {
    let standings = &bounds[0].standings;
    let keys: Vec<RankKey> = bounds.iter().filter_map(|bound| bound.key).collect();
    let counts = app.reader().counts_below(standings, &keys).await.map_err(Error::from);
    let size = match bounds.len() > keys.len() {
        true => app.reader().size(standings).await.map_err(Error::from),
        false => Ok(0),
    };
    let mut counts = keys
        .iter()
        .enumerate()
        .map(|(index, _)| counts.as_ref().map(|counts| counts[index]).map_err(Clone::clone));
    let each = bounds.iter().map(|bound| {
        let count = if bound.key.is_some() { counts.next().unwrap_or(Ok(0)) } else { size.clone() };
        ((*bound).clone(), count)
    });
    each.collect()
}

async fn count_better(lookups: &Lookups, bounds: Vec<&Bound>) -> Vec<(Bound, Result<u64>)> {
    let keys: Vec<RankKey> = bounds.iter().filter_map(|bound| bound.key).collect();
    let counts = lookups.app.better_scores(&bounds[0].standings, &keys, &lookups.steps).await;
    let keyed = bounds.iter().filter(|bound| bound.key.is_some());
    let each = keyed.enumerate().map(|(index, bound)| {
        let count = match &counts {
            Ok(counts) => counts[index].clone(),
            Err(error) => Err(error.clone()),
        };
        ((*bound).clone(), count)
    });
    each.collect()
}

/// The same error for each key.
pub(crate) fn failed<K: Clone, V>(keys: Vec<&K>, error: impl Into<Error>) -> Vec<(K, Result<V>)> {
    let error = error.into();
    keys.into_iter().map(|key| (key.clone(), Err(error.clone()))).collect()
}
