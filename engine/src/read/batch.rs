//! Reads of many places of the same standings at once: pages by their positions, neighborhoods,
//! distinct scores.

use entity::error::Result;
use futures::FutureExt;
use ranking::id::MemberId;
use ranking::score::rank_key::RankKey;
use ranking::store::read::around::Neighborhood;
use ranking::store::read::merge::Start;
use ranking::store::read::{RankedEntry, Standings};

use super::reader::Reader;

impl Reader {
    /// The pages of up to some entries from some positions on, in the order of `pages`.
    pub async fn pages_from(
        &self,
        standings: &Standings,
        pages: &[(u64, usize)],
    ) -> Result<Vec<Vec<RankedEntry>>> {
        self.read(
            standings,
            vec![vec![]; pages.len()],
            |store, now| async move { store.pages_from(&now, pages).await }.boxed(),
            |in_sql| async move { in_sql.pages_from(pages).await },
        )
        .await
    }

    /// As [`Reader::neighbors`] for each of these members, in their order.
    pub async fn neighborhoods(
        &self,
        standings: &Standings,
        members: &[MemberId],
        above: usize,
        below: usize,
    ) -> Result<Vec<Neighborhood>> {
        self.read(
            standings,
            vec![None; members.len()],
            |store, now| {
                async move { store.neighborhoods(&now, members, above, below).await }.boxed()
            },
            |in_sql| async move { in_sql.neighborhoods(members, above, below).await },
        )
        .await
    }

    /// The first keys of distinct scores from a place on, best first, and true if no more follow.
    /// Redis tells those of the next `step` entries, SQL usually more.
    pub async fn scores(
        &self,
        standings: &Standings,
        from: &RankedEntry,
        step: usize,
    ) -> Result<(Vec<RankKey>, bool)> {
        let layout = standings.rules.layout(standings.id.window);
        self.read(
            standings,
            (vec![], true),
            |store, now| {
                let start = Start::Place(from.clone());
                async move {
                    let (_, entries) = store.forward(&now, &start, step).await?;
                    let scores = entries.iter().map(|entry| layout.first_of_score(entry.key));
                    let mut scores: Vec<RankKey> = scores.collect();
                    scores.dedup();
                    Ok((scores, entries.len() < step))
                }
                .boxed()
            },
            |in_sql| async move { in_sql.scores(from, layout).await },
        )
        .await
    }
}
