//! Swapping staged standings in, by commits that name the head that they were folded to.

use std::collections::{HashMap, HashSet};

use ranking::standings_id::StandingsId;
use ranking::store::write::Writes;
use ranking::submission::StandingsChange;

use super::{Staged, Standing};
use crate::partition::Partition;
use crate::partition::change::{Change, Proposal};
use crate::roll::mark_rolled;
use entity::error::Result;

/// The most keys that one commit drops.
const KEYS_MAX: usize = 500;

/// The most labels of a list of periods in one read.
const LABELS_MAX: usize = 100_000;

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Some standings are not in place yet.
    GoesOn,
    /// All standings are in place.
    Done,
    /// The history does not lead on from the stage; the rest must be staged again.
    Stale,
}

/// Data in Redis that may belong to no standings.
#[derive(Debug, Clone)]
enum Stray {
    /// A key in the key space of standings or of lists of periods.
    Key(String, Option<StandingsId>),
    /// A label in a list of periods.
    Label {
        list: String,
        label: String,
        /// True if its period is sealed or being sealed.
        is_sealed: bool,
    },
}

impl Staged<'_> {
    /// Swaps in the next standings, at most `count`, with one commit.
    ///
    /// # Errors
    /// `Unavailable` if other writers won every race for 20 s.
    pub async fn put(&mut self, count: usize) -> Result<Step> {
        let partition = self.partition;
        let mut putting = Putting { staged: self, count };
        let end = match partition.commit_change(&mut putting).await {
            Ok(done) => done.outcome,
            // Redis may have been emptied, or this process was suspended and its stage expired.
            Err(_) if !self.stages.is_whole().await? => None,
            Err(error) => return Err(error),
        };
        let Some(end) = end else {
            return Ok(Step::Stale);
        };
        for standing in &mut self.standings[self.put..end] {
            if let Some(key) = standing.key.take() {
                self.stages.forget(&key);
            }
            if let Some(left) = standing.series.as_ref().and_then(|of| self.left.get_mut(of)) {
                *left -= 1;
            }
        }
        self.committed += 1;
        self.changed.retain(|(number, _), _| *number >= end);
        self.put = end;
        Ok(match end == self.standings.len() {
            true => Step::Done,
            false => Step::GoesOn,
        })
    }

    /// Drops keys of another type where these windows' standings belong; no entry could be written
    /// there.
    pub async fn drop_foreign(&self) -> Result<()> {
        let keys = self.live_keys().await?;
        let kinds = self.partition.store.kinds(&keys).await?;
        let foreign = keys.into_iter().zip(kinds);
        let foreign: Vec<String> = foreign
            .filter(|(_, kind)| kind != "zset" && kind != "none")
            .map(|(key, _)| key)
            .collect();
        self.partition.drop_listed(self.board.no, &foreign).await
    }

    /// Drops keys and labels of these windows that no event of the history explains. All standings
    /// must be in place.
    pub async fn drop_others(&mut self) -> Result<Step> {
        let store = &self.partition.store;
        let keys = self.live_keys().await?;
        let mut strays = vec![];
        let mut lists = vec![];
        for key in keys {
            let id = store.keys().parse_standings(self.partition.no, &key);
            match store.keys().window_of(self.partition.no, &key) {
                Some(_) if id.is_none() => lists.push(key),
                _ => strays.push(Stray::Key(key, id)),
            }
        }
        for list in lists {
            let window = store.keys().window_of(self.partition.no, &list);
            let one = [list];
            let labels = store.raw_entries(&one, 0, LABELS_MAX).await?.pop();
            let [list] = one;
            for (label, _) in labels.flatten().unwrap_or_default() {
                let label = String::from_utf8_lossy(&label).into_owned();
                let calendar = &self.board.rules.calendar;
                let period =
                    window.and_then(|(window, _)| window.period_named(&label, calendar).ok());
                let before_ms = window.and_then(|(window, _)| self.sealing_before_ms.get(&window));
                let sealed = period.zip(before_ms);
                strays.push(Stray::Label {
                    list: list.clone(),
                    label,
                    is_sealed: sealed.is_some_and(|(period, &ms)| period.present_from_ms < ms),
                });
            }
        }
        self.drop_strays(strays).await
    }

    async fn drop_strays(&mut self, mut strays: Vec<Stray>) -> Result<Step> {
        let known = self.known();
        strays.retain(|stray| self.is_stray(stray, &known));
        while !strays.is_empty() {
            let partition = self.partition;
            let some = strays.split_off(strays.len().saturating_sub(KEYS_MAX));
            let mut dropping = Dropping { staged: self, strays: &some };
            let done = partition.commit_change(&mut dropping).await?;
            if !done.outcome {
                return Ok(Step::Stale);
            }
        }
        Ok(Step::Done)
    }

    /// The keys of these windows' standings and lists of periods, and keys whose name Laurel never
    /// writes.
    async fn live_keys(&self) -> Result<Vec<String>> {
        let (store, partition, no) = (&self.partition.store, self.partition.no, self.board.no);
        let mut keys = store.standings_keys(partition, Some(no)).await?;
        keys.extend(store.periods_keys(partition, no).await?);
        keys.retain(|key| {
            let window = store.keys().window_of(partition, key);
            window.is_none_or(|(window, generation)| {
                self.windows.contains(&window) && self.board.generation_of(window) == generation
            })
        });
        Ok(keys)
    }

    /// The labels that belong to each list of periods.
    fn known(&self) -> HashMap<String, HashSet<&str>> {
        let keys = self.partition.store.keys();
        let mut known: HashMap<String, HashSet<&str>> = HashMap::new();
        for Standing { id, .. } in &self.standings {
            let labels = known.entry(keys.periods(self.partition.no, id)).or_default();
            labels.insert(&id.period);
        }
        known
    }

    fn is_stray(&self, stray: &Stray, known: &HashMap<String, HashSet<&str>>) -> bool {
        match stray {
            Stray::Key(_, None) => true,
            Stray::Key(_, Some(id)) => {
                let period = id.window.period_named(&id.period, &self.board.rules.calendar);
                let is_sealed = period.is_ok_and(|period| self.is_sealed(id, &period));
                !self.places.contains_key(id) && !is_sealed
            }
            Stray::Label { list, label, is_sealed } => {
                let labels = known.get(list);
                !is_sealed && labels.is_none_or(|labels| !labels.contains(label.as_str()))
            }
        }
    }

    /// The writes that swap in the next standings, and how many are then in place.
    fn writes(&self, count: usize) -> ranking::Result<(Writes, usize)> {
        let keys = self.partition.store.keys();
        let mut writes = Writes::default();
        self.stages.guard(&mut writes);
        let end = self.standings.len().min(self.put + count);
        let mut of_series: HashMap<&str, usize> = HashMap::new();
        let mut changed = self.changed.iter().peekable();
        for (number, standing) in self.standings[..end].iter().enumerate().skip(self.put) {
            let mut entries = vec![];
            while let Some(((_, member), state)) = changed.next_if(|((of, _), _)| *of == number) {
                let key = state.map(|state| self.key(standing, state)).transpose()?;
                entries.push((member.clone(), key));
            }
            let Standing { id, period, series, key } = standing;
            let mut is_last = false;
            if let Some(series) = series {
                let count = of_series.entry(series).or_default();
                *count += 1;
                is_last = Some(&*count) == self.left.get(series);
            }
            if self.is_sealed(id, period) {
                // It was not sealed when it was staged.
                if let Some(key) = key {
                    writes.drop_key(key);
                }
                continue;
            }
            let live = keys.standings(self.partition.no, id);
            match key {
                Some(stage) => {
                    writes.swap_in(stage, &live);
                    let from_ms = period.present_from_ms;
                    writes.note_period(keys, self.partition.no, id, from_ms);
                }
                None => writes.drop_key(&live),
            }
            let change = StandingsChange {
                id: id.clone(),
                present_from_ms: period.present_from_ms,
                entries,
            };
            writes.change(keys, self.partition.no, &change);
            // The last of its standings completes the series.
            if is_last {
                let (board, rolls) = (self.board, &self.rolls);
                mark_rolled(&mut writes, self.partition, board, id, rolls)?;
            }
        }
        Ok((writes, end))
    }

    /// A proposal that changes nothing.
    async fn nothing<T>(&self, outcome: T) -> Result<Proposal<T>> {
        let tail = self.partition.head(self.board.no, &[]).await?;
        Ok(Proposal::nothing(tail.head, outcome))
    }
}

/// Swaps in the next standings. The outcome is the number then in place, or `None` if the stage is
/// stale.
struct Putting<'s, 'a> {
    staged: &'s mut Staged<'a>,
    count: usize,
}

impl Change for Putting<'_, '_> {
    type Outcome = Option<usize>;

    async fn propose(&mut self, partition: Partition<'_>) -> Result<Proposal<Option<usize>>> {
        self.staged.proposed += 1;
        let Some(tail) = self.staged.take_all().await? else {
            return self.staged.nothing(None).await;
        };
        let (writes, end) = self.staged.writes(self.count)?;
        if end == self.staged.put {
            return self.staged.nothing(Some(end)).await;
        }
        let proposal = Proposal::onto(&tail, Some(end));
        Ok(proposal.writing(writes, partition.clock.now_ms()))
    }
}

/// Drops strays. The outcome is false if the stage is stale.
struct Dropping<'s, 'a> {
    staged: &'s mut Staged<'a>,
    strays: &'s [Stray],
}

impl Change for Dropping<'_, '_> {
    type Outcome = bool;

    async fn propose(&mut self, partition: Partition<'_>) -> Result<Proposal<bool>> {
        let Some(tail) = self.staged.take_all().await? else {
            return self.staged.nothing(false).await;
        };
        let known = self.staged.known();
        let mut writes = Writes::default();
        for stray in self.strays {
            // A later event may have begun it.
            if !self.staged.is_stray(stray, &known) {
                continue;
            }
            match stray {
                Stray::Key(key, _) => writes.drop_key(key),
                Stray::Label { list, label, .. } => {
                    writes.forget_periods(list, std::slice::from_ref(label));
                }
            }
        }
        Ok(Proposal::onto(&tail, true).writing(writes, partition.clock.now_ms()))
    }
}
