//! The fold as polars expressions, from a board's events to a window's standings. It gives the same
//! as `ranking`'s fold; a property test at the foot of this file holds the two equal. Period
//! boundaries come from `ranking`: there is no zone arithmetic here.

pub(crate) mod keys;
pub(crate) mod periods;
pub(crate) mod scores;
pub(crate) mod sums;

use self::keys::{key, nearest_key, of_each, same_type};
use self::periods::{in_periods, periods, rolling_periods};
use self::scores::{policy, scores};
use self::sums::{decayed, halves, saturated};
use anyhow::Result;
use polars::prelude::{
    DataFrame, DataType, Expr, IdxCa, IdxSize, LazyFrame, SortMultipleOptions, UnionArgs, col,
    concat, len, lit,
};
use ranking::board::{Board, Direction, Policy};
use ranking::window::seal::NEVER_MS;
use ranking::window::{Period, Window};

use crate::frame::counted::{Counted, in_parts};
use crate::frame::sorted::{Entries, Folded, Sorted};

/// The standings of one window of a board, of every segment and period that has entries and is not
/// sealed. A rolling window has standings even for periods without events, up to the period after
/// the one present at `through_ms`.
///
/// # Errors
/// If an event's time is in no period.
pub fn standings(
    board: &Board,
    window: Window,
    events: &Counted,
    through_ms: i64,
) -> Result<Entries> {
    sorted(board, window, events, through_ms)?.entries()
}

/// As [`standings`], as columns.
pub fn sorted(board: &Board, window: Window, events: &Counted, through_ms: i64) -> Result<Sorted> {
    let folded = folded(board, window, events, through_ms, Which::Open)?;
    Sorted::of(board, window, &folded)
}

/// The periods of a window to fold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Periods that are neither sealed nor being sealed.
    Open,
    /// All periods. An entry of a sealed period gets the nearest key if its score has none.
    Every,
}

impl Which {
    /// The periods to compare with a board's stores: sealed ones too, once there are any.
    pub fn of(board: &Board, window: Window) -> Self {
        match board.sealed(window).sealed_before_ms > NEVER_MS {
            true => Self::Every,
            false => Self::Open,
        }
    }
}

/// As [`standings`], as a frame.
pub fn folded(
    board: &Board,
    window: Window,
    events: &Counted,
    through_ms: i64,
    which: Which,
) -> Result<Folded> {
    let base = window.rolling().map_or(window, |rolling| rolling.base());
    let mut periods = periods(board, base, events.span_ms)?;
    let mut with_period = in_periods(scores(board, window, events), &periods);
    if window.has_seasons() {
        with_period = with_period.filter(col("period").gt_eq(lit(0_i64)));
    }
    let sealed_ms = board.sealed(window).sealing_before_ms;
    let kept_from = |periods: &[Period]| {
        let kept = periods.partition_point(|period| period.present_from_ms < sealed_ms);
        col("period").gt_eq(lit(kept as i64))
    };
    if which == Which::Open && window.has_periods() && window.rolling().is_none() {
        // Sealed periods are not even folded.
        with_period = with_period.filter(kept_from(&periods));
    }
    let mut by = told_apart_by(events, &periods);
    let mut folded = match window.half_life() {
        Some(half_life) => decayed(with_period, half_life)?,
        None => fold(with_period, board, policy(board, window), &by),
    };
    if let Some(rolling) = window.rolling() {
        periods = rolling_periods(board, window, &periods, through_ms)?;
        let parts: Vec<LazyFrame> = (0..i64::from(rolling.count()))
            .map(|later| folded.clone().with_column(col("period") + lit(later)))
            .collect();
        let inside = concat(parts, UnionArgs::default())?;
        let inside = inside.filter(col("period").lt(lit(periods.len() as i64)));
        by = told_apart_by(events, &periods);
        folded = fold(inside, board, policy(board, window), &by);
    }
    if which == Which::Open {
        folded = folded.filter(kept_from(&periods));
    }
    let first_ticks = periods.iter().map(|period| board.rules.first_tick(period));
    let first_ticks: Vec<i64> = first_ticks.collect();
    let first_tick = of_each(move |place| first_ticks.get(usize::try_from(place).ok()?).copied());
    let folded = folded.with_column(col("period").map(first_tick, same_type).alias("first_tick"));
    let key = match which {
        Which::Open => key(board, window, col("score"), col("tick") - col("first_tick")),
        Which::Every => nearest_key(board, window),
    };
    let wanted = ["member", "segment", "period", "key", "score", "seq"].map(col);
    by.retain(|name| *name != "member");
    by.push("key");
    let sorted = folded
        .with_column(key.alias("key"))
        .select(wanted)
        .sort(by, SortMultipleOptions::default());
    let mut frame = in_parts(sorted)?;
    frame.rechunk_mut();
    Ok(Folded { frame: in_order_of_members(frame)?, periods })
}

/// Sorts entries that have the same key in the same standings by member. Most standings have few of
/// them, and a sort of all entries by key and member takes several times as long as one by key.
fn in_order_of_members(frame: DataFrame) -> Result<DataFrame> {
    let (segments, members) = (frame.column("segment")?.str()?, frame.column("member")?.str()?);
    let (places, keys) = (frame.column("period")?.i64()?, frame.column("key")?.i64()?);
    let height = frame.height();
    let is_tied = |one: usize, other: usize| {
        keys.get(one) == keys.get(other)
            && places.get(one) == places.get(other)
            && segments.get(one) == segments.get(other)
    };
    let mut order: Vec<IdxSize> = (0..u32::try_from(height)?).collect();
    let (mut start, mut is_sorted) = (0, true);
    for end in 1..=height {
        if end < height && is_tied(start, end) {
            continue;
        }
        let ties = &mut order[start..end];
        let member = |row: IdxSize| members.get(row as usize);
        if !ties.is_sorted_by_key(|&row| member(row)) {
            ties.sort_unstable_by_key(|&row| member(row));
            is_sorted = false;
        }
        start = end;
    }
    match is_sorted {
        true => Ok(frame),
        false => Ok(frame.take(&IdxCa::from_vec("order".into(), order))?),
    }
}

/// The totals of events in "all", as states in no order: `member`, `segment`, `score`, `tick`,
/// `seq` of the last event, and the number of `events` (i64).
pub fn states(board: &Board, events: &Counted) -> Result<LazyFrame> {
    let periods = periods(board, Window::All, events.span_ms)?;
    let counted = in_periods(scores(board, Window::All, events), &periods);
    let wanted = ["member", "segment", "score", "tick", "seq", "events"].map(col);
    let by = told_apart_by(events, &periods);
    Ok(fold(counted, board, board.rules.policy, &by).select(wanted))
}

/// The index of the only period; polars would give a small literal 32 bits.
fn first_place() -> Expr {
    lit(0_i64).cast(DataType::Int64)
}

/// The columns that tell states apart. If there is only one segment, or one period, polars need not
/// group by it.
fn told_apart_by(events: &Counted, periods: &[Period]) -> Vec<&'static str> {
    let segment = events.has_segments.then_some("segment");
    let period = (periods.len() > 1).then_some("period");
    [segment, period, Some("member")].into_iter().flatten().collect()
}

/// Folds rows to one state per member, segment and period. States fold as events do.
fn fold(events: LazyFrame, board: &Board, policy: Policy, by: &[&str]) -> LazyFrame {
    let rules = &board.rules;
    let best = |scores: Expr| match rules.direction {
        Direction::HighFirst => scores.max(),
        Direction::LowFirst => scores.min(),
    };
    let (score, tick) = (col("score"), col("tick"));
    let (mut totals, mut total) = (vec![], None);
    let (state_score, state_tick) = match policy {
        Policy::Sum => {
            let [high, low] = halves(score);
            totals.push(low.alias("low"));
            total = Some(saturated().alias("score"));
            (high, tick.max())
        }
        Policy::Best => {
            let best_score = best(score.clone());
            (best_score.clone(), tick.filter(score.eq(best_score)).min())
        }
        Policy::Latest => (best(score.filter(tick.clone().eq(tick.clone().max()))), tick.max()),
    };
    totals.extend([
        state_score.alias("score"),
        state_tick.alias("tick"),
        col("seq").max(),
        len().cast(DataType::Int64).alias("events"),
    ]);
    let states = events.group_by(by.iter().copied().map(col).collect::<Vec<_>>()).agg(totals);
    let states = states.with_columns(total.into_iter().collect::<Vec<_>>());
    let the_one = [("segment", lit("")), ("period", first_place())];
    let the_one = the_one.into_iter().filter(|(name, _)| !by.contains(name));
    states.with_columns(the_one.map(|(name, one)| one.alias(name)).collect::<Vec<_>>())
}

#[cfg(test)]
pub(crate) mod tests {
    use ranking::board::TieBreak;

    use super::*;
    use crate::frame::events::Events;
    use entity::history::score_event::{self, Kind};
    use polars::prelude::IntoLazy;
    use proptest::prelude::*;
    use ranking::board::State;
    use ranking::board::rules::{Rules, RulesInput};
    use ranking::fold::replay::Replay;
    use ranking::id::{BoardNo, MemberId};
    use ranking::score::rank_key::RankKey;
    use ranking::standings_id::StandingsId;
    use ranking::window::calendar::{Calendar, Weekday};
    use ranking::window::season::Season;
    use std::collections::{BTreeMap, HashSet};

    pub(crate) fn boards() -> impl Strategy<Value = Board> {
        let zones =
            ["UTC", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu", "Europe/London"];
        // Around the events, in hours since 1970.
        let hours = [484_222, 484_224, 484_226, 484_228, 484_405, 484_410, 489_287, 489_290];
        let bounds_ms = hours.map(|hour: i64| hour * 3_600_000).to_vec();
        let seasons = proptest::sample::subsequence(bounds_ms, 0..=8);
        let calendars = (proptest::sample::select(zones.to_vec()), 0_i32..24, 1_i8..=7, seasons);
        let directions = prop_oneof![Just(Direction::HighFirst), Just(Direction::LowFirst)];
        let policies = prop_oneof![Just(Policy::Sum), Just(Policy::Best), Just(Policy::Latest)];
        let ties =
            prop_oneof![Just(TieBreak::Earliest), Just(TieBreak::Latest), Just(TieBreak::Member)];
        (directions, policies, ties, calendars).prop_filter_map(
            "LATEST needs a time",
            |(direction, policy, tie_break, (zone, reset_hour, week_start, seasons))| {
                let calendar = Calendar::of_zone(ranking::window::parse_zone(zone).unwrap());
                let calendar = calendar.reset_at(reset_hour).unwrap();
                let season = |of: &[i64]| Season::new(&of[0].to_string(), of[0], of[1]).unwrap();
                let seasons = seasons.chunks_exact(2).map(season).collect();
                let week_start = Weekday::from_monday_one_offset(week_start).unwrap();
                let rolling = ["1d", "3h", "2d", "4d", "2w", "2mo"];
                let rolling = rolling.map(|name| name.parse().unwrap());
                let decaying = ["decay:1h", "decay:3d"].map(|name| name.parse().unwrap());
                let sums = policy == Policy::Sum && direction == Direction::HighFirst;
                let decaying = decaying.into_iter().filter(|_| sums);
                let windows = Window::EVERY[1..].iter().copied();
                let windows = windows.chain(rolling).chain(decaying).collect();
                let attempts = Window::EVERY.map(|window| (window, 1)).into();
                let rules = Rules::new(RulesInput {
                    direction,
                    policy,
                    tie_break,
                    min: -500,
                    max: 500,
                    calendar: Calendar { week_start, ..calendar }.with_seasons(seasons).unwrap(),
                    windows,
                    attempts,
                    ..Default::default()
                });
                Some(Board::new(BoardNo(1), rules.ok()?))
            },
        )
    }

    /// An event of a member.
    #[derive(Debug, Clone, Copy)]
    enum Happened {
        /// A raw score at Unix milliseconds.
        Score(i64, i64),
        Removal,
        /// Voids one of the events before it: an index modulo their number.
        Void(usize),
    }

    /// Few members, scores and times, around the days on which clocks change, so that ties and
    /// boundaries abound.
    pub(crate) fn rows() -> impl Strategy<Value = Vec<score_event::Model>> {
        let turns_ms =
            [1_743_210_000_000_i64, 1_743_865_200_000, 1_762_034_460_000, 1_761_438_600_000];
        let at_ms = (proptest::sample::select(turns_ms.to_vec()), -6_i64..6, 0_i64..3)
            .prop_map(|(turn, hours, seconds)| turn + hours * 1_799_999 + seconds * 1000);
        let event = (
            proptest::sample::select(&["a", "b", "ü", "Z"][..]),
            proptest::sample::select(&["[]", r#"["region:eu"]"#, r#"["region:ü:%","a:b"]"#][..]),
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
                    Happened::Score(score, at_ms) => (Kind::Score, Some((score, at_ms)), None),
                    Happened::Void(at) if index > 0 => (Kind::Void, None, Some(&rows[at % index])),
                    _ => (Kind::Removal, None, None),
                };
                rows.push(score_event::Model {
                    partition: 0,
                    seq: 1 + index as i64 / 3,
                    event_index: index as i32 % 3,
                    board_no: 1,
                    generation: 1,
                    member: target.map_or(member, |target| &target.member).to_owned(),
                    kind,
                    score: score.map(|(score, _)| score),
                    at_ms: score.map(|(_, at_ms)| at_ms),
                    at_sent: false,
                    event_id: None,
                    segments: if kind == Kind::Score { segments } else { "[]" }.to_owned(),
                    void_partition: target.map(|target| target.partition),
                    void_seq: target.map(|target| target.seq),
                    void_index: target.map(|target| target.event_index),
                    salt: vec![],
                    metadata: None,
                    origin: None,
                });
            }
            rows
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
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
            let mut by_polars: BTreeMap<StandingsId, Vec<(RankKey, MemberId)>> = BTreeMap::new();
            for &window in &board.rules.windows {
                let open = standings(&board, window, &events, through_ms).unwrap();
                if window.rolling().is_none() {
                    // Nothing is sealed and all scores are in range, so every period is open.
                    let every = folded(&board, window, &events, through_ms, Which::Every).unwrap();
                    let every = Sorted::of(&board, window, &every).unwrap();
                    prop_assert_eq!(&every.entries().unwrap(), &open);
                }
                for (id, entries) in open {
                    // In the order of Redis.
                    prop_assert!(entries.is_sorted_by_key(|entry| (entry.key, entry.member.as_str())), "{:?}", entries);
                    let pairs = entries.into_iter().map(|entry| (entry.key, entry.member));
                    by_polars.insert(id, pairs.collect());
                }
            }
            prop_assert_eq!(by_polars, replay.entries().unwrap());
            let mut all_time = BTreeMap::new();
            let states = crate::frame::counted::in_parts(states(&board, &events).unwrap()).unwrap();
            let text = |name: &str, row: usize| states.column(name).unwrap().str().unwrap().get(row).unwrap().to_owned();
            let number = |name: &str, row: usize| states.column(name).unwrap().i64().unwrap().get(row).unwrap();
            for row in 0..states.height() {
                let id = StandingsId::all_time(&board, text("segment", row));
                let member = MemberId::new(&text("member", row)).unwrap();
                let state = State { score: number("score", row), tick: number("tick", row) };
                prop_assert_eq!(Some(state), replay.state_of(&id, &member));
                all_time.insert((id, member), state);
            }
            let held = replay.entries().unwrap().into_iter().filter(|(id, _)| id.window == Window::All);
            prop_assert_eq!(all_time.len(), held.map(|(_, entries)| entries.len()).sum::<usize>());
        }

        #[test]
        fn all_goes_on_from_what_archived_events_add_up_to(board in boards(), rows in rows(), through_seq in 0..14_i64) {
            let mut events = Events::default();
            for row in rows.into_iter().filter(|row| row.kind == Kind::Score) {
                events.push(row, 0, None);
            }
            let events = Counted::of(events.into_frame().unwrap().lazy(), &board.layouts, 100).unwrap();
            let archived = events.only(col("seq").lt_eq(lit(through_seq)));
            let begun = states(&board, &archived).unwrap();
            let later = events.after(begun, board.rules.tick_ms, through_seq).unwrap();
            let all = |events: &Counted| standings(&board, Window::All, events, 0).unwrap();
            prop_assert_eq!(all(&later), all(&events));
        }
    }
}
