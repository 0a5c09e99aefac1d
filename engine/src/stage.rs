//! Standings of one partition made anew beside the live ones: staged up to a commit, brought forward by what was committed since, and put in
//! place by commits that name the head that they were folded to. So each is exact in the commit that shows it, however many write meanwhile.
//!
//! Where the first stage comes from is its maker's matter: a fill folds it event by event, a rebuild by polars. What came later is folded onto it by
//! ranking's own fold: the states of members who played since are read back from the stage. What takes back asks for no new start: a removed
//! member is in no staged standings any more, and who had an event voided is folded anew from its own history.

mod later;
mod place;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ranking::board::Board;
use ranking::commit::Head;
use ranking::fold::State;
use ranking::id::{MemberId, Partition};
use ranking::rank_key::RankKey;
use ranking::roll::{Reach, Rolls};
use ranking::seal::{NEVER_MS, SealName};
use ranking::standings_id::StandingsId;
use ranking::store::stage::{StageChange, Stages};
use ranking::submission::Periods;
use ranking::window::{Period, Window};

use crate::deployment::Deployment;
use crate::partition::follow;
use entity::error::Result;
use entity::history::log_cursor;

pub use place::Step;

/// How many changed entries wait for the commit that puts them in place; more of them go to the stage.
const CHANGED_MAX: usize = 5000;

/// Standings of some windows of a board in one partition, on their way.
pub struct Staged<'a> {
    deployment: &'a Deployment,
    board: &'a Board,
    partition: Partition,
    windows: BTreeSet<Window>,
    seals: Vec<SealName>,
    /// Before which instant the periods of windows are being sealed, or are: they stay as they are.
    sealing_before_ms: HashMap<Window, i64>,
    /// How far rolling windows had got when it was begun; what is staged ends there.
    rolls: Rolls,
    /// The run of Redis that it is staged on.
    run_id: String,
    stages: Stages,
    /// How far the history is in it: a commit, and the last event taken after that one.
    cursor: log_cursor::Model,
    last: (i64, i32),
    standings: Vec<Standing>,
    places: HashMap<StandingsId, usize>,
    /// So many of them are in place.
    put: usize,
    /// How many are not, of each series of a rolling window.
    left: HashMap<String, usize>,
    /// Since when the last period begun of a series is the present one, where it had no mark when it was staged.
    unmarked: HashMap<String, i64>,
    /// The entries that differ from what is staged, by the standings' number.
    changed: BTreeMap<(usize, MemberId), Option<State>>,
    /// The members whose history was folded anew, and up to which seq.
    refolded: HashMap<MemberId, u64>,
    periods: Periods,
    /// What came later: how many events were taken.
    later: usize,
    /// How many commits were to put standings in place, and how many did.
    proposed: usize,
    committed: usize,
    /// The history went on without us: it has to be staged again.
    is_stale: bool,
}

/// One standings on its way.
struct Standing {
    id: StandingsId,
    period: Period,
    /// Of a rolling window: its series.
    series: Option<String>,
    /// Where it is staged; `None` where nothing is.
    key: Option<String>,
}

/// A standings that is loaded.
pub struct Loaded {
    id: StandingsId,
    period: Period,
    key: String,
    count: usize,
}

impl Loaded {
    /// How many entries it has.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }
}

impl<'a> Staged<'a> {
    /// Begins where SQL's cursor is, once SQL has what was in the log: what is loaded is to have the history up to there, and nothing after it.
    ///
    /// # Errors
    /// `BoardGone` where the partition knows of something later; else what the stores say.
    pub async fn begin(
        deployment: &'a Deployment,
        board: &'a Board,
        partition: Partition,
        windows: BTreeSet<Window>,
    ) -> Result<Self> {
        let cursor = follow::present(deployment, partition).await?;
        let seal = |&window: &Window| SealName {
            board: board.no,
            generation: board.generation_of(window),
            window,
        };
        let seals: Vec<SealName> = windows.iter().map(seal).collect();
        let store = &deployment.store;
        let tail = store.tail(partition, u64::MAX - 1, 1, board.no, &seals, None);
        let tail = tail.await?;
        tail.board.check(board)?;
        let mut staged = Self {
            deployment,
            board,
            partition,
            windows,
            seals,
            sealing_before_ms: HashMap::new(),
            rolls: Rolls { marks: tail.rolls.clone(), now_ms: deployment.clock.now_ms() },
            run_id: tail.head.run_id.clone(),
            stages: store.stages(partition, entity::random_id()).await?,
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

    /// The commit that the history is in it up to.
    #[must_use]
    pub fn head(&self) -> Head {
        Head {
            seq: self.cursor.seq.unsigned_abs(),
            commit: self.cursor.commit_id.clone(),
            run_id: self.run_id.clone(),
        }
    }

    /// How far rolling windows had got when it was begun.
    #[must_use]
    pub fn rolls(&self) -> &Rolls {
        &self.rolls
    }

    /// The windows that are meant.
    #[must_use]
    pub fn windows(&self) -> &BTreeSet<Window> {
        &self.windows
    }

    /// How many events were taken that came after what was loaded.
    #[must_use]
    pub fn later(&self) -> usize {
        self.later
    }

    /// How often somebody else was first with a commit when standings were to be put in place.
    #[must_use]
    pub fn beaten(&self) -> usize {
        self.proposed - self.committed
    }

    /// Whether a standings is one that there is to be: its period is not being sealed, and, of a rolling window, is there yet.
    pub fn takes(&self, id: &StandingsId, period: &Period) -> Result<bool> {
        if self.is_sealed(id, period) {
            return Ok(false);
        }
        let zone = &self.board.rules.zone;
        Ok(id.window.rolling().is_none() || self.rolls.reach(id, period, zone)? != Reach::NotThere)
    }

    /// Loads one standings beside the live one: `count` entries, of which `entry` gives each, in the order of ranks.
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

    /// Adds what was loaded.
    pub fn add(&mut self, loaded: Loaded) -> Result<()> {
        let Loaded { id, period, key, .. } = loaded;
        let number = self.number(&id, &period);
        let standing = &mut self.standings[number];
        standing.key = Some(key);
        if let Some(series) = &standing.series
            && !self.rolls.marks.contains_key(series)
        {
            let zone = &self.board.rules.zone;
            let begun = id.window.period_at(self.rolls.begun_ms(&id), zone)?;
            self.unmarked.insert(series.clone(), begun.present_from_ms);
        }
        Ok(())
    }

    /// Drops what is staged; the live standings are as they were, but for those that are in place already.
    pub async fn discard(&self) {
        if let Err(error) = self.stages.discard().await {
            tracing::debug!(%error, "staged standings will expire");
        }
    }

    /// The number of a standings, which it gets where it has none.
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
