//! The events that came after the plan of an engine's states: whatever they touch is looked at from
//! all sides, as a suspect is.

use std::collections::HashSet;

use anyhow::{Result, ensure};
use engine::integrity::look::{Location, is_sealing};
use entity::history::score_event::{self, Kind};
use futures::StreamExt;
use ranking::fold::replay::Replay;
use ranking::id::MemberId;
use ranking::standings_id::StandingsId;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder};

use super::PartitionDiff;
use crate::diff::findings::Findings;
use crate::diff::rows::Rows;
use crate::diff::second_look::Suspects;
use crate::frame::history::heads;

/// The most events after a plan: each of their members is looked at alone.
const LATER_MAX: usize = 1_000_000;

/// The members of later events, and the standings in which their scores count.
pub(super) struct Later {
    members: HashSet<String>,
    places: Vec<(StandingsId, Vec<MemberId>)>,
}

impl Later {
    /// Reads the events of a part after a commit.
    ///
    /// # Errors
    /// If there are more than [`LATER_MAX`].
    pub(super) async fn read(part: &PartitionDiff<'_>, after: u64) -> Result<Self> {
        use score_event::Column::{BoardNo, EventIndex, Partition as In, Seq};
        let (board, partition) = (part.board, part.partition);
        let head = &heads(partition.deployment, &[partition]).await?[&partition.no];
        let mut rows = score_event::Entity::find()
            .filter(In.eq(i32::from(partition.no)))
            .filter(Seq.gt(after as i64))
            .filter(Seq.lte(head.seq as i64))
            .filter(BoardNo.eq(board.no.0))
            .order_by_asc(Seq)
            .order_by_asc(EventIndex)
            .stream(&partition.db)
            .await?;
        let mut replay = Replay::without(HashSet::new(), partition.clock.now_ms()).skipping_unfit();
        let (mut members, mut count) = (HashSet::new(), 0);
        while let Some(row) = rows.next().await {
            let row = row?;
            count += 1;
            ensure!(
                count <= LATER_MAX,
                "more than {LATER_MAX} events came since the plan was made; make another plan"
            );
            if row.kind == Kind::Score {
                replay.apply(board, row.place()?, &row.to_ranking()?)?;
            }
            members.insert(row.member);
        }
        let places = replay.entries()?.into_iter().map(|(id, entries)| {
            let members = entries.into_iter().map(|(_, member)| member);
            (id, members.collect::<Vec<_>>())
        });
        let places = places.filter(|(id, _)| !is_sealing(board, id)).collect();
        Ok(Self { members, places })
    }

    /// Suspects what the later events may have changed in the states of a window.
    pub(super) async fn suspect(
        &self,
        rows: &Rows,
        suspects: &mut Suspects<'_>,
        findings: &mut Findings,
    ) -> Result<()> {
        if self.members.is_empty() {
            return Ok(());
        }
        for id in rows.lists() {
            rows.walk(id).end(|member| {
                if self.members.contains(member) {
                    suspects.add(member.as_bytes(), Location::Entry(id.clone()));
                }
            });
            suspects.look_again_if_many(findings).await?;
        }
        Ok(())
    }

    /// Suspects the entries that their scores have or should have.
    pub(super) async fn suspect_own(
        &self,
        suspects: &mut Suspects<'_>,
        findings: &mut Findings,
    ) -> Result<()> {
        for (id, members) in &self.places {
            for member in members {
                suspects.add(member.as_str().as_bytes(), Location::Entry(id.clone()));
            }
            suspects.look_again_if_many(findings).await?;
        }
        Ok(())
    }
}
