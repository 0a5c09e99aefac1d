//! The keys that Redis has of windows that are being sealed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use ranking::id::PartitionNo;
use ranking::standings_id::StandingsId;
use ranking::window::seal::SealName;

use super::window_seal::WindowSeal;
use entity::error::Result;

/// The keys of some windows, as of one walk through Redis.
#[derive(Debug, Default)]
pub(super) struct Listing {
    standings: HashMap<(PartitionNo, SealName), BTreeSet<StandingsId>>,
    lists: HashMap<(PartitionNo, SealName), BTreeSet<String>>,
    /// The partitions whose keys could not be listed, with the reason.
    unlisted: BTreeMap<PartitionNo, String>,
}

impl Listing {
    /// Lists the keys of windows.
    pub(super) async fn read(windows: &[WindowSeal<'_>]) -> Self {
        let mut listing = Self::default();
        let Some(store) = windows.first().map(|window| &window.deployment.store) else {
            return listing;
        };
        let names: HashSet<SealName> = windows.iter().map(|window| window.name).collect();
        let boards: BTreeSet<_> = windows.iter().map(|window| window.board.no).collect();
        let only = boards.first().copied().filter(|_| boards.len() == 1);
        let partitions = windows.iter().flat_map(|window| window.partitions());
        let partitions: BTreeSet<PartitionNo> = partitions.map(|partition| partition.no).collect();
        for walk in store.walks(&partitions) {
            let visit = |partition: PartitionNo, key: String| {
                let keys = store.keys();
                if let Some(id) = keys.parse_standings(partition, &key) {
                    if let Some(name) = id.seal_name().filter(|name| names.contains(name)) {
                        listing.standings.entry((partition, name)).or_default().insert(id);
                    }
                } else if let Some(name) = keys.parse_periods(partition, &key)
                    && names.contains(&name)
                {
                    listing.lists.entry((partition, name)).or_default().insert(key);
                }
            };
            if let Err(error) = store.each_series_key(&walk, only, visit).await {
                let reason = error.to_string();
                listing.unlisted.extend(walk.into_iter().map(|no| (no, reason.clone())));
            }
        }
        listing
    }

    /// The standings of a window in a partition.
    ///
    /// # Errors
    /// `Unavailable` if they could not be listed.
    pub(super) fn standings(
        &self,
        partition: PartitionNo,
        name: SealName,
    ) -> Result<impl Iterator<Item = &StandingsId>> {
        self.check(partition)?;
        Ok(self.standings.get(&(partition, name)).into_iter().flatten())
    }

    /// The keys of the lists of a window's periods in a partition.
    ///
    /// # Errors
    /// `Unavailable` if they could not be listed.
    pub(super) fn lists(
        &self,
        partition: PartitionNo,
        name: SealName,
    ) -> Result<impl Iterator<Item = &String>> {
        self.check(partition)?;
        Ok(self.lists.get(&(partition, name)).into_iter().flatten())
    }

    fn check(&self, partition: PartitionNo) -> Result<()> {
        match self.unlisted.get(&partition) {
            None => Ok(()),
            Some(reason) => Err(ranking::Error::Unavailable(reason.clone()).into()),
        }
    }
}
