//! Redis against the rows of `standing` alone: a cheap check of "all" that reads no history.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use engine::integrity::look::{Location, Locations, StoredValues, look_at_standings};
use entity::sql::blocks::Columns;
use futures::StreamExt;
use ranking::score::rank_key::RankKey;
use ranking::standings_id::StandingsId;
use ranking::window::Window;

use super::findings::Findings;
use super::part::PartitionDiff;
use super::rows::{List, Rows};
use super::second_look::chunks;
use super::sets::{SetChunk, Sets};
use crate::diff::finding::Finding;

/// Compares a part. Returns the number of rows that SQL has.
pub(crate) async fn compare(part: &PartitionDiff<'_>, findings: &mut Findings) -> Result<u64> {
    let (board, partition) = (part.board, part.partition);
    part.job
        .stage(&format!("{}: reading SQL's standings of partition {partition}", part.row.slug), 0);
    let mut lists: BTreeMap<StandingsId, List> = BTreeMap::new();
    let mut suspects = Locations::new();
    let mut suspect = |member: &[u8], id: &StandingsId| {
        let spots = suspects.entry(member.to_vec()).or_default();
        spots.insert(Location::Entry(id.clone()));
    };
    let mut there = Columns::of_standing(partition.no, Some(board.no))
        .with(&["score", "rank_key"])
        .read(&partition.db);
    while let Some(block) = there.next().await {
        let block = block.context("the standings in SQL cannot be read")?;
        for (segment, member, [score, key]) in block.rows(["score", "rank_key"])?.iter() {
            let (score, key) = score.zip(key).context("a column is null")?;
            let id = StandingsId::all_time(board, segment.to_owned());
            if !matches!(StoredValues::of_row(board, score, key), StoredValues::Key(..)) {
                suspect(member.as_bytes(), &id);
            }
            lists.entry(id).or_default().push((member.to_owned(), key, score));
        }
    }
    drop(there);
    for list in lists.values_mut() {
        list.sort_unstable_by(|one, other| (one.1, &one.0).cmp(&(other.1, &other.0)));
    }
    let rows = Rows::of_lists(lists);
    let mut missing: BTreeSet<StandingsId> = rows.lists().cloned().collect();
    let named = |key: &String| partition.store.keys().parse_standings(partition.no, key);
    let is_all = |key: &&String| named(key).is_some_and(|id| id.window == Window::All);
    let keys: Vec<String> = part.keys.iter().filter(is_all).cloned().collect();
    let mut sets = Sets::begin(&partition, &keys, part.is_exclusive).await?;
    let mut present = None;
    while let Some((place, set)) = sets.next().await? {
        let id = named(&keys[place]).context("a key does not name standings")?;
        let (_, mut walk) = present.take().unwrap_or_else(|| (place, rows.walk(&id)));
        missing.remove(&id);
        match set {
            SetChunk::Entries(entries) => {
                for (member, double) in &entries {
                    let key = RankKey::from_f64(*double).map(RankKey::to_i64);
                    let mut lost = |member: &str| suspect(member.as_bytes(), &id);
                    if !key.is_ok_and(|key| walk.meets(key, None, member, &mut lost)) {
                        suspect(member, &id);
                    }
                }
                present = Some((place, walk));
            }
            SetChunk::End => walk.end(|member| suspect(member.as_bytes(), &id)),
            SetChunk::Foreign => {
                findings.add(part.foreign_key(&keys[place]));
                walk.end(|member| suspect(member.as_bytes(), &id));
            }
        }
    }
    for id in missing {
        rows.walk(&id).end(|member| suspect(member.as_bytes(), &id));
    }
    for places in chunks(suspects) {
        for seen in look_at_standings(partition, board, &places).await? {
            findings_of(part, findings, &seen);
        }
    }
    Ok(rows.len() as u64)
}

fn findings_of(
    part: &PartitionDiff<'_>,
    findings: &mut Findings,
    seen: &engine::integrity::look::Observation,
) {
    let now_ms = part.partition.clock.now_ms();
    if let Some(mut finding) = Finding::of(part.board, part.partition.no, seen, now_ms) {
        // The history was not read.
        finding.history = None;
        findings.add(finding);
    }
}
