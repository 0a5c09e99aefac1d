//! The entries of one period's standings in rank order, page by page, from Redis, or from SQL once
//! the period is sealed.

use std::time::Duration;

use anyhow::Result;
use engine::deployment::Deployment;
use engine::partition::recovery;
use engine::read::sealed;
use engine::roll;
use ranking::board::Board;
use ranking::id::{BoardNo, Partition};
use ranking::standings_id::StandingsId;
use ranking::store::read::merge::Start;
use ranking::store::read::{RankedEntry, Standings};
use ranking::window::{Period, Window};
use tokio::time::{Instant, sleep};

/// Entries of a page: the command that reads them keeps Redis busy for some milliseconds.
const PAGE: usize = 4000;

/// How long a page waits for level partitions and for rolling windows that have reached the
/// present.
const LEVEL_TIMEOUT: Duration = Duration::from_secs(60);

/// Reads standings page by page.
pub struct Listing<'a> {
    deployment: &'a Deployment,
    board: Board,
    standings: Standings,
}

impl<'a> Listing<'a> {
    /// The standings of a board's segment in a window's period.
    pub fn new(
        deployment: &'a Deployment,
        board: Board,
        segment: &str,
        window: Window,
        period: Period,
    ) -> Self {
        let id = StandingsId::of(&board, segment, window, &period);
        Self { standings: Standings::new(&deployment.store, &board, id, period), deployment, board }
    }

    /// The standings that it reads.
    pub fn standings(&self) -> &Standings {
        &self.standings
    }

    /// The entries after `last`, or the first ones; none after the end. A member that moves from
    /// one page to the next may be in both, or in neither.
    pub async fn page_after(&mut self, last: Option<&RankedEntry>) -> Result<Vec<RankedEntry>> {
        let deadline = Instant::now() + LEVEL_TIMEOUT;
        loop {
            if self.standings.is_sealed() {
                let archived = sealed::find(&self.deployment.db, &self.standings).await?;
                return match archived {
                    Some(archived) => Ok(archived.page_after(last, PAGE).await?),
                    None => Ok(vec![]),
                };
            }
            let error = match self.live_page_after(last).await {
                Ok(page) => return Ok(page),
                Err(error) => error,
            };
            let brought_level = match error {
                ranking::Error::Sealed(before_ms) => {
                    self.standings.sealed_before_ms = before_ms;
                    continue;
                }
                error if Instant::now() >= deadline => return Err(error.into()),
                ranking::Error::BoardMoved(no) => self.find_again(no).await,
                ranking::Error::NotLevel(partition) => {
                    recovery::recover(self.deployment, Partition(partition)).await
                }
                ranking::Error::NotRolled(_) => {
                    let now_ms = self.deployment.clock.now_ms();
                    roll::roll_board(self.deployment, &self.board, now_ms).await
                }
                error => return Err(error.into()),
            };
            match brought_level {
                Err(error) if !error.is_transient() => return Err(error.into()),
                Err(_) => sleep(Duration::from_millis(50)).await,
                Ok(()) => {}
            }
        }
    }

    /// Finds the standings again after the board moved to another number of shards. Fails with
    /// `BoardMoved` while the move goes on, and the caller tries again.
    async fn find_again(&mut self, no: BoardNo) -> entity::Result<()> {
        let boards = entity::board::some(&self.deployment.db, [no].into()).await?;
        let board = boards.get(&no).ok_or(ranking::Error::BoardGone)?;
        if board.layouts.is_coming {
            return Err(ranking::Error::BoardMoved(no).into());
        }
        let (id, period) = (self.standings.id.clone(), self.standings.period.clone());
        self.standings = Standings::new(&self.deployment.store, board, id, period);
        self.board = board.clone();
        Ok(())
    }

    async fn live_page_after(
        &self,
        last: Option<&RankedEntry>,
    ) -> ranking::Result<Vec<RankedEntry>> {
        let (store, standings) = (&self.deployment.store, &self.standings);
        let Some(last) = last else {
            let first = store.split_at_position(standings, 0).await?;
            let (_, page) = store.forward(standings, &Start::Split(first), PAGE).await?;
            return Ok(page);
        };
        // `Start::Place` begins with the entry at that place.
        let start = Start::Place(last.clone());
        let (_, mut page) = store.forward(standings, &start, PAGE + 1).await?;
        if page.first() == Some(last) {
            page.remove(0);
        }
        Ok(page)
    }
}
