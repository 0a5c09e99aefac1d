//! What archived events add up to, compared with what SQL keeps of them.

use anyhow::{Context, Result};
use entity::archived_entry;
use entity::integrity_look::Spot;
use futures::StreamExt;
use polars::prelude::{
    DataType, JoinArgs, JoinType, LazyFrame, SortMultipleOptions, UnionArgs, col, concat, lit,
};
use sea_orm::{EntityTrait, Statement, Value};

use super::findings::Findings;
use super::part::Part;
use super::second_look::Suspects;
use crate::events::in_parts;
use crate::fold::states;
use crate::history::History;

/// A row: member, segment, score, tick, events.
type Row = (String, String, Option<i64>, Option<i64>, i64);

/// Compares `archived_entry` with the files of a partition.
///
/// # Errors
/// What SQL and polars say.
pub(super) async fn compare(
    part: &Part<'_>,
    history: &History,
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
    let in_files = history
        .counted
        .only(col("seq").lt_eq(lit(mark.archived_seq)));
    let meant = in_parts(meant(
        concat(&history.archived, UnionArgs::default())?,
        states(part.board, &in_files)?,
    )?)?;
    let (members, segments) = (
        meant.column("member")?.str()?,
        meant.column("segment")?.str()?,
    );
    let number = |name: &str| -> Result<_> { Ok(meant.column(name)?.i64()?.clone()) };
    let (scores, ticks, events) = (number("score")?, number("tick")?, number("events")?);
    let expected = |row: usize| -> Result<Row> {
        let text = |value: Option<&str>| value.map(str::to_owned).context("a fold left a gap");
        let count = events.get(row).unwrap_or(0);
        Ok((
            text(members.get(row))?,
            text(segments.get(row))?,
            scores.get(row),
            ticks.get(row),
            count,
        ))
    };
    // Sorted apart: for the order alone, SQLite would go through the whole board by its primary key. The limit keeps the two apart.
    let sql = format!(
        r#"SELECT * FROM (SELECT * FROM "archived_entry" WHERE "board_no" = $1 AND "partition" = $2 AND "through_seq" <= $3 LIMIT {}) AS r ORDER BY "member", "segment", "through_seq""#,
        i64::MAX
    );
    let values: [Value; 3] = [
        mark.board_no.into(),
        mark.partition.into(),
        mark.archived_seq.into(),
    ];
    let db = &part.deployment.db;
    let statement = Statement::from_sql_and_values(db.get_database_backend(), sql, values);
    let mut there = archived_entry::Entity::find()
        .from_raw_sql(statement)
        .stream(db)
        .await?;
    let mut at = 0;
    let mut last: Option<archived_entry::Model> = None;
    loop {
        let next = there
            .next()
            .await
            .transpose()
            .context("what archived events add up to cannot be read")?;
        let is_another = |row: &archived_entry::Model| {
            next.as_ref()
                .is_none_or(|next| (&next.member, &next.segment) != (&row.member, &row.segment))
        };
        // Of several rows of a place the last one counts.
        if let Some(row) = last.take().filter(is_another) {
            let place = (row.member.as_str(), row.segment.as_str());
            let mut is_met = row.score.is_none() && row.events == 0;
            while at < meant.height() {
                let (member, segment, score, tick, events) = expected(at)?;
                let here = (member.as_str(), segment.as_str());
                if here > place {
                    break;
                }
                at += 1;
                if here == place {
                    is_met = (score, tick, events) == (row.score, row.tick, row.events);
                    break;
                }
                suspects.add(member.as_bytes(), Spot::Archived(segment));
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
        let (member, segment, ..) = expected(row)?;
        suspects.add(member.as_bytes(), Spot::Archived(segment));
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
