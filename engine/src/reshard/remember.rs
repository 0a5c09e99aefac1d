//! Copies the event ids of members to the partitions that they move to, so that events that clients
//! send again are recognized there.
//!
//! No writer looks for them there before the move is decided, so they are copied while writes go
//! on. Later only members whose history went on need another look.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use futures::FutureExt;
use ranking::commit::{Event, EventPlace};
use ranking::id::{MemberId, PartitionNo};
use ranking::store::write::{BUCKET_MS, Writes};
use ranking::submission::Wanted;
use ranking::submission::event_ids::{seen_entry, seen_mark, seen_prefix};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};

use super::{Moving, at_once};
use crate::partition::Partition;
use crate::partition::change::{Change, Proposal};
use crate::partition::home::{SeenPages, first_seq_kept, seq_there};
use entity::error::Result;
use entity::history::{commit, score_event};

/// The most ids that one commit sets or forgets.
const IDS_MAX: usize = 1000;

/// The most members in one SELECT.
const MEMBERS_MAX: usize = 200;

/// How far ahead of this process' clock the bucket of a move's mark lies, in milliseconds. Redis
/// drops a bucket by its own clock, which may be days ahead.
const MARK_AHEAD_MS: i64 = 30 * 24 * 3_600_000;

/// A bucket of a partition's event ids, with a field and value in it.
type Seen = (i64, (String, String));

/// Event ids that a partition must remember or forget.
#[derive(Debug, Default)]
struct Ids {
    set: Vec<Seen>,
    forgotten: Vec<(i64, String)>,
}

impl Ids {
    fn to_set(set: Vec<Seen>) -> Self {
        let forgotten = vec![];
        Self { set, forgotten }
    }
}

impl Moving<'_> {
    /// Makes partitions remember the ids of their new members, and forget other ids of theirs, left
    /// from an earlier layout. A mark goes in before the ids; if recovery loads the partition in
    /// between, both are lost together.
    pub(super) async fn remember_all(&self, partitions: &[Partition<'_>]) -> Result<()> {
        let deployment = self.deployment;
        let store = &deployment.store;
        for &partition in partitions {
            let wanted = Wanted { boards: vec![self.board.no], ..Wanted::default() };
            let clock_ms = partition.snapshot(&wanted).await?.clock_ms;
            for bucket in deployment.dedup.buckets(clock_ms) {
                let seen = store.seen_of(partition.no, bucket, self.board.no).await?;
                let old = seen.into_keys().filter(|field| {
                    let member = self.member_of(field);
                    member.is_none_or(|member| self.comes(&member, partition.no))
                });
                let forgotten = old.map(|field| (bucket, field)).collect();
                self.commit_ids(partition.no, Ids { set: vec![], forgotten }).await?;
            }
            let (bucket, mark) = self.ids_mark();
            let set = vec![(bucket, (mark, String::new()))];
            self.commit_ids(partition.no, Ids::to_set(set)).await?;
        }
        let voided = score_event::voided_on(&deployment.db, self.board.no).await?;
        for home in self.homes() {
            let mut pages = SeenPages::new(deployment, &self.target, home, &voided);
            while let Some(seen) = pages.next().await? {
                let mut parts: BTreeMap<PartitionNo, Vec<Seen>> = BTreeMap::new();
                for seen in seen {
                    let is_meant = partitions.iter().any(|partition| partition.no == seen.there);
                    if is_meant && self.comes(&seen.member, seen.there) {
                        let part = parts.entry(seen.there).or_default();
                        part.push((seen.bucket, seen.entry));
                    }
                }
                for (partition, seen) in parts {
                    self.commit_ids(partition, Ids::to_set(seen)).await?;
                }
            }
        }
        Ok(())
    }

    /// As [`Self::remember_all`], for events that a partition has just accepted, in their order.
    pub(super) async fn remember_events(
        &self,
        home: PartitionNo,
        events: &[(EventPlace, Event)],
    ) -> Result<()> {
        let deployment = self.deployment;
        let (Some((first, _)), Some((last, _))) = (events.first(), events.last()) else {
            return Ok(());
        };
        let (first, last) = (first.seq as i64, last.seq as i64);
        let times = commit::times(&deployment.db, home, first, last).await?;
        let mut parts: BTreeMap<PartitionNo, Vec<Seen>> = BTreeMap::new();
        for (place, event) in events {
            let there = deployment.store.partitions().of_member(&self.target, &event.member);
            let Some(times) = times.get(&(place.seq as i64)) else {
                continue;
            };
            let seq = seq_there(place.seq, home, there);
            let entry = seen_entry(event, times.accepted_at_ms, seq);
            if let Some(entry) = entry.filter(|_| self.comes(&event.member, there)) {
                let part = parts.entry(there).or_default();
                part.push((deployment.dedup.bucket(times.clock_ms), entry));
            }
        }
        let commits = parts.into_iter();
        let commits =
            commits.map(|(partition, seen)| self.commit_ids(partition, Ids::to_set(seen)).boxed());
        at_once(commits.collect()).await
    }

    /// As [`Self::remember_all`], for some members.
    pub(super) async fn remember(&self, members: &[MemberId]) -> Result<()> {
        let deployment = self.deployment;
        let mut first_seqs: HashMap<i32, i64> = HashMap::new();
        let homes: BTreeSet<PartitionNo> = self.homes().into_iter().map(|(_, home)| home).collect();
        for home in homes {
            let first = first_seq_kept(&deployment.db, home, deployment.dedup).await?;
            first_seqs.insert(home.into(), first.unwrap_or(i64::MAX));
        }
        let mut ids: BTreeMap<PartitionNo, Ids> = BTreeMap::new();
        for members in members.chunks(MEMBERS_MAX) {
            for (partition, (bucket, field), value) in self.ids_of(members, &first_seqs).await? {
                let ids = ids.entry(partition).or_default();
                match value {
                    Some(value) => ids.set.push((bucket, (field, value))),
                    None => ids.forgotten.push((bucket, field)),
                }
            }
        }
        for (partition, ids) in ids {
            self.commit_ids(partition, ids).await?;
        }
        Ok(())
    }

    /// The ids to remember of members that move, by partition, bucket and field. The value is
    /// `None` if all events of the id are voided.
    async fn ids_of(
        &self,
        members: &[MemberId],
        first_seqs: &HashMap<i32, i64>,
    ) -> Result<Vec<(PartitionNo, (i64, String), Option<String>)>> {
        let (db, partitions) = (&self.deployment.db, self.deployment.store.partitions());
        let of_members = score_event::Entity::find()
            .filter(score_event::Column::BoardNo.eq(self.board.no.0))
            .filter(score_event::Column::Member.is_in(members.iter().map(MemberId::as_str)));
        let rows = score_event::in_order(of_members, &self.target).all(db).await?;
        let voided: HashSet<_> = rows.iter().filter_map(score_event::Model::voids).collect();
        let is_recent = |row: &&score_event::Model| {
            let first = first_seqs.get(&row.partition);
            row.event_id.is_some() && first.is_some_and(|&first| row.seq >= first)
        };
        let recent: Vec<&score_event::Model> = rows.iter().filter(is_recent).collect();
        let mut accepted: HashMap<(i32, i64), commit::Times> = HashMap::new();
        for &home in first_seqs.keys() {
            let seqs: BTreeSet<i64> =
                recent.iter().filter(|row| row.partition == home).map(|row| row.seq).collect();
            let seqs: Vec<i64> = seqs.into_iter().collect();
            for seqs in seqs.chunks(IDS_MAX) {
                let times = commit::times_of_seqs(db, home, seqs.to_vec()).await?.into_iter();
                accepted.extend(times.map(|(seq, times)| ((home, seq), times)));
            }
        }
        let mut ids: BTreeMap<(PartitionNo, i64, String), Option<String>> = BTreeMap::new();
        for row in recent {
            let Some(times) = accepted.get(&(row.partition, row.seq)) else {
                continue;
            };
            let (event, place) = (row.to_ranking()?, row.place()?);
            let there = partitions.of_member(&self.target, &event.member);
            let seq = seq_there(row.seq as u64, place.partition, there);
            let entry = seen_entry(&event, times.accepted_at_ms, seq);
            let Some((field, value)) = entry.filter(|_| self.comes(&event.member, there)) else {
                continue;
            };
            let bucket = self.deployment.dedup.bucket(times.clock_ms);
            let known = ids.entry((there, bucket, field)).or_default();
            if !voided.contains(&place) {
                *known = Some(value);
            }
        }
        let ids = ids.into_iter();
        Ok(ids
            .map(|((partition, bucket, field), value)| (partition, (bucket, field), value))
            .collect())
    }

    /// The bucket and field of the mark that shows that the ids were copied.
    pub(super) fn ids_mark(&self) -> (i64, String) {
        let bucket = self.deployment.dedup.bucket(self.began_ms + MARK_AHEAD_MS);
        (bucket, seen_mark(self.board.no, &self.reshard.id))
    }

    /// True if the move brings a member to a partition. The member may have been there in an
    /// earlier layout.
    fn comes(&self, member: &MemberId, partition: PartitionNo) -> bool {
        let partitions = self.deployment.store.partitions();
        partitions.of_member(&self.board, member) != partition
    }

    /// The member that a field of a seen hash belongs to.
    fn member_of(&self, field: &str) -> Option<MemberId> {
        let rest = field.strip_prefix(&seen_prefix(self.board.no))?;
        MemberId::new(rest.split_once('\n')?.0).ok()
    }

    /// The layouts of the board's history before the move, with their partitions.
    fn homes(&self) -> BTreeSet<(usize, PartitionNo)> {
        let partitions = self.deployment.store.partitions();
        let of_partition = |partition| partitions.homes(&self.board, partition);
        let present = partitions.of_board(&self.board);
        present.into_iter().flat_map(of_partition).collect()
    }

    /// Commits the ids that a partition must remember, then those that it must forget.
    async fn commit_ids(&self, partition: PartitionNo, ids: Ids) -> Result<()> {
        let set = ids.set.chunks(IDS_MAX).map(|set| (set, &[][..]));
        let forgotten = ids.forgotten.chunks(IDS_MAX);
        for (set, forgotten) in set.chain(forgotten.map(|forgotten| (&[][..], forgotten))) {
            let mut remembering = Remembering { moving: self, set, forgotten };
            self.deployment.partition(partition).commit_change(&mut remembering).await?;
        }
        Ok(())
    }
}

struct Remembering<'a> {
    moving: &'a Moving<'a>,
    set: &'a [Seen],
    forgotten: &'a [(i64, String)],
}

impl Change for Remembering<'_> {
    type Outcome = ();

    async fn propose(&mut self, partition: Partition<'_>) -> Result<Proposal<()>> {
        let proposal = self.moving.look(partition).await?;
        let keys = partition.store.keys();
        let mut writes = Writes::default();
        let mut by_bucket: BTreeMap<i64, Vec<(String, String)>> = BTreeMap::new();
        for (bucket, entry) in self.set {
            by_bucket.entry(*bucket).or_default().push(entry.clone());
        }
        for (bucket, seen) in by_bucket {
            writes.set_seen(keys, (partition.no, bucket), &seen, partition.dedup);
        }
        for (bucket, field) in self.forgotten {
            writes.forget_seen(&keys.seen(partition.no, *bucket), field);
        }
        // Writers look only into buckets up to that of the partition's clock, which may be behind
        // that of the partition that accepted the ids. The mark is of no partition's clock.
        let ids = self.set.iter().filter(|(_, (_, value))| !value.is_empty());
        let clock_ms = ids.map(|(bucket, _)| bucket * BUCKET_MS).max().unwrap_or(i64::MIN);
        Ok(proposal.writing_from(clock_ms, writes, partition.clock.now_ms()))
    }
}
