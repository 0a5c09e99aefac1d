//! Moving a board to another number of shards, while reads and writes go on.
//!
//! A member's partition follows from the number of shards. With another number, members change
//! partitions, and a member's history lies in one partition for each number that the board ever had
//! (its *layouts*, [`ranking::board::layout`]). Events stay where they were accepted. A reader of
//! the history of a partition's members reads all of their homes (`home`), in the order of layout,
//! seq, index. An event's generation says its layout, because a partition sends writers of another
//! generation back to read the board again. The keys of a window keep the window's generation; only
//! their partition changes.
//!
//! 1. *Stage.* The board's row records the move. The history is folded by the new layout and
//!    staged, partition by partition; the event ids of the dedup window are copied to their
//!    members' new partitions. Reads and writes go on. Later events are folded onto the stage,
//!    until few are left.
//! 2. *Hold.* A commit in each partition, old and new, holds the board: writers wait, and get
//!    UNAVAILABLE if that takes long. Reads go on. Once SQL has those commits, the history is
//!    complete, and its rest is folded onto the stage.
//! 3. *Decide.* One statement gives the row its new number and generation. Before that statement
//!    the old layout is in force, after it the new one.
//! 4. *Release.* Commits swap the stages in for the old keys, record the partition's layout, and
//!    release the board. For these milliseconds reads wait: a reader that finds another layout in a
//!    partition reads the row again, and with the new row waits until all partitions have its
//!    layout.
//! 5. *Settle.* Rows of `standing` get their members' new partitions. Recovery finds them before
//!    that, too.
//!
//! The row holds the lease of the process that makes the move. After the lease has expired, the
//! background work or the next client that wants to move the board takes over. It undoes the move,
//! or finishes it if it is decided. Each commit of a move is folded onto a head that was read
//! before the row was checked, and an undo moves every head. So a process that wakes up late
//! changes nothing.
//!
//! While a board moves, no window is added, dropped or sealed, and nothing is archived. Boards with
//! archived events do not move, and boards that moved are not archived, because the sums of
//! archived events are kept by partition.

mod figures;
mod hold;
mod keep_alive;
mod later;
mod ready;
mod release;
mod remember;
mod rows;
mod stage;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use ranking::board::Board;
use ranking::id::PartitionNo;
use ranking::window::roll::Rolls;
use sea_orm::{ActiveValue::Set, QueryFilter};

use crate::deployment::Deployment;
use crate::partition::Partition;
use entity::board;
use entity::board::reshard::{Reshard, Step, has_expired};
use entity::error::{Error, Result};
use entity::member::erasure;
pub use figures::Resharded;
use keep_alive::keep_alive;
pub use ready::at_rest;
use ready::{has_refused, ready};
use stage::{StagedPartition, Staging};

/// Catching up ends after a round with at most this many events, or of less than this time. The
/// board is then held, and the rest is folded.
const LEFT_MAX: usize = 100;
const LEFT_TIME: Duration = Duration::from_millis(200);

/// The most rounds of catching up before the board is held. They also end once a round is hardly
/// faster than the one before.
const CATCH_UPS_MAX: usize = 10;

/// The number of partitions that are worked on at once.
const PARTITIONS_AT_ONCE: usize = 8;

/// The number of attempts to begin a move while the board keeps changing.
const ATTEMPTS_MAX: usize = 5;

/// A callback that receives the name of each step that the move reaches.
pub type Watch<'a> = &'a (dyn Fn(&str) + Sync);

/// A board that is moving.
struct Moving<'a> {
    deployment: &'a Deployment,
    /// The board's row before the decision.
    row: board::Model,
    reshard: Reshard,
    /// The board before the decision.
    board: Board,
    /// The board after the decision.
    target: Board,
    /// The partitions that have shards of the board before or after the move.
    partitions: Vec<Partition<'a>>,
    /// When this process began or took over the move, in Unix milliseconds.
    began_ms: i64,
    watch: Watch<'a>,
}

/// Moves a board to another number of shards. Undoes or finishes an abandoned move first. Does
/// nothing if the board has that number already.
///
/// # Errors
/// `Invalid` if the number is not possible or the board cannot move, with the reason. If a store
/// fails, call it again.
pub async fn reshard(
    deployment: &Deployment,
    no: i64,
    shards: i64,
    watch: Watch<'_>,
) -> Result<Resharded> {
    let shards = deployment.store.partitions().check_shards(shards)?;
    let began = Instant::now();
    for _ in 0..ATTEMPTS_MAX {
        let row = ready(deployment, no).await?;
        let board = row.to_ranking()?;
        let from = board.rules.shards;
        if from == shards {
            let seconds = began.elapsed().as_secs_f64();
            return Ok(Resharded { from, to: shards, seconds, ..Resharded::default() });
        }
        let Some(reshard) = Reshard::begin(&deployment.db, &row, shards).await? else {
            continue;
        };
        let mut moving = Moving::new(deployment, row, reshard, watch)?;
        let _alive = keep_alive(&moving.reshard, deployment, no);
        if let Some(moved) = moving.go().await? {
            return Ok(Resharded { seconds: began.elapsed().as_secs_f64(), ..moved });
        }
    }
    Err(ranking::Error::Unavailable("the board changed during each attempt; move it later".into())
        .into())
}

/// The partitions that have, or had, data of a board: those of all its layouts, and of the layout
/// that it may be moving to.
///
/// # Errors
/// `Corrupt` if the row is invalid.
pub fn partitions<'a>(
    deployment: &'a Deployment,
    row: &board::Model,
) -> Result<Vec<Partition<'a>>> {
    let (board, partitions) = (row.to_ranking()?, deployment.store.partitions());
    let mut all: BTreeSet<PartitionNo> = partitions.of_history(&board).into_iter().collect();
    if let Some(reshard) = row.reshard()? {
        all.extend(partitions.of_board(&board.moved(reshard.shards)));
    }
    Ok(all.into_iter().map(|no| deployment.partition(no)).collect())
}

/// Takes over moves whose lease has expired: undoes those that are not decided, finishes the
/// others.
///
/// # Errors
/// The error of the last board that failed; call it again.
pub async fn look_after(deployment: &Deployment) -> Result<()> {
    let db = &deployment.db;
    let silent = board::living().filter(has_expired(db)).all(db).await?;
    let mut failed = None;
    for row in silent {
        if let Err(error) = take_over(deployment, row, &|_| {}).await {
            failed = Some(error);
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Takes over a board's move whose lease has expired.
async fn take_over(deployment: &Deployment, row: board::Model, watch: Watch<'_>) -> Result<()> {
    let Some(mut reshard) = row.reshard()? else {
        return Ok(());
    };
    if !reshard.take_over(&deployment.db, row.no).await? {
        return Ok(());
    }
    tracing::warn!(board = row.slug, step = ?reshard.step, "taking over an abandoned move to another number of shards: it is finished if it is decided, otherwise undone");
    let mut moving = Moving::new(deployment, row, reshard, watch)?;
    let _alive = keep_alive(&moving.reshard, deployment, moving.row.no);
    moving.finish().await
}

impl<'a> Moving<'a> {
    fn new(
        deployment: &'a Deployment,
        row: board::Model,
        reshard: Reshard,
        watch: Watch<'a>,
    ) -> Result<Self> {
        let known = row.to_ranking()?;
        let (board, target) = match reshard.step {
            Step::Decided | Step::Settling => (known.before_move(), known),
            _ => {
                let target = known.moved(reshard.shards);
                (known, target)
            }
        };
        let both = [&board, &target].map(|board| deployment.store.partitions().of_board(board));
        let partitions: BTreeSet<PartitionNo> = both.into_iter().flatten().collect();
        Ok(Self {
            deployment,
            row,
            reshard,
            board,
            target,
            partitions: partitions.into_iter().map(|no| deployment.partition(no)).collect(),
            began_ms: deployment.clock.now_ms(),
            watch,
        })
    }

    fn reached(&self, step: &str) {
        tracing::debug!(step, "a board moves to another number of shards");
        (self.watch)(step);
    }

    /// Makes the whole move; `None` if something interfered and the move was undone.
    async fn go(&mut self) -> Result<Option<Resharded>> {
        let staged = self.stage_and_hold().await;
        let (held, mut staging) = match staged {
            Ok(Some(staged)) => staged,
            other => {
                self.undo().await?;
                return other.map(|_| None);
            }
        };
        let standings = staging.standings();
        let keys = self.keys().await?;
        self.reached("listed");
        if !self.decide().await? {
            self.undo().await?;
            return Ok(None);
        }
        let decided = Instant::now();
        self.reached("decided");
        let rolls = staging.rolls.clone();
        self.release_all(&mut staging.parts, &rolls, &keys).await?;
        let [held_ms, unread_ms] = [held, decided].map(|since| since.elapsed().as_millis() as u64);
        self.settle().await?;
        Ok(Some(Resharded {
            from: self.board.rules.shards,
            to: self.target.rules.shards,
            standings,
            held_ms,
            unread_ms,
            ..Resharded::default()
        }))
    }

    /// Stages the board by its next layout and holds it. Returns since when it is held; `None` if
    /// the move must begin again.
    async fn stage_and_hold(&mut self) -> Result<Option<(Instant, Staging)>> {
        let (deployment, no) = (self.deployment, self.row.no);
        self.reached("begun");
        // One that began a moment ago: a later one finds the board moving, and does not begin.
        if erasure::is_under_way(&deployment.db).await? {
            return Ok(None);
        }
        let mut staging = Staging::make(self).await?;
        self.reached("staged");
        self.remember_all(&deployment.partitions_of(&self.target)).await?;
        self.reached("remembered");
        let mut last = Duration::MAX;
        for _ in 0..CATCH_UPS_MAX {
            let began = Instant::now();
            let is_little = self.catch_up(&mut staging).await? <= LEFT_MAX;
            let now = began.elapsed();
            if is_little || now < LEFT_TIME || now > last / 4 * 3 {
                break;
            }
            last = now;
        }
        self.advance(Step::Held).await?;
        let held = Instant::now();
        self.reached("holding");
        self.hold().await?;
        self.reached("held");
        self.catch_up(&mut staging).await?;
        self.reached("caught-up");
        let is_whole = staging.reaches(&self.target, deployment.clock.now_ms())?
            && staging.is_whole().await?
            && !has_refused(deployment, no).await?;
        if !is_whole {
            staging.discard().await;
            return Ok(None);
        }
        Ok(Some((held, staging)))
    }

    /// The board's keys in each partition. No new keys appear while the board is held.
    async fn keys(&self) -> Result<BTreeMap<PartitionNo, Vec<String>>> {
        let store = &self.deployment.store;
        let mut keys: BTreeMap<PartitionNo, Vec<String>> = BTreeMap::new();
        for (partition, key) in store.all_board_keys(self.board.no).await? {
            keys.entry(partition).or_default().push(key);
        }
        for Partition { no, .. } in &self.partitions {
            let keys = keys.entry(*no).or_default();
            keys.push(store.keys().rolls(*no, self.board.no));
            keys.extend(store.keys().of_layout(*no, self.board.no, self.board.layout_since()));
        }
        Ok(keys)
    }

    async fn decide(&mut self) -> Result<bool> {
        let former = &self.target.layouts.former;
        let later = board::ActiveModel {
            shards: Set(self.target.rules.shards.into()),
            generation: Set(self.target.generation as i32),
            former_layouts: Set(serde_json::to_string(former).expect("numbers have a JSON form")),
            ..Default::default()
        };
        self.reshard.decide(&self.deployment.db, &self.row, later).await
    }

    /// Finishes the move if it is decided; undoes it otherwise.
    async fn finish(&mut self) -> Result<()> {
        match self.reshard.step {
            Step::Staging | Step::Held | Step::Undoing => self.undo().await,
            Step::Decided => {
                let keys = self.keys().await?;
                let rolls = stage::rolls(self.deployment, &self.board).await?;
                self.release_all(&mut BTreeMap::new(), &rolls, &keys).await?;
                self.settle().await
            }
            Step::Settling => self.settle().await,
        }
    }

    /// Releases all partitions with their stages.
    async fn release_all(
        &self,
        parts: &mut BTreeMap<PartitionNo, StagedPartition>,
        rolls: &Rolls,
        keys: &BTreeMap<PartitionNo, Vec<String>>,
    ) -> Result<()> {
        let mut releases = vec![];
        for &partition in &self.partitions {
            let part = parts.remove(&partition.no);
            let keys = keys.get(&partition.no).map_or(&[][..], Vec::as_slice);
            let release = async move {
                self.release(partition, part, rolls, keys).await?;
                self.reached("released");
                Ok(())
            };
            releases.push(release.boxed());
        }
        at_once(releases).await
    }

    /// Releases the board as it was, and ends the move.
    async fn undo(&mut self) -> Result<()> {
        self.advance(Step::Undoing).await?;
        self.let_go().await?;
        self.reshard.end(&self.deployment.db, self.row.no).await?;
        Ok(())
    }

    /// Updates the partitions in rows of `standing`, and ends the move.
    async fn settle(&mut self) -> Result<()> {
        self.advance(Step::Settling).await?;
        self.reached("settling");
        let rolls = stage::rolls(self.deployment, &self.target).await?;
        self.confirm(&rolls).await?;
        rows::settle(self.deployment, &self.target).await?;
        self.reached("settled");
        self.reshard.end(&self.deployment.db, self.row.no).await?;
        Ok(())
    }

    /// Advances to a step, unless the move is there already.
    async fn advance(&mut self, step: Step) -> Result<()> {
        let db = &self.deployment.db;
        if self.reshard.step != step && !self.reshard.advance(db, self.row.no, step).await? {
            return Err(taken_over());
        }
        Ok(())
    }
}

/// Runs tasks for several partitions at once.
async fn at_once(tasks: Vec<BoxFuture<'_, Result<()>>>) -> Result<()> {
    let mut tasks = stream::iter(tasks).buffer_unordered(PARTITIONS_AT_ONCE);
    while let Some(done) = tasks.next().await {
        done?;
    }
    Ok(())
}

fn taken_over() -> Error {
    invalid("another process took the move over, or the board was deleted; run it again".to_owned())
}

fn invalid(message: String) -> Error {
    ranking::Error::Invalid(message).into()
}
