//! Commits that tell partitions of a seal: first that a period is closed to writers, then that it
//! is gone.

use ranking::board::Board;
use ranking::store::write::Writes;
use ranking::window::seal::{NEVER_MS, SealName};

use super::listing::Listing;
use super::window_seal::WindowSeal;
use crate::partition::Partition;
use crate::partition::change::{Change, Proposal};
use entity::error::Result;

/// The most keys, or periods of a list, that one commit drops.
const KEYS_MAX: usize = 500;

impl WindowSeal<'_> {
    /// Marks a partition.
    pub(super) async fn mark(&self, partition: Partition<'_>, before_ms: i64) -> Result<()> {
        self.commit(partition, before_ms, None).await
    }

    /// Drops a partition's listed keys of sealed periods, and removes the periods from their lists.
    pub(super) async fn drop_keys(
        &self,
        listing: &Listing,
        partition: Partition<'_>,
        before_ms: i64,
    ) -> Result<()> {
        let store = &self.deployment.store;
        let mut steps: Vec<Dropping> = vec![];
        let standings = self.standings(listing, partition, NEVER_MS, before_ms)?;
        let keys: Vec<String> =
            standings.iter().map(|(id, _)| store.keys().standings(partition.no, id)).collect();
        steps.extend(keys.chunks(KEYS_MAX).map(|keys| Dropping::Keys(keys.to_vec())));
        for list in listing.lists(partition.no, self.name)? {
            let labels = store.listed_before(list, before_ms).await?;
            let chunks = labels.chunks(KEYS_MAX);
            steps.extend(chunks.map(|labels| Dropping::Periods(list.clone(), labels.to_vec())));
        }
        // A commit even if there is nothing to drop: a reader with an old row must learn of it.
        if steps.is_empty() {
            steps.push(Dropping::Keys(vec![]));
        }
        for dropping in steps {
            self.commit(partition, before_ms, Some(dropping)).await?;
        }
        Ok(())
    }

    async fn commit(
        &self,
        partition: Partition<'_>,
        before_ms: i64,
        dropping: Option<Dropping>,
    ) -> Result<()> {
        let mut marking = Marking { board: &self.board, name: self.name, before_ms, dropping };
        partition.commit_change(&mut marking).await?;
        Ok(())
    }
}

/// The keys or periods that one commit drops.
enum Dropping {
    /// Keys of standings.
    Keys(Vec<String>),
    /// Labels of a list of periods.
    Periods(String, Vec<String>),
}

/// Advances a window's mark, and drops what belongs to that step.
struct Marking<'a> {
    board: &'a Board,
    name: SealName,
    before_ms: i64,
    dropping: Option<Dropping>,
}

impl Change for Marking<'_> {
    type Outcome = ();

    async fn propose(&mut self, partition: Partition<'_>) -> Result<Proposal<()>> {
        let store = &partition.store;
        let tail = partition.head(self.board.no, &[self.name]).await?;
        tail.board.check(self.board)?;
        let known = tail.seals.first().copied().unwrap_or_default();
        let mut mark = known;
        if known.sealing_before_ms < self.before_ms {
            mark.sealing_before_ms = self.before_ms;
            mark.seq = tail.head.seq + 1;
        }
        let mut writes = Writes::default();
        let mut drops = false;
        if let Some(dropping) = &self.dropping {
            mark.dropped_before_ms = mark.dropped_before_ms.max(self.before_ms);
            match dropping {
                Dropping::Keys(keys) => keys.iter().for_each(|key| writes.drop_key(key)),
                Dropping::Periods(list, labels) => writes.forget_periods(list, labels),
            }
            drops = !matches!(dropping, Dropping::Keys(keys) if keys.is_empty());
        }
        writes.mark_seal(store.keys(), partition.no, self.name, mark);
        let proposal = Proposal::nothing(tail.head, ());
        Ok(match mark != known || drops {
            true => proposal.writing(writes, partition.clock.now_ms()),
            false => proposal,
        })
    }
}
