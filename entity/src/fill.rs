//! What came before a window was added, put into it in one partition while people play.

use std::collections::BTreeSet;

use ranking::board::Board;
use ranking::commit::{Event, EventKind, EventPlace};
use ranking::id::{MemberId, Partition};
use ranking::key::StandingsId;
use ranking::rank_key::RankKey;
use ranking::replay::Replay;
use ranking::roll::{RollMark, Rolls};
use ranking::store::history::Tail;
use ranking::store::write::Writes;
use ranking::submission::{Periods, StandingsChange};
use ranking::window::Window;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder};
use tokio::time::{Duration, Instant};

use crate::change::{Change, Proposal, carry_out};
use crate::deployment::Deployment;
use crate::error::Result;
use crate::roll::mark_rolled;
use crate::{archive_mark, follow, home, log_cursor, score_event};

/// How often the log is looked at again because the persister moved on meanwhile.
const READS_MAX: usize = 20;

/// How often it is staged again, before the background work does something else first.
const STAGES_MAX: usize = 5;

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
    let mark = archive_mark::of(&deployment.db, board.no, partition).await?;
    if mark.closing_seq > 0 {
        return Err(ranking::Error::Corrupt(format!(
            "windows of board {} are to be filled, and events of it are archived",
            board.no
        ))
        .into());
    }
    for _ in 0..STAGES_MAX {
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
    Err(ranking::Error::Unavailable(
        "too much is taken back while a window is filled; later again".into(),
    )
    .into())
}

/// Windows' standings of one partition, staged up to a commit, with what came after it.
struct Filling<'a> {
    board: &'a Board,
    replay: Replay,
    /// How far the replay reaches.
    cursor: log_cursor::Model,
    /// The run of Redis that it was staged on.
    run_id: String,
    /// The staged standings that are not in place yet: where their periods start, and their stages.
    left: Vec<(StandingsId, i64, String)>,
    /// The entries that came to differ from what was staged.
    touched: BTreeSet<(StandingsId, MemberId)>,
    periods: Periods,
    /// How far rolling windows had got when it was staged.
    rolls: Rolls,
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
        let cursor = follow::present(deployment, partition).await?;
        let run_id = store.run_id(partition).await?.to_string();
        let voided = match board.has_moved() {
            true => score_event::voided_on(db, board.no).await?,
            false => score_event::voided(db, partition, cursor.seq as u64).await?,
        };
        let (_, marks) = store.rolls(partition, board.no).await?;
        let now_ms = deployment.clock.now_ms();
        let rolls = Rolls { marks, now_ms };
        let replay = Replay::without(voided, now_ms).rolled(board.no, rolls.clone());
        let mut replay = replay.only(windows.iter().map(|(window, _)| *window));
        home::each_event(deployment, board, partition, cursor.seq, |place, event| {
            replay.apply(board, place, event)
        })
        .await?;
        let (id, mut left) = (crate::random_id(), vec![]);
        for change in replay.changes()? {
            let entries = change.entries.into_iter();
            let mut pairs: Vec<(MemberId, RankKey)> = entries
                .filter_map(|(member, key)| Some((member, key?)))
                .collect();
            pairs.sort_unstable_by(|(a, a_key), (b, b_key)| (a_key, a).cmp(&(b_key, b)));
            let stage = store.stage(partition, &id, &change.id, &pairs).await?;
            left.push((change.id, change.present_from_ms, stage));
        }
        Ok(Self {
            board,
            replay,
            cursor,
            run_id,
            left,
            touched: BTreeSet::new(),
            periods: Periods::default(),
            rolls,
            is_stale: false,
        })
    }

    /// Takes in all that was committed since, from SQL and from the log: the end of the log, or `None` where that cannot be.
    async fn catch_up(
        &mut self,
        deployment: &Deployment,
        partition: Partition,
    ) -> Result<Option<Tail>> {
        for _ in 0..READS_MAX {
            let no = self.board.no;
            let tail = follow::tail(deployment, partition, &self.cursor, no, &[], None);
            if let Some(tail) = tail.await? {
                tail.board.check(self.board)?;
                // Of what was staged on an earlier run a part may be lost.
                if tail.head.run_id != self.run_id {
                    return Ok(None);
                }
                // What was staged ends where its rolling windows had got then.
                let has_moved = |(series, mark): (&String, &RollMark)| {
                    let known = self.rolls.marks.get(series);
                    known.is_some_and(|known| known.begun_ms != mark.begun_ms)
                };
                let windows_moved = tail.rolls.iter().any(has_moved) || self.is_overtaken(&tail)?;
                if windows_moved {
                    return Ok(None);
                }
                for commit in &tail.commits {
                    for (place, event) in commit.places(partition) {
                        if !self.take(place, event)? {
                            return Ok(None);
                        }
                    }
                    self.cursor.seq = commit.seq as i64;
                    self.cursor.commit_id = commit.id.clone();
                }
                return Ok(Some(tail));
            }
            let of_board = score_event::Entity::find()
                .filter(score_event::Column::BoardNo.eq(no.0))
                .order_by_asc(score_event::Column::Seq)
                .order_by_asc(score_event::Column::EventIndex);
            let since = follow::since(deployment, partition, &self.cursor, of_board).await?;
            let Some((cursor, rows)) = since else {
                return Ok(None);
            };
            for row in rows {
                if !self.take(row.place()?, &row.to_ranking()?)? {
                    return Ok(None);
                }
            }
            self.cursor = cursor;
        }
        Ok(None)
    }

    /// Whether a series that had no mark when it was staged has got elsewhere since.
    fn is_overtaken(&self, tail: &Tail) -> ranking::Result<bool> {
        for (id, _, _) in &self.left {
            let Some(mark) = tail.rolls.get(&id.series()) else {
                continue;
            };
            let zone = &self.board.rules.zone;
            let staged = id.window.period_at(self.rolls.begun_ms(id), zone)?;
            if id.window.rolling().is_some() && staged.present_from_ms != mark.begun_ms {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes in an event; whether it could: what takes back is not folded onto a replay.
    fn take(&mut self, place: EventPlace, event: &Event) -> ranking::Result<bool> {
        if event.board != self.board.no {
            return Ok(true);
        }
        let EventKind::Score { at_ms, .. } = event.kind else {
            return Ok(false);
        };
        self.replay.apply(self.board, place, event)?;
        let standings = self
            .periods
            .standings(self.board, &event.segments, at_ms, &self.rolls)?
            .into_iter();
        let touched = standings.map(|(id, _)| (id, event.member.clone()));
        self.touched.extend(touched);
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
        let caught_up = match self.is_stale {
            true => None,
            false => self.catch_up(deployment, partition).await?,
        };
        // Once it could not, the replay may hold a part of what came: nothing may be folded onto it any more.
        let Some(tail) = caught_up else {
            self.is_stale = true;
            let head = deployment
                .store
                .log_after(partition, u64::MAX - 1, 1)
                .await?
                .head;
            return Ok(Proposal {
                head,
                log_len: 0,
                commit: None,
                outcome: (),
            });
        };
        let log_len = tail.commits.len() as u64;
        let keys = deployment.store.keys();
        let mut writes = Writes::default();
        for (id, present_from_ms, stage) in self.left.iter().take(STANDINGS_MAX) {
            writes.swap_in(stage, &keys.standings(partition, id));
            writes.note_period(keys, partition, id, *present_from_ms);
            mark_rolled(&mut writes, keys, partition, self.board, id, &self.rolls)?;
            let touched = self.touched.iter().filter(|(touched, _)| touched == id);
            let entries: Vec<_> = touched
                .map(|(_, member)| Ok((member.clone(), self.replay.key_of(id, member)?)))
                .collect::<ranking::Result<_>>()?;
            let change = StandingsChange {
                id: id.clone(),
                present_from_ms: *present_from_ms,
                entries,
            };
            writes.change(keys, partition, &change);
        }
        let now_ms = deployment.clock.now_ms();
        let commit = tail.head.next(crate::random_id(), now_ms, vec![]);
        Ok(Proposal {
            head: tail.head,
            log_len,
            commit: Some((commit, writes)),
            outcome: (),
        })
    }
}
