//! Seals: move past periods of a board's windows from Redis to SQL.
//!
//! 1. The board's row records the instant before which periods are being sealed.
//! 2. A commit in each partition marks it. From there on no writer changes these periods in Redis:
//!    late events go to the history alone, and the persister corrects the sealed entries with them
//!    ([`crate::seal::correction`]).
//! 3. Once SQL has the mark's commit, the entries are copied page by page, except those that were
//!    corrected since the mark.
//! 4. The board's row records that they are sealed: readers go to SQL.
//! 5. Commits drop the keys and record that in the mark, so that a reader with an old row does not
//!    take the periods for empty.
//!
//! Many boards take each step together, as Redis lists the keys of one board no faster than those
//! of all. Each step can be repeated. If recovery loads a partition in between, the mark says as of
//! which commit its entries are now. A window whose mark or keys changed while it was copied is
//! copied again.

mod copy;
pub mod correction;
pub mod due;
mod listing;
mod marking;
mod run;
mod window_seal;

use std::collections::BTreeSet;
use std::fmt;

use ranking::id::BoardNo;
use ranking::window::Window;
use sea_orm::{ColumnTrait, Condition, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use serde::Serialize;

use self::run::Run;
use crate::deployment::Deployment;
use entity::board;
use entity::error::Result;
use entity::standings::{sealed_entry, sealed_period};

pub(crate) use self::due::may_be_due;

/// The rows of one DELETE.
const ROWS_MAX: u64 = 5000;

/// The most boards that take their steps together. It bounds the keys in memory, the work that a
/// run loses which is cut short, and the time for which late events wait in the history for the
/// sealed entries that they correct.
const BOARDS_MAX: usize = 2000;

/// Figures of a seal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Sealing {
    /// The number of windows, summed over boards.
    pub windows: usize,
    /// The number of standings of past periods, counted by shard.
    pub standings: usize,
    /// The number of entries.
    pub entries: usize,
}

impl fmt::Display for Sealing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { windows, standings, entries } = self;
        write!(f, "sealed {entries} entries of {standings} standings in {windows} windows")
    }
}

/// Seals all periods that are due at an instant: in each window, those before the periods that it
/// retains. A board that fails does not stop the others.
///
/// # Errors
/// The error of the last board that failed; call it again.
pub async fn seal(deployment: &Deployment, now_ms: i64) -> Result<Sealing> {
    let with_windows = board::living().filter(board::Column::Windows.ne("[]"));
    let mut rows = with_windows.all(&deployment.db).await?;
    // Most boards retain everything and need no further look.
    rows.retain(|row| {
        // The loop below tells of a corrupt row.
        row.window_rows().ok().is_none_or(|windows| windows.iter().any(may_be_due))
    });
    seal_boards(deployment, rows, now_ms).await
}

/// As [`seal`], for some boards.
///
/// # Errors
/// As [`seal`].
pub async fn seal_boards(
    deployment: &Deployment,
    rows: Vec<board::Model>,
    now_ms: i64,
) -> Result<Sealing> {
    let mut run = Run {
        deployment,
        now_ms,
        sealing: Sealing::default(),
        failed: None,
        down: BTreeSet::new(),
    };
    let mut rows = rows.into_iter();
    loop {
        let some: Vec<board::Model> = rows.by_ref().take(BOARDS_MAX).collect();
        if some.is_empty() {
            return run.failed.map_or(Ok(run.sealing), Err);
        }
        run.seal(some).await;
    }
}

/// Deletes the sealed standings of a board, or of one window of it, in bounded steps. No writer
/// adds to them any more.
pub(crate) async fn purge(
    deployment: &Deployment,
    no: BoardNo,
    window: Option<(Window, u32)>,
) -> Result<()> {
    use sealed_entry::Column::{Member, StandingsNo};
    let db = &deployment.db;
    let mut meant = Condition::all().add(sealed_period::Column::BoardNo.eq(no.0));
    if let Some((window, generation)) = window {
        meant = meant
            .add(sealed_period::Column::Window.eq(window.to_string()))
            .add(sealed_period::Column::Generation.eq(generation as i32));
    }
    while let Some(period) = sealed_period::Entity::find().filter(meant.clone()).one(db).await? {
        loop {
            let last: Option<String> = sealed_entry::Entity::find()
                .select_only()
                .column(Member)
                .filter(StandingsNo.eq(period.no))
                .order_by_asc(Member)
                .offset(ROWS_MAX)
                .limit(1)
                .into_tuple()
                .one(db)
                .await?;
            let mut delete = sealed_entry::Entity::delete_many().filter(StandingsNo.eq(period.no));
            if let Some(last) = &last {
                delete = delete.filter(Member.lt(last));
            }
            delete.exec(db).await?;
            if last.is_none() {
                break;
            }
        }
        sealed_period::Entity::delete_by_id(period.no).exec(db).await?;
    }
    Ok(())
}

/// True if SQL has sealed standings of a board's window.
pub(crate) async fn has(deployment: &Deployment, no: BoardNo, window: Window) -> Result<bool> {
    let of_window = sealed_period::Entity::find()
        .filter(sealed_period::Column::BoardNo.eq(no.0))
        .filter(sealed_period::Column::Window.eq(window.to_string()));
    Ok(of_window.one(&deployment.db).await?.is_some())
}
