//! The what-if: folds a board's history under other rules, and shows the standings beside those
//! under its own, with the members who would move. It writes nothing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use anyhow::{Context, Result};
use engine::deployment::Deployment;
use entity::board;
use polars::prelude::{col, lit};
use ranking::board::rules::{Rules, RulesInput};
use ranking::board::{Board, Direction, Policy, TieBreak};
use ranking::id::MemberId;
use ranking::score;
use ranking::standings_id::StandingsId;
use ranking::window::Period;
use serde::Serialize;

use crate::export::choice::StandingsArguments;
use crate::frame::counted::Counted;
use crate::frame::fold;
use crate::frame::history;
use crate::frame::sorted::Entry;
use crate::job::Job;

/// Options of `what-if`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    pub choice: StandingsArguments,
    /// Another policy: SUM, BEST or LATEST.
    #[arg(long, value_parser = Policy::from_name)]
    policy: Option<Policy>,
    /// Another tie-break: EARLIEST, LATEST or MEMBER.
    #[arg(long, value_parser = TieBreak::from_name)]
    tie_break: Option<TieBreak>,
    /// Another direction: HIGH_FIRST or LOW_FIRST.
    #[arg(long, value_parser = Direction::from_name)]
    direction: Option<Direction>,
    /// Another lowest score, since the history may leave the board's range under other rules.
    #[arg(long, allow_hyphen_values = true)]
    min_score: Option<String>,
    /// Another highest score.
    #[arg(long, allow_hyphen_values = true)]
    max_score: Option<String>,
    /// The number of members to list: of the new top, and of those who would move farthest.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(0..=1000))]
    first: u16,
}

/// A member's ranks under both rules.
#[derive(Debug, Serialize)]
struct Place {
    member: String,
    /// Under the board's rules.
    before: Option<Ranked>,
    /// Under the other rules.
    after: Option<Ranked>,
}

/// An ordinal rank and the score.
#[derive(Debug, Clone, Serialize)]
struct Ranked {
    rank: usize,
    score: String,
}

/// The names of a board's rules.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RuleNames {
    policy: &'static str,
    tie_break: &'static str,
    direction: &'static str,
}

impl RuleNames {
    fn of(rules: &Rules) -> Self {
        Self {
            policy: rules.policy.name(),
            tie_break: rules.tie_break.name(),
            direction: rules.direction.name(),
        }
    }
}

/// The outcome of `what-if`.
#[derive(Debug, Serialize)]
pub struct Found {
    board: String,
    window: String,
    period: String,
    /// The board's rules.
    before: RuleNames,
    /// The other rules.
    after: RuleNames,
    events: usize,
    entries: usize,
    moved: usize,
    top: Vec<Place>,
    movers: Vec<Place>,
}

/// Folds the history twice.
///
/// # Errors
/// If the board has no such standings, no board could have such rules, or the history leaves their
/// range.
pub async fn what_if(
    deployment: &Deployment,
    row: &board::Model,
    arguments: &Arguments,
) -> Result<Found> {
    let (board, choice) = (row.to_ranking()?, &arguments.choice);
    let now_ms = deployment.clock.now_ms();
    let (_, period) = choice.resolve(row, &board, now_ms)?;
    let others = under(&board, other_rules(&board.rules, arguments)?);
    let job = Job::unrecorded()?;
    let history = history::read(deployment, &board, &job).await?;
    job.stage("folding", 0);
    let events = of_standings(&history.counted, choice, &period);
    let fold = |board: &Board| -> Result<Vec<Entry>> {
        let id = StandingsId::of(board, &choice.segment, choice.window, &period);
        let mut standings = fold::standings(board, choice.window, &events, now_ms)?;
        Ok(standings.remove(&id).unwrap_or_default())
    };
    let before = fold(&under(&board, board.rules.as_ref().clone()))?;
    let after = fold(&others)
        .context("under these rules (--min-score and --max-score give another range)")?;
    let [before_rules, after_rules] = [&board, &others].map(|board| &board.rules);
    let ranks = |entries: &[Entry], rules: &Rules| -> HashMap<MemberId, Ranked> {
        let ranked = entries.iter().zip(1..);
        ranked
            .map(|(entry, rank)| {
                let score = score::format_in(choice.window, entry.score, rules.decimals, now_ms);
                (entry.member.clone(), Ranked { rank, score })
            })
            .collect()
    };
    let (was, is) = (ranks(&before, before_rules), ranks(&after, after_rules));
    let place = |member: &MemberId| Place {
        member: member.to_string(),
        before: was.get(member).cloned(),
        after: is.get(member).cloned(),
    };
    let distance = |member: &MemberId| {
        let rank = |ranks: &HashMap<MemberId, Ranked>| ranks.get(member).map(|ranked| ranked.rank);
        rank(&was).zip(rank(&is)).map(|(was, is)| was.abs_diff(is))
    };
    let mut movers: Vec<&MemberId> = after.iter().map(|entry| &entry.member).collect();
    movers.retain(|member| distance(member) != Some(0));
    // A stable sort: among equal distances the better rank comes first.
    movers.sort_by_key(|member| Reverse(distance(member)));
    let first = usize::from(arguments.first);
    Ok(Found {
        board: row.slug.clone(),
        window: choice.window.to_string(),
        period: period.label.clone(),
        before: RuleNames::of(before_rules),
        after: RuleNames::of(after_rules),
        events: history.counted.count,
        entries: after.len(),
        moved: movers.len(),
        top: after.iter().take(first).map(|entry| place(&entry.member)).collect(),
        movers: movers.into_iter().take(first).map(place).collect(),
    })
}

/// The board's rules, replaced by those of the arguments. The tick stays if it can.
fn other_rules(rules: &Rules, arguments: &Arguments) -> Result<Rules> {
    let tie_break = arguments.tie_break.unwrap_or(rules.tie_break);
    let bound = |asked: &Option<String>, present: i64| match asked {
        Some(text) => score::parse(text, rules.decimals),
        None => Ok(present),
    };
    let (min, max) =
        (bound(&arguments.min_score, rules.min)?, bound(&arguments.max_score, rules.max)?);
    let has_tick = ![tie_break, rules.tie_break].contains(&TieBreak::Member);
    let is_same_range = (min, max) == (rules.min, rules.max);
    Ok(Rules::new(RulesInput {
        direction: arguments.direction.unwrap_or(rules.direction),
        policy: arguments.policy.unwrap_or(rules.policy),
        tie_break,
        tick_ms: (has_tick && is_same_range).then_some(rules.tick_ms),
        decimals: rules.decimals,
        min,
        max,
        calendar: rules.calendar.clone(),
        shards: rules.shards,
        windows: rules.shown().collect(),
        attempts: BTreeMap::new(),
    })?)
}

/// A board with these rules and nothing sealed, so that the fold makes past periods too.
fn under(board: &Board, rules: Rules) -> Board {
    Board { rules: Arc::new(rules), added: Arc::new(BTreeMap::new()), ..board.clone() }
}

/// The events that may count in the chosen standings, and all removals.
fn of_standings(events: &Counted, choice: &StandingsArguments, period: &Period) -> Counted {
    let at_ms = || col("at_ms");
    let mut counts = col("segment").eq(lit(choice.segment.as_str()));
    if let Some(end_ms) = period.end_ms {
        let inside = at_ms().gt_eq(lit(period.start_ms)).and(at_ms().lt(lit(end_ms)));
        counts = counts.and(inside);
    }
    events.only(col("removal").or(counts))
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { board, window, period, before, after, .. } = self;
        writeln!(f, "{board} {window} {period}: {after} instead of {before}")?;
        write!(f, "{} of {} members would move", self.moved, self.entries)?;
        for (title, places) in [("top", &self.top), ("farthest moves", &self.movers)] {
            if places.is_empty() {
                continue;
            }
            write!(f, "\n{title}:")?;
            for place in places {
                write!(f, "\n  {place}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for RuleNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { policy, tie_break, direction } = self;
        write!(f, "{policy}, {tie_break}, {direction}")
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |ranked: &Option<Ranked>| {
            let shown =
                ranked.as_ref().map(|Ranked { rank, score }| format!("{rank} with {score}"));
            shown.unwrap_or_else(|| "not there".to_owned())
        };
        write!(f, "{}: {}, now {}", self.member, text(&self.after), text(&self.before))
    }
}
