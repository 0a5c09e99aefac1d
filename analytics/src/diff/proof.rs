//! The cheap proof: a partition that agreed, and has not changed since, still agrees.

use std::collections::BTreeMap;

use anyhow::Result;
use engine::deployment::Deployment;
use entity::archive::archive_mark;
use entity::board;
use entity::history::score_event;
use entity::integrity::integrity_proof;
use ranking::board::Board;
use ranking::id::PartitionNo;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ActiveEnum, ColumnTrait, EntityTrait, QueryFilter};
use serde::{Deserialize, Serialize};

use super::part::small::is_small;
use super::part::{self, PartitionDiff};
use super::sets::digest;
use super::sums::{Hashed, Sums, sums};
use super::{Compared, files};

/// The number of partitions that were proven clean, by kind of proof.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Proven {
    /// By digests and sums.
    pub by_digest: usize,
    /// By their history.
    pub by_history: usize,
    /// Not proven: something differs, or a write during the comparison made a suspect.
    pub unproven: usize,
}

impl Proven {
    /// Adds the numbers of another partition.
    pub(crate) fn extend(&mut self, other: Self) {
        self.by_digest += other.by_digest;
        self.by_history += other.by_history;
        self.unproven += other.unproven;
    }

    /// Counts unproven partitions that a later comparison has proven.
    pub fn again(&mut self, later: &Self) {
        let proven = later.by_history.min(self.unproven);
        self.by_history += proven;
        self.unproven -= proven;
    }
}

/// A board's marks, layouts and sums as they were before the comparison.
pub(crate) struct Proving {
    is_small: bool,
    /// How far each partition is archived, as a seq, and the layout.
    layouts: BTreeMap<PartitionNo, (i64, String)>,
    sums: BTreeMap<PartitionNo, Sums>,
}

impl Proving {
    /// Reads them before the comparison: a later change by hand is either compared, or alters the
    /// sum next time. Rows that the comparison reads one by one are not summed here. The proof
    /// keeps the hashes of exactly the rows that were compared.
    pub(crate) async fn begin(
        deployment: &Deployment,
        row: &board::Model,
        board: &Board,
        partitions: &[PartitionNo],
    ) -> Result<Self> {
        let mut layouts = BTreeMap::new();
        for &partition in partitions {
            let mark = archive_mark::of(&deployment.db, board.no, partition).await?;
            layouts.insert(partition, (mark.archived_seq, layout(row, &mark)));
        }
        let is_small = is_small(deployment, board).await?;
        let sums = sums(deployment, board, partitions, is_small).await?;
        Ok(Self { is_small, layouts, sums })
    }

    /// Proves a part clean by digests and sums if `may_be_proven` and they match. Otherwise
    /// compares it in full, and adds a proof if all agreed.
    pub(super) async fn look_at(
        &self,
        part: &PartitionDiff<'_>,
        may_be_proven: bool,
        compared: &mut Compared,
    ) -> Result<()> {
        let (board, partition) = (part.board, part.partition);
        let Compared { findings, proven, .. } = compared;
        part.job.stage(&format!("{}: checking the archive's files", part.row.slug), 0);
        let (archived_seq, layout) = &self.layouts[&partition.no];
        let (damaged, lines) = files::check(partition, board, *archived_seq).await?;
        if !damaged.is_empty() {
            // Its history cannot be read. Other partitions are still compared.
            damaged.into_iter().for_each(|finding| findings.add(finding));
            proven.unproven += 1;
            return Ok(());
        }
        let files = digest(&lines);
        if may_be_proven && let Some(entries) = self.prove(part, &files).await? {
            proven.by_digest += 1;
            compared.checked = entries;
            return Ok(());
        }
        // A full comparison folds the history as a rebuild does.
        let part::Compared { entries, seen } =
            part.compare(self.is_small && may_be_proven, findings).await?;
        compared.checked = entries as u64;
        if let (Some((redis, rows)), Some(sums)) = (seen, self.sums.get(&partition.no))
            && self.is_unchanged(part, sums.cursor.seq).await?
        {
            compared.proofs.push(integrity_proof::Model {
                board_no: board.no.0,
                partition: partition.no.into(),
                seq: sums.cursor.seq,
                commit_id: sums.cursor.commit_id.clone(),
                layout: layout.clone(),
                redis,
                sql: sums.digest(&rows),
                files,
                entries: entries as i64,
                proven_at_ms: partition.clock.now_ms(),
            });
            proven.by_history += 1;
        } else {
            proven.unproven += 1;
        }
        Ok(())
    }

    /// The number of entries that the stored proof counted, if it still holds; `None` otherwise.
    async fn prove(&self, part: &PartitionDiff<'_>, files: &str) -> Result<Option<u64>> {
        let (board, partition) = (part.board, part.partition);
        let key = (board.no.0, i32::from(partition.no));
        let proof = integrity_proof::Entity::find_by_id(key).one(&part.partition.db).await?;
        let (Some(proof), Some(sums)) = (proof, self.sums.get(&partition.no)) else {
            return Ok(None);
        };
        let (archived_seq, layout) = &self.layouts[&partition.no];
        let is_same =
            proof.layout == *layout && proof.files == files && proof.seq <= sums.cursor.seq;
        if !is_same || !leads_on(part, &proof).await? || self.has_event(part, proof.seq).await? {
            return Ok(None);
        }
        part.job.stage(
            &format!("{}: digesting partition {partition}", part.row.slug),
            proof.entries.unsigned_abs() as usize,
        );
        let rows = Hashed::read(partition, board, *archived_seq).await?;
        if proof.sql != sums.digest(&rows) {
            return Ok(None);
        }
        let Some(redis) = part.digest().await? else {
            return Ok(None);
        };
        let is_proven = redis == proof.redis && self.is_unchanged(part, proof.seq).await?;
        Ok(is_proven.then_some(proof.entries.unsigned_abs()))
    }

    /// True if the partition has no event of the board after `seq`.
    async fn is_unchanged(&self, part: &PartitionDiff<'_>, seq: i64) -> Result<bool> {
        part.partition.settle().await?;
        Ok(!self.has_event(part, seq).await?)
    }

    /// True if SQL has an event of the board in the partition after `seq`.
    async fn has_event(&self, part: &PartitionDiff<'_>, seq: i64) -> Result<bool> {
        use score_event::Column::{BoardNo, Partition as In, Seq};
        let partition = i32::from(part.partition.no);
        let later = score_event::Entity::find()
            .filter(BoardNo.eq(part.board.no.0))
            .filter(match self.is_small {
                true => Expr::col(In).add(0).eq(partition),
                false => In.eq(partition),
            })
            .filter(Seq.gt(seq))
            .one(&part.partition.db);
        Ok(later.await?.is_some())
    }
}

/// True if history still has the commit that a proof names: SQL may have been restored from a
/// backup.
async fn leads_on(part: &PartitionDiff<'_>, proof: &integrity_proof::Model) -> Result<bool> {
    let row = part.partition.commit(proof.seq).await?;
    Ok(proof.seq == 0 || row.is_some_and(|row| row.id == proof.commit_id))
}

/// A digest of the board's rules and layouts, and of how far a partition is archived.
fn layout(row: &board::Model, mark: &archive_mark::Model) -> String {
    let mut lines = vec![
        row.direction.to_value(),
        row.policy.to_value(),
        row.tie_break.to_value(),
        row.time_zone.clone(),
        row.segment_by.clone(),
        row.windows.clone(),
        row.former_layouts.clone(),
    ];
    lines.push(format!(
        "{} {} {} {} {} {} {} {:?}",
        row.tick_ms,
        row.decimals,
        row.min_score,
        row.max_score,
        row.shards,
        row.generation,
        mark.archived_seq,
        row.archived_before_ms
    ));
    digest(&lines)
}
