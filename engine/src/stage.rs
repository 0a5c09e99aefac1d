//! Rebuilds the standings of one partition beside the live ones, without stopping writers.
//!
//! Standings are staged up to a commit. [`Staged::catch_up`] folds later commits onto the stage.
//! [`Staged::put`] swaps staged standings in with a commit that names the head that they were
//! folded to. So each is exact in the commit that publishes it, however many writers there are.
//!
//! The caller makes the first stage: a fill folds it event by event, a rebuild uses polars. Later
//! events are folded onto it by ranking's own fold, which reads the states of their members back
//! from the stage. Removals and voids need no restart: a removed member leaves all staged
//! standings, and a member with a voided event is folded again from its own history.

mod later;
mod place;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ranking::board::Board;
use ranking::board::State;
use ranking::commit::Head;
use ranking::id::MemberId;
use ranking::score::rank_key::RankKey;
use ranking::standings_id::StandingsId;
use ranking::store::stage::{StageChange, Stages};
use ranking::submission::Periods;
use ranking::window::roll::{Coverage, Rolls};
use ranking::window::seal::{NEVER_MS, SealName};
use ranking::window::{Period, Window};

use crate::partition::Partition;
use entity::error::Result;
use entity::history::log_cursor;

pub use place::Step;

/// The most changed entries that wait in memory for the commit; beyond that they are written to the
/// stage.
const CHANGED_MAX: usize = 5000;

/// The staged standings of some windows of a board in one partition.
pub struct Staged<'a> {
    board: &'a Board,
    partition: Partition<'a>,
    windows: BTreeSet<Window>,
    seals: Vec<SealName>,
    /// Periods that start before this instant are sealed or being sealed, by window; they are not
    /// staged.
    sealing_before_ms: HashMap<Window, i64>,
    /// The marks of rolling windows at the start; staged standings end there.
    rolls: Rolls,
    /// The Redis run in which the standings are staged.
    run_id: String,
    stages: Stages,
    /// How far the stage has followed the history: a commit, and the last event folded after it.
    cursor: log_cursor::Model,
    last: (i64, i32),
    standings: Vec<Standing>,
    places: HashMap<StandingsId, usize>,
    /// The number of standings already in place.
    put: usize,
    /// The number of standings not yet in place, for each series of a rolling window.
    left: HashMap<String, usize>,
    /// The start of the last begun period of each series that had no mark when it was staged.
    unmarked: HashMap<String, i64>,
    /// The entries that differ from the stage, by the number of their standings.
    changed: BTreeMap<(usize, MemberId), Option<State>>,
    /// The members whose history was folded again, and up to which seq.
    refolded: HashMap<MemberId, u64>,
    periods: Periods,
    /// The number of events folded after the first stage.
    later: usize,
    /// The number of commits that were proposed, and of those that were written.
    proposed: usize,
    committed: usize,
    /// True if the history does not lead on from the stage, so that all must be staged again.
    is_stale: bool,
}

/// One of the staged standings.
struct Standing {
    id: StandingsId,
    period: Period,
    /// The series, if the window is rolling.
    series: Option<String>,
    /// The key of the stage; `None` if it is empty.
    key: Option<String>,
}

/// Standings that are loaded to a stage and not yet added to it.
pub struct Loaded {
    id: StandingsId,
    period: Period,
    key: String,
    count: usize,
}

impl Loaded {
    /// The number of entries.
    pub fn count(&self) -> usize {
        self.count
    }
}

impl<'a> Staged<'a> {
    /// Begins at SQL's cursor, after the log was persisted. The caller must load the history up to
    /// that cursor, and nothing after it.
    ///
    /// # Errors
    /// `BoardGone` if the partition has a later mark of the board.
    pub async fn begin(
        partition: Partition<'a>,
        board: &'a Board,
        windows: BTreeSet<Window>,
    ) -> Result<Self> {
        let cursor = partition.settled_cursor().await?;
        Self::begin_from(partition, board, windows, cursor).await
    }

    /// As [`Self::begin`], at an earlier commit. `None` if the history does not lead on from it.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub async fn begin_at(
        partition: Partition<'a>,
        board: &'a Board,
        windows: BTreeSet<Window>,
        (seq, commit): (u64, &str),
    ) -> Result<Option<Self>> {
        let now = partition.settled_cursor().await?;
        let cursor = log_cursor::Model { seq: seq as i64, commit_id: commit.to_owned(), ..now };
        if partition.advance_cursor(&cursor).await?.is_none() {
            return Ok(None);
        }
        Self::begin_from(partition, board, windows, cursor).await.map(Some)
    }

    async fn begin_from(
        partition: Partition<'a>,
        board: &'a Board,
        windows: BTreeSet<Window>,
        cursor: log_cursor::Model,
    ) -> Result<Self> {
        let seal = |&window: &Window| SealName {
            board: board.no,
            generation: board.generation_of(window),
            window,
        };
        let seals: Vec<SealName> = windows.iter().map(seal).collect();
        let store = &partition.store;
        let tail = partition.head(board.no, &seals).await?;
        tail.board.check(board)?;
        let mut staged = Self {
            board,
            partition,
            windows,
            seals,
            sealing_before_ms: HashMap::new(),
            rolls: Rolls { marks: tail.rolls.clone(), now_ms: partition.clock.now_ms() },
            run_id: tail.head.run_id.clone(),
            stages: store.stages(partition.no, entity::random_id()).await?,
            last: (cursor.seq, i32::MAX),
            cursor,
            standings: vec![],
            places: HashMap::new(),
            put: 0,
            left: HashMap::new(),
            unmarked: HashMap::new(),
            changed: BTreeMap::new(),
            refolded: HashMap::new(),
            periods: Periods::default(),
            later: 0,
            proposed: 0,
            committed: 0,
            is_stale: false,
        };
        staged.note_seals(&tail);
        Ok(staged)
    }

    /// The commit up to which the stage has the history.
    pub fn head(&self) -> Head {
        Head {
            seq: self.cursor.seq.unsigned_abs(),
            commit: self.cursor.commit_id.clone(),
            epoch: self.cursor.epoch.unsigned_abs(),
            // Only a commit moves the clock, and nothing commits onto this head.
            clock_ms: 0,
            deployment: self.partition.identity.to_string(),
            run_id: self.run_id.clone(),
        }
    }

    /// The marks of rolling windows at the start.
    pub fn rolls(&self) -> &Rolls {
        &self.rolls
    }

    /// The windows that are staged.
    pub fn windows(&self) -> &BTreeSet<Window> {
        &self.windows
    }

    /// The number of events folded after the first stage.
    pub fn later(&self) -> usize {
        self.later
    }

    /// The number of commits that lost the race to another writer.
    pub fn beaten(&self) -> usize {
        self.proposed - self.committed
    }

    /// True if standings belong on the stage: their period is not being sealed and, in a rolling
    /// window, exists already.
    pub fn takes(&self, id: &StandingsId, period: &Period) -> Result<bool> {
        if self.is_sealed(id, period) {
            return Ok(false);
        }
        let calendar = &self.board.rules.calendar;
        Ok(id.window.rolling().is_none()
            || self.rolls.reach(id, period, calendar)? != Coverage::None)
    }

    /// Loads one of the standings beside the live one. `entry` returns each of its `count` entries,
    /// in the order of ranks.
    pub async fn load<'e, E>(
        &self,
        id: StandingsId,
        period: Period,
        count: usize,
        entry: E,
    ) -> Result<Loaded>
    where
        E: Fn(usize) -> (&'e str, RankKey) + Send + Sync,
    {
        let key = self.stages.load(&id, count, entry).await?;
        Ok(Loaded { id, period, key, count })
    }

    /// Adds loaded standings to the stage.
    pub fn add(&mut self, loaded: Loaded) -> Result<()> {
        let Loaded { id, period, key, .. } = loaded;
        let number = self.number(&id, &period);
        let standing = &mut self.standings[number];
        standing.key = Some(key);
        if let Some(series) = &standing.series
            && !self.rolls.marks.contains_key(series)
        {
            let calendar = &self.board.rules.calendar;
            let begun = id.window.period_at(self.rolls.begun_ms(&id), calendar)?;
            self.unmarked.insert(series.clone(), begun.present_from_ms);
        }
        Ok(())
    }

    /// Drops the stage. The live standings stay as they are, including those already swapped in.
    pub async fn discard(&self) {
        if let Err(error) = self.stages.discard().await {
            tracing::debug!(%error, "staged standings will expire");
        }
    }

    /// The number of standings, assigned on first use.
    fn number(&mut self, id: &StandingsId, period: &Period) -> usize {
        if let Some(&number) = self.places.get(id) {
            return number;
        }
        let series = id.window.rolling().map(|_| id.series());
        if let Some(series) = &series {
            *self.left.entry(series.clone()).or_default() += 1;
        }
        self.standings.push(Standing { id: id.clone(), period: period.clone(), series, key: None });
        self.places.insert(id.clone(), self.standings.len() - 1);
        self.standings.len() - 1
    }

    fn is_sealed(&self, id: &StandingsId, period: &Period) -> bool {
        let before_ms = self.sealing_before_ms.get(&id.window);
        period.present_from_ms < before_ms.copied().unwrap_or(NEVER_MS)
    }

    fn state(&self, standing: &Standing, key: RankKey) -> State {
        let rules = &self.board.rules;
        rules.state(standing.id.window, &standing.period, key)
    }

    fn key(&self, standing: &Standing, state: State) -> ranking::Result<RankKey> {
        let rules = &self.board.rules;
        rules.key(standing.id.window, &standing.period, state)
    }

    /// Writes the changed entries to the stage.
    async fn write_changed(&mut self) -> Result<()> {
        let mut changes: BTreeMap<usize, StageChange> = BTreeMap::new();
        for ((number, member), state) in &self.changed {
            let standing = &self.standings[*number];
            let key = || match &standing.key {
                Some(key) => key.clone(),
                None => self.stages.key(&standing.id),
            };
            let change = changes.entry(*number).or_insert_with(|| StageChange {
                key: key(),
                set: vec![],
                gone: vec![],
            });
            match state {
                Some(state) => {
                    let key = self.key(standing, *state)?;
                    change.set.push((member.clone(), key));
                }
                None => change.gone.push(member.clone()),
            }
        }
        let (numbers, changes): (Vec<usize>, Vec<StageChange>) = changes.into_iter().unzip();
        let sizes = self.stages.change(&changes).await?;
        for ((number, change), size) in numbers.into_iter().zip(changes).zip(sizes) {
            self.standings[number].key = (size > 0).then_some(change.key);
        }
        self.changed.clear();
        Ok(())
    }
}
