//! The totals of connections, each counted once a request.

use std::collections::HashMap;

use dataloader::BatchFn;
use entity::archive::{archive_mark, archived_entry};
use entity::board;
use entity::board::display::Filter;
use entity::history::score_event;
use entity::integrity::{integrity_finding, integrity_run};
use entity::job;
use entity::member::search::Prefix;
use futures::FutureExt;
use futures::future::join_all;
use ranking::id::{BoardNo, PartitionNo};

use super::lookups::{In, Lookups};
use crate::app::SharedApp;
use crate::error::Result;

/// The most totals that are counted at once, as each may take a connection to SQL for a while.
const COUNTED_AT_ONCE: usize = 4;

/// A total, as the key of a loader.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Total {
    /// The periods that have entries and became the present one before an instant, of the window
    /// and segment of standings.
    Periods(In<i64>),
    /// The events of a member on a board, without archived ones.
    Events(OfMember),
    /// The archived events of a member on a board.
    ArchivedEvents(OfMember),
    /// The boards of a filter.
    Boards(Filter),
    /// The members that a search finds.
    Members(Prefix),
    /// The jobs of one board or all, and of one kind or all.
    Jobs(Option<i64>, Option<&'static str>),
    /// The runs of the integrity diff over one board alone, or all runs.
    IntegrityRuns(Option<i64>),
    /// The findings of a run.
    Findings(i64),
}

/// A member's history on a board.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct OfMember {
    pub(crate) board: BoardNo,
    pub(crate) partition: PartitionNo,
    pub(crate) member: String,
}

/// Counts totals.
pub(crate) struct TotalBatch(pub(crate) Lookups);

impl BatchFn<Total, Result<u64>> for TotalBatch {
    async fn load(&mut self, totals: &[Total]) -> HashMap<Total, Result<u64>> {
        counts(&self.0, totals).boxed().await
    }
}

async fn counts(lookups: &Lookups, totals: &[Total]) -> HashMap<Total, Result<u64>> {
    let mut found = HashMap::with_capacity(totals.len());
    for some in totals.chunks(COUNTED_AT_ONCE) {
        let counts = some.iter().map(|total| lookups.read(count(&lookups.app, total)));
        found.extend(some.iter().cloned().zip(join_all(counts).await));
    }
    found
}

async fn count(app: &SharedApp, total: &Total) -> Result<u64> {
    let db = &app.deployment.reads;
    Ok(match total {
        Total::Periods(In { standings, key: before_ms }) => {
            app.reader().count_periods(standings, *before_ms).await?
        }
        Total::Events(OfMember { board, partition, member }) => {
            let mark = archive_mark::of(db, *board, *partition).await?;
            score_event::count_of_member(db, *board, member, mark.archived_seq).await?
        }
        Total::ArchivedEvents(OfMember { board, partition, member }) => {
            let mark = archive_mark::of(db, *board, *partition).await?;
            archived_entry::events(db, &mark, member).await?
        }
        Total::Boards(filter) => board::count(db, filter).await?,
        Total::Members(prefix) => prefix.count(db).await?,
        Total::Jobs(board_no, kind) => job::count(db, *board_no, *kind).await?,
        Total::IntegrityRuns(board_no) => integrity_run::count(db, *board_no).await?,
        Total::Findings(run_id) => integrity_finding::count(db, *run_id).await?,
    })
}
