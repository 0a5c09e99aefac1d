//! Members drawn at random, whose states are folded again by `ranking` from the plan's events.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use anyhow::{Context, Result, bail};
use entity::history::score_event::Model;
use polars::prelude::{
    BooleanChunked, Column, DataType, Expr, Field, IntoColumn, PolarsResult, Schema, col,
};
use ranking::board::Board;
use ranking::commit::EventKind;
use ranking::fold::replay::Replay;
use ranking::window::Window;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::plan::Plan;
use super::states::{Entries, Entry, WindowStates};
use crate::frame::counted::in_parts;
use crate::frame::events;

/// The members whose hash with a seed is at most a bound.
#[derive(Debug, Clone, Copy)]
pub struct Draw {
    seed: u64,
    bound: u64,
}

impl Draw {
    /// Some `count` of `members` members, or all of them if they are no more.
    pub fn new(seed: u64, count: u64, members: u64) -> Self {
        let bound = match members <= count {
            true => u64::MAX,
            false => ((u128::from(count) << 64) / u128::from(members)) as u64,
        };
        Self { seed, bound }
    }

    /// The condition that a row's member is drawn.
    fn condition(self) -> Expr {
        let is_drawn = move |members: Column| -> PolarsResult<Column> {
            let of = |member: Option<&str>| {
                Some(xxh3_64_with_seed(member?.as_bytes(), self.seed) <= self.bound)
            };
            let drawn: BooleanChunked = members.str()?.iter().map(of).collect();
            Ok(drawn.into_column())
        };
        let kind =
            |_: &Schema, field: &Field| Ok(Field::new(field.name().clone(), DataType::Boolean));
        col("member").map(is_drawn, kind)
    }
}

/// Checks that drawn members have the states that `ranking` folds their events to, in every window.
/// Returns their number.
///
/// # Errors
/// If one has another state, one too many or none; the message names the member and the row.
pub fn check(
    plan: &Plan,
    board: &Board,
    dir: &Path,
    states: &[(Window, WindowStates<'_>)],
    draw: Draw,
) -> Result<usize> {
    let drawn = in_parts(plan.events(dir)?.filter(draw.condition()))?;
    let mut rows = events::rows(&drawn)?;
    rows.sort_by_key(|row| (layout(board, row), row.seq, row.event_index));
    let expected = Expected::of(plan, board, &rows)?;
    for (window, of_window) in states {
        let found = of_window.drawn(draw.condition())?;
        expected.check(*window, of_window, found)?;
    }
    Ok(expected.members)
}

fn layout(board: &Board, row: &Model) -> usize {
    board.layout_of(row.generation.unsigned_abs())
}

/// The states that `ranking` folds the events of the drawn members to.
struct Expected {
    members: usize,
    /// The keys by window, segment, label and member.
    keys: HashMap<(Window, String, String), BTreeMap<String, i64>>,
    /// The seq of each member's last event that counts, by segment.
    seqs: HashMap<String, HashMap<String, i64>>,
}

impl Expected {
    fn of(plan: &Plan, board: &Board, rows: &[Model]) -> Result<Self> {
        let voided: HashSet<_> = rows.iter().filter_map(Model::voids).collect();
        let sealed = board.rules.windows.iter();
        let sealed =
            sealed.map(|&window| ((board.no, window), board.sealed(window).sealing_before_ms));
        let mut replay = Replay::without(voided.clone(), plan.through_ms).skipping_before(sealed);
        let mut seqs: HashMap<String, HashMap<String, i64>> = HashMap::new();
        for row in rows {
            let (place, event) = (row.place()?, row.to_ranking()?);
            replay.apply(board, place, &event)?;
            if voided.contains(&place) {
                continue;
            }
            match event.kind {
                EventKind::Void { .. } => {}
                EventKind::Removal => {
                    seqs.remove(&row.member);
                }
                EventKind::Score { .. } => {
                    let of_member = seqs.entry(row.member.clone()).or_default();
                    for segment in Window::All.segments_of(&event.segments) {
                        let last = of_member.entry(segment.to_owned()).or_default();
                        *last = row.seq.max(*last);
                    }
                }
            }
        }
        let mut keys: HashMap<_, BTreeMap<String, i64>> = HashMap::new();
        for (id, entries) in replay.entries()? {
            let of_standings = keys.entry((id.window, id.segment, id.period)).or_default();
            of_standings.extend(
                entries.into_iter().map(|(key, member)| (member.to_string(), key.to_i64())),
            );
        }
        Ok(Self { members: seqs.len(), keys, seqs })
    }

    fn check(&self, window: Window, states: &WindowStates<'_>, mut found: Entries) -> Result<()> {
        let periods = &states.periods().periods;
        for (place, period) in periods.iter().enumerate() {
            // Replay has no standings of a period without events.
            let of_period = self
                .keys
                .iter()
                .filter(|((of, _, label), _)| *of == window && *label == period.label);
            for ((_, segment, label), entries) in of_period {
                for (member, key) in entries {
                    let what = || {
                        format!(
                            "member {member:?} in window {window}, period {label}, segment {segment:?}"
                        )
                    };
                    let state = found.remove(&(segment.clone(), place, member.clone()));
                    let Entry { key: state_key, seq, at } = state.with_context(|| {
                        format!("the states have no entry of {}, which has key {key}", what())
                    })?;
                    if state_key != *key {
                        bail!("{at}: {} has key {state_key}, and its events fold to {key}", what());
                    }
                    let last = self.seqs.get(member).and_then(|of| of.get(segment));
                    if window == Window::All && last != Some(&seq) {
                        bail!("{at}: {} has seq {seq}, and its last event has another", what());
                    }
                }
            }
        }
        match found.into_iter().next() {
            None => Ok(()),
            Some(((segment, place, member), Entry { key, at, .. })) => bail!(
                "{at}: member {member:?} has key {key} in window {window}, period {}, segment {segment:?}, and no events there that count",
                periods[place].label
            ),
        }
    }
}
