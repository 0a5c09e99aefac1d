//! The oracle: the expected state of a board, computed from all its events as the documentation
//! describes it, without a fold and without keys.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use ranking::window::calendar::{Calendar, Weekday};
use ranking::window::season::Season;
use ranking::window::{Window, parse_zone};
use serde_json::{Value, json};

/// A board's rules, as GraphQL has them.
#[derive(Debug, Clone)]
pub struct Board {
    pub slug: String,
    pub direction: &'static str,
    pub policy: &'static str,
    pub tie_break: &'static str,
    pub tick_ms: i64,
    pub decimals: u32,
    pub min: i64,
    pub max: i64,
    pub zone: &'static str,
    pub reset_hour: i32,
    pub week_start: Weekday,
    pub shards: u16,
    pub windows: Vec<Window>,
    /// The most scores of a member in a period of some windows.
    pub attempts: BTreeMap<Window, i64>,
    pub metadata: bool,
    /// The name, the start and the end of each season, in Unix milliseconds.
    pub seasons: Vec<(&'static str, i64, i64)>,
}

impl Default for Board {
    /// Sums of whole numbers from 0 to 1,000 in the window `all` alone, in UTC and one shard.
    fn default() -> Self {
        Self {
            slug: "b".to_owned(),
            direction: "HIGH_FIRST",
            policy: "SUM",
            tie_break: "EARLIEST",
            tick_ms: 1000,
            decimals: 0,
            min: 0,
            max: 1000,
            zone: "UTC",
            reset_hour: 0,
            week_start: Weekday::Monday,
            shards: 1,
            windows: vec![],
            attempts: BTreeMap::new(),
            metadata: false,
            seasons: vec![],
        }
    }
}

/// A score that is submitted or accepted. The score is raw: an integer at the board's decimals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub member: String,
    pub score: i64,
    pub at_ms: i64,
    pub id: Option<String>,
    /// As canonical JSON.
    pub metadata: Option<String>,
}

/// The expected outcome of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Applied,
    Duplicate,
    Rejected,
}

/// An entry, as GraphQL shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub member: String,
    pub score: String,
    pub rank: i64,
    pub competition_rank: i64,
    pub dense_rank: i64,
    pub reached_at: Option<String>,
    /// With six decimals.
    pub percentile: String,
    /// As canonical JSON.
    pub metadata: Option<String>,
}

/// A board and the events it accepted, in any order.
#[derive(Debug, Clone)]
pub struct Oracle {
    pub board: Board,
    calendar: Calendar,
    accepted: Vec<Event>,
    ids: BTreeSet<(String, String)>,
}

impl Board {
    /// The input of `createBoard`.
    pub fn input(&self) -> Value {
        let window = |window: &Window| {
            let max = self.attempts.get(window);
            json!({ "name": window.to_string(), "attemptsMax": max })
        };
        let all = self.attempts.get_key_value(&Window::All).map(|(all, _)| all);
        let windows: Vec<Value> = self.windows.iter().chain(all).map(window).collect();
        let mut input = json!({
            "slug": self.slug, "direction": self.direction, "policy": self.policy, "tieBreak": self.tie_break,
            "decimals": self.decimals, "minScore": self.decimal(self.min), "maxScore": self.decimal(self.max),
            "timeZone": self.zone, "resetHour": self.reset_hour,
            "weekStart": format!("{:?}", self.week_start).to_uppercase(),
            "shards": self.shards, "windows": windows,
            "metadata": self.metadata,
        });
        if self.tie_break != "MEMBER" {
            input["tieBreakResolutionMs"] = self.tick_ms.into();
        }
        input
    }

    /// The rules by which periods begin.
    pub fn calendar(&self) -> Calendar {
        let calendar = Calendar::of_zone(parse_zone(self.zone).unwrap());
        let calendar = calendar.reset_at(self.reset_hour).unwrap();
        let season = |&(name, start_ms, end_ms)| Season::new(name, start_ms, end_ms).unwrap();
        let calendar = calendar.with_seasons(self.seasons.iter().map(season).collect()).unwrap();
        Calendar { week_start: self.week_start, ..calendar }
    }

    /// A raw score as a decimal.
    pub fn decimal(&self, raw: i64) -> String {
        let digits = format!("{:0>width$}", raw.abs(), width = self.decimals as usize + 1);
        let (whole, fraction) = digits.split_at(digits.len() - self.decimals as usize);
        let sign = if raw < 0 { "-" } else { "" };
        let point = if fraction.is_empty() { "" } else { "." };
        format!("{sign}{whole}{point}{fraction}")
    }

    /// The input of a submission.
    pub fn score_input(&self, event: &Event) -> Value {
        let at = Timestamp::from_millisecond(event.at_ms).unwrap().to_string();
        let metadata = event.metadata.as_deref();
        let metadata: Option<Value> = metadata.map(|text| serde_json::from_str(text).unwrap());
        json!({
            "member": event.member, "score": self.decimal(event.score), "at": at,
            "eventId": event.id, "metadata": metadata,
        })
    }

    fn range(&self, window: Window) -> (i64, i64) {
        if self.policy == "SUM" && window != Window::All {
            let span = self.max - self.min;
            return (self.min.min(-span), self.max.max(span));
        }
        (self.min, self.max)
    }

    /// The better of two scores is the smaller in this order.
    fn by_score(&self, a: i64, b: i64) -> Ordering {
        if self.direction == "HIGH_FIRST" { b.cmp(&a) } else { a.cmp(&b) }
    }

    fn by_tick(&self, a: i64, b: i64) -> Ordering {
        match self.tie_break {
            "EARLIEST" => a.cmp(&b),
            "LATEST" => b.cmp(&a),
            _ => Ordering::Equal,
        }
    }

    /// The score and the tick of a member with these events. SUM: the total, and the time of the
    /// latest event; BEST: the best score, and its earliest time; LATEST: the latest score, the
    /// better one of those in the same tick.
    fn holding(&self, events: &[&Event]) -> (i64, i64) {
        let ticks = || events.iter().map(|event| event.at_ms.div_euclid(self.tick_ms));
        let best = |scores: &mut dyn Iterator<Item = i64>| {
            scores.min_by(|&a, &b| self.by_score(a, b)).unwrap()
        };
        let scored = || events.iter().map(|event| event.score).zip(ticks());
        let latest = ticks().max().unwrap();
        match self.policy {
            "SUM" => (events.iter().map(|event| event.score).sum(), latest),
            "BEST" => {
                let score = best(&mut events.iter().map(|event| event.score));
                let had = scored().filter(|(other, _)| *other == score);
                (score, had.map(|(_, tick)| tick).min().unwrap())
            }
            _ => {
                let last = scored().filter(|(_, tick)| *tick == latest);
                (best(&mut last.map(|(score, _)| score)), latest)
            }
        }
    }
}

impl Board {
    /// The metadata of the event that made an entry of these events: one with metadata, with the
    /// entry's tick and, but for SUM, its score. BEST: the earliest of them, else the latest; of
    /// the same millisecond the smallest text.
    fn made_by(&self, events: &[&Event], (score, tick): (i64, i64)) -> Option<String> {
        let made = |event: &&&Event| {
            let at_that_tick = event.at_ms.div_euclid(self.tick_ms) == tick;
            at_that_tick && (self.policy == "SUM" || event.score == score)
        };
        let order = |event: &&Event| match self.policy {
            "BEST" => event.at_ms,
            _ => -event.at_ms,
        };
        let with = events.iter().filter(made).filter(|event| event.metadata.is_some());
        let makers = with.map(|event| (order(event), event.metadata.clone().unwrap()));
        makers.min().map(|(_, metadata)| metadata)
    }
}

impl Oracle {
    /// A board without entries.
    pub fn new(board: Board) -> Self {
        Self { calendar: board.calendar(), board, accepted: vec![], ids: BTreeSet::new() }
    }

    /// A board for which just these events count.
    pub fn of(board: Board, events: Vec<Event>) -> Self {
        Self { accepted: events, ..Self::new(board) }
    }

    /// The events accepted so far.
    pub fn accepted(&self) -> &[Event] {
        &self.accepted
    }

    /// Accepts or refuses the next event, as the service must.
    pub fn submit(&mut self, event: &Event) -> Verdict {
        if let Some(id) = &event.id
            && self.ids.contains(&(event.member.clone(), id.clone()))
        {
            let same = self.accepted.contains(event);
            return if same { Verdict::Duplicate } else { Verdict::Rejected };
        }
        let in_range = (self.board.min..=self.board.max).contains(&event.score);
        if self.board.policy != "SUM" && !in_range {
            return Verdict::Rejected;
        }
        self.accepted.push(event.clone());
        if !self.fits(&event.member) || self.is_beyond_attempts(&event.member) {
            self.accepted.pop();
            return Verdict::Rejected;
        }
        self.ids.extend(event.id.clone().map(|id| (event.member.clone(), id)));
        Verdict::Applied
    }

    /// True if a member's score is in range in every period.
    pub fn fits(&self, member: &str) -> bool {
        let held = self.held(|event| event.member == member);
        held.iter().all(|((window, _), members)| {
            let (low, high) = self.board.range(*window);
            let mut scores = members.values().map(|events| self.board.holding(events).0);
            scores.all(|score| (low..=high).contains(&score))
        })
    }

    /// True if a member has more scores in a period than the board accepts.
    fn is_beyond_attempts(&self, member: &str) -> bool {
        let max = |window: &Window| self.board.attempts.get(window).copied().unwrap_or(i64::MAX);
        self.attempts()
            .into_iter()
            .any(|((window, _), used)| used.get(member).is_some_and(|used| *used > max(&window)))
    }

    /// The number of scores of each member in each period of the windows that limit it.
    pub fn attempts(&self) -> BTreeMap<(Window, String), BTreeMap<&str, i64>> {
        let mut attempts: BTreeMap<(Window, String), BTreeMap<&str, i64>> = BTreeMap::new();
        for (place, members) in self.held(|_| true) {
            if self.board.attempts.contains_key(&place.0) {
                let counts = members.into_iter().map(|(member, of)| (member, of.len() as i64));
                attempts.insert(place, counts.collect());
            }
        }
        attempts
    }

    /// All standings that have entries, by window and period label.
    pub fn standings(&self) -> BTreeMap<(Window, String), Vec<Row>> {
        self.held(|_| true)
            .into_iter()
            .map(|(standings, members)| (standings, self.rows(members)))
            .collect()
    }

    /// The labels of a window's periods that have entries, newest first.
    pub fn periods(&self, window: Window) -> Vec<String> {
        let held = self.held(|_| true);
        let of_window = held.into_keys().filter(|(of, _)| *of == window);
        let mut labels: Vec<String> = of_window.map(|(_, label)| label).collect();
        let start_ms =
            |label: &String| window.period_named(label, &self.calendar).unwrap().start_ms;
        labels.sort_by_key(|label| std::cmp::Reverse(start_ms(label)));
        labels
    }

    /// The matching events of each member in each period.
    fn held(
        &self,
        meant: impl Fn(&Event) -> bool,
    ) -> BTreeMap<(Window, String), BTreeMap<&str, Vec<&Event>>> {
        let mut events: BTreeMap<(Window, String), BTreeMap<&str, Vec<&Event>>> = BTreeMap::new();
        for event in self.accepted.iter().filter(|event| meant(event)) {
            for &window in std::iter::once(&Window::All).chain(&self.board.windows) {
                // No event counts between two seasons.
                let Some(label) = self.label(window, event) else { continue };
                let members = events.entry((window, label)).or_default();
                members.entry(&event.member).or_default().push(event);
            }
        }
        events
    }

    fn rows(&self, members: BTreeMap<&str, Vec<&Event>>) -> Vec<Row> {
        let mut held: Vec<(&str, (i64, i64))> =
            members.iter().map(|(member, events)| (*member, self.board.holding(events))).collect();
        held.sort_by(|(member, (score, tick)), (other, (other_score, other_tick))| {
            let by_score = self.board.by_score(*score, *other_score);
            by_score
                .then(self.board.by_tick(*tick, *other_tick))
                .then(member.as_bytes().cmp(other.as_bytes()))
        });
        let size = held.len();
        let row = |(index, (member, (score, tick))): (usize, &(&str, (i64, i64)))| {
            let better =
                held.iter().filter(|(_, (other, _))| self.board.by_score(*other, *score).is_lt());
            let percentile = match size {
                1 => 100.0,
                _ => 100.0 * (size - 1 - index) as f64 / (size - 1) as f64,
            };
            let reached = Timestamp::from_millisecond(tick * self.board.tick_ms).unwrap();
            Row {
                member: (*member).to_owned(),
                score: self.board.decimal(*score),
                rank: index as i64 + 1,
                competition_rank: better.clone().count() as i64 + 1,
                dense_rank: better.map(|(_, (score, _))| score).collect::<BTreeSet<_>>().len()
                    as i64
                    + 1,
                reached_at: (self.board.tie_break != "MEMBER").then(|| format!("{reached:.3}")),
                percentile: format!("{percentile:.6}"),
                metadata: self.board.made_by(&members[member], (*score, *tick)),
            }
        };
        held.iter().enumerate().map(row).collect()
    }

    fn label(&self, window: Window, event: &Event) -> Option<String> {
        if window == Window::Season {
            let is_in = |(_, start_ms, end_ms): &&(_, i64, i64)| {
                *start_ms <= event.at_ms && event.at_ms < *end_ms
            };
            return self.board.seasons.iter().find(is_in).map(|(name, ..)| (*name).to_owned());
        }
        Some(window.period_at(event.at_ms, &self.calendar).unwrap().label)
    }
}
