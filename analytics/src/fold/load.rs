//! Loads an engine's states: the stage begins at the plan's heads, catches up with SQL and the log,
//! and is put in place as that of any rebuild.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use engine::deployment::Deployment;
use engine::partition::Partition;
use engine::stage::Staged;
use entity::archive::archive_mark;
use entity::board;
use entity::member::erasure;
use ranking::board::Board;
use ranking::id::PartitionNo;
use ranking::window::Window;
use sea_orm::{ColumnTrait, Condition, EntityTrait, PaginatorTrait, QueryFilter};
use std::collections::BTreeSet;
use tokio::task::spawn_blocking;

use super::check::{MEMBERS, check_states};
use super::plan::{PinnedHead, Plan};
use super::run::{self, View, states_of};
use super::states::WindowStates;
use crate::frame::sorted::{Folded, Sorted};

/// The states of an engine, in place of a fold of the history by this program.
#[derive(Debug, clap::Args)]
pub struct StatesArguments {
    /// Takes the states that an engine folded by the plan in this directory, instead of folding the
    /// history; they are checked first. With --engine the plan is made unless it is there.
    #[arg(long)]
    plan: Option<PathBuf>,
    /// The directory with the engine's states; by default the directory `states` of the plan.
    #[arg(long, requires = "plan", conflicts_with = "engine")]
    states: Option<PathBuf>,
    /// The engine that folds the states first: a server of Spark Connect, as sc://HOST:PORT, which
    /// reads and writes the plan's directory.
    #[arg(long, value_name = "URL", requires = "plan")]
    engine: Option<String>,
    #[command(flatten)]
    view: View,
    /// The members to draw at random, whose states are folded again.
    #[arg(long, requires = "plan", default_value_t = MEMBERS)]
    members: u64,
}

impl StatesArguments {
    /// The directory of the plan, if states are to be taken.
    pub fn plan(&self) -> Option<&Path> {
        self.plan.as_deref()
    }

    /// The states, folded and checked; `None` if this program is to fold the history.
    ///
    /// # Errors
    /// As [`run::plan_and_run`] and [`CheckedStates::new`].
    pub async fn checked(
        &self,
        deployment: &Deployment,
        row: &board::Model,
    ) -> Result<Option<Arc<CheckedStates>>> {
        let Some(plan) = &self.plan else {
            return Ok(None);
        };
        if let Some(url) = &self.engine {
            run::plan_and_run(deployment, row, plan, url, &self.view).await?;
        }
        let states = states_of(plan, self.states.as_deref());
        CheckedStates::new(deployment, row, (plan, &states), self.members).await.map(Some)
    }
}

/// States that were checked, and their plan.
#[derive(Debug)]
pub struct CheckedStates {
    plan: Plan,
    board: Board,
    states: PathBuf,
}

impl CheckedStates {
    /// Checks the states of a plan of a board.
    ///
    /// # Errors
    /// As [`check_states`], or if the plan does not fit the board as it is now.
    pub async fn new(
        deployment: &Deployment,
        row: &board::Model,
        (dir, states): (&Path, &Path),
        members: u64,
    ) -> Result<Arc<Self>> {
        let plan = Plan::read(dir)?;
        ensure!(
            plan.slug == row.slug,
            "the plan is of board {:?}: expected --board with that slug, or a plan of {:?}",
            plan.slug,
            row.slug
        );
        let board = plan.board()?;
        let checked = Arc::new(Self { plan, board, states: states.to_owned() });
        checked.fit(deployment, &row.to_ranking()?).await?;
        let (of_check, dir) = (checked.clone(), dir.to_owned());
        spawn_blocking(move || {
            let Self { plan, board, states } = &*of_check;
            check_states(plan, board, &dir, states, members)
        })
        .await??;
        Ok(checked)
    }

    /// Checks that the plan fits a board as it is now.
    async fn fit(&self, deployment: &Deployment, now: &Board) -> Result<()> {
        let plan = &self.plan;
        ensure!(
            plan.deployment == *deployment.identity,
            "the plan is of deployment {}, and not of {}: expected a plan that was made here",
            plan.deployment,
            deployment.identity
        );
        if let Some(difference) = plan.difference(now) {
            bail!("the plan does not fit any more: {difference}; make another plan");
        }
        let has_rolling = now.rules.windows.iter().any(|window| window.rolling().is_some());
        ensure!(
            !has_rolling || deployment.clock.now_ms() < plan.through_ms,
            "the plan is too old for the board's rolling windows: expected one of the last 24 hours; make another plan"
        );
        use erasure::Column::{ErasedAtMs, Step};
        let later = ErasedAtMs.gte(plan.made_at_ms);
        let erased = erasure::Entity::find()
            .filter(Condition::any().add(Step.ne(erasure::Step::Done)).add(later))
            .count(&deployment.db)
            .await?;
        ensure!(
            erased == 0,
            "a member was erased since the plan was made: delete the plan and its states, and make another plan"
        );
        Ok(())
    }

    /// Checks that the plan fits a board as it is now, and that SQL has the events since; returns
    /// the plan's head of the partition.
    ///
    /// # Errors
    /// If it does not.
    pub async fn fit_in(&self, partition: Partition<'_>, board: &Board) -> Result<&PinnedHead> {
        self.fit(partition.deployment, board).await?;
        let head = self.plan.head(partition.no)?;
        let mark = archive_mark::of(&partition.db, board.no, partition.no).await?;
        ensure!(
            mark.archived_seq.unsigned_abs() <= head.seq,
            "the board was archived past the plan in partition {partition}; make another plan"
        );
        Ok(head)
    }

    /// Begins the stage of a partition at the plan's head.
    ///
    /// # Errors
    /// If the plan does not fit any more.
    pub async fn stage<'a>(
        &self,
        partition: Partition<'a>,
        board: &'a Board,
        windows: BTreeSet<Window>,
    ) -> Result<Staged<'a>> {
        let head = self.fit_in(partition, board).await?;
        let staged = Staged::begin_at(partition, board, windows, (head.seq, &head.commit)).await?;
        staged.with_context(|| {
            format!(
                "the history of partition {partition} does not lead on from commit {} of the plan; make another plan",
                head.seq
            )
        })
    }

    /// The number of events behind the states of a partition.
    pub fn events_in(&self, partition: PartitionNo) -> usize {
        self.plan.events_in(partition)
    }

    /// The states of a window in a partition, checked again, in the order of Redis.
    ///
    /// # Errors
    /// If they are not what they were.
    pub fn sorted(&self, window: Window, partition: PartitionNo) -> Result<Sorted> {
        Sorted::of(&self.board, window, &self.folded(window, partition)?)
    }

    /// As [`Self::sorted`], as a frame.
    ///
    /// # Errors
    /// As [`Self::sorted`].
    pub fn folded(&self, window: Window, partition: PartitionNo) -> Result<Folded> {
        let states = WindowStates::find(&self.plan, &self.board, window, &self.states)?;
        Ok(states.of_partition(partition)?.folded)
    }
}
