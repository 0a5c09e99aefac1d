//! Standings put into Redis while a partition is loaded: small ones at once, others by stages.

use futures::future::try_join_all;
use ranking::standings_id::StandingsId;
use ranking::store::recovery::Recovery;
use ranking::store::stage::Stages;
use ranking::store::write::Writes;
use ranking::submission::StandingsChange;

use crate::partition::Partition;
use entity::error::{Error, Result};

/// The most entries of standings that a step sets itself: Redis does nothing else meanwhile. Larger
/// ones are staged.
const SMALL_ENTRIES: usize = 1000;

/// The number of standings that one step puts in place, and the entries from which on they are
/// fewer.
const STEP_STANDINGS: usize = 500;
const STEP_ENTRIES: usize = 10_000;

/// The most standings that are staged at once, and the entries from which on they are fewer.
const STAGED_AT_ONCE: usize = 100;
const ENTRIES_AT_ONCE: usize = 50_000;

impl Partition<'_> {
    /// Sets standings, whose entries are in rank order, while the lease of the recovery is held.
    pub(super) async fn put_standings(
        self,
        recovery: &Recovery,
        standings: Vec<StandingsChange>,
    ) -> Result<()> {
        let is_small = |change: &StandingsChange| change.entries.len() <= SMALL_ENTRIES;
        let (small, mut large): (Vec<_>, Vec<_>) = standings.into_iter().partition(is_small);
        match self.put_small(recovery, &small).await {
            // The server does not know the form or forbids the command.
            Err(Error::Ranking(ranking::Error::Corrupt(reason))) => {
                tracing::debug!(reason, "standings cannot be loaded by RESTORE");
                large.extend(small);
            }
            put => put?,
        }
        if large.is_empty() {
            return Ok(());
        }
        let stages = self.store.stages(self.no, entity::random_id()).await?;
        let put = self.put_staged(recovery, &stages, large).await;
        // Leftover stages expire by themselves.
        let _ = stages.discard().await;
        put
    }

    async fn put_small(self, recovery: &Recovery, standings: &[StandingsChange]) -> Result<()> {
        let keys = self.store.keys();
        let (mut writes, mut count, mut entries) = (Writes::default(), 0, 0);
        for change in standings {
            writes.load(&keys.standings(self.no, &change.id), &change.entries_set());
            writes.note_period(keys, self.no, &change.id, change.present_from_ms);
            count += 1;
            entries += change.entries.len();
            if count == STEP_STANDINGS || entries >= STEP_ENTRIES {
                recovery.apply(&std::mem::take(&mut writes)).await?;
                (count, entries) = (0, 0);
            }
        }
        Ok(recovery.apply(&writes).await?)
    }

    /// Loads standings beside their keys, and swaps them in while the lease of the recovery is
    /// held.
    async fn put_staged(
        self,
        recovery: &Recovery,
        stages: &Stages,
        standings: Vec<StandingsChange>,
    ) -> Result<()> {
        let keys = self.store.keys();
        let (mut writes, mut staged) = (Writes::default(), vec![]);
        let mut standings = standings.into_iter();
        loop {
            let (mut group, mut entries) = (vec![], 0);
            while group.len() < STAGED_AT_ONCE
                && entries < ENTRIES_AT_ONCE
                && let Some(change) = standings.next()
            {
                entries += change.entries.len();
                group.push(stage(stages, change));
            }
            if group.is_empty() {
                break;
            }
            for (id, present_from_ms, stage) in try_join_all(group).await? {
                writes.swap_in(&stage, &keys.standings(self.no, &id));
                writes.note_period(keys, self.no, &id, present_from_ms);
                staged.push(stage);
            }
            if staged.len() >= STEP_STANDINGS {
                recovery.apply(&std::mem::take(&mut writes)).await?;
                staged.drain(..).for_each(|stage| stages.forget(&stage));
            }
        }
        recovery.apply(&writes).await?;
        staged.iter().for_each(|stage| stages.forget(stage));
        Ok(())
    }
}

/// Stages standings. Returns their id, the instant at which their period became present, and the
/// staged key.
async fn stage(stages: &Stages, change: StandingsChange) -> Result<(StandingsId, i64, String)> {
    let entries = change.entries_set();
    let stage = stages.load(&change.id, entries.len(), |index| entries[index]).await?;
    Ok((change.id, change.present_from_ms, stage))
}
