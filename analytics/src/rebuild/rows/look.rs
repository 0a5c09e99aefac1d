//! Finds the members whose rows differ from the history at one moment.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use anyhow::Result;
use entity::history::score_event;
use entity::sql::blocks::Columns;
use futures::TryStreamExt;
use ranking::board::State;
use ranking::commit::EventKind;
use ranking::window::{Period, Window};
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QuerySelect};

use super::{ROWS_MAX, Rows};
use crate::frame::multiset_hash::MultisetHash;
use crate::frame::sorted::Run;

/// Scores and keys of members, by segment.
type ByMember = HashMap<String, BTreeMap<String, (i64, i64)>>;

impl Rows<'_> {
    /// The members with a row in some segment that differs from the history, is missing, or is one
    /// too many.
    pub(crate) async fn look(&self) -> Result<BTreeSet<String>> {
        let view = self.partition.view().await?;
        let later: HashSet<String> = score_event::Entity::find()
            .select_only()
            .column(score_event::Column::Member)
            .distinct()
            .filter(score_event::Column::Partition.eq(i32::from(self.partition.no)))
            .filter(score_event::Column::Seq.gt(self.seq))
            .filter(score_event::Column::BoardNo.eq(self.board.no.0))
            .into_tuple::<String>()
            .all(&view)
            .await?
            .into_iter()
            .collect();
        let mut balance = MultisetHash::new();
        for Run { id, rows, .. } in self.all.runs() {
            for row in rows.clone() {
                let member = self.all.member(row);
                if !later.contains(member) {
                    balance.add(&id.segment, member, &self.said(row).map(Some));
                }
            }
        }
        let mut of_later = ByMember::new();
        let mut blocks = self.rows().read(&view);
        while let Some(block) = blocks.try_next().await? {
            for (segment, member, held) in block.rows(["score", "rank_key"])?.iter() {
                if !later.contains(member) {
                    balance.take(segment, member, &held);
                    continue;
                }
                let [score, key] = held;
                let of_member = of_later.entry(member.to_owned()).or_default();
                of_member.extend(score.zip(key).map(|held| (segment.to_owned(), held)));
            }
        }
        drop(blocks);
        let mut wrong = match balance.is_zero() {
            true => BTreeSet::new(),
            false => self.wrong(&view, &later).await?,
        };
        let (mut said, voided) = self.said_of(&view, &later).await?;
        view.rollback().await?;
        let is_wrong = |member: &&String| {
            let (said, held) = (said.remove(*member), of_later.remove(*member));
            // After a void, the persister has folded the member's history again.
            !voided.contains(*member) && said.unwrap_or_default() != held.unwrap_or_default()
        };
        wrong.extend(later.iter().filter(is_wrong).cloned());
        Ok(wrong)
    }

    /// As [`Self::look`], row by row, for members without later events.
    async fn wrong(
        &self,
        view: &DatabaseTransaction,
        later: &HashSet<String>,
    ) -> Result<BTreeSet<String>> {
        let mut awaited = self.all.awaited();
        let mut wrong = BTreeSet::new();
        let mut blocks = self.rows().read(view);
        while let Some(block) = blocks.try_next().await? {
            for (segment, member, held) in block.rows(["score", "rank_key"])?.iter() {
                let said = awaited.mark_found(segment, member);
                let said = said.map(|row| self.said(row).map(Some));
                if said != Some(held) && !later.contains(member) {
                    wrong.insert(member.to_owned());
                }
            }
        }
        let left = awaited.missing().map(|(_, member)| member.to_owned());
        wrong.extend(left.filter(|member| !later.contains(member)));
        Ok(wrong)
    }

    fn rows(&self) -> Columns {
        Columns::of_standing(self.partition.no, Some(self.board.no)).with(&["score", "rank_key"])
    }

    /// The score and the key that the history folds to.
    fn said(&self, row: usize) -> [i64; 2] {
        [self.all.score(row), self.all.key(row).to_i64()]
    }

    /// The fold of the history and of the later events, for members with later events; and those of
    /// them with a voided event.
    async fn said_of(
        &self,
        view: &DatabaseTransaction,
        later: &HashSet<String>,
    ) -> Result<(ByMember, HashSet<String>)> {
        let (rules, all) = (&self.board.rules, Period::all());
        let mut states: HashMap<String, BTreeMap<String, State>> = HashMap::new();
        for Run { id, rows, .. } in self.all.runs().iter().filter(|_| !later.is_empty()) {
            for row in rows.clone() {
                let member = self.all.member(row);
                if later.contains(member) {
                    let state = rules.state(Window::All, &all, self.all.key(row));
                    let of_member = states.entry(member.to_owned()).or_default();
                    of_member.insert(id.segment.clone(), state);
                }
            }
        }
        let (mut voided, mut last) = (HashSet::new(), (self.seq, i32::MAX));
        loop {
            let page = score_event::page_after(self.partition.no, last, ROWS_MAX)
                .filter(score_event::Column::BoardNo.eq(self.board.no.0))
                .all(view)
                .await?;
            let Some(row) = page.last() else { break };
            last = (row.seq, row.event_index);
            for row in page {
                let event = row.to_ranking()?;
                let of_member = states.entry(row.member.clone()).or_default();
                let (score, at_ms) = match event.kind {
                    EventKind::Score { score, at_ms, .. } => (score, at_ms),
                    EventKind::Removal => {
                        of_member.clear();
                        continue;
                    }
                    EventKind::Void { .. } => {
                        voided.insert(row.member);
                        continue;
                    }
                };
                let step = rules.first(Window::All, score, at_ms);
                for segment in [String::new()].into_iter().chain(event.segments) {
                    let before = of_member.get(&segment).copied();
                    of_member.insert(segment, rules.fold(Window::All, before, step));
                }
            }
        }
        let mut said = ByMember::new();
        for (member, states) in states {
            let of_member = said.entry(member).or_default();
            for (segment, state) in states {
                // No row can hold a state without a key.
                if let Ok(key) = rules.key(Window::All, &all, state) {
                    of_member.insert(segment, (state.score, key.to_i64()));
                }
            }
        }
        Ok((said, voided))
    }
}
