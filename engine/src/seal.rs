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
//! Each step can be repeated. If recovery loads the partition in between, the mark says as of which
//! commit its entries are now. A partition whose mark changed while it was copied is copied again.

mod copy;
pub mod correction;
mod marking;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{LazyLock, Mutex};

use ranking::board::Board;
use ranking::id::BoardNo;
use ranking::seal::{NEVER_MS, RETAIN_MAX, SealName, kept_from_ms};
use ranking::standings_id::StandingsId;
use ranking::window::{Period, Window};
use sea_orm::{ColumnTrait, Condition, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use serde::Serialize;

use crate::deployment::Deployment;
use crate::partition::Partition;
use entity::board::{self, WindowRow, WindowState, windows_text};
use entity::error::Result;
use entity::sql::set_windows;
use entity::standings::{sealed_entry, sealed_period};

/// The rows of one DELETE.
const ROWS_MAX: u64 = 5000;

/// The most steps for one board before the sealer turns to the next.
const STEPS_MAX: usize = 100;

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
    let (mut sealing, mut failed) = (Sealing::default(), None);
    for row in with_windows.all(&deployment.db).await? {
        // Most boards retain everything and need no further look.
        if !row.window_rows()?.iter().any(may_be_due) {
            continue;
        }
        if let Err(error) = seal_board(deployment, row, now_ms, &mut sealing).await {
            failed = Some(error);
        }
    }
    failed.map_or(Ok(sealing), Err)
}

/// True if [`seal`] would find work at an instant.
pub async fn is_due(deployment: &Deployment, now_ms: i64) -> Result<bool> {
    let with_windows = board::living().filter(board::Column::Windows.ne("[]"));
    let mut failed = None;
    for row in with_windows.all(&deployment.db).await? {
        if !row.window_rows()?.iter().any(may_be_due) {
            continue;
        }
        match due(deployment, &row, now_ms).await {
            Ok(Some(_)) => return Ok(true),
            Ok(None) => {}
            // A board that fails does not stop the others.
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(false), Err)
}

/// As [`seal`], for one board.
///
/// # Errors
/// If a store fails; call it again.
pub async fn seal_one(deployment: &Deployment, row: &board::Model, now_ms: i64) -> Result<Sealing> {
    let mut sealing = Sealing::default();
    seal_board(deployment, row.clone(), now_ms, &mut sealing).await?;
    Ok(sealing)
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

/// The next step of a window's seal.
enum Step {
    /// Record in the board's row that periods before an instant are being sealed.
    Decide(i64),
    /// Mark, copy, and record in the row that they are sealed.
    Copy(i64),
    /// Drop the sealed periods from Redis.
    Drop(i64),
}

/// A window of a board that is being sealed.
struct WindowSeal<'a> {
    deployment: &'a Deployment,
    row: &'a board::Model,
    board: &'a Board,
    name: SealName,
}

async fn seal_board(
    deployment: &Deployment,
    mut row: board::Model,
    now_ms: i64,
    sealing: &mut Sealing,
) -> Result<()> {
    for _ in 0..STEPS_MAX {
        let Some(due) = due(deployment, &row, now_ms).await? else {
            return Ok(());
        };
        let Due { board, mut windows, index, step } = due;
        let window = &mut windows[index];
        let part = WindowSeal {
            deployment,
            row: &row,
            board: &board,
            name: SealName {
                board: board.no,
                generation: window.since,
                window: window.name.parse()?,
            },
        };
        match step {
            Step::Decide(before_ms) => window.sealing_before_ms = Some(before_ms),
            Step::Copy(before_ms) => {
                let from_ms = window.sealed_before_ms.unwrap_or(NEVER_MS);
                part.mark(before_ms).await?;
                part.copy(from_ms, before_ms, sealing).await?;
                window.sealed_before_ms = Some(before_ms);
                sealing.windows += 1;
            }
            Step::Drop(before_ms) => {
                part.drop_keys(before_ms).await?;
                window.dropped_before_ms = Some(before_ms);
            }
        }
        // If another process changed the row first, this update matches nothing and the row is read
        // again.
        set_windows(&row, &windows_text(&windows)).exec(&deployment.db).await?;
        let Some(later) =
            board::living().filter(board::Column::No.eq(row.no)).one(&deployment.db).await?
        else {
            return Ok(());
        };
        row = later;
    }
    Ok(())
}

/// The next step of a board.
struct Due {
    board: Board,
    windows: Vec<WindowRow>,
    /// The window that the step is for.
    index: usize,
    step: Step,
}

/// The next step of a board, if there is one.
async fn due(deployment: &Deployment, row: &board::Model, now_ms: i64) -> Result<Option<Due>> {
    let (board, windows) = (row.to_ranking()?, row.window_rows()?);
    // Fills, drops and moves to another number of shards go first.
    let is_whole = |window: &WindowRow| window.state == WindowState::Whole;
    if !windows.iter().all(is_whole) || row.reshard.is_some() {
        return Ok(None);
    }
    for (index, window) in windows.iter().enumerate() {
        let Some(mut step) = step(window, &board, now_ms)? else {
            continue;
        };
        if let Step::Decide(before_ms) = &mut step {
            let open_ms = open_from_ms(deployment, &board, window.name.parse()?).await?;
            *before_ms = open_ms.min(*before_ms);
            if *before_ms <= window.sealed().sealing_before_ms {
                continue;
            }
        }
        return Ok(Some(Due { board, windows, index, step }));
    }
    Ok(None)
}

/// The instant from which on a window's periods are still needed. A rolling window needs its last
/// begun period and all after it; its base window needs all that this period covers.
async fn open_from_ms(deployment: &Deployment, board: &Board, window: Window) -> Result<i64> {
    let mut open_ms = i64::MAX;
    let is_made_of = |other: &Window| match other.rolling() {
        Some(rolling) => *other == window || rolling.base() == window,
        None => false,
    };
    if !board.rules.windows.iter().any(is_made_of) {
        return Ok(open_ms);
    }
    for partition in deployment.partitions_of(board) {
        let marks = partition.rolls(board.no).await?;
        for &rolling in board.rules.windows.iter().filter(|other| is_made_of(other)) {
            let suffix = format!(":{rolling}");
            for (_, mark) in marks.iter().filter(|(name, _)| name.ends_with(&suffix)) {
                let begun = rolling.period_at(mark.begun_ms, &board.rules.zone)?;
                open_ms = open_ms.min(match rolling == window {
                    true => begun.present_from_ms,
                    false => begun.start_ms,
                });
            }
        }
    }
    Ok(open_ms)
}

/// True if a window may need a step, now or later.
fn may_be_due(window: &WindowRow) -> bool {
    window.retained() < RETAIN_MAX || window.sealing_before_ms != window.dropped_before_ms
}

/// The next step of a window; an unfinished seal comes first.
fn step(window: &WindowRow, board: &Board, now_ms: i64) -> Result<Option<Step>> {
    let sealed = window.sealed();
    if sealed.sealing_before_ms > sealed.sealed_before_ms {
        return Ok(Some(Step::Copy(sealed.sealing_before_ms)));
    }
    if sealed.sealed_before_ms > window.dropped_before_ms.unwrap_or(NEVER_MS) {
        return Ok(Some(Step::Drop(sealed.sealed_before_ms)));
    }
    let due_ms = due_ms(window, board, now_ms)?;
    Ok(due_ms.filter(|&due_ms| due_ms > sealed.sealing_before_ms).map(Step::Decide))
}

/// The instant before which a window's periods are to be sealed. Callers ask again and again, so
/// the last answers are cached.
fn due_ms(window: &WindowRow, board: &Board, now_ms: i64) -> Result<Option<i64>> {
    /// Zone, window and retain, with the start of the present period and the answer.
    type Answers = BTreeMap<(String, Window, u32), (i64, Option<i64>)>;
    static LAST: LazyLock<Mutex<Answers>> = LazyLock::new(Mutex::default);
    let (rule, retain, zone) = (window.name.parse()?, window.retained(), &board.rules.zone);
    if retain == RETAIN_MAX {
        return Ok(None);
    }
    let present_ms = Window::period_at(rule, now_ms, zone)?.present_from_ms;
    let asked = (zone.iana_name().unwrap_or_default().to_owned(), rule, retain);
    let mut last = LAST.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(&(at_ms, due_ms)) = last.get(&asked)
        && at_ms == present_ms
    {
        return Ok(due_ms);
    }
    let due_ms = kept_from_ms(rule, zone, now_ms, retain)?;
    if last.len() > 10_000 {
        last.clear();
    }
    last.insert(asked, (present_ms, due_ms));
    Ok(due_ms)
}

impl WindowSeal<'_> {
    /// The partition's standings of the window whose periods start in a span.
    async fn standings(
        &self,
        partition: Partition<'_>,
        from_ms: i64,
        before_ms: i64,
    ) -> Result<Vec<(StandingsId, Period)>> {
        let store = &partition.store;
        let keys = store.standings_keys(partition.no, Some(self.board.no)).await?;
        let mut found = vec![];
        for key in keys {
            let Some(id) = store.keys().parse_standings(partition.no, &key) else {
                continue;
            };
            // Laurel never writes a label that names no period; such keys are skipped.
            if id.seal_name() == Some(self.name)
                && let Ok(period) = id.window.period_named(&id.period, &self.board.rules.zone)
                && (from_ms..before_ms).contains(&period.present_from_ms)
            {
                found.push((id, period));
            }
        }
        Ok(found)
    }
}
