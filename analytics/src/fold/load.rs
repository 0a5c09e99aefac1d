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

use super::check::check_states;
use super::plan::Plan;
use super::states::WindowStates;
use crate::frame::sorted::Sorted;

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
        self.fit(partition.deployment, board).await?;
        let head = self.plan.head(partition.no)?;
        let mark = archive_mark::of(&partition.db, board.no, partition.no).await?;
        ensure!(
            mark.archived_seq.unsigned_abs() <= head.seq,
            "the board was archived past the plan in partition {partition}; make another plan"
        );
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

    /// The states of a window in a partition, checked again.
    ///
    /// # Errors
    /// If they are not what they were.
    pub fn sorted(&self, window: Window, partition: PartitionNo) -> Result<Sorted> {
        let states = WindowStates::find(&self.plan, &self.board, window, &self.states)?;
        Ok(states.of_partition(partition)?.sorted)
    }
}
