//! Events as frames: as archive files hold them, and as the fold takes them.

use anyhow::{Error, Result};
use entity::score_event;
use polars::prelude::{
    BooleanChunked, Column, DataFrame, DataType, Engine, ExplodeOptions, Expr, IntoColumn,
    IntoLazy, JoinArgs, JoinType, LazyFrame, ListBuilderTrait, ListStringChunkedBuilder, NamedFrom,
    NewChunkedArray, Series, UnionArgs, by_name, col, concat, lit,
};
use ranking::layout::Layouts;

/// What tells events apart.
const PLACE: [&str; 3] = ["partition", "seq", "event_index"];

/// What names an event that is voided.
const TARGET: [&str; 3] = ["void_partition", "void_seq", "void_index"];

/// Events, being gathered: one row each, with all that `score_event` has of it, its shard, and when it was accepted.
#[derive(Default)]
pub struct Events {
    rows: Vec<score_event::Model>,
    shards: Vec<i32>,
    accepted_at_ms: Vec<Option<i64>>,
}

impl Events {
    /// Adds an event.
    pub fn push(&mut self, row: score_event::Model, shard: u16, accepted_at_ms: Option<i64>) {
        self.rows.push(row);
        self.shards.push(shard.into());
        self.accepted_at_ms.push(accepted_at_ms);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The seq of the last one.
    pub fn last_seq(&self) -> Option<i64> {
        self.rows.last().map(|row| row.seq)
    }

    /// The frame of them: `partition`, `shard`, `seq`, `event_index`, `board_no`, `generation`, `member`, `kind`, `score`, `at_ms`, `at_sent`, `event_id`,
    /// `segments` (a list of texts), `void_partition`, `void_seq`, `void_index`, `accepted_at_ms`.
    ///
    /// # Errors
    /// Where a row holds what the persister does not write; what polars says.
    pub fn into_frame(self) -> Result<DataFrame> {
        let rows = &self.rows;
        let mut segments = ListStringChunkedBuilder::new("segments".into(), rows.len(), 0);
        for row in rows {
            segments.append_values_iter(row.segments()?.iter().map(String::as_str));
        }
        let columns = vec![
            numbers("partition", rows.iter().map(|row| row.partition)),
            numbers("shard", self.shards.iter().copied()),
            large("seq", rows.iter().map(|row| Some(row.seq))),
            numbers("event_index", rows.iter().map(|row| row.event_index)),
            large("board_no", rows.iter().map(|row| Some(row.board_no))),
            numbers("generation", rows.iter().map(|row| row.generation)),
            texts("member", rows.iter().map(|row| Some(row.member.as_str()))),
            texts("kind", rows.iter().map(|row| Some(row.kind.as_str()))),
            large("score", rows.iter().map(|row| row.score)),
            large("at_ms", rows.iter().map(|row| row.at_ms)),
            BooleanChunked::from_iter_values("at_sent".into(), rows.iter().map(|row| row.at_sent))
                .into_column(),
            texts("event_id", rows.iter().map(|row| row.event_id.as_deref())),
            segments.finish().into_column(),
            some_numbers("void_partition", rows.iter().map(|row| row.void_partition)),
            large("void_seq", rows.iter().map(|row| row.void_seq)),
            some_numbers("void_index", rows.iter().map(|row| row.void_index)),
            large("accepted_at_ms", self.accepted_at_ms.iter().copied()),
        ];
        Ok(DataFrame::new_infer_height(columns)?)
    }
}

/// The rows that a frame of [`Events`] was made of.
///
/// # Errors
/// Where it is no such frame.
pub fn rows(frame: &DataFrame) -> Result<Vec<score_event::Model>> {
    let int = |name: &str| -> Result<_> { Ok(frame.column(name)?.i32()?.clone()) };
    let large = |name: &str| -> Result<_> { Ok(frame.column(name)?.i64()?.clone()) };
    let (partition, event_index, generation) =
        (int("partition")?, int("event_index")?, int("generation")?);
    let (seq, board_no, score, at_ms) = (
        large("seq")?,
        large("board_no")?,
        large("score")?,
        large("at_ms")?,
    );
    let (void_partition, void_seq, void_index) = (
        int("void_partition")?,
        large("void_seq")?,
        int("void_index")?,
    );
    let (member, kind, event_id) = (
        frame.column("member")?.str()?,
        frame.column("kind")?.str()?,
        frame.column("event_id")?.str()?,
    );
    let at_sent = frame.column("at_sent")?.bool()?;
    let segments = frame.column("segments")?.list()?;
    let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
    let mut rows = Vec::with_capacity(frame.height());
    for place in 0..frame.height() {
        let segments = match segments.get_as_series(place) {
            Some(segments) => segments.str()?.iter().map(text).collect(),
            None => vec![],
        };
        rows.push(score_event::Model {
            partition: partition.get(place).unwrap_or_default(),
            seq: seq.get(place).unwrap_or_default(),
            event_index: event_index.get(place).unwrap_or_default(),
            board_no: board_no.get(place).unwrap_or_default(),
            generation: generation.get(place).unwrap_or_default(),
            member: text(member.get(place)),
            kind: text(kind.get(place)),
            score: score.get(place),
            at_ms: at_ms.get(place),
            at_sent: at_sent.get(place).unwrap_or_default(),
            event_id: event_id.get(place).map(str::to_owned),
            segments: score_event::segments_text(&segments),
            void_partition: void_partition.get(place),
            void_seq: void_seq.get(place),
            void_index: void_index.get(place),
        });
    }
    Ok(rows)
}

/// So many events are held in memory, which is faster; more of them are read each time, so that memory does not grow with them.
pub const AT_ONCE_MAX: usize = 4_000_000;

/// What of events is folded.
#[derive(Clone)]
pub struct Counted {
    /// One row an event and segment that it counts in, everyone (empty) among them: `member` and `segment` (text), `removal` (bool), `score` and `at_ms`
    /// (i64, null for a removal), `seq` (i64) and `order` (i64): a member's events stand in the order of it. None that is voided, or a void.
    pub rows: LazyFrame,
    /// How many events there are.
    pub count: usize,
    /// The first and the last instant that a score was earned at, in Unix milliseconds; `None` where there is none.
    pub span_ms: Option<(i64, i64)>,
    /// Whether a member was removed, so that scores before it do not count.
    pub has_removals: bool,
    /// Whether an event was voided, so that it is not among them.
    pub has_voids: bool,
    /// Whether one counts in more segments than everyone.
    pub has_segments: bool,
}

impl Counted {
    /// What counts of the events of a board with those layouts, a frame as [`Events`] makes.
    ///
    /// # Errors
    /// What polars says.
    pub fn of(events: LazyFrame, layouts: &Layouts, at_once_max: usize) -> Result<Self> {
        // What files say of their rows answers most of this without a look at them.
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
            (
                has_voids,
                &["partition", "void_partition", "void_seq", "void_index"],
            ),
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
        let figures = in_parts(
            rows.clone().select([
                col("segment")
                    .eq(lit(""))
                    .sum()
                    .cast(DataType::Int64)
                    .alias("count"),
                col("at_ms").min().alias("first"),
                col("at_ms").max().alias("last"),
            ]),
        )?;
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

    /// Whether all events are scores that count.
    pub fn is_of_scores(&self) -> bool {
        !self.has_voids && !self.has_removals
    }

    /// Only the rows for which this holds. The figures stay those of all.
    pub fn only(&self, condition: Expr) -> Self {
        Self {
            rows: self.rows.clone().filter(condition),
            ..*self
        }
    }

    /// The same, with what those up to a seq add up to in "all" ([`states`](crate::fold::states)) in their place: it says the same of "all", and takes less to fold. The
    /// figures stay those of all. Without voids and removals.
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
        Ok(Self {
            rows: concat([begun, later.rows], UnionArgs::default())?,
            ..*self
        })
    }

    /// The scores that count: those after their member's last removal.
    pub fn scores(&self) -> LazyFrame {
        match self.has_removals {
            true => unremoved(self.rows.clone()),
            false => self.rows.clone(),
        }
    }
}

/// Works out a frame in parts, so that memory does not grow with the events behind it.
///
/// # Errors
/// What polars says.
pub fn in_parts(frame: LazyFrame) -> Result<DataFrame> {
    Ok(frame
        .collect_with_engine(Engine::Streaming)?
        .unwrap_single())
}

/// How many events a frame has: so many rows of a column that takes up next to nothing.
fn height(events: LazyFrame) -> Result<usize> {
    let rows = in_parts(events.select([col("generation").count()]))?;
    Ok(rows.column("generation")?.get(0)?.try_extract()?)
}

fn is_kind(kind: &str) -> Expr {
    col("kind").eq(lit(kind))
}

fn in_segments() -> Expr {
    col("segments").list().len().gt(lit(0))
}

/// The rows that do not stand before their member's last removal, without removals.
pub fn unremoved(rows: LazyFrame) -> LazyFrame {
    let removed = rows
        .clone()
        .filter(col("removal"))
        .group_by([col("member")])
        .agg([col("order").max().alias("removed")]);
    let scores = rows.filter(col("removal").not());
    scores
        .join(
            removed,
            [col("member")],
            [col("member")],
            JoinArgs::new(JoinType::Left),
        )
        .filter(col("removed").is_null().or(col("order").gt(col("removed"))))
}

/// The events that are not voided, and no voids.
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
    let options = ExplodeOptions {
        empty_as_null: false,
        keep_nulls: false,
    };
    let of_segments = events
        .filter(in_segments())
        .explode(by_name(["segments"], true, false), options)
        .select(counted(col("segments")));
    Ok(concat([of_everyone, of_segments], UnionArgs::default())?)
}

fn numbers(name: &str, values: impl Iterator<Item = i32>) -> Column {
    Series::new(name.into(), values.collect::<Vec<i32>>()).into()
}

fn some_numbers(name: &str, values: impl Iterator<Item = Option<i32>>) -> Column {
    Series::new(name.into(), values.collect::<Vec<Option<i32>>>()).into()
}

fn large(name: &str, values: impl Iterator<Item = Option<i64>>) -> Column {
    Series::new(name.into(), values.collect::<Vec<Option<i64>>>()).into()
}

fn texts<'a>(name: &str, values: impl Iterator<Item = Option<&'a str>>) -> Column {
    Series::new(name.into(), values.collect::<Vec<Option<&str>>>()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_gives_back_the_rows_it_was_made_of() {
        let score = score_event::Model {
            partition: 3,
            seq: 7,
            event_index: 1,
            board_no: 12,
            generation: 2,
            member: "ü:%{}".to_owned(),
            kind: "SCORE".to_owned(),
            score: Some(-5),
            at_ms: Some(1_700_000_000_000),
            at_sent: true,
            event_id: Some("e1".to_owned()),
            segments: r#"["region:eu","a\"b"]"#.to_owned(),
            void_partition: None,
            void_seq: None,
            void_index: None,
        };
        let void = score_event::Model {
            seq: 8,
            kind: "VOID".to_owned(),
            score: None,
            at_ms: None,
            at_sent: false,
            event_id: None,
            segments: "[]".to_owned(),
            void_partition: Some(3),
            void_seq: Some(7),
            void_index: Some(1),
            ..score.clone()
        };
        let expected = vec![score, void];
        let mut events = Events::default();
        for row in &expected {
            events.push(row.clone(), 1, Some(5));
        }
        assert_eq!(rows(&events.into_frame().unwrap()).unwrap(), expected);
    }
}
