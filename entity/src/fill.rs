//! What came before a window was added, put into it in one partition while people play.

use std::collections::BTreeSet;

use ranking::board::Board;
use ranking::commit::EventKind;
use ranking::id::{MemberId, Partition};
use ranking::key::StandingsId;
use ranking::rank_key::RankKey;
use ranking::replay::Replay;
use ranking::store::history::Tail;
use ranking::store::write::Writes;
use ranking::submission::{Periods, StandingsChange};
use ranking::window::Window;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use tokio::time::{Duration, Instant};

use crate::change::{Change, Proposal, carry_out};
use crate::deployment::Deployment;
use crate::error::Result;
use crate::persist::descends;
use crate::recovery::settle;
use crate::{log_cursor, score_event};

/// How many events are read from SQL at once.
const ROWS_MAX: u64 = 10_000;

/// How much of the log is read at once; where there is more, SQL gets it first.
const TAIL_MAX: usize = 500;

/// How many standings one commit puts in place.
const STANDINGS_MAX: usize = 500;

/// How long one commit is tried for.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Fills windows in one partition.
pub(crate) async fn fill(
    deployment: &Deployment,
    board: &Board,
    partition: Partition,
    windows: &BTreeSet<(Window, u32)>,
) -> Result<()> {
    loop {
        let mut filling = Filling::stage(deployment, board, partition, windows).await?;
        while !filling.left.is_empty() {
            let deadline = Instant::now() + COMMIT_TIMEOUT;
            carry_out(deployment, partition, &mut filling, deadline).await?;
            if filling.is_stale {
                break;
            }
            let some = filling.left.len().min(STANDINGS_MAX);
            filling.left.drain(..some);
        }
        if filling.left.is_empty() {
            return Ok(());
        }
    }
}

/// Windows' standings of one partition, staged up to a commit, with what came after it.
struct Filling<'a> {
    board: &'a Board,
    replay: Replay,
    /// How far the replay reaches.
    cursor: log_cursor::Model,
    /// The staged standings that are not in place yet: where their periods start, and their stages.
    left: Vec<(StandingsId, i64, String)>,
    /// The entries that came to differ from what was staged.
    touched: BTreeSet<(StandingsId, MemberId)>,
    periods: Periods,
    /// The log went on without us, or something was taken back: what is left has to be staged again.
    is_stale: bool,
}

impl<'a> Filling<'a> {
    async fn stage(
        deployment: &Deployment,
        board: &'a Board,
        partition: Partition,
        windows: &BTreeSet<(Window, u32)>,
    ) -> Result<Self> {
        let Deployment { db, store, .. } = deployment;
        settle(deployment, partition).await?;
        let cursor = log_cursor::Entity::find_by_id(i32::from(partition.0))
            .one(db)
            .await?
            .ok_or(ranking::Error::NotLevel(partition.0))?;
        let voided = score_event::voided(db, partition, cursor.seq as u64).await?;
        let mut replay = Replay::without(voided).only(windows.iter().map(|(window, _)| *window));
        let mut last = (0, 0);
        loop {
            let rows = score_event::page_after(partition, last, ROWS_MAX)
                .filter(score_event::Column::BoardNo.eq(board.no.0))
                .filter(score_event::Column::Seq.lte(cursor.seq))
                .all(db)
                .await?;
            let Some(row) = rows.last() else { break };
            last = (row.seq, row.event_index);
            for row in rows {
                replay.apply(board, row.place()?, &row.to_ranking()?)?;
            }
        }
        let (id, mut left) = (crate::random_id(), vec![]);
        for change in replay.changes()? {
            let entries = change.entries.into_iter();
            let mut pairs: Vec<(MemberId, RankKey)> = entries
                .filter_map(|(member, key)| Some((member, key?)))
                .collect();
            pairs.sort_unstable_by(|(a, a_key), (b, b_key)| (a_key, a).cmp(&(b_key, b)));
            let stage = store.stage(partition, &id, &change.id, &pairs).await?;
            left.push((change.id, change.start_ms, stage));
        }
        Ok(Self {
            board,
            replay,
            cursor,
            left,
            touched: BTreeSet::new(),
            periods: Periods::default(),
            is_stale: false,
        })
    }

    /// Takes in what was committed since; whether it could.
    fn catch_up(&mut self, partition: Partition, tail: &Tail) -> ranking::Result<bool> {
        let end = tail.commits.last().map_or(
            (self.cursor.seq as u64, self.cursor.commit_id.clone()),
            |commit| (commit.seq, commit.id.clone()),
        );
        if !descends(&self.cursor, &tail.commits)
            || end != (tail.head.seq, tail.head.commit.clone())
        {
            return Ok(false);
        }
        for commit in &tail.commits {
            for (place, event) in commit.places(partition) {
                if event.board != self.board.no {
                    continue;
                }
                let EventKind::Score { at_ms, .. } = event.kind else {
                    return Ok(false);
                };
                self.replay.apply(self.board, place, event)?;
                let standings = self.periods.standings(self.board, &event.segments, at_ms)?;
                let touched = standings
                    .into_iter()
                    .map(|(id, _)| (id, event.member.clone()));
                self.touched.extend(touched);
            }
        }
        (self.cursor.seq, self.cursor.commit_id) = (end.0 as i64, end.1);
        Ok(true)
    }
}

impl Change for Filling<'_> {
    type Outcome = ();

    async fn propose(
        &mut self,
        deployment: &Deployment,
        partition: Partition,
    ) -> Result<Proposal<()>> {
        let from = self.cursor.seq as u64;
        let tail = deployment
            .store
            .tail(partition, from, TAIL_MAX, self.board.no, None)
            .await?;
        tail.board.check(self.board)?;
        let log_len = tail.commits.len() as u64;
        // Once it could not, the replay may hold a part of the tail: nothing may be folded onto it any more.
        self.is_stale = self.is_stale || !self.catch_up(partition, &tail)?;
        if self.is_stale {
            return Ok(Proposal {
                head: tail.head,
                log_len,
                commit: None,
                outcome: (),
            });
        }
        let keys = deployment.store.keys();
        let mut writes = Writes::default();
        for (id, start_ms, stage) in self.left.iter().take(STANDINGS_MAX) {
            writes.swap_in(stage, &keys.standings(partition, id));
            writes.note_period(keys, partition, id, *start_ms);
            let touched = self.touched.iter().filter(|(touched, _)| touched == id);
            let entries: Vec<_> = touched
                .map(|(_, member)| Ok((member.clone(), self.replay.key_of(id, member)?)))
                .collect::<ranking::Result<_>>()?;
            let change = StandingsChange {
                id: id.clone(),
                start_ms: *start_ms,
                entries,
            };
            writes.change(keys, partition, &change);
        }
        let commit = tail.head.next(crate::random_id(), crate::now_ms(), vec![]);
        Ok(Proposal {
            head: tail.head,
            log_len,
            commit: Some((commit, writes)),
            outcome: (),
        })
    }
}
