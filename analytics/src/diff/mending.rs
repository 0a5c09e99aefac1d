//! Repair: puts findings right location by location, with commits and transactions that check each
//! one again first.

use std::collections::BTreeSet;

use anyhow::Result;
use engine::deployment::Deployment;
use engine::integrity::look::{Location, Locations};
use engine::integrity::positions::mend_positions;
use engine::integrity::repair::{
    ForeignKey, Truth, drop_foreign, list_periods, mend_redis, mend_sql,
};
use engine::partition::Partition;
use entity::board;
use ranking::board::Board;
use ranking::standings_id::StandingsId;
use ranking::window::Window;
use sea_orm::{ColumnTrait, QueryFilter};

use super::second_look::{archived_events, chunks};
use super::{Against, by_part, files, files_of, kept_metadata};
use crate::diff::finding::{Finding, What};
use crate::job::Job;

/// Keys that one commit drops, or periods that it adds to a list.
const KEYS_MAX: usize = 500;

/// Attempts to repair rows of a board that changes during the repair.
const ATTEMPTS_MAX: usize = 3;

/// Repairs findings and returns how many locations and files changed. Findings in which history
/// stands alone are repaired only if `against` is given.
///
/// # Errors
/// If a store does not answer. Repairs made until then stay.
pub(crate) async fn mend(
    deployment: &Deployment,
    against: Option<Against>,
    rows: &[board::Model],
    findings: &[Finding],
    job: &Job,
) -> Result<usize> {
    let mut mended = 0;
    for ((no, partition), findings) in by_part(findings) {
        job.stage("repairing", findings.len());
        let mut is_whole = true;
        for path in files_of(&findings) {
            let is_back = files::put_back(deployment, path).await?;
            mended += usize::from(is_back);
            is_whole &= is_back;
        }
        mended += mend_keys(deployment.partition(partition), &findings).await?;
        if !rows.iter().any(|row| row.no == no) || !is_whole {
            continue;
        }
        mended += mend_part(deployment.partition(partition), against, no, &findings).await?;
        job.advance(findings.len());
    }
    Ok(mended)
}

async fn mend_keys(partition: Partition<'_>, findings: &[&Finding]) -> Result<usize> {
    if partition.no.0 >= partition.store.partitions().count() {
        return Ok(0);
    }
    let foreign = findings.iter().filter_map(|finding| match &finding.what {
        What::Key(foreign) => Some(foreign.clone()),
        _ => None,
    });
    let foreign: Vec<ForeignKey> = foreign.collect();
    let mut dropped = 0;
    for keys in foreign.chunks(KEYS_MAX) {
        dropped += drop_foreign(partition, keys).await?;
    }
    Ok(dropped)
}

async fn mend_part(
    partition: Partition<'_>,
    against: Option<Against>,
    no: i64,
    findings: &[&Finding],
) -> Result<usize> {
    let Some(row) = living(partition.deployment, no).await? else {
        return Ok(0);
    };
    let board = row.to_ranking()?;
    let (mut in_redis, mut in_sql, mut unlisted) =
        (Locations::new(), Locations::new(), BTreeSet::<StandingsId>::new());
    let mut mended = mend_beside(partition, &board, findings).await?;
    for finding in findings {
        if finding.is_against_both && against.is_none() {
            continue;
        }
        let (member, location) = match &finding.what {
            What::Location(member, location) => (member, location),
            What::Unlisted(id) => {
                unlisted.insert(id.clone());
                continue;
            }
            _ => continue,
        };
        let has_row = match location {
            Location::Entry(id) => {
                in_redis.entry(member.clone()).or_default().insert(location.clone());
                id.window == Window::All
            }
            Location::Sealed(_) | Location::Archived(_) => true,
        };
        if has_row {
            in_sql.entry(member.clone()).or_default().insert(location.clone());
        }
    }
    if against == Some(Against::Standings) {
        for places in chunks(in_redis) {
            mended += mend_redis(partition, &board, Truth::Standings, &places).await?;
        }
    } else {
        let archived = archived_events(partition, &board, &in_sql).await?;
        for places in chunks(in_sql) {
            for _ in 0..ATTEMPTS_MAX {
                let Some(row) = living(partition.deployment, no).await? else {
                    return Ok(mended);
                };
                if let Some(rows) = mend_sql(partition, &row, &archived, &places).await? {
                    mended += rows;
                    break;
                }
            }
        }
        let archived = archived_events(partition, &board, &in_redis).await?;
        for places in chunks(in_redis) {
            mended += mend_redis(partition, &board, Truth::History(&archived), &places).await?;
        }
    }
    let unlisted: Vec<StandingsId> = unlisted.into_iter().collect();
    for ids in unlisted.chunks(KEYS_MAX) {
        let ids = ids.iter().cloned().collect();
        mended += list_periods(partition, &board, &ids).await?;
    }
    Ok(mended)
}

/// Repairs the metadata and the positions that are kept beside standings.
async fn mend_beside(
    partition: Partition<'_>,
    board: &Board,
    findings: &[&Finding],
) -> Result<usize> {
    let mut mended = 0;
    if findings.iter().any(|finding| matches!(finding.what, What::Event(..))) {
        mended += kept_metadata::mend(partition, board).await?;
    }
    if findings.iter().any(|finding| matches!(finding.what, What::Position(..))) {
        mended += mend_positions(partition, board).await?;
    }
    Ok(mended)
}

async fn living(deployment: &Deployment, no: i64) -> Result<Option<board::Model>> {
    let row = board::living().filter(board::Column::No.eq(no));
    Ok(row.one(&deployment.db).await?)
}
