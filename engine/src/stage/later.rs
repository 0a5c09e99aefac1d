//! Following the history after a stage was loaded: from SQL up to its cursor, then from the log.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;

use ranking::board::State;
use ranking::commit::{Event, EventKind, EventPlace};
use ranking::id::MemberId;
use ranking::standings_id::StandingsId;
use ranking::store::log::Tail;
use ranking::window::Period;
use ranking::window::roll::RollMark;
use sea_orm::{ColumnTrait, QueryFilter};

use super::{CHANGED_MAX, Staged};
use crate::history::amend::replayed;
use crate::partition::Partition;
use crate::partition::follow::{Follower, Marks, READS_MAX};
use crate::partition::home;
use entity::archive::archived_entry;
use entity::error::Result;
use entity::history::{log_cursor, score_event};

/// The events of one SELECT.
const ROWS_MAX: u64 = 5000;

/// The read of the log from which on its result is used, even if there may be more by then.
const LOOKS_MAX: usize = 6;

/// The most commits that [`Staged::catch_up`] leaves to the log.
const NEAR_COMMITS: i64 = 100;

/// The source of a member's history that is folded again: SQL up to a seq, then `events`.
#[derive(Clone, Copy)]
struct Source<'e> {
    sql_seq: i64,
    /// The seq up to which the history is then known.
    seq: u64,
    events: &'e [(EventPlace, Event)],
}

/// One step of a fold.
enum FoldOutcome<'e> {
    /// Folds an event onto a member's entry.
    Onto(usize, &'e MemberId, State),
    /// Removes a member from all standings.
    Removal(&'e MemberId),
}

impl Staged<'_> {
    /// Folds what SQL got since, and writes it to the stage, until the stage is close to the head.
    /// Returns false if the stage is stale.
    ///
    /// # Errors
    /// If a store fails; it can be called again.
    pub async fn catch_up(&mut self) -> Result<bool> {
        for _ in 0..READS_MAX {
            let before = self.cursor.seq;
            if !self.take_from_sql().await? {
                return Ok(false);
            }
            self.write_changed().await?;
            if self.cursor.seq - before < NEAR_COMMITS {
                break;
            }
        }
        Ok(true)
    }

    /// Folds all commits up to the head and returns the end of the log; `None` if the stage is
    /// stale.
    ///
    /// Folding takes time in which others commit, so the log is read again: the shorter the last
    /// read, the likelier it is that our commit wins the race.
    pub(super) async fn take_all(&mut self) -> Result<Option<Tail>> {
        if self.is_stale {
            return Ok(None);
        }
        self.partition.read_to_head(self).await
    }

    /// Folds what SQL got since. Returns false if the stage is stale.
    async fn take_from_sql(&mut self) -> Result<bool> {
        let (partition, no) = (self.partition, self.board.no);
        let Some(now) = partition.advance_cursor(&self.cursor).await? else {
            self.is_stale = true;
            return Ok(false);
        };
        // Read after the cursor, so that every series that its events began has a mark.
        let (head, marks) = partition.store.rolls(partition.no, no).await?;
        if !self.goes_on(&head.run_id, &marks) {
            return Ok(false);
        }
        loop {
            let page = score_event::page_after(partition.no, self.last, ROWS_MAX)
                .filter(score_event::Column::BoardNo.eq(no.0))
                .filter(score_event::Column::Seq.lte(now.seq));
            let rows = page.all(&partition.db).await?;
            let mark = partition.archive_mark(no).await?;
            if mark.archived_seq > self.cursor.seq {
                // Events that are still to be read have left SQL.
                self.is_stale = true;
                return Ok(false);
            }
            let Some(row) = rows.last() else { break };
            let last = (row.seq, row.event_index);
            let mut events = Vec::with_capacity(rows.len());
            for row in &rows {
                events.push((row.place()?, row.to_ranking()?));
            }
            let source = Source { sql_seq: now.seq, seq: now.seq as u64, events: &[] };
            self.take(&events, source).await?;
            self.last = last;
            if self.changed.len() > CHANGED_MAX {
                self.write_changed().await?;
            }
        }
        self.is_at(now);
        Ok(true)
    }

    fn is_at(&mut self, cursor: log_cursor::Model) {
        self.last = (cursor.seq, i32::MAX);
        self.cursor = cursor;
        let seq = self.cursor.seq as u64;
        self.refolded.retain(|_, known| *known > seq);
    }

    pub(super) fn note_seals(&mut self, tail: &Tail) {
        let marks = self.seals.iter().zip(&tail.seals);
        let sealing = marks.map(|(name, mark)| (name.window, mark.sealing_before_ms));
        self.sealing_before_ms = sealing.collect();
    }

    /// Checks that the stage is still valid: Redis has not restarted, as it may have lost part of
    /// the stage, and no rolling window has moved on. Records the marks of new series.
    fn goes_on(&mut self, run_id: &str, marks: &HashMap<String, RollMark>) -> bool {
        let has_moved = |(series, mark): (&String, &RollMark)| {
            let known = self.rolls.marks.get(series).map(|mark| mark.begun_ms);
            let known_ms = known.or_else(|| self.unmarked.get(series).copied());
            self.is_meant(series) && known_ms.is_some_and(|known_ms| known_ms != mark.begun_ms)
        };
        if run_id != self.run_id || marks.iter().any(has_moved) {
            self.is_stale = true;
            return false;
        }
        self.rolls.marks.clone_from(marks);
        true
    }

    /// True if a series belongs to one of the windows.
    fn is_meant(&self, series: &str) -> bool {
        let window = series.rsplit(':').next().map(str::parse);
        matches!(window, Some(Ok(window)) if self.windows.contains(&window))
    }

    /// Folds events onto the stage: all of them, or none if a store fails.
    async fn take(&mut self, events: &[(EventPlace, Event)], source: Source<'_>) -> Result<()> {
        let (mut folds, mut amended, mut voided) = (vec![], BTreeSet::new(), BTreeSet::new());
        let mut wanted: BTreeMap<usize, BTreeSet<MemberId>> = BTreeMap::new();
        let mut taken = 0;
        for (place, event) in events {
            let is_known = self.refolded.get(&event.member);
            if event.board != self.board.no || is_known.is_some_and(|&seq| place.seq <= seq) {
                continue;
            }
            taken += 1;
            let (score, at_ms) = match event.kind {
                EventKind::Score { score, at_ms, .. } => (score, at_ms),
                EventKind::Removal => {
                    amended.insert(event.member.clone());
                    folds.push(FoldOutcome::Removal(&event.member));
                    continue;
                }
                EventKind::Void { .. } => {
                    amended.insert(event.member.clone());
                    voided.insert(event.member.clone());
                    continue;
                }
            };
            let standings =
                self.periods.standings(self.board, &event.segments, at_ms, &self.rolls)?;
            for (id, period) in standings {
                if !self.windows.contains(&id.window) || self.is_sealed(&id, &period) {
                    continue;
                }
                let state = self.board.rules.first(id.window, score, at_ms);
                let number = self.number(&id, &period);
                if number >= self.put {
                    folds.push(FoldOutcome::Onto(number, &event.member, state));
                    let members = wanted.entry(number).or_default();
                    members.insert(event.member.clone());
                }
            }
        }
        if !amended.is_empty() {
            for number in self.put..self.standings.len() {
                let members = wanted.entry(number).or_default();
                members.extend(amended.iter().cloned());
            }
        }
        let states = self.read_staged(wanted).await?;
        if !voided.is_empty() {
            self.check_in_sql(source.sql_seq).await?;
        }
        let mut refolds = vec![];
        for member in voided {
            refolds.push((self.refold(&member, source).await?, member));
        }
        self.later += taken;
        for fold in folds {
            self.apply(fold, &states);
        }
        for (folded, member) in refolds {
            self.remove(&member, &states);
            for (id, period, state) in folded {
                let number = self.number(&id, &period);
                if number >= self.put {
                    self.changed.insert((number, member.clone()), Some(state));
                }
            }
            self.refolded.insert(member, source.seq);
        }
        Ok(())
    }

    /// Applies a step to the changed entries, or to the staged `states`.
    fn apply(&mut self, fold: FoldOutcome<'_>, states: &HashMap<(usize, MemberId), Option<State>>) {
        match fold {
            FoldOutcome::Onto(number, member, state) => {
                let place = (number, member.clone());
                let known = self.changed.get(&place).or_else(|| states.get(&place));
                let window = self.standings[number].id.window;
                let state = self.board.rules.fold(window, known.copied().flatten(), state);
                self.changed.insert(place, Some(state));
            }
            FoldOutcome::Removal(member) => self.remove(member, states),
        }
    }

    /// Removes a member from all standings that are not in place yet.
    fn remove(&mut self, member: &MemberId, states: &HashMap<(usize, MemberId), Option<State>>) {
        for number in self.put..self.standings.len() {
            let place = (number, member.clone());
            let is_staged = states.get(&place).is_some_and(Option::is_some);
            if is_staged || self.changed.contains_key(&place) {
                self.changed.insert(place, None);
            }
        }
    }

    /// The staged states of members.
    async fn read_staged(
        &self,
        wanted: BTreeMap<usize, BTreeSet<MemberId>>,
    ) -> Result<HashMap<(usize, MemberId), Option<State>>> {
        let (mut numbers, mut lists) = (vec![], vec![]);
        for (number, members) in wanted {
            if let Some(key) = &self.standings[number].key {
                numbers.push(number);
                lists.push((key.as_str(), members.into_iter().collect::<Vec<_>>()));
            }
        }
        let found = self.stages.rank_keys(&lists).await?;
        let mut states = HashMap::new();
        for ((number, (_, members)), keys) in numbers.into_iter().zip(lists).zip(found) {
            let standing = &self.standings[number];
            for (member, key) in members.into_iter().zip(keys) {
                let state = key.map(|key| self.state(standing, key));
                states.insert((number, member), state);
            }
        }
        Ok(states)
    }

    /// Waits until SQL has the history up to a seq, as events taken from the log may not be there
    /// yet.
    async fn check_in_sql(&self, seq: i64) -> Result<()> {
        let now = self.partition.settled_cursor().await?;
        if now.seq < seq {
            return Err(ranking::Error::Unavailable(
                "Redis lost commits while standings were rebuilt; try again".into(),
            )
            .into());
        }
        Ok(())
    }

    /// Folds a member's whole history. Returns its states in the windows that are staged.
    async fn refold(
        &self,
        member: &MemberId,
        source: Source<'_>,
    ) -> Result<Vec<(StandingsId, Period, State)>> {
        let db = &self.partition.db;
        let (no, partition) = (self.board.no, self.partition);
        let mut mark = partition.archive_mark(no).await?;
        let (archived, rows) = loop {
            let archived = archived_entry::of_members(db, &mark, [member.as_str()]).await?;
            let rows = score_event::history_of(self.board, member.as_str())
                .filter(home::up_to(self.board, partition.no, source.sql_seq))
                .filter(score_event::Column::Seq.gt(mark.archived_seq))
                .all(db)
                .await?;
            // Rows are deleted only after a mark has moved past them.
            let now = partition.archive_mark(no).await?;
            if now == mark {
                break (archived, rows);
            }
            mark = now;
        };
        let mut events = Vec::with_capacity(rows.len());
        for row in &rows {
            events.push((row.place()?, row.to_ranking()?));
        }
        let later = source.events.iter();
        events.extend(
            later.filter(|(_, event)| event.board == no && event.member == *member).cloned(),
        );
        let sealed = self.sealing_before_ms.iter();
        let sealed = sealed.map(|(&window, &before_ms)| ((no, window), before_ms));
        let archived = archived.values();
        let replay = replayed(self.board, member, archived, &events, &self.rolls, sealed)?;
        let states = replay.states_of_member(no, member);
        let meant = states.filter(|(id, _, _)| self.windows.contains(&id.window));
        let owned = |(id, period, state): (&StandingsId, &Period, State)| {
            (id.clone(), period.clone(), state)
        };
        Ok(meant.map(owned).collect())
    }
}

impl Follower for Staged<'_> {
    /// `None` if the stage is stale.
    type Outcome = Option<Tail>;

    const IS_READ: &'static str = "their commits are";

    fn cursor(&self) -> Option<log_cursor::Model> {
        // An earlier call may have taken part of SQL's events before a store failed.
        let is_whole = self.last == (self.cursor.seq, i32::MAX);
        is_whole.then(|| self.cursor.clone())
    }

    fn marks(&self, _: Partition<'_>) -> Marks {
        Marks { board: self.board.no, seals: self.seals.clone(), members: vec![], seen: vec![] }
    }

    async fn read_sql(&mut self, _: Partition<'_>) -> Result<ControlFlow<Option<Tail>>> {
        Ok(match self.take_from_sql().await? {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(None),
        })
    }

    async fn take_tail(
        &mut self,
        partition: Partition<'_>,
        tail: Tail,
        read: usize,
    ) -> Result<ControlFlow<Option<Tail>>> {
        tail.board.check(self.board)?;
        if !self.goes_on(&tail.head.run_id, &tail.rolls) {
            return Ok(ControlFlow::Break(None));
        }
        self.note_seals(&tail);
        let places = |commit| ranking::commit::Commit::places(commit, partition.no);
        let events: Vec<(EventPlace, Event)> = tail
            .commits
            .iter()
            .flat_map(places)
            .map(|(place, event)| (place, event.clone()))
            .collect();
        let source = Source { sql_seq: self.cursor.seq, seq: tail.head.seq, events: &events };
        self.take(&events, source).await?;
        self.is_at(log_cursor::Model {
            seq: tail.head.seq as i64,
            commit_id: tail.head.commit.clone(),
            ..self.cursor.clone()
        });
        if self.changed.len() > CHANGED_MAX {
            self.write_changed().await?;
        } else if events.is_empty() || read >= LOOKS_MAX {
            return Ok(ControlFlow::Break(Some(tail)));
        }
        Ok(ControlFlow::Continue(()))
    }
}
