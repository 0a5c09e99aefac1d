//! A board's move to another number of shards, while people play.
//!
//! A member's partition follows from the number of shards, so with another one members move, and their history lies in one partition for each number that the board ever had
//! (its *layouts*, [`ranking::board::layout`]). Events stay where they were accepted; whoever reads the history of those who are in a partition now reads all of their
//! homes (`home`), in the order of layout, seq, index. A layout's generation is in each event, and a partition tells writers of another generation to
//! look at the board again, so an event's generation says its layout. A window's keys keep the generation of their window: of the keys, only the partition is another one.
//!
//! 1. *Stage.* The board's row says that it moves. The history is folded by the new layout and staged, partition by partition; event ids of the last day are remembered
//!    in the partitions that their members come to. Everybody goes on; what comes meanwhile is folded onto what is staged, until little is left.
//! 2. *Hold.* A commit in each partition, old and new, holds the board: who writes waits, and is told UNAVAILABLE when that takes long. Reads go on.
//!    Once SQL has those commits, the history is what it is, and the last of it is taken in.
//! 3. *Decide.* One statement gives the row its new number and generation. Before it the move is nothing, after it nothing is left of the old one.
//! 4. *Release.* Commits put the stages in the place of the old keys, say which layout the partition has, and let it go. For these milliseconds nobody reads: whoever finds
//!    a partition of another layout reads the row again, and whoever finds the row so waits until all partitions have it.
//! 5. *Settle.* Rows of `standing` are told where their members are now; recovery finds them before that, too.
//!
//! The row has a time until which the one who moves it is taken to be at it. After that the background work, or whoever wants to move the board, takes its place: undoes the move,
//! or finishes it where it is decided. Each commit of a move is folded onto a head that was read before the row was seen to be still its own, and whoever undoes moves
//! every head, so one who wakes up late changes nothing.
//!
//! Windows are not added, dropped or sealed and nothing is archived while a board moves. Boards of which something is archived do not move, and those that moved are not archived: what
//! archived events add up to is kept by partition.

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
use ranking::id::Partition;
use ranking::roll::Rolls;
use sea_orm::{ActiveValue::Set, ColumnTrait, QueryFilter};

use crate::deployment::Deployment;
use entity::board;
use entity::board::reshard::{Reshard, Step};
use entity::error::{Error, Result};
pub use figures::Resharded;
use keep_alive::keep_alive;
pub use ready::at_rest;
use ready::{has_refused, ready};
use stage::{Part, Staging};

/// After how few events, and how short a time, to catch up again is not worth it: the board is held, and the rest is taken in then.
const LEFT_MAX: usize = 100;
const LEFT_TIME: Duration = Duration::from_millis(200);

/// How often it is caught up with before the board is held, however much is left; or until that takes hardly less time than before.
const CATCH_UPS_MAX: usize = 10;

/// How many partitions are worked on at once.
const PARTITIONS_AT_ONCE: usize = 8;

/// How often a move is begun again because something came between.
const ATTEMPTS_MAX: usize = 5;

/// Told of each step that is reached, by its name.
pub type Watch<'a> = &'a (dyn Fn(&str) + Sync);

/// A board on its way.
struct Moving<'a> {
    deployment: &'a Deployment,
    /// The row before the decision.
    row: board::Model,
    reshard: Reshard,
    /// The board before the decision.
    board: Board,
    /// The board after it.
    target: Board,
    /// The partitions that the board has shards in, before or after.
    partitions: Vec<Partition>,
    /// When this process began with it, in Unix milliseconds.
    began_ms: i64,
    watch: Watch<'a>,
}

/// Moves a board to another number of shards. What an earlier move left is undone or finished first; nothing where the board has that number already.
///
/// # Errors
/// `Invalid` where the number is none that a board can have, or the board cannot move, saying why; else what the stores say: call it again.
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
            return Ok(Resharded {
                from,
                to: shards,
                standings: 0,
                held_ms: 0,
                unread_ms: 0,
                seconds: began.elapsed().as_secs_f64(),
            });
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
    Err(ranking::Error::Unavailable(
        "something came between each time; move the board later".into(),
    )
    .into())
}

/// The partitions that have something of a board, or had: those of all its layouts, and of the one that it may be moving to.
///
/// # Errors
/// `Corrupt` where the row is broken.
pub fn partitions(deployment: &Deployment, row: &board::Model) -> Result<Vec<Partition>> {
    let (board, partitions) = (row.to_ranking()?, deployment.store.partitions());
    let mut all: BTreeSet<Partition> = partitions.of_history(&board).into_iter().collect();
    if let Some(reshard) = row.reshard()? {
        all.extend(partitions.of_board(&board.moved(reshard.shards)));
    }
    Ok(all.into_iter().collect())
}

/// Takes the place of those who began to move boards and are silent: undoes what is not decided, finishes what is.
///
/// # Errors
/// What the stores say of the last board in trouble: call it again.
pub async fn look_after(deployment: &Deployment) -> Result<()> {
    let silent = board::living()
        .filter(board::Column::ReshardUntilMs.lt(entity::now_ms()))
        .all(&deployment.db)
        .await?;
    let mut failed = None;
    for row in silent {
        if let Err(error) = take_over(deployment, row, &|_| {}).await {
            failed = Some(error);
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Takes the place of whoever moves a board and is silent.
async fn take_over(deployment: &Deployment, row: board::Model, watch: Watch<'_>) -> Result<()> {
    let Some(mut reshard) = row.reshard()? else {
        return Ok(());
    };
    if !reshard.take_over(&deployment.db, row.no).await? {
        return Ok(());
    }
    tracing::warn!(board = row.slug, step = ?reshard.step, "a board's move to another number of shards was left; it is undone, or finished where it is decided");
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
        let partitions: BTreeSet<Partition> = both.into_iter().flatten().collect();
        Ok(Self {
            deployment,
            row,
            reshard,
            board,
            target,
            partitions: partitions.into_iter().collect(),
            began_ms: deployment.clock.now_ms(),
            watch,
        })
    }

    fn reached(&self, step: &str) {
        tracing::debug!(step, "a board moves to another number of shards");
        (self.watch)(step);
    }

    /// All of a move that has begun; `None` where something came between, and it is undone.
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
        let (held_ms, unread_ms) = (held.elapsed(), decided.elapsed());
        self.settle().await?;
        let ms = |duration: Duration| duration.as_millis() as u64;
        Ok(Some(Resharded {
            from: self.board.rules.shards,
            to: self.target.rules.shards,
            standings,
            held_ms: ms(held_ms),
            unread_ms: ms(unread_ms),
            seconds: 0.0,
        }))
    }

    /// Stages the board by its next layout and holds it, and since when; `None` where that has to be begun again.
    async fn stage_and_hold(&mut self) -> Result<Option<(Instant, Staging)>> {
        let (deployment, no) = (self.deployment, self.row.no);
        self.reached("begun");
        let mut staging = Staging::make(self).await?;
        self.reached("staged");
        let new = deployment.store.partitions().of_board(&self.target);
        self.remember_all(&new).await?;
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
        if !self.reshard.advance(&deployment.db, no, Step::Held).await? {
            return Err(taken_over());
        }
        let held = Instant::now();
        self.reached("holding");
        self.hold().await?;
        self.reached("held");
        self.catch_up(&mut staging).await?;
        self.reached("caught-up");
        let now_ms = deployment.clock.now_ms();
        let is_whole = staging.reaches(&self.target, now_ms)?
            && staging.is_whole().await?
            && !has_refused(deployment, no).await?;
        if !is_whole {
            staging.discard().await;
            return Ok(None);
        }
        Ok(Some((held, staging)))
    }

    /// The keys that partitions have of the board: nobody makes new ones while it is held.
    async fn keys(&self) -> Result<BTreeMap<Partition, Vec<String>>> {
        let store = &self.deployment.store;
        let mut keys: BTreeMap<Partition, Vec<String>> = BTreeMap::new();
        for (partition, key) in store.all_board_keys(self.board.no).await? {
            keys.entry(partition).or_default().push(key);
        }
        for &partition in &self.partitions {
            let rolls = store.keys().rolls(partition, self.board.no);
            keys.entry(partition).or_default().push(rolls);
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
        let row = self.row.clone();
        self.reshard.decide(&self.deployment.db, &row, later).await
    }

    /// Undoes what is not decided, or finishes what is.
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

    /// Gives all partitions what is staged for them.
    async fn release_all(
        &self,
        parts: &mut BTreeMap<Partition, Part>,
        rolls: &Rolls,
        keys: &BTreeMap<Partition, Vec<String>>,
    ) -> Result<()> {
        let mut releases = vec![];
        for &partition in &self.partitions {
            let part = parts.remove(&partition);
            let keys = keys.get(&partition).map_or(&[][..], Vec::as_slice);
            let release = async move {
                self.release(partition, part, rolls, keys).await?;
                self.reached("released");
                Ok(())
            };
            releases.push(release.boxed());
        }
        at_once(releases).await
    }

    /// Lets the board go as it was, and forgets that it was to move.
    async fn undo(&mut self) -> Result<()> {
        let (db, no) = (&self.deployment.db, self.row.no);
        if self.reshard.step != Step::Undoing
            && !self.reshard.advance(db, no, Step::Undoing).await?
        {
            return Err(taken_over());
        }
        self.let_go().await?;
        self.reshard.end(db, no).await?;
        Ok(())
    }

    /// Tells rows of `standing` where their members are now, and ends the move.
    async fn settle(&mut self) -> Result<()> {
        let (db, no) = (&self.deployment.db, self.row.no);
        if self.reshard.step != Step::Settling
            && !self.reshard.advance(db, no, Step::Settling).await?
        {
            return Err(taken_over());
        }
        self.reached("settling");
        let rolls = stage::rolls(self.deployment, &self.target).await?;
        self.confirm(&rolls).await?;
        rows::settle(self.deployment, &self.target).await?;
        self.reached("settled");
        self.reshard.end(db, no).await?;
        Ok(())
    }
}

/// Does something for several partitions at once.
async fn at_once(tasks: Vec<BoxFuture<'_, Result<()>>>) -> Result<()> {
    let mut tasks = stream::iter(tasks).buffer_unordered(PARTITIONS_AT_ONCE);
    while let Some(done) = tasks.next().await {
        done?;
    }
    Ok(())
}

fn taken_over() -> Error {
    invalid(
        "the move was taken over by another process, or the board was deleted; run it again"
            .to_owned(),
    )
}

fn invalid(message: String) -> Error {
    ranking::Error::Invalid(message).into()
}
