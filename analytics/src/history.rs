//! The history of a board as a frame, up to where SQL is level with the partitions' heads.

use std::collections::{BTreeMap, HashSet};

use anyhow::{Context, Result, ensure};
use entity::deployment::Deployment;
use entity::recovery::settle;
use entity::score_event;
use polars::prelude::{Column, DataFrame, NamedFrom, Series};
use ranking::board::Board;
use ranking::commit::{EventPlace, Head};
use ranking::id::Partition;
use ranking::roll::Rolls;
use sea_orm::{ColumnTrait, QueryFilter};

use crate::job::Job;

/// How many rows are read from SQL at once.
const ROWS_MAX: u64 = 20_000;

/// The history of a board, and the heads of its partitions that it reaches to.
pub struct History {
    /// One row an event and segment that it counts in, everyone (empty) among them: `member` and `segment` (text), `removal` (bool), `score`
    /// and `at_ms` (i64, null for a removal), `seq` (i64) and `order` (i64): a member's events stand in the order of it.
    pub events: DataFrame,
    /// How many events there are.
    pub count: usize,
    /// The heads.
    pub heads: BTreeMap<Partition, Head>,
}

/// The place of an event in its member's history as one number: seq, then index (10 bits).
pub fn order_of(seq: i64, index: i64) -> i64 {
    (seq << 10) | index
}

/// Waits until SQL is level with the heads of the board's partitions, persisting what is left in their logs, and reads the events up to there.
///
/// # Errors
/// What the stores say.
pub async fn read(deployment: &Deployment, board: &Board, job: &Job) -> Result<History> {
    let mut heads = BTreeMap::new();
    for partition in deployment.store.partitions().of_board(board) {
        let seq = settle(deployment, partition).await?;
        let head = deployment.store.log_after(partition, seq, 1).await?.head;
        heads.insert(partition, head);
    }
    for (&partition, head) in &heads {
        // Whatever is committed from here on is past the history that is read.
        settle_to(deployment, partition, head).await?;
    }
    job.stage("reading history", 0);
    let mut columns = Columns::default();
    for (&partition, head) in &heads {
        let voided = score_event::voided(&deployment.db, partition, head.seq).await?;
        let mut last = (0, 0);
        loop {
            let rows = score_event::page_after(partition, last, ROWS_MAX)
                .filter(score_event::Column::BoardNo.eq(board.no.0))
                .filter(score_event::Column::Seq.lte(head.seq as i64))
                .all(&deployment.db)
                .await
                .context("the history cannot be read")?;
            let Some(row) = rows.last() else { break };
            last = (row.seq, row.event_index);
            job.advance(rows.len());
            for row in rows {
                columns.push(row, &voided)?;
            }
        }
    }
    Ok(History {
        count: columns.count,
        events: columns.into_frame()?,
        heads,
    })
}

/// How far a board's rolling windows have got in each of its partitions.
///
/// # Errors
/// What Redis says.
pub async fn rolls(deployment: &Deployment, board: &Board) -> Result<BTreeMap<Partition, Rolls>> {
    let now_ms = deployment.clock.now_ms();
    let mut rolls = BTreeMap::new();
    for partition in deployment.store.partitions().of_board(board) {
        let (_, marks) = deployment.store.rolls(partition, board.no).await?;
        rolls.insert(partition, Rolls { marks, now_ms });
    }
    Ok(rolls)
}

/// The latest instant that any of them has got to.
pub fn through_ms(rolls: &BTreeMap<Partition, Rolls>, now_ms: i64) -> i64 {
    let marks = rolls.values().flat_map(|rolls| rolls.marks.values());
    marks.map(|mark| mark.begun_ms).fold(now_ms, i64::max)
}

/// Waits until SQL has a partition's history up to a head.
///
/// # Errors
/// What the stores say; where Redis has gone back behind that head.
pub async fn settle_to(deployment: &Deployment, partition: Partition, head: &Head) -> Result<()> {
    let seq = settle(deployment, partition).await?;
    ensure!(
        seq >= head.seq,
        "Redis lost commits of partition {partition} meanwhile, and was recovered; try again"
    );
    Ok(())
}

/// Columns of events, being filled.
#[derive(Default)]
pub struct Columns {
    count: usize,
    member: Vec<String>,
    segment: Vec<String>,
    removal: Vec<bool>,
    score: Vec<Option<i64>>,
    at_ms: Vec<Option<i64>>,
    seq: Vec<i64>,
    order: Vec<i64>,
}

impl Columns {
    /// Adds an event, unless it was voided or is a void.
    ///
    /// # Errors
    /// Where the row holds what the persister does not write.
    pub fn push(
        &mut self,
        row: score_event::Model,
        voided: &HashSet<EventPlace>,
    ) -> ranking::Result<()> {
        if row.kind == "VOID" || voided.contains(&row.place()?) {
            return Ok(());
        }
        self.count += 1;
        let order = order_of(row.seq, row.event_index.into());
        for segment in std::iter::once(String::new()).chain(row.segments()?) {
            self.order.push(order);
            self.segment.push(segment);
            self.removal.push(row.kind == "REMOVAL");
            self.member.push(row.member.clone());
            self.score.push(row.score);
            self.at_ms.push(row.at_ms);
            self.seq.push(row.seq);
        }
        Ok(())
    }

    /// The frame of them.
    ///
    /// # Errors
    /// What polars says.
    pub fn into_frame(self) -> Result<DataFrame> {
        let columns: Vec<Column> = vec![
            Series::new("member".into(), self.member).into(),
            Series::new("segment".into(), self.segment).into(),
            Series::new("removal".into(), self.removal).into(),
            Series::new("score".into(), self.score).into(),
            Series::new("at_ms".into(), self.at_ms).into(),
            Series::new("seq".into(), self.seq).into(),
            Series::new("order".into(), self.order).into(),
        ];
        Ok(DataFrame::new_infer_height(columns)?)
    }
}
