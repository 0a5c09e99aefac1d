//! What archived events add up to, compared with what SQL keeps of them.

use std::sync::Arc;

use anyhow::{Context, Result};
use entity::integrity_look::Spot;
use futures::StreamExt;
use polars::prelude::{
    DataType, JoinArgs, JoinType, LazyFrame, SortMultipleOptions, UnionArgs, col, concat, lit,
};
use sea_orm::{DbErr, QueryResult, Statement, StreamTrait, Value};
use tokio::task::spawn_blocking;

use super::findings::Findings;
use super::part::Part;
use super::second_look::Suspects;
use crate::events::in_parts;
use crate::fold::states;
use crate::history::History;

/// What a member's archived events add up to in a segment, and how many they are.
#[derive(PartialEq)]
struct Row {
    member: String,
    segment: String,
    score: Option<i64>,
    tick: Option<i64>,
    events: i64,
}

impl Row {
    fn place(&self) -> (&str, &str) {
        (&self.member, &self.segment)
    }
}

/// Compares `archived_entry` with the files of a partition.
///
/// # Errors
/// What SQL and polars say.
pub(super) async fn compare(
    part: &Part<'_>,
    history: &Arc<History>,
    suspects: &mut Suspects<'_>,
    findings: &mut Findings,
) -> Result<()> {
    let mark = &history.marks[&part.partition];
    if mark.archived_seq == 0 {
        return Ok(());
    }
    part.job.stage(
        &format!(
            "{}: comparing what archived events add up to",
            part.row.slug
        ),
        0,
    );
    let archived_seq = mark.archived_seq;
    let (board, files) = (part.board.clone(), Arc::clone(history));
    let fold = spawn_blocking(move || {
        let in_files = files.counted.only(col("seq").lt_eq(lit(archived_seq)));
        in_parts(meant(
            concat(&files.archived, UnionArgs::default())?,
            states(&board, &in_files)?,
        )?)
    });
    let meant = fold.await??;
    let (members, segments) = (
        meant.column("member")?.str()?,
        meant.column("segment")?.str()?,
    );
    let number = |name: &str| -> Result<_> { Ok(meant.column(name)?.i64()?.clone()) };
    let (scores, ticks, events) = (number("score")?, number("tick")?, number("events")?);
    let expected = |row: usize| -> Result<Row> {
        let text = |value: Option<&str>| value.map(str::to_owned).context("a fold left a gap");
        Ok(Row {
            member: text(members.get(row))?,
            segment: text(segments.get(row))?,
            score: scores.get(row),
            tick: ticks.get(row),
            events: events.get(row).unwrap_or(0),
        })
    };
    let sql = format!(
        r#"SELECT "member", "segment", "score", "tick", "events" FROM "archived_entry" {} WHERE "board_no" = $1 AND "partition" = $2 AND "through_seq" <= $3 ORDER BY "member", "segment", "through_seq""#,
        part.deployment.by_index("archived_entry_partition")
    );
    let values: [Value; 3] = [
        mark.board_no.into(),
        mark.partition.into(),
        mark.archived_seq.into(),
    ];
    let db = &part.deployment.db;
    let statement = Statement::from_sql_and_values(db.get_database_backend(), sql, values);
    let row = |row: QueryResult| -> Result<Row, DbErr> {
        Ok(Row {
            member: row.try_get_by_index(0)?,
            segment: row.try_get_by_index(1)?,
            score: row.try_get_by_index(2)?,
            tick: row.try_get_by_index(3)?,
            events: row.try_get_by_index(4)?,
        })
    };
    let mut there = db.stream_raw(statement).await?;
    let mut at = 0;
    let mut last: Option<Row> = None;
    loop {
        let next = there
            .next()
            .await
            .transpose()
            .and_then(|found| found.map(row).transpose())
            .context("what archived events add up to cannot be read")?;
        let is_another = |last: &Row| {
            next.as_ref()
                .is_none_or(|next| next.place() != last.place())
        };
        // Of several rows of a place the last one counts.
        if let Some(row) = last.take().filter(is_another) {
            let mut is_met = row.score.is_none() && row.events == 0;
            while at < meant.height() {
                let expected = expected(at)?;
                if expected.place() > row.place() {
                    break;
                }
                at += 1;
                if expected.place() == row.place() {
                    is_met = expected == row;
                    break;
                }
                suspects.add(expected.member.as_bytes(), Spot::Archived(expected.segment));
            }
            if !is_met {
                suspects.add(row.member.as_bytes(), Spot::Archived(row.segment));
            }
            suspects.look_again_if_many(findings).await?;
        }
        let Some(next) = next else { break };
        last = Some(next);
    }
    for row in at..meant.height() {
        let expected = expected(row)?;
        suspects.add(expected.member.as_bytes(), Spot::Archived(expected.segment));
    }
    Ok(())
}

/// A row for everyone of each member that has archived events, with how many, and one for each segment in which something is left; sorted by member and
/// segment.
fn meant(files: LazyFrame, states: LazyFrame) -> Result<LazyFrame> {
    let on = [col("member"), col("segment")];
    let counts = files
        .group_by([col("member")])
        .agg([col("seq").count().cast(DataType::Int64).alias("events")])
        .with_column(lit("").alias("segment"));
    let everyone = counts.join(states.clone(), &on, &on, JoinArgs::new(JoinType::Left));
    let others = states
        .filter(col("segment").neq(lit("")))
        .with_column(lit(0_i64).cast(DataType::Int64).alias("events"));
    let wanted = ["member", "segment", "score", "tick", "events"].map(col);
    let all = [everyone.select(wanted.clone()), others.select(wanted)];
    let all = concat(all, UnionArgs::default())?;
    Ok(all.sort(["member", "segment"], SortMultipleOptions::default()))
}
