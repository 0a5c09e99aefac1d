//! The roller moves rolling windows into their next period. When a period begins, its standings are
//! complete, as the roller has carried all members into them ahead of time.
//!
//! Each step is one commit, or nothing if another process already took it. So the roller can stop
//! anywhere, and any number of processes can run it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ranking::board::Board;
use ranking::board::mark::BoardMark;
use ranking::commit::Head;
use ranking::fold::State;
use ranking::id::{MemberId, Partition};
use ranking::rank_key::RankKey;
use ranking::roll::{Carried, RollMark, Rolls, carry};
use ranking::standings_id::{StandingsId, unescape};
use ranking::store::key::KeySpace;
use ranking::store::write::Writes;
use ranking::submission::batch::index::part_id;
use ranking::submission::{Snapshot, StandingsChange, Wanted};
use ranking::window::{Period, Rolling, Window};
use tokio::time::{Duration, Instant};

use crate::deployment::Deployment;
use crate::partition::change::{Change, Proposal, carry_out};
use entity::board;
use entity::error::{Error, Result};

/// The most boards and partitions whose marks one call reads.
const PLACES_MAX: usize = 500;

/// The time limit of one commit.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Rolls every board's windows to an instant, and prepares the period after it. A board that fails
/// does not stop the others. Returns the number of boards with rolling windows.
///
/// # Errors
/// The last board's error; completed steps stay.
pub async fn roll(deployment: &Deployment, now_ms: i64) -> Result<usize> {
    let boards = board::all(&deployment.db).await?;
    let rolling: Vec<&Board> = boards.values().filter(|board| rolls(board)).collect();
    let mut places: Vec<(Partition, &Board)> = vec![];
    for &board in &rolling {
        let partitions = deployment.store.partitions().of_board(board);
        places.extend(partitions.into_iter().map(|partition| (partition, board)));
    }
    let mut failed = None;
    for places in places.chunks(PLACES_MAX) {
        let names: Vec<_> =
            places.iter().map(|(partition, board)| (*partition, board.no)).collect();
        let marks = deployment.store.many_rolls(&names).await?;
        for (&(partition, board), marks) in places.iter().zip(marks) {
            if !is_due(board, &marks, now_ms)? {
                continue;
            }
            if let Err(error) = roll_in(deployment, partition, board, now_ms).await {
                failed = Some(error);
            }
        }
    }
    failed.map_or(Ok(rolling.len()), Err)
}

/// Rolls a board's windows to an instant.
pub async fn roll_board(deployment: &Deployment, board: &Board, now_ms: i64) -> Result<()> {
    if !rolls(board) {
        return Ok(());
    }
    for partition in deployment.store.partitions().of_board(board) {
        roll_in(deployment, partition, board, now_ms).await?;
    }
    Ok(())
}

fn rolls(board: &Board) -> bool {
    let mut windows = board.rules.windows.iter();
    windows.any(|window| window.rolling().is_some())
}

/// True if a board with these marks needs a step.
fn is_due(board: &Board, marks: &HashMap<String, RollMark>, now_ms: i64) -> Result<bool> {
    for (name, mark) in marks {
        if let Some(series) = Series::parse(board, name)
            && (!mark.is_ready || mark.begun_ms < series.at(now_ms)?.present_from_ms)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Rolls a board's windows in one partition.
pub(crate) async fn roll_in(
    deployment: &Deployment,
    partition: Partition,
    board: &Board,
    now_ms: i64,
) -> Result<()> {
    let mut done = BTreeSet::new();
    loop {
        let (_, marks) = deployment.store.rolls(partition, board.no).await?;
        let mut left = marks.into_iter().filter(|(name, _)| !done.contains(name));
        let Some((name, mark)) = left.next() else {
            return Ok(());
        };
        let series = match Series::parse(board, &name) {
            Some(series) => series,
            // The window was dropped, or this process does not know it yet.
            None => {
                done.insert(name);
                continue;
            }
        };
        if !series.step(deployment, partition, mark, now_ms).await? {
            done.insert(name);
        }
    }
}

/// A segment of a board in a rolling window.
struct Series<'a> {
    board: &'a Board,
    segment: String,
    window: Window,
    rolling: Rolling,
}

impl<'a> Series<'a> {
    fn parse(board: &'a Board, name: &str) -> Option<Self> {
        let mut parts = name.split(':');
        let generation: u32 = parts.next()?.parse().ok()?;
        let segment = unescape(parts.next()?);
        let window: Window = parts.next()?.parse().ok()?;
        let is_ours =
            board.rules.windows.contains(&window) && board.generation_of(window) == generation;
        Some(Self { board, segment, window, rolling: window.rolling().filter(|_| is_ours)? })
    }

    fn at(&self, at_ms: i64) -> ranking::Result<Period> {
        self.window.period_at(at_ms, &self.board.rules.zone)
    }

    fn id(&self, period: &Period) -> StandingsId {
        StandingsId::of(self.board, &self.segment, self.window, period)
    }

    /// The last period begun, and the one after it.
    fn pair(&self, mark: RollMark) -> ranking::Result<(Period, Period)> {
        let from = self.at(mark.begun_ms)?;
        let next = self.at(from.end_ms.unwrap_or(i64::MAX))?;
        Ok((from, next))
    }

    /// Takes one step. Returns false if there was none to take.
    async fn step(
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
        carry_out(deployment, partition, &mut beginning, deadline()).await?;
        Ok(true)
    }

    /// Carries all members of the last period begun into the one after it.
    async fn carry_all(
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
            let done = carry_out(deployment, partition, &mut carrying, deadline()).await?;
            if !done.outcome {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn deadline() -> Instant {
    Instant::now() + COMMIT_TIMEOUT
}

/// Begins the next period; if it has no members, skips to the present one.
struct Beginning<'a> {
    series: &'a Series<'a>,
    mark: RollMark,
    present_ms: i64,
    now_ms: i64,
}

impl Change for Beginning<'_> {
    type Outcome = ();

    async fn propose(
        &mut self,
        deployment: &Deployment,
        partition: Partition,
    ) -> Result<Proposal<()>> {
        let series = self.series;
        let name = series.id(&series.at(self.mark.begun_ms)?).series();
        let (head, marks) = deployment.store.rolls(partition, series.board.no).await?;
        let proposal = Proposal { head, log_len: 0, commit: None, outcome: () };
        if marks.get(&name) != Some(&self.mark) {
            return Ok(proposal);
        }
        let (_, next) = series.pair(self.mark)?;
        let size = deployment.store.shard_size(partition, &series.id(&next)).await?;
        let mark = match size {
            0 => RollMark { begun_ms: self.present_ms, is_ready: true },
            _ => RollMark { begun_ms: next.present_from_ms, is_ready: false },
        };
        let mut writes = Writes::default();
        writes.mark_roll(deployment.store.keys(), partition, series.board.no, &name, mark);
        Ok(proposal.writing(writes, self.now_ms))
    }
}

/// Carries some members. The outcome is false if the walk must stop: another process moved the
/// window on, or Redis restarted.
struct Carrying<'a> {
    series: &'a Series<'a>,
    mark: RollMark,
    /// The Redis run in which the walk began.
    run_id: &'a str,
    from: Period,
    next: Period,
    members: Vec<MemberId>,
    is_last: bool,
    now_ms: i64,
}

impl Change for Carrying<'_> {
    type Outcome = bool;

    async fn propose(
        &mut self,
        deployment: &Deployment,
        partition: Partition,
    ) -> Result<Proposal<bool>> {
        let series = self.series;
        let mut parts: BTreeMap<i64, (Period, Vec<MemberId>)> = BTreeMap::new();
        loop {
            let wanted = self.wanted(&parts);
            let snapshot = deployment
                .store
                .snapshot(partition, &wanted, deployment.dedup, self.now_ms)
                .await?;
            let nothing = |head: Head, outcome: bool| Proposal {
                head,
                log_len: snapshot.log_len,
                commit: None,
                outcome,
            };
            let mark = snapshot.rolls.iter().flatten().next().copied().flatten();
            if let Some(BoardMark::Held(_)) = snapshot.boards.first() {
                return Err(ranking::Error::BoardHeld.into());
            }
            // A walk is valid in one run of Redis only: entries carried in an earlier run may be
            // lost.
            if mark != Some(self.mark) || snapshot.head.run_id != self.run_id {
                return Ok(nothing(snapshot.head, false));
            }
            let (entries, unknown) = self.carried(&wanted, &snapshot, &parts)?;
            if !unknown.is_empty() {
                for (period, member) in unknown {
                    let known = parts.entry(period.present_from_ms);
                    known.or_insert((period, vec![])).1.push(member);
                }
                continue;
            }
            if entries.is_empty() && !self.is_last {
                return Ok(nothing(snapshot.head, true));
            }
            let keys = deployment.store.keys();
            let mut writes = Writes::default();
            let change = StandingsChange {
                id: series.id(&self.next),
                present_from_ms: self.next.present_from_ms,
                entries,
            };
            writes.change(keys, partition, &change);
            if self.is_last {
                let mark = RollMark { is_ready: true, ..self.mark };
                let name = change.id.series();
                writes.mark_roll(keys, partition, series.board.no, &name, mark);
            }
            let commit = snapshot.head.next(entity::random_id(), self.now_ms, vec![]);
            return Ok(Proposal {
                head: snapshot.head,
                log_len: 0,
                commit: Some((commit, writes)),
                outcome: true,
            });
        }
    }
}

impl Carrying<'_> {
    fn wanted(&self, parts: &BTreeMap<i64, (Period, Vec<MemberId>)>) -> Wanted {
        let Series { board, segment, rolling, .. } = self.series;
        let mut wanted = Wanted {
            boards: vec![board.no],
            rolls: vec![(board.no, vec![self.series.id(&self.from).series()])],
            ..Wanted::default()
        };
        if self.members.is_empty() {
            return wanted;
        }
        for period in [&self.from, &self.next] {
            let of_period = (self.series.id(period), self.members.clone());
            wanted.standings.push(of_period);
        }
        for (period, members) in parts.values() {
            let id = part_id(board, segment, *rolling, period);
            wanted.standings.push((id, members.clone()));
        }
        wanted
    }

    /// The entries of members that are not carried yet, and the base entries that must be read
    /// first.
    #[expect(clippy::type_complexity, reason = "two lists")]
    fn carried(
        &self,
        wanted: &Wanted,
        snapshot: &Snapshot,
        parts: &BTreeMap<i64, (Period, Vec<MemberId>)>,
    ) -> Result<(Vec<(MemberId, Option<RankKey>)>, Vec<(Period, MemberId)>)> {
        let Series { board, rolling, .. } = self.series;
        let rules = &board.rules;
        let (mut entries, mut unknown) = (vec![], vec![]);
        if self.members.is_empty() {
            return Ok((entries, unknown));
        }
        let mut known: BTreeMap<(i64, &MemberId), Option<State>> = BTreeMap::new();
        let read = wanted.standings[2..].iter().zip(&snapshot.keys[2..]);
        for ((period, _), ((id, members), keys)) in parts.values().zip(read) {
            for (member, key) in members.iter().zip(keys) {
                // Invalid values from other programs are not carried; the integrity diff reports
                // them.
                let key = key.clone().ok().flatten();
                let state = key.map(|key| rules.state(id.window, period, key));
                known.insert((period.present_from_ms, member), state);
            }
        }
        let there = snapshot.keys[0].iter().zip(&snapshot.keys[1]);
        for (member, (from, next)) in self.members.iter().zip(there) {
            let (Ok(Some(key)), Ok(None)) = (from.clone(), next.clone()) else {
                continue;
            };
            let state = rules.state(self.series.window, &self.from, key);
            let part = |period: &Period| Ok(known.get(&(period.present_from_ms, member)).copied());
            match carry(rules, *rolling, &self.from, &self.next, state, part)? {
                Carried::Known(None) => {}
                Carried::Known(Some(state)) => {
                    match rules.key(self.series.window, &self.next, state) {
                        Ok(key) => entries.push((member.clone(), Some(key))),
                        // A window that is being filled is rebuilt anyway.
                        Err(_) if !board.is_whole(self.series.window) => {}
                        Err(error) => return Err(Error::from(error)),
                    }
                }
                Carried::Wants(periods) => {
                    let missing = periods.into_iter().map(|period| (period, member.clone()));
                    unknown.extend(missing);
                }
            }
        }
        Ok((entries, unknown))
    }
}

/// Marks the series of a rolling window as complete up to the period after the present one.
pub fn mark_rolled(
    writes: &mut Writes,
    keys: &KeySpace,
    partition: Partition,
    board: &Board,
    id: &StandingsId,
    rolls: &Rolls,
) -> ranking::Result<()> {
    if id.window.rolling().is_some() {
        let begun = id.window.period_at(rolls.begun_ms(id), &board.rules.zone)?;
        let mark = RollMark { begun_ms: begun.present_from_ms, is_ready: true };
        writes.mark_roll(keys, partition, board.no, &id.series(), mark);
    }
    Ok(())
}

/// As [`mark_rolled`], unless the series already has a mark.
pub(crate) fn mark_new(
    writes: &mut Writes,
    keys: &KeySpace,
    partition: Partition,
    board: &Board,
    id: &StandingsId,
    rolls: &Rolls,
) -> ranking::Result<()> {
    if rolls.marks.contains_key(&id.series()) {
        return Ok(());
    }
    mark_rolled(writes, keys, partition, board, id, rolls)
}
