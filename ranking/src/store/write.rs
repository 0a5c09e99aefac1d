//! The write path: commits, which must be fast-forwards, and their writes.

use std::collections::HashMap;

use super::{Failed, Store, foreign_key};
use crate::commit::{Commit, Head};
use crate::error::{Error, Result};
use crate::id::{MemberId, PartitionNo};
use crate::score::rank_key::RankKey;
use crate::standings_id::StandingsId;
use crate::store::key::KeySpace;
use crate::store::stage::payload;
use crate::submission::{FoldedBatch, StandingsChange};

/// The most pairs in one variadic command: no command runs for long.
pub const PAIRS_MAX: usize = 1000;

/// The width of a bucket of event ids, in milliseconds.
pub const BUCKET_MS: i64 = 4 * 3_600_000;

/// The most milliseconds by which partitions spread the expiry of their buckets, a second each.
const SPREAD_MS: i64 = 600_000;

/// The time for which an event id is remembered. Ids lie in buckets by the deployment's clock when
/// they were accepted; see [`Commit::clock_ms`].
#[derive(Debug, Clone, Copy)]
pub struct Dedup {
    /// The window in milliseconds.
    pub window_ms: i64,
}

impl Dedup {
    /// The bucket for an instant of the deployment's clock.
    pub fn bucket(self, clock_ms: i64) -> i64 {
        clock_ms.div_euclid(BUCKET_MS)
    }

    /// The buckets whose ids count at an instant of the deployment's clock, newest first. That
    /// clock never moves back, so none is later.
    pub fn buckets(self, clock_ms: i64) -> impl Iterator<Item = i64> {
        (self.bucket(clock_ms - self.window_ms)..=self.bucket(clock_ms)).rev()
    }

    /// The longest time for which an id counts, in milliseconds: the window and one bucket.
    pub fn kept_ms(self) -> i64 {
        self.window_ms + BUCKET_MS
    }

    /// The instant at which Redis drops a bucket of a partition, in Unix milliseconds: none of its
    /// ids counts by then, as the deployment's clock is never behind that of Redis. It differs by
    /// partition, as Redis frees a bucket at once.
    fn expires_at_ms(self, partition: PartitionNo, bucket: i64) -> i64 {
        (bucket + 1) * BUCKET_MS + self.window_ms + i64::from(partition.0) * 1000 % SPREAD_MS
    }
}

/// The outcome of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All of it is written. The ranks are those that [`Writes::read_ranks`] asks for, in order.
    Done(Vec<Option<u64>>),
    /// Another commit came first: fold again.
    Stale,
    /// The partition is not level: recover it first.
    Restarted,
    /// Redis cannot be reached or refuses it for now: nothing is written.
    Refused(Error),
}

/// One variadic write to one key.
#[derive(Debug)]
struct Write {
    command: &'static str,
    key: String,
    args: Vec<Vec<u8>>,
}

/// A list of writes, in the form that the scripts read.
#[derive(Debug, Default)]
pub struct Writes {
    all: Vec<Write>,
    /// The write that lists periods at a key, unless a later one changes that key otherwise.
    listing: HashMap<String, usize>,
}

impl Writes {
    /// Sets entries: `ZADD`, at most [`PAIRS_MAX`] pairs each.
    pub fn set_entries(&mut self, key: &str, entries: &[(MemberId, RankKey)]) {
        for chunk in entries.chunks(PAIRS_MAX) {
            let args = chunk
                .iter()
                .flat_map(|(member, rank_key)| [rank_key.to_redis(), member.to_string()])
                .collect();
            self.push("ZADD", key, args);
        }
    }

    /// Changes the standings of a period: `ZADD` and `ZREM`; lists the period if it gains entries.
    pub fn change(&mut self, keys: &KeySpace, partition: PartitionNo, change: &StandingsChange) {
        let key = keys.standings(partition, &change.id);
        let (mut set, mut gone) = (vec![], vec![]);
        for (member, rank_key) in &change.entries {
            match rank_key {
                Some(rank_key) => set.push((member.clone(), *rank_key)),
                None => gone.push(member.to_string()),
            }
        }
        self.set_entries(&key, &set);
        for chunk in gone.chunks(PAIRS_MAX) {
            self.push("ZREM", &key, chunk.to_vec());
        }
        if !set.is_empty() {
            self.note_period(keys, partition, &change.id, change.present_from_ms);
        }
    }

    /// Removes one member from a sorted set, whatever its bytes: `ZREM`.
    pub fn take_out(&mut self, key: &str, member: &[u8]) {
        self.add(Write { command: "ZREM", key: key.to_owned(), args: vec![member.to_vec()] });
    }

    /// Lists a period that has entries: `ZADD`, one for many periods of a list, as a late score may
    /// count in hundreds. `all` and decaying windows have one period, and no list.
    pub fn note_period(
        &mut self,
        keys: &KeySpace,
        partition: PartitionNo,
        id: &StandingsId,
        present_from_ms: i64,
    ) {
        if !id.window.has_periods() {
            return;
        }
        let (list, pair) =
            (keys.periods(partition, id), [present_from_ms.to_string(), id.period.clone()]);
        let listing = self.listing.get(&list).map(|&place| &mut self.all[place].args);
        match listing.filter(|args| args.len() < 2 * PAIRS_MAX) {
            Some(args) => args.extend(pair.map(String::into_bytes)),
            None => {
                self.push("ZADD", &list, pair.into());
                self.listing.insert(list, self.all.len() - 1);
            }
        }
    }

    /// Removes periods from their list: `ZREM`.
    pub fn forget_periods(&mut self, list: &str, labels: &[String]) {
        for chunk in labels.chunks(PAIRS_MAX) {
            self.push("ZREM", list, chunk.to_vec());
        }
    }

    /// Forgets an event id: `HDEL`.
    pub fn forget_seen(&mut self, key: &str, field: &str) {
        self.push("HDEL", key, vec![field.to_owned()]);
    }

    /// Replaces live standings with staged ones: `UNLINK`, `RENAME`, `PERSIST`.
    pub fn swap_in(&mut self, stage: &str, live: &str) {
        self.drop_key(live);
        self.push("RENAME", stage, vec![live.to_owned()]);
    }

    /// Sets the entries of standings that are small, and in rank order: `RESTORE`.
    pub fn load(&mut self, key: &str, entries: &[(&str, RankKey)]) {
        let entries = entries.iter().map(|(member, key)| (member.as_bytes(), key.to_f64()));
        let args = vec![b"0".to_vec(), payload::encode(entries), b"REPLACE".to_vec()];
        self.add(Write { command: "RESTORE", key: key.to_owned(), args });
    }

    /// Drops a key: `UNLINK`, which frees it in the background.
    pub fn drop_key(&mut self, key: &str) {
        self.push("UNLINK", key, vec![]);
    }

    /// Remembers event ids in a bucket: `HSET`, then `PEXPIREAT`. A duration would be one of a
    /// clock that may step.
    pub fn set_seen(
        &mut self,
        keys: &KeySpace,
        (partition, bucket): (PartitionNo, i64),
        seen: &[(String, String)],
        dedup: Dedup,
    ) {
        let key = keys.seen(partition, bucket);
        for chunk in seen.chunks(PAIRS_MAX) {
            self.push(
                "HSET",
                &key,
                chunk.iter().flat_map(|(field, value)| [field.clone(), value.clone()]).collect(),
            );
        }
        if !seen.is_empty() {
            let expires_at_ms = dedup.expires_at_ms(partition, bucket);
            self.push("PEXPIREAT", &key, vec![expires_at_ms.to_string()]);
        }
    }

    /// Reads the positions of members, at this point of the writes: `ZRANK`.
    pub fn read_ranks(
        &mut self,
        keys: &KeySpace,
        partition: PartitionNo,
        ranked: &[(StandingsId, MemberId)],
    ) {
        for (id, member) in ranked {
            self.push("ZRANK", &keys.standings(partition, id), vec![member.to_string()]);
        }
    }

    pub(crate) fn push(&mut self, command: &'static str, key: &str, args: Vec<String>) {
        let args = args.into_iter().map(String::into_bytes).collect();
        self.add(Write { command, key: key.to_owned(), args });
    }

    fn add(&mut self, write: Write) {
        self.listing.remove(&write.key);
        self.all.push(write);
    }

    /// Appends to KEYS, and returns ARGV.
    pub(crate) fn encode(&self, keys: &mut Vec<String>) -> Vec<Vec<u8>> {
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut place = |key: &str| {
            *places.entry(key.to_owned()).or_insert_with(|| {
                keys.push(key.to_owned());
                keys.len()
            })
        };
        let mut argv = vec![];
        for Write { command, key, args } in &self.all {
            argv.extend([
                command.as_bytes().to_vec(),
                place(key).to_string().into_bytes(),
                args.len().to_string().into_bytes(),
            ]);
            if *command == "RENAME" {
                let later = place(&String::from_utf8_lossy(&args[0]));
                argv.push(later.to_string().into_bytes());
            } else {
                argv.extend_from_slice(args);
            }
        }
        argv
    }
}

impl Store {
    /// The writes of a folded batch.
    pub fn writes(&self, partition: PartitionNo, folded: &FoldedBatch, dedup: Dedup) -> Writes {
        let mut writes = Writes::default();
        writes.read_ranks(self.keys(), partition, &folded.ranked);
        for change in &folded.changes {
            writes.change(self.keys(), partition, change);
        }
        writes.read_ranks(self.keys(), partition, &folded.ranked);
        for (no, series, mark) in &folded.rolls {
            writes.mark_roll(self.keys(), partition, *no, series, *mark);
        }
        writes.set_paces(self.keys(), partition, &folded.paces);
        writes.move_positions(self.keys(), partition, folded);
        if let Some(commit) = &folded.commit {
            let bucket = (partition, dedup.bucket(commit.clock_ms));
            writes.set_seen(self.keys(), bucket, &folded.seen, dedup);
        }
        writes
    }

    /// Commits writes as one step of a partition's history: moves the head on from the one they
    /// were folded onto, or does nothing. One round trip: `EVALSHA` of a script with `GET`,
    /// `XADD`, the writes, `SET`; O(entries · log(size)).
    ///
    /// # Errors
    /// `Unavailable` if the connection broke: the commit may or may not be written. Look for its id
    /// in the log.
    pub async fn commit_writes(
        &self,
        partition: PartitionNo,
        onto: &Head,
        commit: &Commit,
        writes: &Writes,
    ) -> Result<Outcome> {
        let new_head = onto.moved_to(commit).to_text();
        let keys = self.keys();
        let mut keys = vec![keys.head(partition), keys.log(partition), keys.sizes(partition)];
        let entry_id = format!("{}-0", commit.seq);
        let said = [onto.to_text(), new_head, entry_id, commit.to_log()];
        let mut argv: Vec<Vec<u8>> = said.map(String::into_bytes).into();
        argv.extend(writes.encode(&mut keys));
        let argv: Vec<&[u8]> = argv.iter().map(Vec::as_slice).collect();
        let answer: std::result::Result<String, _> =
            self.write(&self.inner.scripts.commit, &keys, &argv).await;
        self.note_own_write();
        match answer {
            Ok(answer) => match answer.as_str() {
                "DONE" => Ok(Outcome::Done(vec![])),
                "STALE" => Ok(Outcome::Stale),
                "RESTARTED" => Ok(Outcome::Restarted),
                done if done.starts_with("DONE ") => {
                    let ranks = done["DONE ".len()..].split(' ');
                    Ok(Outcome::Done(ranks.map(|rank| rank.parse().ok()).collect()))
                }
                other => Ok(Outcome::Refused(match other.strip_prefix("TYPE ") {
                    Some(key) => foreign_key(key),
                    None => Error::corrupt(format!("a commit was refused: {other}")),
                })),
            },
            Err(Failed::Refused(error)) => Ok(Outcome::Refused(error)),
            Err(Failed::Lost(error)) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::BoardNo;
    use crate::window::Window;
    use proptest::prelude::*;

    #[test]
    fn a_list_gets_its_periods_in_few_writes_and_in_order() {
        let (keys, no) = (KeySpace::new("t").unwrap(), PartitionNo(0));
        let id = |label: String| StandingsId {
            board: BoardNo(1),
            generation: 1,
            segment: String::new(),
            window: Window::Daily,
            period: label,
        };
        let list = keys.periods(no, &id(String::new()));
        let mut writes = Writes::default();
        for day in 0..PAIRS_MAX as i64 + 1 {
            writes.note_period(&keys, no, &id(day.to_string()), day);
            writes.drop_key(&day.to_string());
        }
        writes.forget_periods(&list, &["0".to_owned()]);
        writes.note_period(&keys, no, &id("0".to_owned()), 0);
        let of_list = writes.all.iter().filter(|write| write.key == list);
        let of_list: Vec<_> = of_list.map(|write| (write.command, write.args.len())).collect();
        assert_eq!(of_list, [("ZADD", 2 * PAIRS_MAX), ("ZADD", 2), ("ZREM", 1), ("ZADD", 2)]);
    }

    proptest! {
        #[test]
        fn an_id_counts_for_the_window_and_at_most_one_bucket_more(hours in 1_i64..=720, accepted_ms in 0_i64..1 << 42, later_ms in 0_i64..1 << 33) {
            let dedup = Dedup { window_ms: hours * 3_600_000 };
            let counts = |clock_ms| dedup.buckets(clock_ms).any(|bucket| bucket == dedup.bucket(accepted_ms));
            prop_assert!(counts(accepted_ms) && counts(accepted_ms + dedup.window_ms));
            prop_assert!(!counts(accepted_ms + dedup.kept_ms() + 1));
            // Redis keeps a bucket for as long as its ids count.
            let expires_at_ms = dedup.expires_at_ms(PartitionNo(0), dedup.bucket(accepted_ms));
            prop_assert!(counts(expires_at_ms - 1) && !counts(expires_at_ms + later_ms));
        }
    }
}
