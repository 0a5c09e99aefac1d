//! The board's standings by its next number of shards, staged beside the live ones: folded from the
//! whole history, partition by partition.
//!
//! `later` folds further events onto the stage.

use std::collections::{BTreeMap, HashSet};

use ranking::board::Board;
use ranking::commit::EventPlace;
use ranking::fold::replay::Replay;
use ranking::id::PartitionNo;
use ranking::standings_id::StandingsId;
use ranking::store::stage::Stages;
use ranking::window::Window;
use ranking::window::roll::Rolls;

use super::Moving;
use crate::deployment::Deployment;
use crate::partition::Partition;
use crate::partition::home::fold_row;
use entity::error::Result;
use entity::history::score_event;

/// The stages of all partitions, and the seqs that they reach.
#[derive(Debug)]
pub(super) struct Staging {
    pub(super) parts: BTreeMap<PartitionNo, StagedPartition>,
    /// How far rolling windows are staged.
    pub(super) rolls: Rolls,
    /// The seqs up to which the present partitions' history is staged.
    pub(super) through: BTreeMap<PartitionNo, i64>,
}

/// The stage of one partition.
#[derive(Debug)]
pub(super) struct StagedPartition {
    pub(super) stages: Stages,
    /// The Redis run in which it was staged.
    pub(super) run_id: String,
    /// The start of each period and the key of its stage; `None` if the stage is empty.
    pub(super) standings: BTreeMap<StandingsId, (i64, Option<String>)>,
}

impl Staging {
    /// Folds the history of a board while writes go on.
    pub(super) async fn make(moving: &Moving<'_>) -> Result<Self> {
        let deployment = moving.deployment;
        let rolls = rolls(deployment, &moving.board).await?;
        // First: later events are caught up with.
        let through = ends(deployment, &moving.board).await?;
        let voided = score_event::voided_on(&deployment.db, moving.board.no).await?;
        let mut parts = BTreeMap::new();
        for partition in deployment.partitions_of(&moving.target) {
            let (target, through) = (&moving.target, Some(&through));
            let part = StagedPartition::make(partition, target, &rolls, &voided, through).await?;
            parts.insert(partition.no, part);
        }
        Ok(Self { parts, rolls, through })
    }

    /// True if the rolling windows are staged far enough for an instant: no event at that instant
    /// lies beyond the prepared period.
    pub(super) fn reaches(&self, board: &Board, now_ms: i64) -> Result<bool> {
        let rolling = board.rules.windows.iter();
        for window in rolling.filter(|window| window.rolling().is_some()) {
            let calendar = &board.rules.calendar;
            let begun = window.period_at(self.rolls.now_ms, calendar)?;
            let present = window.period_at(now_ms, calendar)?;
            if begun.end_ms.is_some_and(|end_ms| present.present_from_ms > end_ms) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// True if Redis still has the whole stage.
    pub(super) async fn is_whole(&self) -> Result<bool> {
        for part in self.parts.values() {
            if !part.stages.is_whole().await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Drops all stages that are not in place.
    pub(super) async fn discard(&self) {
        for part in self.parts.values() {
            part.discard().await;
        }
    }

    /// The number of standings, counted by shard.
    pub(super) fn standings(&self) -> usize {
        let parts = self.parts.values();
        parts.map(|part| part.standings().count()).sum()
    }
}

impl StagedPartition {
    /// Folds the history of a partition's future members: that of the last layout up to the seqs in
    /// `through`, all of earlier ones. Holds a state for each of their entries in memory.
    pub(super) async fn make(
        partition: Partition<'_>,
        target: &Board,
        rolls: &Rolls,
        voided: &HashSet<EventPlace>,
        through: Option<&BTreeMap<PartitionNo, i64>>,
    ) -> Result<Self> {
        let store = &partition.store;
        let run_id = store.run_id(partition.no).await?.to_string();
        let stages = store.stages(partition.no, entity::random_id()).await?;
        let mut replay = replay(target, voided.clone(), rolls);
        let through = |layout: usize, home: PartitionNo| {
            let named = through.filter(|_| layout + 1 == target.layout());
            named.and_then(|through| through.get(&home)).map_or(i64::MAX, |&seq| seq)
        };
        partition.each_event(target, through, |row| fold_row(&mut replay, target, row)).await?;
        let mut standings = BTreeMap::new();
        for change in replay.changes()? {
            let entries = change.entries_set();
            let stage = stages.load(&change.id, entries.len(), |index| entries[index]).await?;
            let stage = (!entries.is_empty()).then_some(stage);
            standings.insert(change.id, (change.present_from_ms, stage));
        }
        Ok(Self { stages, run_id, standings })
    }

    /// The standings that have entries, with the start of their period and their stage.
    pub(super) fn standings(&self) -> impl Iterator<Item = (&StandingsId, i64, &str)> {
        let standings = self.standings.iter();
        standings.filter_map(|(id, (from_ms, stage))| Some((id, *from_ms, stage.as_deref()?)))
    }

    /// Drops the stages that are not in place.
    pub(super) async fn discard(&self) {
        if let Err(error) = self.stages.discard().await {
            tracing::debug!(%error, "staged standings will expire");
        }
    }
}

/// How far rolling windows must be staged: to the present, or as far as the roller has gone ahead
/// of it.
pub(super) async fn rolls(deployment: &Deployment, board: &Board) -> Result<Rolls> {
    let mut now_ms = deployment.clock.now_ms();
    for partition in deployment.partitions_of(board) {
        // Makes the partition level if it is not.
        partition.settle().await?;
        let marks = partition.rolls(board.no).await?;
        let begun = marks.values().map(|mark| mark.begun_ms);
        now_ms = begun.fold(now_ms, i64::max);
    }
    Ok(Rolls::to(now_ms))
}

/// A replay of a board's history, except its sealed periods.
pub(super) fn replay(board: &Board, voided: HashSet<EventPlace>, rolls: &Rolls) -> Replay {
    let sealed = |&window: &Window| {
        let before_ms = board.sealed(window).sealing_before_ms;
        ((board.no, window), before_ms)
    };
    Replay::without(voided, rolls.now_ms)
        .rolled(board.no, rolls.clone())
        .skipping_before(board.rules.windows.iter().map(sealed))
}

/// The seqs up to which SQL has the present partitions of a board.
pub(super) async fn ends(
    deployment: &Deployment,
    board: &Board,
) -> Result<BTreeMap<PartitionNo, i64>> {
    let mut ends = BTreeMap::new();
    for partition in deployment.partitions_of(board) {
        ends.insert(partition.no, partition.settle().await? as i64);
    }
    Ok(ends)
}
