//! Reads sorted sets one after another, in parts, with bounded commands; and digests their content.

use std::collections::{BTreeMap, VecDeque};

use anyhow::{Context, Result};
use engine::deployment::Deployment;
use ranking::store::scan::raw::RawEntries;
use ranking::store::stage::payload;
use xxhash_rust::xxh3::xxh3_128;

/// Entries that one command reads from a sorted set.
const ENTRIES_MAX: usize = 5000;

/// Sorted sets up to this size are dumped whole: some 90 ns an entry, a seventh of what `ZRANGE`
/// takes. A dump blocks the server no longer than the largest `RESTORE` beside live traffic does.
const DUMPED_MAX: u64 = 400_000;

/// Sorted sets up to this size are read in groups.
const SMALL_MAX: u64 = 500;

/// Small sorted sets that one command reads.
const SMALL_KEYS_MAX: usize = 100;

/// Sizes that one call asks for.
const SIZES_MAX: usize = 1000;

/// A part of a sorted set.
pub(crate) enum SetChunk {
    /// Some of its entries, in order.
    Entries(RawEntries),
    /// The end of the set.
    End,
    /// The key is not a sorted set.
    Foreign,
}

/// Reads sorted sets in order.
pub(crate) struct Sets<'a> {
    deployment: &'a Deployment,
    keys: &'a [String],
    sizes: Vec<Option<u64>>,
    /// True if the server has no other clients, so that sets of any size are dumped.
    is_exclusive: bool,
    at: usize,
    start: usize,
    ready: VecDeque<(usize, SetChunk)>,
}

impl<'a> Sets<'a> {
    /// Begins with a read of their sizes.
    pub(crate) async fn begin(
        deployment: &'a Deployment,
        keys: &'a [String],
        is_exclusive: bool,
    ) -> Result<Self> {
        let mut sizes = Vec::with_capacity(keys.len());
        for keys in keys.chunks(SIZES_MAX) {
            sizes.extend(deployment.store.sizes(keys).await?);
        }
        Ok(Self { deployment, keys, sizes, is_exclusive, at: 0, start: 0, ready: VecDeque::new() })
    }

    /// The next part, and the index of its key; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<(usize, SetChunk)>> {
        while self.ready.is_empty() {
            match self.sizes.get(self.at).copied() {
                None => return Ok(None),
                Some(None) => {
                    self.ready.push_back((self.at, SetChunk::Foreign));
                    self.at += 1;
                }
                Some(Some(size)) if size <= SMALL_MAX => self.read_small().await?,
                Some(Some(size)) => self.read_large(size).await?,
            }
        }
        Ok(self.ready.pop_front())
    }

    async fn read_small(&mut self) -> Result<()> {
        let is_small = |size: &&Option<u64>| size.is_some_and(|size| size <= SMALL_MAX);
        let count = self.sizes[self.at..].iter().take_while(is_small).count();
        let end = self.at + count.min(SMALL_KEYS_MAX);
        let keys = &self.keys[self.at..end];
        let sets = self.deployment.store.raw_entries(keys, 0, ENTRIES_MAX).await?;
        for (place, set) in (self.at..).zip(sets) {
            match set {
                Some(entries) => {
                    self.ready.push_back((place, SetChunk::Entries(entries)));
                    self.ready.push_back((place, SetChunk::End));
                }
                None => self.ready.push_back((place, SetChunk::Foreign)),
            }
        }
        self.at = end;
        Ok(())
    }

    async fn read_large(&mut self, size: u64) -> Result<()> {
        let key = std::slice::from_ref(&self.keys[self.at]);
        if self.start == 0 && (size <= DUMPED_MAX || self.is_exclusive) {
            let dumped = self.deployment.store.dump(key).await?.pop().flatten();
            let entries = dumped.map(|dumped| payload::decode(&dumped)).transpose()?;
            if let Some(entries) = entries.flatten() {
                self.ready.push_back((self.at, SetChunk::Entries(entries)));
                self.ready.push_back((self.at, SetChunk::End));
                self.at += 1;
                return Ok(());
            }
        }
        let part = self.deployment.store.raw_entries(key, self.start, ENTRIES_MAX).await?;
        match part.into_iter().next().context("Redis returned too few replies")? {
            None => self.ready.push_back((self.at, SetChunk::Foreign)),
            Some(entries) if entries.len() == ENTRIES_MAX => {
                self.start += ENTRIES_MAX;
                self.ready.push_back((self.at, SetChunk::Entries(entries)));
                return Ok(());
            }
            Some(entries) => {
                self.ready.push_back((self.at, SetChunk::Entries(entries)));
                self.ready.push_back((self.at, SetChunk::End));
            }
        }
        self.at += 1;
        self.start = 0;
        Ok(())
    }
}

/// A digest of the content of sorted sets. It depends neither on how Redis stores them nor on the
/// order in which they are read.
#[derive(Default)]
pub(crate) struct Digest(BTreeMap<String, (u64, u128)>);

impl Digest {
    /// Adds entries of a key.
    pub(crate) fn add(&mut self, key: &str, entries: &RawEntries) {
        let (count, sum) = match self.0.get_mut(key) {
            Some(of_key) => of_key,
            None => self.0.entry(key.to_owned()).or_default(),
        };
        let mut bytes = Vec::with_capacity(136);
        for (member, double) in entries {
            bytes.clear();
            bytes.extend_from_slice(&double.to_bits().to_le_bytes());
            bytes.extend_from_slice(member);
            *count += 1;
            *sum = sum.wrapping_add(xxh3_128(&bytes));
        }
    }

    /// The digest of the sets and of the lines in `besides`.
    pub(crate) fn finish(&self, besides: &[String]) -> String {
        let sets = self.0.iter().filter(|(_, (count, _))| *count > 0);
        let mut lines: Vec<String> =
            sets.map(|(key, (count, sum))| format!("{key} {count} {sum:032x}")).collect();
        lines.extend_from_slice(besides);
        digest(&lines)
    }
}

/// A digest of lines.
pub(crate) fn digest(lines: &[String]) -> String {
    format!("{:032x}", xxh3_128(lines.join("\n").as_bytes()))
}
