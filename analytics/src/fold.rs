//! The fold as polars expressions: the events of a board → the standings of a window. It says what `ranking`'s fold says; a property
//! test at the foot of this file holds the two equal. Period boundaries come from `ranking` and are joined in: no zone arithmetic here.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use polars::prelude::{
    Column, DataFrame, Expr, Field, Int64Chunked, IntoColumn, IntoLazy, JoinArgs, JoinType,
    LazyFrame, NamedFrom, Schema, Series, SortMultipleOptions, UnionArgs, col, concat, lit,
};
use ranking::board::{Board, Direction, Policy, TieBreak};
use ranking::id::MemberId;
use ranking::key::StandingsId;
use ranking::rank_key::RankKey;
use ranking::window::{HalfLife, Period, Window};

use crate::events::Counted;

/// An entry that history adds up to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Who.
    pub member: MemberId,
    /// Its key.
    pub key: RankKey,
    /// Its raw score.
    pub score: i64,
    /// The seq of its member's last event.
    pub seq: i64,
}

/// Standings with their entries, in the order of keys and member bytes.
pub type Entries = BTreeMap<StandingsId, Vec<Entry>>;

/// The standings of one window of a board, of every segment and period that has entries and is not sealed. Of a rolling window, whose standings
/// there are as time passes, those up to the period after the one that is present at `through_ms`.
///
/// # Errors
/// What polars says; where an event's time is in no period.
pub fn standings(
    board: &Board,
    window: Window,
    events: &Counted,
    through_ms: i64,
) -> Result<Entries> {
    let counted = counted(events.rows.clone());
    let base = window.rolling().map_or(window, |rolling| rolling.base());
    let mut periods = periods(board, base, events.span_ms)?;
    // Times are not negative: integer division is the floor.
    let tick = col("at_ms").floor_div(lit(i64::from(board.rules.tick_ms)));
    let with_period = in_periods(counted.with_column(tick.alias("tick")), &periods);
    let mut folded = match window.half_life() {
        Some(half_life) => decayed(events, with_period, half_life)?,
        None => fold(with_period, board),
    };
    if let Some(rolling) = window.rolling() {
        periods = rolling_periods(board, window, &periods, through_ms)?;
        let parts: Vec<LazyFrame> = (0..i64::from(rolling.count()))
            .map(|later| folded.clone().with_column(col("period") + lit(later)))
            .collect();
        let inside = concat(parts, UnionArgs::default())?;
        let inside = inside.filter(col("period").lt(lit(periods.len() as i64)));
        folded = fold(inside, board);
    }
    let sealed_ms = board.sealed(window).sealing_before_ms;
    let kept_from = periods.partition_point(|period| period.present_from_ms < sealed_ms);
    let folded = folded.filter(col("period").gt_eq(lit(kept_from as i64)));
    let first_ticks = DataFrame::new_infer_height(vec![
        column("period", (0..periods.len() as i64).collect()),
        column(
            "first_tick",
            periods
                .iter()
                .map(|period| board.rules.first_tick(period))
                .collect(),
        ),
    ])?;
    let keyed = folded
        .join(
            first_ticks.lazy(),
            [col("period")],
            [col("period")],
            JoinArgs::new(JoinType::Left),
        )
        .with_column(key(board, window).alias("key"));
    let sorted = keyed.sort(
        ["segment", "period", "key", "member"],
        SortMultipleOptions::default(),
    );
    let sorted = events.collect(sorted)?;
    entries(board, window, &periods, &sorted)
}

/// The scores that count: those after their member's last removal.
pub fn counted(events: LazyFrame) -> LazyFrame {
    let removed = events
        .clone()
        .filter(col("removal"))
        .group_by([col("member")])
        .agg([col("order").max().alias("removed")]);
    let scores = events.filter(col("removal").not());
    scores
        .join(
            removed,
            [col("member")],
            [col("member")],
            JoinArgs::new(JoinType::Left),
        )
        .filter(col("removed").is_null().or(col("order").gt(col("removed"))))
}

/// Every period from the first event's to the last one's, in their order.
fn periods(board: &Board, window: Window, span_ms: Option<(i64, i64)>) -> Result<Vec<Period>> {
    let Some((first, last)) = span_ms else {
        return Ok(vec![]);
    };
    let mut periods = vec![window.period_at(first, &board.rules.zone)?];
    while let Some(end_ms) = periods
        .last()
        .and_then(|period| period.end_ms)
        .filter(|&end_ms| end_ms <= last)
    {
        periods.push(window.period_at(end_ms, &board.rules.zone)?);
    }
    Ok(periods)
}

/// The periods of a rolling window: for each of its base window the one that ends with it, up to the one after that of `through_ms`.
fn rolling_periods(
    board: &Board,
    window: Window,
    bases: &[Period],
    through_ms: i64,
) -> Result<Vec<Period>> {
    let zone = &board.rules.zone;
    let through = window.period_at(through_ms, zone)?.end_ms;
    let mut periods = vec![];
    let mut next_ms = bases.first().map(|period| period.start_ms);
    while let Some(at_ms) = next_ms.filter(|&at_ms| Some(at_ms) <= through) {
        let period = window.period_at(at_ms, zone)?;
        next_ms = period.end_ms;
        periods.push(period);
    }
    Ok(periods)
}

fn column(name: &str, values: Vec<i64>) -> Column {
    Series::new(name.into(), values).into()
}

/// Adds each event's period: its place in the list. By bisection, as a join would have to sort all events.
fn in_periods(events: LazyFrame, periods: &[Period]) -> LazyFrame {
    let starts: Vec<i64> = periods.iter().map(|period| period.start_ms).collect();
    let place = move |at_ms: Column| {
        let begun = |at_ms: i64| starts.partition_point(|&start_ms| start_ms <= at_ms) as i64;
        let places = at_ms.i64()?.iter();
        let places: Int64Chunked = places.map(|at_ms| Some(begun(at_ms?) - 1)).collect();
        Ok(places.with_name(at_ms.name().clone()).into_column())
    };
    let as_it_is = |_: &Schema, field: &Field| Ok(field.clone());
    events.with_column(col("at_ms").map(place, as_it_is).alias("period"))
}

/// One row a member, segment and period: its state. States are folded as events are.
fn fold(events: LazyFrame, board: &Board) -> LazyFrame {
    let rules = &board.rules;
    let best = |scores: Expr| match rules.direction {
        Direction::HighFirst => scores.max(),
        Direction::LowFirst => scores.min(),
    };
    let (score, tick) = (col("score"), col("tick"));
    let (state_score, state_tick) = match rules.policy {
        Policy::Sum => (score.sum(), tick.max()),
        Policy::Best => {
            let best_score = best(score.clone());
            (best_score.clone(), tick.filter(score.eq(best_score)).min())
        }
        Policy::Latest => (
            best(score.filter(tick.clone().eq(tick.clone().max()))),
            tick.max(),
        ),
    };
    events
        .group_by([col("member"), col("segment"), col("period")])
        .agg([
            state_score.alias("score"),
            state_tick.alias("tick"),
            col("seq").max(),
        ])
}

/// As [`fold`], where scores decay: row by row in the order of acceptance, as everybody adds them up, since sums are rounded.
fn decayed(all: &Counted, events: LazyFrame, half_life: HalfLife) -> Result<LazyFrame> {
    let order = ["member", "segment", "order"];
    let events = events.sort(order, SortMultipleOptions::default());
    let mut events = all.collect(events)?;
    let number = |name: &str| -> Result<_> { Ok(events.column(name)?.i64()?.clone()) };
    let (score, at_ms) = (number("score")?, number("at_ms")?);
    let (member, segment) = (
        events.column("member")?.str()?,
        events.column("segment")?.str()?,
    );
    let mut sums: Vec<i64> = vec![];
    for row in 0..events.height() {
        let (score, at_ms) = score
            .get(row)
            .zip(at_ms.get(row))
            .context("a score has no value")?;
        let code = half_life.code(score as f64, at_ms);
        let place = |row: usize| (member.get(row), segment.get(row));
        let before = row
            .checked_sub(1)
            .filter(|&before| place(before) == place(row));
        sums.push(before.map_or(code, |before| half_life.add(sums[before], code)));
    }
    events.with_column(column("sum", sums))?;
    // The last row of each has all of its events in it.
    Ok(events
        .lazy()
        .group_by_stable([col("member"), col("segment"), col("period")])
        .agg([
            col("sum").last().alias("score"),
            lit(0_i64).alias("tick"),
            col("seq").max(),
        ]))
}

/// The rank key of a state: `score field << T | time field`.
fn key(board: &Board, window: Window) -> Expr {
    let rules = &board.rules;
    let (low, high) = rules.range(window);
    let unit = 1_i64 << rules.layout(window).time_bits();
    let score_field = match rules.direction {
        Direction::HighFirst => lit(high) - col("score"),
        Direction::LowFirst => col("score") - lit(low),
    };
    let ticks = col("tick") - col("first_tick");
    let time_field = match rules.ties(window) {
        TieBreak::Member => lit(0_i64),
        TieBreak::Earliest => ticks,
        TieBreak::Latest => lit(unit - 1) - ticks,
    };
    score_field * lit(unit) + time_field
}

fn entries(
    board: &Board,
    window: Window,
    periods: &[Period],
    frame: &DataFrame,
) -> Result<Entries> {
    let mut entries = Entries::new();
    let number = |name: &str| -> Result<_> { Ok(frame.column(name)?.i64()?.clone()) };
    let (keys, scores, seqs, places) = (
        number("key")?,
        number("score")?,
        number("seq")?,
        number("period")?,
    );
    let members = frame.column("member")?.str()?;
    let segments = frame.column("segment")?.str()?;
    let (low, high) = board.rules.range(window);
    for row in 0..frame.height() {
        let field =
            |column: &polars::prelude::Int64Chunked| column.get(row).context("a fold left a gap");
        let period = &periods[usize::try_from(field(&places)?)?];
        let (member, score) = (
            members.get(row).context("a fold left a gap")?,
            field(&scores)?,
        );
        ensure!(
            (low..=high).contains(&score),
            "history gives {member} {score} in {window} {}, which is out of range",
            period.label
        );
        let id = StandingsId {
            board: board.no,
            generation: board.generation_of(window),
            segment: segments.get(row).context("a fold left a gap")?.to_owned(),
            window,
            period: period.label.clone(),
        };
        let entry = Entry {
            member: MemberId::new(member)?,
            key: RankKey::from_i64(field(&keys)?)?,
            score,
            seq: field(&seqs)?,
        };
        entries.entry(id).or_default().push(entry);
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Events;
    use entity::score_event;
    use proptest::prelude::*;
    use ranking::board::{Rules, RulesInput};
    use ranking::id::BoardNo;
    use ranking::replay::Replay;
    use std::collections::HashSet;
    use std::sync::Arc;

    fn boards() -> impl Strategy<Value = Board> {
        let zones = [
            "UTC",
            "America/St_Johns",
            "Australia/Lord_Howe",
            "Asia/Kathmandu",
            "Europe/London",
        ];
        let directions = prop_oneof![Just(Direction::HighFirst), Just(Direction::LowFirst)];
        let policies = prop_oneof![Just(Policy::Sum), Just(Policy::Best), Just(Policy::Latest)];
        let ties = prop_oneof![
            Just(TieBreak::Earliest),
            Just(TieBreak::Latest),
            Just(TieBreak::Member)
        ];
        (
            directions,
            policies,
            ties,
            proptest::sample::select(zones.to_vec()),
        )
            .prop_filter_map(
                "LATEST needs a time",
                |(direction, policy, tie_break, zone)| {
                    let zone = ranking::window::parse_zone(zone).unwrap();
                    let rolling = ["1d", "3h", "2d", "4d", "2w", "2mo"];
                    let rolling = rolling.map(|name| name.parse().unwrap());
                    let decaying = ["decay:1h", "decay:3d"].map(|name| name.parse().unwrap());
                    let sums = policy == Policy::Sum && direction == Direction::HighFirst;
                    let decaying = decaying.into_iter().filter(|_| sums);
                    let windows = Window::EVERY[1..].iter().copied();
                    let windows = windows.chain(rolling).chain(decaying).collect();
                    let rules = Rules::new(RulesInput {
                        direction,
                        policy,
                        tie_break,
                        tick_ms: None,
                        decimals: 0,
                        min: -500,
                        max: 500,
                        zone,
                        shards: 1,
                        windows,
                    })
                    .ok()?;
                    Some(Board {
                        no: BoardNo(1),
                        generation: 1,
                        admission: Default::default(),
                        added: Default::default(),
                        layouts: Default::default(),
                        rules: Arc::new(rules),
                    })
                },
            )
    }

    /// What came of a member.
    #[derive(Debug, Clone, Copy)]
    enum Happened {
        /// A raw score at Unix milliseconds.
        Score(i64, i64),
        Removal,
        /// Of one of the events before it, counted round.
        Void(usize),
    }

    /// Few members, scores and times, around the days on which clocks change, so that ties and boundaries abound.
    fn rows() -> impl Strategy<Value = Vec<score_event::Model>> {
        let turns_ms = [
            1_743_210_000_000_i64,
            1_743_865_200_000,
            1_762_034_460_000,
            1_761_438_600_000,
        ];
        let at_ms = (
            proptest::sample::select(turns_ms.to_vec()),
            -6_i64..6,
            0_i64..3,
        )
            .prop_map(|(turn, hours, seconds)| turn + hours * 1_799_999 + seconds * 1000);
        let event = (
            proptest::sample::select(&["a", "b", "ü", "Z"][..]),
            proptest::sample::select(&["[]", r#"["region:eu"]"#, r#"["region:ü:%"]"#][..]),
            prop_oneof![
                16 => (-3_i64..=3, at_ms).prop_map(|(score, at_ms)| Happened::Score(score, at_ms)),
                2 => Just(Happened::Removal),
                2 => (0_usize..40).prop_map(Happened::Void),
            ],
        );
        proptest::collection::vec(event, 0..40).prop_map(|events| {
            let mut rows: Vec<score_event::Model> = vec![];
            for (index, (member, segments, happened)) in events.into_iter().enumerate() {
                let (kind, score, target) = match happened {
                    Happened::Score(score, at_ms) => ("SCORE", Some((score, at_ms)), None),
                    Happened::Void(before) if index > 0 => {
                        ("VOID", None, Some(&rows[before % index]))
                    }
                    _ => ("REMOVAL", None, None),
                };
                rows.push(score_event::Model {
                    partition: 0,
                    seq: 1 + index as i64 / 3,
                    event_index: index as i32 % 3,
                    board_no: 1,
                    generation: 1,
                    member: target.map_or(member, |target| &target.member).to_owned(),
                    kind: kind.to_owned(),
                    score: score.map(|(score, _)| score),
                    at_ms: score.map(|(_, at_ms)| at_ms),
                    at_sent: false,
                    event_id: None,
                    segments: if kind == "SCORE" { segments } else { "[]" }.to_owned(),
                    void_partition: target.map(|target| target.partition),
                    void_seq: target.map(|target| target.seq),
                    void_index: target.map(|target| target.event_index),
                });
            }
            rows
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn polars_and_the_fold_give_equal_standings(board in boards(), rows in rows(), later_ms in -9_000_000_000_i64..900_000_000, in_parts in 0..8) {
            let through_ms = 1_762_100_000_000 + later_ms;
            let voided: HashSet<_> = rows.iter().filter_map(score_event::Model::voids).collect();
            let mut replay = Replay::without(voided.clone(), through_ms);
            let mut events = Events::default();
            for row in &rows {
                replay.apply(&board, row.place().unwrap(), &row.to_ranking().unwrap()).unwrap();
                events.push(row.clone(), 0, None);
            }
            let events = Counted::of(events.into_frame().unwrap().lazy(), &board.layouts, if in_parts == 0 { 0 } else { 100 }).unwrap();
            let mut by_polars: BTreeMap<StandingsId, Vec<(MemberId, RankKey)>> = BTreeMap::new();
            for &window in &board.rules.windows {
                for (id, entries) in standings(&board, window, &events, through_ms).unwrap() {
                    let mut pairs: Vec<_> = entries.into_iter().map(|entry| (entry.member, entry.key)).collect();
                    pairs.sort_unstable();
                    by_polars.insert(id, pairs);
                }
            }
            prop_assert_eq!(by_polars, replay.entries().unwrap());
        }
    }
}
