//! A board's rules as a plan has them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context, Result};
use ranking::board::layout::{Former, Layouts};
use ranking::board::rules::{Rules, RulesInput};
use ranking::board::{Added, Board, Direction, Policy, TieBreak};
use ranking::id::BoardNo;
use ranking::window::calendar::{Calendar, Weekday};
use ranking::window::seal::{NEVER_MS, Sealed};
use ranking::window::season::Season;
use ranking::window::{Window, parse_zone};
use serde::{Deserialize, Serialize};

/// A board, as far as a fold needs to know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlanBoard {
    no: i64,
    generation: u32,
    direction: String,
    policy: String,
    tie_break: String,
    tick_ms: u32,
    decimals: u8,
    min: i64,
    max: i64,
    time_zone: String,
    reset_hour: u8,
    week_start: i8,
    seasons: Vec<PlanSeason>,
    shards: u16,
    former_layouts: Vec<Former>,
    windows: Vec<PlanWindow>,
    attempts: BTreeMap<String, u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlanSeason {
    name: String,
    start_ms: i64,
    end_ms: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlanWindow {
    name: String,
    /// False if no client asked for it.
    shown: bool,
    since: u32,
    sealing_before_ms: Option<i64>,
}

impl PlanBoard {
    pub(super) fn of(board: &Board) -> Self {
        let rules = &board.rules;
        let window = |&window: &Window| PlanWindow {
            name: window.to_string(),
            shown: rules.is_shown(window),
            since: board.generation_of(window),
            sealing_before_ms: Some(board.sealed(window).sealing_before_ms)
                .filter(|&before_ms| before_ms > NEVER_MS),
        };
        let season = |season: &Season| PlanSeason {
            name: season.name.clone(),
            start_ms: season.start_ms,
            end_ms: season.end_ms,
        };
        let calendar = &rules.calendar;
        Self {
            no: board.no.0,
            generation: board.generation,
            direction: rules.direction.name().to_owned(),
            policy: rules.policy.name().to_owned(),
            tie_break: rules.tie_break.name().to_owned(),
            tick_ms: rules.tick_ms,
            decimals: rules.decimals,
            min: rules.min,
            max: rules.max,
            time_zone: calendar.zone.iana_name().unwrap_or("UTC").to_owned(),
            reset_hour: calendar.reset_hour,
            week_start: calendar.week_start.to_monday_one_offset(),
            seasons: calendar.seasons.iter().map(season).collect(),
            shards: rules.shards,
            former_layouts: board.layouts.former.clone(),
            windows: rules.windows.iter().map(window).collect(),
            attempts: rules.attempts.iter().map(|(of, max)| (of.to_string(), *max)).collect(),
        }
    }

    pub(super) fn to_ranking(&self) -> Result<Board> {
        let window = |name: &str| Ok::<Window, anyhow::Error>(name.parse()?);
        let (mut windows, mut added) = (vec![], BTreeMap::new());
        for PlanWindow { name, shown, since, sealing_before_ms } in &self.windows {
            let window = window(name)?;
            if *shown && window != Window::All {
                windows.push(window);
            }
            let sealing_before_ms = sealing_before_ms.unwrap_or(NEVER_MS);
            let sealed = Sealed { sealing_before_ms, sealed_before_ms: NEVER_MS };
            added.insert(window, Added { generation: *since, is_whole: true, sealed });
        }
        let attempts = self.attempts.iter().map(|(name, max)| Ok((window(name)?, *max)));
        let season = |season: &PlanSeason| {
            Ok(Season {
                is_ready: true,
                ..Season::new(&season.name, season.start_ms, season.end_ms)?
            })
        };
        let seasons = self.seasons.iter().map(season).collect::<ranking::Result<Vec<_>>>()?;
        let calendar = Calendar::of_zone(parse_zone(&self.time_zone)?);
        let week_start = Weekday::from_monday_one_offset(self.week_start)
            .context("weekStart is no day of the week")?;
        let calendar = Calendar { week_start, ..calendar.reset_at(self.reset_hour.into())? };
        let tie_break = TieBreak::from_name(&self.tie_break)?;
        let rules = Rules::new(RulesInput {
            direction: Direction::from_name(&self.direction)?,
            policy: Policy::from_name(&self.policy)?,
            tie_break,
            tick_ms: (tie_break != TieBreak::Member).then_some(self.tick_ms),
            decimals: self.decimals,
            min: self.min,
            max: self.max,
            calendar: calendar.with_seasons(seasons)?,
            shards: self.shards,
            windows,
            attempts: attempts.collect::<Result<_>>()?,
        })?;
        Ok(Board {
            generation: self.generation,
            added: Arc::new(added),
            layouts: Arc::new(Layouts { former: self.former_layouts.clone(), is_coming: false }),
            ..Board::new(BoardNo(self.no), rules)
        })
    }

    /// How the board is another one now; `None` if nothing that a fold depends on has changed.
    pub(super) fn difference(&self, now: &Self) -> Option<String> {
        if self == now {
            return None;
        }
        let seals = |board: &Self| -> Vec<_> {
            let windows = board.windows.iter();
            windows.map(|window| (window.name.clone(), window.sealing_before_ms)).collect()
        };
        let names = |board: &Self| -> BTreeSet<String> {
            board.windows.iter().map(|window| window.name.clone()).collect()
        };
        Some(if self.no != now.no {
            format!("it is of board number {}, and not {}", self.no, now.no)
        } else if (self.shards, &self.former_layouts) != (now.shards, &now.former_layouts) {
            "the board moved to another number of shards since".to_owned()
        } else if names(self) != names(now) || self.seasons != now.seasons {
            "the board's windows or seasons changed since".to_owned()
        } else if seals(self) != seals(now) {
            "periods of the board were sealed since".to_owned()
        } else if self.generation != now.generation {
            format!("the board has generation {} since, not {}", now.generation, self.generation)
        } else {
            "the board's rules are others now".to_owned()
        })
    }
}
