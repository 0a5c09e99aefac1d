//! Totals of archived events: the base that "all" is folded from, and the reference for
//! `archived_entry` in SQL.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use engine::integrity::look::Location;
use entity::sql::blocks::Columns;
use futures::StreamExt;
use polars::prelude::{
    DataFrame, DataType, Int64Chunked, IntoLazy, JoinArgs, JoinType, LazyFrame, StringChunked,
    UnionArgs, col, concat, lit, when,
};
use ranking::board::Board;
use tokio::task::spawn_blocking;

use super::PartitionDiff;
use crate::diff::findings::Findings;
use crate::diff::second_look::Suspects;
use crate::diff::sums::Sum;
use crate::frame::counted::{Counted, in_parts};
use crate::frame::expected_rows::ExpectedRows;
use crate::frame::fold::states;
use crate::frame::history::History;
use crate::frame::multiset_hash::MultisetHash;

/// Context of SQL errors.
const UNREADABLE: &str = "archived_entry cannot be read";

/// The totals of a partition's archived events: one row for each that `archived_entry` should have.
pub(crate) struct ArchivedTotals {
    through_seq: i64,
    meant: DataFrame,
}

impl ArchivedTotals {
    /// Folds them; `None` if the partition has no archived events.
    pub(crate) async fn of(
        part: &PartitionDiff<'_>,
        history: &Arc<History>,
    ) -> Result<Option<Self>> {
        let through_seq = history.marks[&part.partition.no].archived_seq;
        if through_seq == 0 {
            return Ok(None);
        }
        let stage = format!("{}: folding archived events", part.row.slug);
        part.job.stage(&stage, 0);
        let (board, files) = (part.board.clone(), Arc::clone(history));
        let fold = spawn_blocking(move || {
            let in_files = files.counted.only(col("seq").lt_eq(lit(through_seq)));
            let states = states(&board, &in_files)?;
            in_parts(match in_files.is_of_scores() {
                true => of_scores(states),
                false => meant(concat(&files.archived, UnionArgs::default())?, states)?,
            })
        });
        let mut meant = fold.await??;
        meant.rechunk_mut();
        Ok(Some(Self { through_seq, meant }))
    }

    /// The events that "all" is folded from: these totals, then the later events. `None` if a
    /// removal or a void may take back part of the totals.
    pub(crate) fn and_later(&self, board: &Board, events: &Counted) -> Result<Option<Counted>> {
        let states = || self.meant.clone().lazy();
        let later = || events.after(states(), board.rules.tick_ms, self.through_seq);
        events.is_of_scores().then(later).transpose()
    }

    /// The columns of `archived_entry`, of the rows that these totals are for.
    fn columns(&self, part: &PartitionDiff<'_>) -> Columns {
        Columns::of_archived(part.partition.no, part.board.no, self.through_seq)
    }
}

/// Compares `archived_entry` with the totals of a partition's archived events. Returns the sum of
/// the rows that it read.
pub(crate) async fn compare(
    part: &PartitionDiff<'_>,
    archived: &ArchivedTotals,
    suspects: &mut Suspects<'_>,
    findings: &mut Findings,
) -> Result<Sum> {
    let mut sum = Sum::default();
    part.job.stage(&format!("{}: comparing archived_entry", part.row.slug), 0);
    let meant = Rows::of(&archived.meant)?;
    let mut balance = MultisetHash::new();
    for row in 0..meant.count() {
        balance.add(meant.segment(row), meant.member(row), &meant.numbers(row));
    }
    let mut there = archived.columns(part).read(&part.partition.db);
    while let Some(block) = there.next().await {
        let block = block.context(UNREADABLE)?;
        sum.add(&block)?;
        for (segment, member, said) in block.rows(["score", "tick", "events"])?.iter() {
            balance.take(segment, member, &said);
        }
    }
    drop(there);
    match balance.is_zero() {
        true => Ok(sum),
        false => compare_each(part, archived, &meant, suspects, findings).await,
    }
}

/// As [`compare`], row by row: those that differ are suspects.
async fn compare_each(
    part: &PartitionDiff<'_>,
    archived: &ArchivedTotals,
    meant: &Rows<'_>,
    suspects: &mut Suspects<'_>,
    findings: &mut Findings,
) -> Result<Sum> {
    let mut sum = Sum::default();
    let of_segments = (0..meant.count()).map(|row| (meant.segment(row), row..row + 1));
    let mut awaited = ExpectedRows::new(meant.count(), of_segments, |row| meant.member(row));
    // If several rows share a segment and member, the one with the greatest through_seq counts:
    // that through_seq, and whether the row is right.
    let mut known = vec![(i64::MIN, false); meant.count()];
    let mut others: HashMap<(String, String), (i64, bool)> = HashMap::new();
    let mut there = archived.columns(part).read(&part.partition.db);
    while let Some(block) = there.next().await {
        let block = block.context(UNREADABLE)?;
        sum.add(&block)?;
        let rows = block.rows(["score", "tick", "events", "through_seq"])?;
        for (segment, member, [score, tick, events, through]) in rows.iter() {
            let said = [score, tick, events];
            let (last, is_met) = match awaited.mark_found(segment, member) {
                Some(row) => (&mut known[row], said == meant.numbers(row)),
                None => {
                    let place = (segment.to_owned(), member.to_owned());
                    let last = others.entry(place).or_insert((i64::MIN, false));
                    (last, score.is_none() && events == Some(0))
                }
            };
            let through_seq = through.unwrap_or(i64::MIN);
            if last.0 <= through_seq {
                *last = (through_seq, is_met);
            }
        }
    }
    for (row, _) in known.iter().enumerate().filter(|(_, last)| !last.1) {
        let location = Location::Archived(meant.segment(row).to_owned());
        suspects.add(meant.member(row).as_bytes(), location);
        suspects.look_again_if_many(findings).await?;
    }
    for ((segment, member), _) in others.into_iter().filter(|(_, last)| !last.1) {
        suspects.add(member.as_bytes(), Location::Archived(segment));
        suspects.look_again_if_many(findings).await?;
    }
    Ok(sum)
}

/// The rows of totals.
struct Rows<'a> {
    segments: &'a StringChunked,
    members: &'a StringChunked,
    /// Score, tick and number of events.
    numbers: [&'a Int64Chunked; 3],
}

impl<'a> Rows<'a> {
    fn of(totals: &'a DataFrame) -> Result<Self> {
        let text = |name: &str| -> Result<_> { Ok(totals.column(name)?.str()?) };
        let number = |name: &str| -> Result<_> { Ok(totals.column(name)?.i64()?) };
        let (segments, members) = (text("segment")?, text("member")?);
        ensure!(segments.null_count() + members.null_count() == 0, "the fold returned a null");
        let numbers = [number("score")?, number("tick")?, number("events")?];
        Ok(Self { segments, members, numbers })
    }

    fn count(&self) -> usize {
        self.segments.len()
    }

    fn segment(&self, row: usize) -> &'a str {
        self.segments.get(row).unwrap_or_default()
    }

    fn member(&self, row: usize) -> &'a str {
        self.members.get(row).unwrap_or_default()
    }

    fn numbers(&self, row: usize) -> [Option<i64>; 3] {
        self.numbers.map(|column| column.get(row))
    }
}

/// As [`meant`], if all events are scores that count.
fn of_scores(states: LazyFrame) -> LazyFrame {
    let is_everyone = col("segment").eq(lit(""));
    states.with_column(when(is_everyone).then(col("events")).otherwise(lit(0_i64)).alias("events"))
}

/// One row for everyone per member with archived events, with their number, and one for each
/// segment that has a state.
fn meant(events: LazyFrame, states: LazyFrame) -> Result<LazyFrame> {
    let on = [col("member"), col("segment")];
    let counts = events
        .group_by([col("member")])
        .agg([col("seq").count().cast(DataType::Int64).alias("events")])
        .with_column(lit("").alias("segment"));
    let everyone = counts.join(states.clone(), &on, &on, JoinArgs::new(JoinType::Left));
    let others = states
        .filter(col("segment").neq(lit("")))
        .with_column(lit(0_i64).cast(DataType::Int64).alias("events"));
    let wanted = ["member", "segment", "score", "tick", "events"].map(col);
    let all = [everyone.select(wanted.clone()), others.select(wanted)];
    Ok(concat(all, UnionArgs::default())?)
}
