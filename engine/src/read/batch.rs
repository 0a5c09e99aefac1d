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
        let live = self.live(standings, |store, standings| {
            async move { store.pages_from(&standings, pages).await }.boxed()
        });
        if let Some(pages) = live.await? {
            return Ok(pages);
        }
        match self.sealed(standings).await? {
            Some(sealed) => sealed.pages_from(pages).await,
            None => Ok(vec![vec![]; pages.len()]),
        }
    }

    /// As [`Reader::neighbors`] for each of these members, in their order.
    pub async fn neighborhoods(
        &self,
        standings: &Standings,
        members: &[MemberId],
        above: usize,
        below: usize,
    ) -> Result<Vec<Neighborhood>> {
        let live = self.live(standings, |store, standings| {
            async move { store.neighborhoods(&standings, members, above, below).await }.boxed()
        });
        if let Some(around) = live.await? {
            return Ok(around);
        }
        match self.sealed(standings).await? {
            Some(sealed) => sealed.neighborhoods(members, above, below).await,
            None => Ok(vec![None; members.len()]),
        }
    }
}
