//! The standings of a board by its next number of shards, made beside the present ones: folded from the whole history, partition by partition, and kept up to it.
//!
//! Whose history went on since is folded anew from all of it, so that what came, was taken away or voided meanwhile needs no cases of its own.

use std::collections::{BTreeMap, BTreeSet};

use ranking::board::Board;
use ranking::commit::EventKind;
use ranking::id::{MemberId, Partition};
use ranking::key::StandingsId;
use ranking::rank_key::RankKey;
use ranking::replay::Replay;
use ranking::roll::Rolls;
use ranking::store::stage::{StageChange, Stages};
use ranking::submission::Periods;
use ranking::window::Window;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QuerySelect};

use super::Moving;
use crate::deployment::Deployment;
use crate::error::Result;
use crate::recovery::settle;
use crate::{home, score_event};

/// How many members are folded anew at once.
const MEMBERS_MAX: usize = 500;

/// All that is staged, and up to where.
#[derive(Debug)]
pub(super) struct Staging {
    pub(super) parts: BTreeMap<Partition, Part>,
    /// How far the rolling windows have got in it.
    pub(super) rolls: Rolls,
    /// The seqs of the present partitions that it reaches to.
    through: BTreeMap<Partition, i64>,
}

/// What is staged in one partition.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) stages: Stages,
    /// The run of Redis that it was staged on.
    pub(super) run_id: String,
    /// Where periods start, and the stages; `None` where nothing is left in one.
    pub(super) standings: BTreeMap<StandingsId, (i64, Option<String>)>,
}

impl Staging {
    /// Folds the history of a board that goes on meanwhile.
    pub(super) async fn make(moving: &Moving<'_>) -> Result<Self> {
        let deployment = moving.deployment;
        let rolls = rolls(deployment, &moving.board).await?;
        // First: what comes after these seqs is caught up with.
        let through = ends(deployment, &moving.board).await?;
        let mut parts = BTreeMap::new();
        for partition in deployment.store.partitions().of_board(&moving.target) {
            let part = Part::make(deployment, &moving.target, partition, &rolls).await?;
            parts.insert(partition, part);
        }
        Ok(Self {
            parts,
            rolls,
            through,
        })
    }

    /// Takes in what SQL has got since, and says whose history went on.
    pub(super) async fn catch_up(&mut self, moving: &Moving<'_>) -> Result<Vec<MemberId>> {
        let deployment = moving.deployment;
        let ends = ends(deployment, &moving.board).await?;
        let mut touched: BTreeSet<String> = BTreeSet::new();
        for (partition, through_seq) in &self.through {
            use score_event::Column::{BoardNo as No, Member, Partition as In, Seq};
            let since: Vec<String> = score_event::Entity::find()
                .select_only()
                .column(Member)
                .distinct()
                .filter(In.eq(i32::from(partition.0)))
                .filter(Seq.gt(*through_seq))
                .filter(Seq.lte(ends[partition]))
                .filter(No.eq(moving.board.no.0))
                .into_tuple()
                .all(&deployment.db)
                .await?;
            touched.extend(since);
        }
        let touched: Vec<String> = touched.into_iter().collect();
        for members in touched.chunks(MEMBERS_MAX) {
            self.fold_anew(deployment, &moving.target, members).await?;
        }
        self.through = ends;
        let touched = touched.iter().map(|member| MemberId::new(member));
        Ok(touched.collect::<ranking::Result<_>>()?)
    }

    /// Folds the whole history of members anew.
    async fn fold_anew(
        &mut self,
        deployment: &Deployment,
        target: &Board,
        members: &[String],
    ) -> Result<()> {
        let of_members = score_event::Entity::find()
            .filter(score_event::Column::BoardNo.eq(target.no.0))
            .filter(score_event::Column::Member.is_in(members));
        let rows = score_event::in_order(of_members, target)
            .all(&deployment.db)
            .await?;
        let voided = rows.iter().filter_map(score_event::Model::voids).collect();
        let mut replay = replay(target, voided, &self.rolls);
        let mut periods = Periods::default();
        let mut touched: BTreeMap<(Partition, StandingsId), (i64, BTreeSet<MemberId>)> =
            BTreeMap::new();
        for row in &rows {
            let event = row.to_ranking()?;
            replay.apply(target, row.place()?, &event)?;
            let EventKind::Score { at_ms, .. } = event.kind else {
                continue;
            };
            let there = deployment
                .store
                .partitions()
                .of_member(target, &event.member);
            // Also where it counts no more: it may have when it was staged.
            for (id, period) in periods.standings(target, &event.segments, at_ms, &self.rolls)? {
                let from_ms = period.present_from_ms;
                if from_ms < target.sealed(id.window).sealing_before_ms {
                    continue;
                }
                let of_place = touched.entry((there, id));
                let (_, members) = of_place.or_insert((from_ms, BTreeSet::new()));
                members.insert(event.member.clone());
            }
        }
        let mut changes: BTreeMap<Partition, Vec<(StandingsId, i64, StageChange)>> =
            BTreeMap::new();
        for ((partition, id), (from_ms, members)) in touched {
            let Some(part) = self.parts.get(&partition) else {
                continue;
            };
            let mut change = StageChange {
                key: part.stages.key(&id),
                set: vec![],
                gone: vec![],
            };
            for member in members {
                match replay.key_of(&id, &member)? {
                    Some(key) => change.set.push((member, key)),
                    None => change.gone.push(member),
                }
            }
            let of_part = changes.entry(partition).or_default();
            of_part.push((id, from_ms, change));
        }
        for (partition, part) in &mut self.parts {
            let Some(changes) = changes.remove(partition) else {
                continue;
            };
            let (mut ids, mut of_stages) = (vec![], vec![]);
            for (id, from_ms, change) in changes {
                ids.push((id, from_ms));
                of_stages.push(change);
            }
            let sizes = part.stages.change(&of_stages).await?;
            for (((id, from_ms), change), size) in ids.into_iter().zip(of_stages).zip(sizes) {
                let stage = (size > 0).then_some(change.key);
                part.standings.insert(id, (from_ms, stage));
            }
        }
        Ok(())
    }

    /// Whether the rolling windows have got far enough for an instant: no event of it lies beyond what is prepared.
    pub(super) fn reaches(&self, board: &Board, now_ms: i64) -> Result<bool> {
        let rolling = board.rules.windows.iter();
        for window in rolling.filter(|window| window.rolling().is_some()) {
            let zone = &board.rules.zone;
            let begun = window.period_at(self.rolls.now_ms, zone)?;
            let present = window.period_at(now_ms, zone)?;
            if begun
                .end_ms
                .is_some_and(|end_ms| present.present_from_ms > end_ms)
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether Redis has all that was staged still.
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

    /// How many standings there are, by shard.
    pub(super) fn standings(&self) -> usize {
        let parts = self.parts.values();
        parts.map(|part| part.standings().count()).sum()
    }
}

impl Part {
    /// Folds the history of those who will be in a partition. Holds a state for each of their entries.
    pub(super) async fn make(
        deployment: &Deployment,
        target: &Board,
        partition: Partition,
        rolls: &Rolls,
    ) -> Result<Self> {
        let store = &deployment.store;
        let run_id = store.run_id(partition).await?.to_string();
        let stages = store.stages(partition, crate::random_id()).await?;
        let voided = score_event::voided_on(&deployment.db, target.no).await?;
        let mut replay = replay(target, voided, rolls);
        home::each_event(deployment, target, partition, i64::MAX, |place, event| {
            replay.apply(target, place, event)
        })
        .await?;
        let mut standings = BTreeMap::new();
        for change in replay.changes()? {
            let entries = change.entries.into_iter();
            let mut entries: Vec<(RankKey, MemberId)> = entries
                .filter_map(|(member, key)| Some((key?, member)))
                .collect();
            entries.sort_unstable();
            let entry = |index: usize| (entries[index].1.as_str(), entries[index].0);
            let stage = stages.load(&change.id, entries.len(), entry).await?;
            let stage = (!entries.is_empty()).then_some(stage);
            standings.insert(change.id, (change.present_from_ms, stage));
        }
        Ok(Self {
            stages,
            run_id,
            standings,
        })
    }

    /// The standings that have entries: where their periods start, and the stages.
    pub(super) fn standings(&self) -> impl Iterator<Item = (&StandingsId, i64, &str)> {
        let standings = self.standings.iter();
        standings.filter_map(|(id, (from_ms, stage))| Some((id, *from_ms, stage.as_deref()?)))
    }

    /// Drops what is not in place.
    pub(super) async fn discard(&self) {
        if let Err(error) = self.stages.discard().await {
            tracing::debug!(%error, "staged standings will expire");
        }
    }
}

/// How far the rolling windows of a board are made: to the present, or to where they have got ahead of it.
pub(super) async fn rolls(deployment: &Deployment, board: &Board) -> Result<Rolls> {
    let mut now_ms = deployment.clock.now_ms();
    for partition in deployment.store.partitions().of_board(board) {
        // Brings it level where it is not.
        settle(deployment, partition).await?;
        let (_, marks) = deployment.store.rolls(partition, board.no).await?;
        let begun = marks.values().map(|mark| mark.begun_ms);
        now_ms = begun.fold(now_ms, i64::max);
    }
    Ok(Rolls::to(now_ms))
}

/// A replay of a board's history, but for its sealed periods.
fn replay(
    board: &Board,
    voided: std::collections::HashSet<ranking::commit::EventPlace>,
    rolls: &Rolls,
) -> Replay {
    let sealed = |&window: &Window| {
        let before_ms = board.sealed(window).sealing_before_ms;
        ((board.no, window), before_ms)
    };
    Replay::without(voided, rolls.now_ms)
        .rolled(board.no, rolls.clone())
        .skipping_before(board.rules.windows.iter().map(sealed))
}

/// Up to which seqs SQL has the present partitions of a board.
async fn ends(deployment: &Deployment, board: &Board) -> Result<BTreeMap<Partition, i64>> {
    let mut ends = BTreeMap::new();
    for partition in deployment.store.partitions().of_board(board) {
        ends.insert(partition, settle(deployment, partition).await? as i64);
    }
    Ok(ends)
}
