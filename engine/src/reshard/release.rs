//! The end of a move: each partition gets its staged standings in place of its old keys, and is
//! released.
//!
//! The first commit already records the partition's new layout, so that no reader takes half of the
//! standings for all of them. The last one releases it.

use ranking::board::mark::BoardMark;
use ranking::standings_id::StandingsId;
use ranking::store::write::Writes;
use ranking::window::roll::Rolls;
use ranking::window::seal::{NEVER_MS, SealMark, SealName};

use super::Moving;
use super::stage::StagedPartition;
use crate::partition::Partition;
use crate::partition::change::{Change, Proposal};
use crate::partition::load::positions::ByField;
use crate::roll::mark_rolled;
use entity::error::Result;
use entity::history::score_event;

/// The most keys that one commit drops or swaps in.
const KEYS_MAX: usize = 500;

/// The number of attempts to stage a partition that Redis keeps losing.
const STAGES_MAX: usize = 5;

/// The part of a release that one commit does.
enum Chunk {
    /// Drops keys of the former layout.
    Drop(Vec<String>),
    /// Swaps standings in.
    Put(Vec<(StandingsId, i64, String)>),
    /// Releases the partition, with these positions in sources.
    End(ByField),
}

/// The result of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Released {
    /// The partition is released.
    Done,
    /// The partition already has the new layout, from another process or from recovery.
    Already,
    /// Redis may have lost the stage.
    Stale,
    /// The partition does not remember the event ids of its new members.
    Forgetful,
}

impl Moving<'_> {
    /// Releases a partition with its stage, or stages it again first. `keys` are the board's
    /// present keys there.
    pub(super) async fn release(
        &self,
        partition: Partition<'_>,
        staged: Option<StagedPartition>,
        rolls: &Rolls,
        keys: &[String],
    ) -> Result<()> {
        let is_new = partition.store.partitions().of_board(&self.target).contains(&partition.no);
        let mut staged = staged;
        for _ in 0..STAGES_MAX {
            if staged.is_none() && is_new {
                let target = &self.target;
                let voided = score_event::voided_on(&partition.db, target.no).await?;
                staged =
                    Some(StagedPartition::make(partition, target, rolls, &voided, None).await?);
            }
            let released = self.release_part(partition, staged.as_ref(), rolls, keys);
            let released = match (released.await, &staged) {
                // Redis may have been emptied, or this process was suspended and its stage expired.
                (Err(_), Some(part)) if !part.stages.is_whole().await? => Released::Stale,
                (released, _) => released?,
            };
            if let Some(part) = staged.as_ref().filter(|_| released != Released::Forgetful) {
                part.discard().await;
            }
            match released {
                Released::Done | Released::Already => return Ok(()),
                Released::Stale => staged = None,
                Released::Forgetful => self.remember_all(&[partition]).await?,
            }
        }
        Err(ranking::Error::Unavailable(format!(
            "Redis keeps losing the stage of partition {partition}; try again later"
        ))
        .into())
    }

    async fn release_part(
        &self,
        partition: Partition<'_>,
        part: Option<&StagedPartition>,
        rolls: &Rolls,
        keys: &[String],
    ) -> Result<Released> {
        let mut chunks: Vec<Chunk> =
            keys.chunks(KEYS_MAX).map(|keys| Chunk::Drop(keys.to_vec())).collect();
        let standings = part.into_iter().flat_map(StagedPartition::standings);
        let standings: Vec<(StandingsId, i64, String)> =
            standings.map(|(id, from_ms, stage)| (id.clone(), from_ms, stage.to_owned())).collect();
        chunks.extend(standings.chunks(KEYS_MAX).map(|standings| Chunk::Put(standings.to_vec())));
        // SQL has all that moved them: the board was held before the decision.
        chunks.push(Chunk::End(match part {
            Some(_) => partition.positions_of(&self.target).await?,
            None => ByField::new(),
        }));
        for chunk in chunks {
            let mut releasing = Releasing { moving: self, part, rolls, chunk };
            let done = partition.commit_change(&mut releasing).await?;
            if done.outcome != Released::Done {
                return Ok(done.outcome);
            }
            if let (Some(part), Chunk::Put(standings)) = (part, releasing.chunk) {
                let stages = standings.iter().map(|(_, _, stage)| stage);
                stages.for_each(|stage| part.stages.forget(stage));
            }
        }
        Ok(Released::Done)
    }
}

struct Releasing<'a> {
    moving: &'a Moving<'a>,
    part: Option<&'a StagedPartition>,
    rolls: &'a Rolls,
    chunk: Chunk,
}

impl Change for Releasing<'_> {
    type Outcome = Released;

    async fn propose(&mut self, partition: Partition<'_>) -> Result<Proposal<Released>> {
        let (moving, store) = (self.moving, &partition.store);
        let target = &moving.target;
        let (bucket, mark) = moving.ids_mark();
        let asked = [(bucket, mark.as_str())];
        let tail = store.head_and_marks(partition.no, target.no, &[], &asked).await?;
        let mut proposal = Proposal::nothing(tail.head, Released::Done);
        match tail.board {
            BoardMark::Generation(generation) if generation >= target.generation => {
                proposal.outcome = Released::Already;
                return Ok(proposal);
            }
            held if held == moving.held() => {}
            _ => return Err(ranking::Error::BoardGone.into()),
        }
        // Read after the head: a process that takes a move over changes the row first.
        moving.check_still().await?;
        if self.part.is_some() && tail.seen == [None] {
            proposal.outcome = Released::Forgetful;
            return Ok(proposal);
        }
        if let Some(part) = self.part
            && (proposal.head.run_id != part.run_id || !part.stages.is_whole().await?)
        {
            proposal.outcome = Released::Stale;
            return Ok(proposal);
        }
        let writes = self.writes(partition, proposal.head.seq + 1)?;
        Ok(proposal.writing(writes, partition.clock.now_ms()))
    }
}

impl Releasing<'_> {
    fn writes(&self, partition: Partition<'_>, seq: u64) -> Result<Writes> {
        let (target, keys) = (&self.moving.target, partition.store.keys());
        let mut writes = Writes::default();
        if let Some(part) = self.part {
            part.stages.guard(&mut writes);
        }
        writes.mark_layout(keys, partition.no, target.no, target.generation);
        match &self.chunk {
            Chunk::Drop(dropped) => dropped.iter().for_each(|key| writes.drop_key(key)),
            Chunk::Put(standings) => {
                for (id, from_ms, stage) in standings {
                    writes.swap_in(stage, &keys.standings(partition.no, id));
                    writes.note_period(keys, partition.no, id, *from_ms);
                }
            }
            Chunk::End(positions) => {
                if !positions.is_empty() {
                    let fields: Vec<_> = positions.iter().collect();
                    partition.set_positions(&mut writes, target, &fields);
                    partition.count_positions(&mut writes, target, positions);
                }
                // In one commit: a series with a mark must have all of its standings.
                let standings = self.part.into_iter().flat_map(StagedPartition::standings);
                let standings = standings.map(|(id, _, _)| id);
                let mut series = std::collections::HashSet::new();
                for id in standings {
                    if id.window.rolling().is_some() && series.insert(id.series()) {
                        mark_rolled(&mut writes, partition, target, id, self.rolls)?;
                    }
                }
                for (&window, added) in target.added.iter() {
                    let sealed = added.sealed;
                    if sealed.sealing_before_ms > NEVER_MS {
                        let name =
                            SealName { board: target.no, generation: added.generation, window };
                        let mark = SealMark {
                            sealing_before_ms: sealed.sealing_before_ms,
                            dropped_before_ms: sealed.sealed_before_ms,
                            seq,
                        };
                        writes.mark_seal(keys, partition.no, name, mark);
                    }
                }
                let generation = BoardMark::Generation(target.generation);
                writes.mark_board(keys, partition.no, target.no, generation);
            }
        }
        Ok(writes)
    }
}
