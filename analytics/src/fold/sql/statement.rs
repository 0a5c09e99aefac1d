//! A statement, made of common table expressions.

use anyhow::Result;
use ranking::board::{Board, Direction, Policy, TieBreak};
use ranking::window::Window;

use super::dialect::Tables;
use crate::fold::plan::{Has, Plan};
use crate::frame::fold::scores::policy;

/// The columns that a state is known by.
const BY: &str = "shard, segment, place, member";

/// A statement that is being made.
struct Making<'a> {
    board: &'a Board,
    window: Window,
    tables: &'a Tables,
    has: Has,
    steps: Vec<String>,
}

pub(super) fn statement(
    plan: &Plan,
    board: &Board,
    window: Window,
    tables: &Tables,
) -> Result<String> {
    let mut making = Making { board, window, tables, has: plan.has, steps: vec![] };
    making.scores();
    making.rows();
    let partition = partition(plan, board)?;
    let select = match window.half_life() {
        Some(_) => making.in_order(&partition),
        None => making.folded(&partition),
    };
    Ok(format!("WITH {}\n{select}", making.steps.join(",\n")))
}

/// The partition of a shard.
fn partition(plan: &Plan, board: &Board) -> Result<String> {
    let partitions = plan.partitions()?;
    let (first, count) = (partitions.of(board, 0), partitions.count());
    let step = count / board.rules.shards;
    Ok(format!("CAST(({first} + shard * {step}) % {count} AS BIGINT)"))
}

impl Making<'_> {
    fn step(&mut self, name: &str, select: String) {
        self.steps.push(format!("{name} AS ({select})"));
    }

    /// `scores`: the scores that count, with the place of each in its member's history.
    fn scores(&mut self) {
        let former = &self.board.layouts.former;
        let layout = former.iter().enumerate().rev().map(|(place, former)| {
            format!("WHEN generation >= {} THEN {} ", former.before, (place as i64 + 1) << 53)
        });
        let layout: String = layout.collect();
        let layout = match layout.as_str() {
            "" => String::new(),
            cases => format!("CASE {cases}ELSE CAST(0 AS BIGINT) END + "),
        };
        let events = &self.tables.events;
        self.step(
            "told",
            format!(
                "SELECT partition, seq, event_index, CAST(shard AS BIGINT) AS shard, {layout}seq * 1024 + event_index AS ord, member, kind, score, at_ms, segments, void_partition, void_seq, void_index FROM {events}"
            ),
        );
        let counted = match self.has.has_voids {
            true => {
                "SELECT e.* FROM told e LEFT ANTI JOIN (SELECT void_partition, void_seq, void_index FROM told WHERE kind = 'VOID') v ON e.partition = v.void_partition AND e.seq = v.void_seq AND e.event_index = v.void_index WHERE e.kind <> 'VOID'"
            }
            false => "SELECT * FROM told",
        };
        self.step("counted", counted.to_owned());
        let scores = match self.has.has_removals {
            true => {
                "SELECT c.* FROM counted c LEFT JOIN (SELECT member AS gone, max(ord) AS removed FROM counted WHERE kind = 'REMOVAL' GROUP BY member) r ON c.member = r.gone WHERE c.kind = 'SCORE' AND (r.removed IS NULL OR c.ord > r.removed)"
            }
            false => "SELECT * FROM counted WHERE kind = 'SCORE'",
        };
        self.step("scores", scores.to_owned());
    }

    /// `rows_of_segments`: each score once for everyone, and once for each of its segments.
    fn rows(&mut self) {
        let attempts = self.window.counted().is_some();
        let score = if attempts { "CAST(1 AS BIGINT)" } else { "score" };
        let kept = format!("shard, member, {score} AS score, at_ms, seq, ord");
        let mut rows = format!("SELECT {kept}, '' AS segment FROM scores");
        if self.has.has_segments && !attempts {
            let of_segments = self.tables.exploded(&kept, "segments", "segment", "scores");
            rows = format!("{rows} UNION ALL {of_segments}");
        }
        self.step("rows_of_segments", rows);
    }

    /// The rows of a decaying window, which the loader adds up in the order of acceptance: rounded
    /// sums depend on it.
    fn in_order(&self, partition: &str) -> String {
        let order = self.tables.order("segment, member, ord");
        format!(
            "SELECT segment, member, ord, score, at_ms, seq, {partition} AS partition FROM rows_of_segments{order}"
        )
    }

    /// The states of another window.
    fn folded(&mut self, partition: &str) -> String {
        self.placed();
        let states = self.states("placed", "score, tick, seq, CAST(1 AS BIGINT) AS events");
        self.step("states", states);
        self.apart("apart", "states");
        let mut last = "apart";
        if let Some(rolling) = self.window.rolling() {
            let numbers = self.tables.numbers(rolling.count());
            let kept = "shard, segment, member, place AS base, score, tick, seq, events";
            let carried = self.tables.exploded(kept, &numbers, "later", "apart");
            self.step("carried", carried);
            self.step(
                "inside",
                format!(
                    "SELECT {}c.shard, c.segment, c.member, p.place, c.score, c.tick, c.seq, c.events FROM carried c JOIN (SELECT place FROM {} WHERE window_name = '{}' AND is_open) p ON p.place = c.base + c.later",
                    self.tables.broadcast("p"),
                    self.tables.periods,
                    self.window
                ),
            );
            let states = self.states("inside", "score, tick, seq, events");
            self.step("rolled", states);
            self.apart("rolled_apart", "rolled");
            last = "rolled_apart";
        }
        self.timed(last);
        let order = self.tables.order("segment, period, key, member");
        let key = self.key();
        format!(
            "SELECT segment, period, {key} AS key, member, score, seq, events, {partition} AS partition FROM timed{order}"
        )
    }

    /// `placed`: the rows with the places of their periods, and their ticks.
    fn placed(&mut self) {
        let tick = match self.window.counted() {
            Some(_) => "CAST(0 AS BIGINT)".to_owned(),
            None => self.tables.quotient("r.at_ms", self.board.rules.tick_ms.into()),
        };
        let kept = format!("r.shard, r.segment, r.member, r.score, r.seq, {tick} AS tick");
        let select = if self.window.has_periods() {
            let base = self.window.rolling().map_or(self.window, |rolling| rolling.base());
            // A rolling window needs periods of its base that are sealed, too.
            let open = if self.window.rolling().is_some() { "" } else { " AND is_open" };
            let hour = self.tables.quotient("r.at_ms", crate::fold::plan::HOUR_MS);
            format!(
                "SELECT {}{kept}, p.place FROM rows_of_segments r JOIN (SELECT hour, place, start_ms, end_ms FROM {} WHERE window_name = '{base}'{open}) p ON p.hour = {hour} AND r.at_ms >= p.start_ms AND r.at_ms < p.end_ms",
                self.tables.broadcast("p"),
                self.tables.periods
            )
        } else {
            format!("SELECT {kept}, CAST(0 AS BIGINT) AS place FROM rows_of_segments r")
        };
        self.step("placed", select);
    }

    /// Folds rows to one for each segment, period and member.
    fn states(&self, rows: &str, columns: &str) -> String {
        let better = self.sign("score");
        let state = match policy(self.board, self.window) {
            Policy::Sum => {
                "CAST(sum(CAST(score AS DECIMAL(28, 0))) AS BIGINT) AS total, max(tick) AS last"
                    .to_owned()
            }
            Policy::Best => format!("max(named_struct('s', {better}, 't', -tick)) AS state"),
            Policy::Latest => format!("max(named_struct('t', tick, 's', {better})) AS state"),
        };
        format!(
            "SELECT {BY}, {state}, max(seq) AS seq, sum(events) AS events FROM (SELECT {BY}, {columns} FROM {rows}) f GROUP BY {BY}"
        )
    }

    /// The score or the tick of a state, in columns of their own.
    fn apart(&mut self, name: &str, states: &str) {
        let (s, t) = (self.tables.field("s"), self.tables.field("t"));
        let columns = match policy(self.board, self.window) {
            Policy::Sum => "total AS score, last AS tick".to_owned(),
            Policy::Best => format!("{} AS score, -{t} AS tick", self.sign(&s)),
            Policy::Latest => format!("{} AS score, {t} AS tick", self.sign(&s)),
        };
        self.step(
            name,
            format!("SELECT {BY}, {columns}, seq, CAST(events AS BIGINT) AS events FROM {states}"),
        );
    }

    /// A score, or its opposite where low scores are better.
    fn sign(&self, score: &str) -> String {
        match self.board.rules.direction {
            Direction::HighFirst => score.to_owned(),
            Direction::LowFirst => format!("-{score}"),
        }
    }

    /// `timed`: the states with the labels and the first ticks of their periods.
    fn timed(&mut self, states: &str) {
        let select = if self.window.has_periods() {
            format!(
                "SELECT {}a.*, p.period, p.first_tick FROM {states} a JOIN (SELECT DISTINCT place, period, first_tick FROM {} WHERE window_name = '{}' AND is_open) p ON p.place = a.place",
                self.tables.broadcast("p"),
                self.tables.periods,
                self.window
            )
        } else {
            format!("SELECT *, 'all' AS period, CAST(0 AS BIGINT) AS first_tick FROM {states}")
        };
        self.step("timed", select);
    }

    /// The rank key of a state.
    fn key(&self) -> String {
        let rules = &self.board.rules;
        let (low, high) = rules.range(self.window);
        let unit = 1_i64 << rules.layout(self.window).time_bits();
        let score = match rules.direction {
            Direction::HighFirst => format!("({high} - score)"),
            Direction::LowFirst => format!("(score - ({low}))"),
        };
        let time = match rules.ties(self.window) {
            TieBreak::Member => return format!("{score} * {unit}"),
            TieBreak::Earliest => "(tick - first_tick)".to_owned(),
            TieBreak::Latest => format!("({} - (tick - first_tick))", unit - 1),
        };
        format!("{score} * CAST({unit} AS BIGINT) + {time}")
    }
}
