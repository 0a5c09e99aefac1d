//! Catching up with events after a board's standings were staged. Scores are folded onto the stage.
//! Members with removals or voids are folded again. Event ids are copied to their members' new
//! partitions.

use std::collections::{BTreeMap, BTreeSet};

use ranking::board::Board;
use ranking::board::State;
use ranking::commit::{Event, EventKind, EventPlace};
use ranking::id::{MemberId, PartitionNo};
use ranking::standings_id::StandingsId;
use ranking::store::stage::StageChange;
use ranking::submission::Periods;
use ranking::window::Period;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};

use super::Moving;
use super::stage::{StagedPartition, Staging, ends, replay};
use crate::deployment::Deployment;
use crate::partition::home;
use entity::error::Result;
use entity::history::score_event;

/// The events of one SELECT.
const ROWS_MAX: u64 = 5000;

/// The most members that are folded again at once.
const MEMBERS_MAX: usize = 200;

/// Changes to the stage of one partition: the start of each period, and the entries.
type Changes = BTreeMap<StandingsId, (i64, StageChange)>;

/// Later scores and their times, in order, by standings and member.
type Later = BTreeMap<StandingsId, (Period, BTreeMap<MemberId, Vec<(i64, i64)>>)>;

impl Moving<'_> {
    /// Folds all events that SQL got since onto the stage. Returns their number.
    pub(super) async fn catch_up(&self, staging: &mut Staging) -> Result<usize> {
        let (deployment, target) = (self.deployment, &self.target);
        let ends = ends(deployment, &self.board).await?;
        let mut count = 0;
        for (&partition, &end_seq) in &ends {
            let mut amended: BTreeSet<String> = BTreeSet::new();
            let mut last = (staging.through[&partition], i32::MAX);
            loop {
                let rows = score_event::page_after(partition, last, ROWS_MAX)
                    .filter(score_event::Column::BoardNo.eq(self.board.no.0))
                    .filter(score_event::Column::Seq.lte(end_seq))
                    .all(&deployment.db)
                    .await?;
                let Some(row) = rows.last() else { break };
                last = (row.seq, row.event_index);
                count += rows.len();
                let mut events = vec![];
                for row in &rows {
                    events.push((row.place()?, row.to_ranking()?));
                }
                let takes_back = |(_, event): &&(EventPlace, Event)| {
                    !matches!(event.kind, EventKind::Score { .. })
                };
                let members = events.iter().filter(takes_back);
                amended.extend(members.map(|(_, event)| event.member.to_string()));
                events.retain(|(_, event)| !amended.contains(event.member.as_str()));
                staging.fold_onto(deployment, target, &events).await?;
                self.remember_events(partition, &events).await?;
            }
            let amended: Vec<String> = amended.into_iter().collect();
            for members in amended.chunks(MEMBERS_MAX) {
                let end = (partition, end_seq);
                staging.refold(self, end, members).await?;
                let members = members.iter().map(|member| MemberId::new(member));
                let members = members.collect::<ranking::Result<Vec<_>>>()?;
                self.remember(&members).await?;
            }
        }
        staging.through = ends;
        Ok(count)
    }
}

impl Staging {
    /// Folds scores onto the stage.
    async fn fold_onto(
        &mut self,
        deployment: &Deployment,
        target: &Board,
        events: &[(EventPlace, Event)],
    ) -> Result<()> {
        let mut periods = Periods::default();
        let mut later: BTreeMap<PartitionNo, Later> = BTreeMap::new();
        for (_, event) in events {
            let EventKind::Score { score, at_ms, .. } = event.kind else {
                continue;
            };
            let there = deployment.store.partitions().of_member(target, &event.member);
            for (id, period) in periods.standings(target, &event.segments, at_ms, &self.rolls)? {
                if period.present_from_ms < target.sealed(id.window).sealing_before_ms {
                    continue;
                }
                let of_part = later.entry(there).or_default();
                let (_, members) = of_part.entry(id).or_insert_with(|| (period, BTreeMap::new()));
                let scores = members.entry(event.member.clone()).or_default();
                scores.push((score, at_ms));
            }
        }
        for (partition, later) in later {
            if let Some(part) = self.parts.get_mut(&partition) {
                let changes = part.folded(target, later).await?;
                part.change(changes).await?;
            }
        }
        Ok(())
    }

    /// Folds the whole history of members of one partition again, up to a seq of it.
    async fn refold(
        &mut self,
        moving: &Moving<'_>,
        (partition, end_seq): (PartitionNo, i64),
        members: &[String],
    ) -> Result<()> {
        let (deployment, target) = (moving.deployment, &moving.target);
        let of_members = score_event::Entity::find()
            .filter(score_event::Column::BoardNo.eq(target.no.0))
            .filter(score_event::Column::Member.is_in(members))
            .filter(home::up_to(&moving.board, partition, end_seq));
        let rows = score_event::in_order(of_members, target).all(&deployment.db).await?;
        let voided = rows.iter().filter_map(score_event::Model::voids).collect();
        let mut replay = replay(target, voided, &self.rolls);
        let mut periods = Periods::default();
        let mut touched: BTreeMap<(PartitionNo, StandingsId), (i64, BTreeSet<MemberId>)> =
            BTreeMap::new();
        for row in &rows {
            let event = row.to_ranking()?;
            replay.apply(target, row.place()?, &event)?;
            let EventKind::Score { at_ms, .. } = event.kind else {
                continue;
            };
            let there = deployment.store.partitions().of_member(target, &event.member);
            // Voided scores too: they may have counted when the entry was staged.
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
        let mut changes: BTreeMap<PartitionNo, Changes> = BTreeMap::new();
        for ((partition, id), (from_ms, members)) in touched {
            let Some(part) = self.parts.get(&partition) else {
                continue;
            };
            let mut change = part.no_change(&id);
            for member in members {
                match replay.key_of(&id, &member)? {
                    Some(key) => change.set.push((member, key)),
                    None => change.gone.push(member),
                }
            }
            let of_part = changes.entry(partition).or_default();
            of_part.insert(id, (from_ms, change));
        }
        for (partition, changes) in changes {
            if let Some(part) = self.parts.get_mut(&partition) {
                part.change(changes).await?;
            }
        }
        Ok(())
    }
}

impl StagedPartition {
    /// Folds scores onto the staged entries of their members.
    async fn folded(&self, target: &Board, later: Later) -> Result<Changes> {
        let (mut known, mut lists) = (vec![], vec![]);
        for (id, (_, members)) in &later {
            if let Some((_, Some(stage))) = self.standings.get(id) {
                let members: Vec<MemberId> = members.keys().cloned().collect();
                known.push(id);
                lists.push((stage.as_str(), members));
            }
        }
        let found = self.stages.rank_keys(&lists).await?;
        let mut states: BTreeMap<(&StandingsId, &MemberId), State> = BTreeMap::new();
        for ((id, (_, members)), keys) in known.into_iter().zip(&lists).zip(found) {
            let period = &later[id].0;
            for (member, key) in members.iter().zip(keys) {
                if let Some(key) = key {
                    let state = target.rules.state(id.window, period, key);
                    states.insert((id, member), state);
                }
            }
        }
        let mut changes = Changes::new();
        for (id, (period, members)) in &later {
            let mut change = self.no_change(id);
            for (member, scores) in members {
                let mut state = states.get(&(id, member)).copied();
                for &(score, at_ms) in scores {
                    let step = target.rules.first(id.window, score, at_ms);
                    state = Some(target.rules.fold(id.window, state, step));
                }
                if let Some(state) = state {
                    let key = target.rules.key(id.window, period, state)?;
                    change.set.push((member.clone(), key));
                }
            }
            changes.insert(id.clone(), (period.present_from_ms, change));
        }
        Ok(changes)
    }

    fn no_change(&self, id: &StandingsId) -> StageChange {
        StageChange { key: self.stages.key(id), set: vec![], gone: vec![] }
    }

    async fn change(&mut self, changes: Changes) -> Result<()> {
        let (mut ids, mut of_stages) = (vec![], vec![]);
        for (id, (from_ms, change)) in changes {
            ids.push((id, from_ms));
            of_stages.push(change);
        }
        let sizes = self.stages.change(&of_stages).await?;
        for (((id, from_ms), change), size) in ids.into_iter().zip(of_stages).zip(sizes) {
            let stage = (size > 0).then_some(change.key);
            self.standings.insert(id, (from_ms, stage));
        }
        Ok(())
    }
}
