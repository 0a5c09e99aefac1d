//! Standings while Redis is away, from SQL: the all-time ones by their rows, those of an open
//! period folded from its events. So are the lists of open periods.
//!
//! A fold or a count is shared by all readers of the process for as long as SQL gets no more, and
//! few of them are under way, so SQL survives the readers that Redis served before.

mod shared;

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use entity::error::Result;
use entity::history::{score_event, span};
use entity::sql::begin_view;
use futures::TryStreamExt;
use moka::future::Cache;
use ranking::board::Board;
use ranking::commit::{Event, EventPlace};
use ranking::fold::period::PeriodFold;
use ranking::fold::periods::PeriodsFold;
use ranking::id::PartitionNo;
use ranking::standings_id::StandingsId;
use ranking::store::read::Standings;
use ranking::window::ListedPeriod;
use ranking::window::Window;
use sea_orm::{DatabaseConnection, DatabaseTransaction};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use self::shared::{Shared, again, ended};
use super::in_sql::SqlStandings;
use super::in_sql::list::List;
use super::in_sql::marks::{Marks, marks};
use super::in_sql::rows::Rows;
use super::in_sql::samples::AllSamples;
use crate::deployment::Deployment;

/// The most events that are folded for the standings of one open period.
const FOLDED_EVENTS_MAX: u64 = 200_000;

/// The most entries of folded standings that the process keeps.
const FOLDED_ENTRIES_MAX: u64 = 1_000_000;

/// How long the process believes that SQL has got nothing more.
const CURSORS_AGE: Duration = Duration::from_secs(3);

/// The most folds that are under way in the process.
const FOLDS_MAX: usize = 2;

/// The most counts that are under way in the process, beside the folds.
const COUNTS_MAX: usize = 1;

/// The events of a fold that wait for its thread.
const EVENTS_WAITING: usize = 1000;

/// The most standings whose sizes, and whose last answers from SQL, the process keeps.
const STANDINGS_MAX: u64 = 10_000;

/// How long the last answers are kept: no request takes longer.
const ANSWERS_KEPT: Duration = Duration::from_secs(600);

/// The lists of one period by segment; `None` if it has too many events.
type Lists = Option<Arc<HashMap<String, Arc<List>>>>;

/// The open periods of a window that have entries of everyone, or of a segment.
#[derive(Debug)]
pub(super) struct OpenPeriods {
    /// The instant before which periods have left Redis, in Unix milliseconds.
    pub(super) sealed_before_ms: i64,
    /// The periods, in order.
    pub(super) periods: BTreeSet<ListedPeriod>,
}

/// The open periods of a window; `None` if they have too many events.
type FoundPeriods = Option<Arc<OpenPeriods>>;

/// The instant up to which SQL was known to have every commit of some partitions, and how often
/// they were away no more. With either, the cursors are looked up again.
type Moment = (Option<Instant>, u64);

/// An answer that came from SQL instead of Redis.
#[derive(Debug, Clone, Copy)]
pub struct Answered {
    /// The instant of the answer.
    at: Instant,
    /// The instant up to which SQL was known to have every commit then; `None` if none was.
    pub complete_at: Option<Instant>,
}

/// The standings that SQL answers for while Redis is away.
#[derive(Debug)]
pub(super) struct Fallback {
    marks: Cache<(Vec<PartitionNo>, Moment), Marks>,
    /// By the name of the standings of everyone.
    folded: Shared<Lists>,
    sizes: Shared<u64>,
    /// By the name of standings in the present period.
    periods: Shared<FoundPeriods>,
    samples: AllSamples,
    /// The last answers.
    answered: Cache<StandingsId, Answered>,
}

impl Fallback {
    /// No standings yet.
    pub(super) fn new() -> Self {
        let entries = |lists: &Lists| {
            let lists = lists.iter().flat_map(|lists| lists.values());
            lists.map(|list| list.size() as u32).sum()
        };
        let periods =
            |found: &FoundPeriods| found.iter().map(|found| found.periods.len() as u32).sum();
        let folds = Arc::new(Semaphore::new(FOLDS_MAX));
        let counts = Arc::new(Semaphore::new(COUNTS_MAX));
        let marks = Cache::builder().max_capacity(STANDINGS_MAX);
        let answered = Cache::builder().max_capacity(STANDINGS_MAX);
        Self {
            marks: marks.time_to_live(CURSORS_AGE).build(),
            folded: Shared::new(FOLDED_ENTRIES_MAX, entries, &folds),
            sizes: Shared::new(STANDINGS_MAX, |_| 0, &counts),
            periods: Shared::new(FOLDED_ENTRIES_MAX, periods, &folds),
            samples: AllSamples::new(),
            answered: answered.time_to_live(ANSWERS_KEPT).build(),
        }
    }

    /// The standings as SQL has them, `None` if no member has an entry; and the instant up to which
    /// SQL was known to have every commit.
    ///
    /// # Errors
    /// `Overloaded` if too many events would have to be folded, or too many folds are asked for;
    /// `BoardGone` if the board was deleted or has the window no more.
    pub(super) async fn find(
        &self,
        deployment: &Deployment,
        standings: &Standings,
    ) -> Result<(Option<SqlStandings>, Option<Instant>)> {
        let (id, db) = (&standings.id, deployment.reads.clone());
        let moment = moment(deployment, standings);
        if id.window == Window::All {
            // Only their size has to be counted, and most readers do not ask for it.
            let rows = self.rows(deployment, standings, moment);
            return Ok((Some(SqlStandings::of_uncounted_rows(rows)), moment.0));
        }
        let everyone = StandingsId { segment: String::new(), ..id.clone() };
        let known = (everyone, self.marks(deployment, standings, moment).await?);
        let asked = standings.clone();
        let folding = async move { fold(&db, &asked).await };
        let lists = self.folded.find(known, folding).await?;
        let lists = lists.ok_or_else(|| {
            too_many(&format!("the period {} of the window {}", id.period, id.window))
        })?;
        Ok((lists.get(&id.segment).cloned().map(SqlStandings::of_list), moment.0))
    }

    /// True if a reader of these standings would have them folded.
    pub(super) async fn needs_fold(
        &self,
        deployment: &Deployment,
        standings: &Standings,
    ) -> Result<bool> {
        let moment = moment(deployment, standings);
        let everyone = StandingsId { segment: String::new(), ..standings.id.clone() };
        let known = (everyone, self.marks(deployment, standings, moment).await?);
        Ok(!self.folded.has(&known))
    }

    /// The number of entries of all-time standings.
    ///
    /// # Errors
    /// `Overloaded` if too many counts are asked for.
    pub(super) async fn size(&self, deployment: &Deployment, standings: &Standings) -> Result<u64> {
        let moment = moment(deployment, standings);
        let known = (standings.id.clone(), self.marks(deployment, standings, moment).await?);
        let rows = self.rows(deployment, standings, moment);
        let counting = async move { rows.count().await };
        self.sizes.find(known, counting).await
    }

    /// The open periods of the window of some standings that have entries, up to the present one;
    /// the period of `standings` does not matter.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub(super) async fn open_periods(
        &self,
        deployment: &Deployment,
        standings: &Standings,
    ) -> Result<Arc<OpenPeriods>> {
        let (id, db) = (&standings.id, deployment.reads.clone());
        let (asked, now_ms) = (id.clone(), deployment.clock.now_ms());
        let folding = async move { fold_periods(&db, &asked, now_ms).await };
        let known = self.present(deployment, standings, now_ms).await?;
        let found = self.periods.find(known, folding).await?;
        found.ok_or_else(|| {
            too_many(&format!("the open periods of the window {}", id.window)).into()
        })
    }

    /// True if a reader of the list of open periods would have their events folded.
    pub(super) async fn needs_fold_of_periods(
        &self,
        deployment: &Deployment,
        standings: &Standings,
    ) -> Result<bool> {
        let now_ms = deployment.clock.now_ms();
        Ok(!self.periods.has(&self.present(deployment, standings, now_ms).await?))
    }

    /// The present standings of a window and how much SQL has of them, by which its open periods
    /// are kept: their list gets longer when a period begins.
    async fn present(
        &self,
        deployment: &Deployment,
        standings: &Standings,
        now_ms: i64,
    ) -> Result<(StandingsId, Marks)> {
        let (id, moment) = (&standings.id, moment(deployment, standings));
        let period = id.window.period_at(now_ms, &standings.rules.calendar)?.label;
        let present = StandingsId { period, ..id.clone() };
        Ok((present, self.marks(deployment, standings, moment).await?))
    }

    /// Notes that some standings were read from SQL.
    pub(super) async fn note(&self, id: &StandingsId, complete_at: Option<Instant>) {
        self.answered.insert(id.clone(), Answered { at: Instant::now(), complete_at }).await;
    }

    /// The last answer about some standings that SQL gave since an instant.
    pub(super) async fn answered_since(
        &self,
        id: &StandingsId,
        since: Instant,
    ) -> Option<Answered> {
        self.answered.get(id).await.filter(|answered| answered.at >= since)
    }

    /// The rows of all-time standings.
    fn rows(&self, deployment: &Deployment, standings: &Standings, moment: Moment) -> Rows {
        let sampler = self.samples.of(&standings.id, standings.partitions(), moment.1);
        Rows::all_time(&deployment.reads, &standings.id, sampler)
    }

    /// How much SQL has of the partitions of some standings, as of a moment ago. A look-up of a
    /// later `moment` is one of its own. It goes on if its caller waits no longer.
    async fn marks(
        &self,
        deployment: &Deployment,
        standings: &Standings,
        moment: Moment,
    ) -> Result<Marks> {
        let known = (standings.partitions().to_vec(), moment);
        if let Some(found) = self.marks.get(&known).await {
            return Ok(found);
        }
        let (cache, db, partitions) =
            (self.marks.clone(), deployment.reads.clone(), known.0.clone());
        let shared = async move {
            let asked = async { Ok(marks(&db, &partitions, moment.1).await?) };
            cache.try_get_with(known, asked).await.map_err(again)
        };
        tokio::spawn(shared).await.map_err(ended)?
    }
}

/// The instant up to which SQL is known to have every commit of some standings, and how often their
/// partitions were away no more. Asked before the first look at SQL.
fn moment(deployment: &Deployment, standings: &Standings) -> Moment {
    let redis = &deployment.redis_health;
    let partitions = standings.partitions();
    (redis.complete_at(partitions), redis.returns(partitions))
}

/// The refusal of a fold of more than [`FOLDED_EVENTS_MAX`] events.
fn too_many(of: &str) -> ranking::Error {
    ranking::Error::Overloaded(format!(
        "Redis is away, and over {FOLDED_EVENTS_MAX} events of {of} would have to be folded, more than are for a read; try again later, or read the window all"
    ))
}

/// Folds the events of a period, as they are at one moment.
async fn fold(db: &DatabaseConnection, standings: &Standings) -> Result<Lists> {
    let view = begin_view(db).await?;
    let (id, period) = (&standings.id, &standings.period);
    let board = board_of(&view, id).await?;
    let within = period.start_ms..period.end_ms.unwrap_or(i64::MAX);
    if !can_fold(&view, &board, &within).await? {
        return Ok(None);
    }
    let voided = score_event::voided_on(&view, board.no).await?;
    // Long lists are sorted, and no other request should wait for that.
    let (events, mut received) = mpsc::channel::<(EventPlace, Event)>(EVENTS_WAITING);
    let folding = {
        let (board, period, window) = (board.clone(), period.clone(), id.window);
        spawn_blocking(move || {
            let mut fold = PeriodFold::new(&board, window, &period, voided);
            while let Some((place, event)) = received.blocking_recv() {
                fold.apply(place, event);
            }
            let segments = fold.into_segments()?.into_iter();
            let lists = segments.map(|(segment, entries)| (segment, Arc::new(List::new(entries))));
            Ok::<_, ranking::Error>(lists.collect::<HashMap<_, _>>())
        })
    };
    let mut rows = span::of_span(&board, &within).stream(&view).await?;
    while let Some(row) = rows.try_next().await? {
        if events.send((row.place()?, row.to_ranking()?)).await.is_err() {
            break;
        }
    }
    drop(events);
    Ok(Some(Arc::new(folding.await.map_err(ended)??)))
}

/// Folds the events of the open periods of a window, as they are at one moment.
async fn fold_periods(
    db: &DatabaseConnection,
    id: &StandingsId,
    now_ms: i64,
) -> Result<FoundPeriods> {
    let view = begin_view(db).await?;
    let board = board_of(&view, id).await?;
    let sealed_before_ms = board.sealed(id.window).sealed_before_ms;
    let first = id.window.period_at(sealed_before_ms.max(0), &board.rules.calendar)?;
    let within = first.start_ms..i64::MAX;
    if !can_fold(&view, &board, &within).await? {
        return Ok(None);
    }
    let voided = score_event::voided_on(&view, board.no).await?;
    let mut fold = PeriodsFold::new(&board, id.window, &id.segment, voided);
    let mut rows = span::of_span(&board, &within).stream(&view).await?;
    while let Some(row) = rows.try_next().await? {
        fold.apply(row.place()?, row.to_ranking()?)?;
    }
    let mut periods = fold.into_periods(now_ms)?;
    periods.retain(|listed| listed.present_from_ms >= sealed_before_ms);
    Ok(Some(Arc::new(OpenPeriods { sealed_before_ms, periods })))
}

/// The board of some standings.
///
/// # Errors
/// `BoardGone` if it was deleted or has the window no more.
async fn board_of(view: &DatabaseTransaction, id: &StandingsId) -> Result<Board> {
    let mut boards = entity::board::some(view, [id.board].into()).await?;
    let board = boards.remove(&id.board);
    let is_of = |board: &Board| board.generation_of(id.window) == id.generation;
    Ok(board.filter(is_of).ok_or(ranking::Error::BoardGone)?)
}

/// True if a span has so few events that they are folded for a read.
async fn can_fold(view: &DatabaseTransaction, board: &Board, within: &Range<i64>) -> Result<bool> {
    let count = span::count_in(view, board.no, within, FOLDED_EVENTS_MAX + 1).await?;
    Ok(count <= FOLDED_EVENTS_MAX)
}
