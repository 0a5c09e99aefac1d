//! The series of a rolling window in a partition, and its next steps.

use super::carry::{Beginning, Carrying};
use super::deadline;
use crate::deployment::Deployment;
use crate::partition::change::commit_with_retry;
use entity::error::Result;
use ranking::board::Board;
use ranking::id::{MemberId, Partition};
use ranking::roll::RollMark;
use ranking::standings_id::{StandingsId, unescape};
use ranking::window::{Period, Rolling, Window};
use std::collections::BTreeSet;

/// A segment of a board in a rolling window.
pub(super) struct Series<'a> {
    pub(super) board: &'a Board,
    pub(super) segment: String,
    pub(super) window: Window,
    pub(super) rolling: Rolling,
}

impl<'a> Series<'a> {
    pub(super) fn parse(board: &'a Board, name: &str) -> Option<Self> {
        let mut parts = name.split(':');
        let generation: u32 = parts.next()?.parse().ok()?;
        let segment = unescape(parts.next()?);
        let window: Window = parts.next()?.parse().ok()?;
        let is_ours =
            board.rules.windows.contains(&window) && board.generation_of(window) == generation;
        Some(Self { board, segment, window, rolling: window.rolling().filter(|_| is_ours)? })
    }

    pub(super) fn at(&self, at_ms: i64) -> ranking::Result<Period> {
        self.window.period_at(at_ms, &self.board.rules.zone)
    }

    pub(super) fn id(&self, period: &Period) -> StandingsId {
        StandingsId::of(self.board, &self.segment, self.window, period)
    }

    /// The last period begun, and the one after it.
    pub(super) fn pair(&self, mark: RollMark) -> ranking::Result<(Period, Period)> {
        let from = self.at(mark.begun_ms)?;
        let next = self.at(from.end_ms.unwrap_or(i64::MAX))?;
        Ok((from, next))
    }

    /// Takes one step. Returns false if there was none to take.
    pub(super) async fn step(
        &self,
        deployment: &Deployment,
        partition: Partition,
        mark: RollMark,
        now_ms: i64,
    ) -> Result<bool> {
        if !mark.is_ready {
            self.carry_all(deployment, partition, mark).await?;
            return Ok(true);
        }
        let present_ms = self.at(now_ms)?.present_from_ms;
        if mark.begun_ms >= present_ms {
            return Ok(false);
        }
        let mut beginning = Beginning { series: self, mark, present_ms, now_ms };
        commit_with_retry(deployment, partition, &mut beginning, deadline()).await?;
        Ok(true)
    }

    /// Carries all members of the last period begun into the one after it.
    pub(super) async fn carry_all(
        &self,
        deployment: &Deployment,
        partition: Partition,
        mark: RollMark,
    ) -> Result<()> {
        let (from, next) = self.pair(mark)?;
        let run_id = deployment.store.run_id(partition).await?;
        let mut cursor = Some("0".to_owned());
        while let Some(at) = cursor {
            let walked = deployment.store.walk(partition, &self.id(&from), &at).await?;
            let members: BTreeSet<MemberId> = walked.members.into_iter().collect();
            cursor = walked.next;
            let mut carrying = Carrying {
                series: self,
                mark,
                run_id: &run_id,
                from: from.clone(),
                next: next.clone(),
                members: members.into_iter().collect(),
                is_last: cursor.is_none(),
                now_ms: deployment.clock.now_ms(),
            };
            let done = commit_with_retry(deployment, partition, &mut carrying, deadline()).await?;
            if !done.outcome {
                return Ok(());
            }
        }
        Ok(())
    }
}
