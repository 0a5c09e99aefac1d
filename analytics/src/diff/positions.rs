//! The positions in sources, of Redis compared with those of SQL.

use anyhow::Result;
use engine::integrity::positions::position_differences;
use engine::partition::Partition;
use entity::integrity::integrity_finding::Kind;
use ranking::board::Board;

use crate::diff::finding::{Finding, What};
use crate::diff::findings::Findings;

/// Adds a finding for each position of a board's part that Redis has otherwise than SQL.
pub(crate) async fn check(
    partition: Partition<'_>,
    board: &Board,
    findings: &mut Findings,
) -> Result<()> {
    let (key, differences) = position_differences(partition, board).await?;
    for difference in differences {
        let kind = match difference.redis {
            None => Kind::Missing,
            Some(_) => Kind::Altered,
        };
        let redis = difference.redis.as_deref().unwrap_or("nothing");
        let note =
            format!("a position in a source is {redis} in Redis, and {} in SQL", difference.sql);
        let what = What::Position(key.clone(), difference.field);
        findings.add(Finding::of_no_member(kind, board.no.0, partition.no, what).noted(note));
    }
    Ok(())
}
