//! Reads of many places of the same standings at once: pages by their positions, neighborhoods.

use entity::error::Result;
use futures::FutureExt;
use ranking::id::MemberId;
use ranking::store::read::around::Neighborhood;
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
}
