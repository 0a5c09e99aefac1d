//! The second look at suspects: reads members' keys and the head at one moment, and folds their
//! history up to that head with the Rust fold. Only a difference that remains is a finding.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use engine::integrity::look::{ArchivedHistory, Location, Locations, look};
use engine::integrity::repair::PLACES_MAX;
use engine::partition::Partition;
use ranking::board::Board;

use super::findings::Findings;
use crate::diff::finding::Finding;
use crate::frame::history::{archived_with, keys};

/// Locations that wait for a second look. One pass over the files finds the archived events of all
/// of them.
const WAITING_MAX: usize = 20_000;

/// Locations in a board's partition that need a second look.
pub(crate) struct Suspects<'a> {
    board: &'a Board,
    partition: Partition<'a>,
    places: Locations,
    count: usize,
    /// True if there has been a suspect.
    pub(crate) has_had_some: bool,
    /// Members whose history stands alone against SQL and Redis.
    doubted: BTreeSet<Vec<u8>>,
}

impl<'a> Suspects<'a> {
    /// No suspects yet.
    pub(crate) fn new(partition: Partition<'a>, board: &'a Board) -> Self {
        Self {
            board,
            partition,
            places: Locations::new(),
            count: 0,
            has_had_some: false,
            doubted: BTreeSet::new(),
        }
    }

    /// Adds a suspect.
    pub(crate) fn add(&mut self, member: &[u8], location: Location) {
        let locations = self.places.entry(member.to_vec()).or_default();
        self.count += usize::from(locations.insert(location));
        self.has_had_some = true;
    }

    /// Takes the second look once `WAITING_MAX` suspects wait, which bounds memory.
    pub(crate) async fn look_again_if_many(&mut self, findings: &mut Findings) -> Result<()> {
        match self.count >= WAITING_MAX {
            true => self.look_again(findings).await,
            false => Ok(()),
        }
    }

    async fn look_again(&mut self, findings: &mut Findings) -> Result<()> {
        self.count = 0;
        let places = std::mem::take(&mut self.places);
        let (board, partition) = (self.board, self.partition);
        let archived = archived_events(partition, board, &places).await?;
        for places in chunks(places) {
            let seen = look(partition, board, &archived, &places).await?;
            let now_ms = partition.clock.now_ms();
            for seen in &seen {
                if let Some(finding) = Finding::of(board, partition.no, seen, now_ms) {
                    if finding.is_against_both {
                        self.doubted.insert(seen.member.clone());
                    }
                    findings.add(finding);
                }
            }
        }
        Ok(())
    }

    /// Looks at the remaining suspects. A member whose history is doubtful in one location is
    /// doubtful in all.
    pub(crate) async fn end(mut self, findings: &mut Findings) -> Result<()> {
        self.look_again(findings).await?;
        findings.doubt(self.board.no.0, self.partition.no, &self.doubted);
        Ok(())
    }
}

/// Splits locations into groups of at most [`PLACES_MAX`].
pub(crate) fn chunks(places: Locations) -> Vec<Locations> {
    let (mut chunks, mut count) = (vec![], PLACES_MAX);
    for (member, locations) in places {
        for location in locations {
            if count >= PLACES_MAX {
                chunks.push(Locations::new());
                count = 0;
            }
            if let Some(chunk) = chunks.last_mut() {
                chunk.entry(member.clone()).or_default().insert(location);
            }
            count += 1;
        }
    }
    chunks
}

/// The archive mark of a board's partition, and the archived events of the members of `places`.
pub(crate) async fn archived_events(
    partition: Partition<'_>,
    board: &Board,
    places: &Locations,
) -> Result<ArchivedHistory> {
    let mark = partition.archive_mark(board.no).await?;
    let mut events: BTreeMap<String, Vec<_>> = BTreeMap::new();
    if mark.archived_seq > 0 && !places.is_empty() {
        let name = |bytes: &Vec<u8>| String::from_utf8(bytes.clone()).ok();
        let members: Vec<String> = places.keys().filter_map(name).collect();
        let named: BTreeSet<String> = members.iter().cloned().collect();
        let marks = BTreeMap::from([(partition.no, mark.clone())]);
        let members = keys(vec![("member", members)])?;
        for row in archived_with(partition.deployment, board, &marks, &members).await? {
            // `archived_with` returns the voids of all members.
            if named.contains(&row.member) {
                let event = (row.place()?, row.to_ranking()?);
                events.entry(row.member).or_default().push(event);
            }
        }
        for events in events.values_mut() {
            events.sort_unstable_by_key(|(place, _)| (place.seq, place.index));
        }
    }
    Ok(ArchivedHistory { mark, events })
}
