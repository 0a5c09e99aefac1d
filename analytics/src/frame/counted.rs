//! The events that a fold counts, as frames in the form that it takes.

use anyhow::{Error, Result};
use polars::prelude::{
    DataFrame, DataType, Engine, ExplodeOptions, Expr, IntoLazy, JoinArgs, JoinType, LazyFrame,
    UnionArgs, by_name, col, concat, lit,
};
use ranking::board::layout::Layouts;

/// The columns that identify an event.
const PLACE: [&str; 3] = ["partition", "seq", "event_index"];

/// The columns that identify a voided event.
const TARGET: [&str; 3] = ["void_partition", "void_seq", "void_index"];

/// Up to this many events are held in memory, which is faster. More are read each time, so that
/// memory does not grow with them.
pub const AT_ONCE_MAX: usize = 4_000_000;

/// The events that a fold counts.
#[derive(Clone)]
pub struct Counted {
    /// One row per event and segment that it counts in, everyone (empty) included: `member` and
    /// `segment` (text), `removal` (bool), `score` and `at_ms` (i64, null for a removal), `seq`
    /// (i64) and `order` (i64), which sorts a member's events. Voids and voided events have no
    /// rows.
    pub rows: LazyFrame,
    /// The number of events.
    pub count: usize,
    /// The first and the last instant at which a score was earned, in Unix milliseconds; `None` if
    /// there is no score.
    pub span_ms: Option<(i64, i64)>,
    /// True if there is a removal, so that its member's earlier scores do not count.
    pub has_removals: bool,
    /// True if there was a void, so that its event has no rows.
    pub has_voids: bool,
    /// True if an event counts in a segment besides everyone.
    pub has_segments: bool,
}

impl Counted {
    /// The events that count of a board with these layouts, from a frame as
    /// [`Events`](crate::frame::events::Events) makes it.
    pub fn of(events: LazyFrame, layouts: &Layouts, at_once_max: usize) -> Result<Self> {
        // The metadata of the files answers most of this without a look at their rows.
        let is_at_once = height(events.clone())? <= at_once_max;
        let is_there = |condition| Ok::<_, Error>(height(events.clone().filter(condition))? > 0);
        let (has_voids, has_removals) = (is_there(is_kind("VOID"))?, is_there(is_kind("REMOVAL"))?);
        let has_segments = is_there(in_segments())?;
        let has_moved = !layouts.former.is_empty();
        let mut columns = vec!["member", "score", "at_ms", "seq", "event_index"];
        for (is_needed, names) in [
            (has_moved, &["generation"][..]),
            (has_voids || has_removals, &["kind"]),
            (has_segments, &["segments"]),
            (has_voids, &["partition", "void_partition", "void_seq", "void_index"]),
        ] {
            columns.extend(names.iter().filter(|_| is_needed));
        }
        let events = events.select(columns.into_iter().map(col).collect::<Vec<_>>());
        let events = match is_at_once {
            true => in_parts(events)?.lazy(),
            false => events,
        };
        let events = match has_voids {
            true => unvoided(events)?,
            false => events,
        };
        let mut rows = rows_of(events, layouts, has_removals, has_segments)?;
        if is_at_once {
            rows = in_parts(rows)?.lazy();
        }
        let figures = in_parts(rows.clone().select([
            col("segment").eq(lit("")).sum().cast(DataType::Int64).alias("count"),
            col("at_ms").min().alias("first"),
            col("at_ms").max().alias("last"),
        ]))?;
        let figure = |name: &str| -> Result<_> { Ok(figures.column(name)?.i64()?.get(0)) };
        Ok(Self {
            rows,
            count: figure("count")?.unwrap_or(0).unsigned_abs() as usize,
            span_ms: figure("first")?.zip(figure("last")?),
            has_removals,
            has_voids,
            has_segments,
        })
    }

    /// True if all events are scores that count.
    pub fn is_of_scores(&self) -> bool {
        !self.has_voids && !self.has_removals
    }

    /// Only the rows that meet the condition. The figures stay those of all rows.
    pub fn only(&self, condition: Expr) -> Self {
        Self { rows: self.rows.clone().filter(condition), ..*self }
    }

    /// Replaces the events up to a seq with their totals in "all"
    /// ([`states`](crate::frame::fold::states)): "all" folds to the same, in less time. The figures
    /// stay those of all rows. There must be no voids and no removals.
    pub fn after(&self, states: LazyFrame, tick_ms: u32, through_seq: i64) -> Result<Self> {
        let begun = states.select([
            col("member"),
            col("segment"),
            lit(false).alias("removal"),
            col("score"),
            (col("tick") * lit(i64::from(tick_ms))).alias("at_ms"),
            col("seq"),
            lit(0_i64).cast(DataType::Int64).alias("order"),
        ]);
        let later = self.only(col("seq").gt(lit(through_seq)));
        Ok(Self { rows: concat([begun, later.rows], UnionArgs::default())?, ..*self })
    }

    /// The scores that count: those after their member's last removal.
    pub fn scores(&self) -> LazyFrame {
        match self.has_removals {
            true => unremoved(self.rows.clone()),
            false => self.rows.clone(),
        }
    }
}

/// Collects a frame with the streaming engine, so that memory does not grow with the events behind
/// it.
pub fn in_parts(frame: LazyFrame) -> Result<DataFrame> {
    Ok(frame.collect_with_engine(Engine::Streaming)?.unwrap_single())
}

/// The number of events in a frame, by a column that takes up next to nothing.
fn height(events: LazyFrame) -> Result<usize> {
    let rows = in_parts(events.select([col("generation").count()]))?;
    Ok(rows.column("generation")?.get(0)?.try_extract()?)
}

/// The condition that an event is of a kind.
pub fn is_kind(kind: &str) -> Expr {
    col("kind").eq(lit(kind))
}

fn in_segments() -> Expr {
    col("segments").list().len().gt(lit(0))
}

/// The rows after their member's last removal, without removals.
pub fn unremoved(rows: LazyFrame) -> LazyFrame {
    let removed = rows
        .clone()
        .filter(col("removal"))
        .group_by([col("member")])
        .agg([col("order").max().alias("removed")]);
    let scores = rows.filter(col("removal").not());
    scores
        .join(removed, [col("member")], [col("member")], JoinArgs::new(JoinType::Left))
        .filter(col("removed").is_null().or(col("order").gt(col("removed"))))
}

/// The events without voids and voided events.
fn unvoided(events: LazyFrame) -> Result<LazyFrame> {
    let place = |(target, name): (&str, &str)| col(target).alias(name);
    let voids: Vec<Expr> = TARGET.into_iter().zip(PLACE).map(place).collect();
    let voided = in_parts(events.clone().filter(is_kind("VOID")).select(voids))?;
    let place = PLACE.map(col);
    let without = JoinArgs::new(JoinType::Anti);
    let events = events.filter(is_kind("VOID").not());
    Ok(events.join(voided.lazy(), &place, &place, without))
}

fn rows_of(
    events: LazyFrame,
    layouts: &Layouts,
    has_removals: bool,
    has_segments: bool,
) -> Result<LazyFrame> {
    // Layout, then seq (43 bits), then index (10 bits).
    let layout = layouts.former.iter().map(|former| {
        let is_later = col("generation").gt_eq(lit(i64::from(former.before)));
        is_later.cast(DataType::Int64)
    });
    let layout = layout.fold(lit(0_i64), |layout, later| layout + later);
    let place = layout * lit(1_i64 << 43) + col("seq");
    let order = place * lit(1024_i64) + col("event_index").cast(DataType::Int64);
    let removal = match has_removals {
        true => is_kind("REMOVAL"),
        false => lit(false),
    };
    let counted = |segment: Expr| {
        vec![
            col("member"),
            segment.alias("segment"),
            removal.clone().alias("removal"),
            col("score"),
            col("at_ms"),
            col("seq"),
            order.clone().alias("order"),
        ]
    };
    let of_everyone = events.clone().select(counted(lit("")));
    if !has_segments {
        return Ok(of_everyone);
    }
    let options = ExplodeOptions { empty_as_null: false, keep_nulls: false };
    let of_segments = events
        .filter(in_segments())
        .explode(by_name(["segments"], true, false), options)
        .select(counted(col("segments")));
    Ok(concat([of_everyone, of_segments], UnionArgs::default())?)
}
