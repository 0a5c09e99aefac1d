//! The Redis side of recovery: an exclusive right to recover a partition, writes that depend on it,
//! and reads of a partition that is not level.

use std::sync::Arc;
use std::time::Duration;

use redis::Pipeline;

use super::Store;
use super::log::{first_after, own_entry};
use super::owner::Owner;
use super::write::Writes;
use crate::commit::{Commit, Head, KEY_LAYOUT};
use crate::error::{Error, Result};
use crate::id::{BoardNo, PartitionNo};

/// The time after which a silent recovery loses its right to another one. Each step renews it.
const RECOVERY_LIFETIME: Duration = Duration::from_secs(10);

/// The number of keys in one `SCAN`.
const SCAN_COUNT: usize = 1000;

/// The data of a partition in Redis, level or not.
#[derive(Debug)]
pub struct Found {
    /// The run id of the server that answered.
    pub run_id: Arc<str>,
    /// The head, if there is one in our form.
    pub head: Option<Head>,
    /// The commits after the cursor that descend from it, parent by parent, oldest first.
    pub descendants: Vec<Commit>,
    /// True if the log also has entries that do not descend from the cursor, such as those of
    /// another program.
    pub has_others: bool,
    /// The seq up to which SQL had the commits when the log was last trimmed.
    pub settled: u64,
}

impl Found {
    /// True if SQL had more than a cursor says: it has gone back, unless a persister has moved the
    /// cursor since it was read.
    pub fn had_more(&self, cursor_seq: u64) -> bool {
        self.settled > cursor_seq
    }

    /// True if the log leads from the cursor to the head.
    pub fn leads_on(&self, cursor_seq: u64, cursor_commit: &str) -> bool {
        let tip = self
            .descendants
            .last()
            .map_or((cursor_seq, cursor_commit), |commit| (commit.seq, commit.id.as_str()));
        self.head.as_ref().is_some_and(|head| (head.seq, head.commit.as_str()) == tip)
    }
}

/// The right to recover one partition on one run of Redis; lost when it expires or the server
/// restarts.
#[derive(Debug)]
pub struct Recovery {
    store: Store,
    partition: PartitionNo,
    token: String,
    run_id: Arc<str>,
}

impl Store {
    /// Begins a recovery, unless another one is in progress. One round trip: `SET NX PX`, `GET`,
    /// `EXISTS` in a transaction.
    ///
    /// # Errors
    /// `Unavailable`, also while the partition moves from one server to another.
    pub async fn begin_recovery(
        &self,
        partition: PartitionNo,
        token: &str,
    ) -> Result<Option<Recovery>> {
        let key = self.keys().recovery(partition);
        let mut pipe = redis::pipe();
        pipe.atomic();
        pipe.cmd("SET").arg(&key).arg(token);
        pipe.arg("NX").arg("PX").arg(RECOVERY_LIFETIME.as_millis() as u64);
        // After a lost reply, the repeated transaction finds its own token.
        pipe.cmd("GET").arg(&key);
        self.stay(&mut pipe, partition);
        let ((_, holder, _), run_id): ((Option<String>, Option<String>, u64), _) =
            self.read(&pipe).await?;
        let recovery = Recovery { store: self.clone(), partition, token: token.to_owned(), run_id };
        Ok((holder.as_deref() == Some(token)).then_some(recovery))
    }

    /// A partition's data in Redis, relative to SQL's cursor. Passes over entries of the log that
    /// do not descend from it. One round trip for each 1,000 entries.
    ///
    /// # Errors
    /// `Unavailable`, also if a program of another version wrote the keys or an entry, which must
    /// not be dropped; `NotLevel` if Redis restarts meanwhile.
    pub async fn find_log(
        &self,
        partition: PartitionNo,
        cursor_seq: u64,
        cursor_commit: &str,
    ) -> Result<Found> {
        let run_id = self.run_id(partition).await?;
        let settled = self.settled(partition).await?;
        let mut found =
            Found { run_id, head: None, descendants: vec![], has_others: false, settled };
        let (mut seq, mut parent) = (cursor_seq, cursor_commit.to_owned());
        let mut from = first_after(cursor_seq);
        loop {
            let (text, log) = match self.head_and_log(partition, &from, 1000).await {
                Err(Error::Corrupt(_)) => (None, vec![]),
                read => {
                    let read = read?;
                    if read.run_id != found.run_id {
                        return Err(Error::NotLevel(partition.0));
                    }
                    (read.head, read.entries)
                }
            };
            if let Some(layout) = text.as_deref().and_then(Head::later_layout) {
                let of_keys =
                    format!("keys of layout {layout}, and this program reads {KEY_LAYOUT}");
                return Err(of_other_program(partition, &of_keys));
            }
            found.head = text.and_then(|text| Head::parse(&text).ok()).or(found.head);
            let Some((last, _)) = log.last() else {
                return Ok(found);
            };
            from = format!("({last}");
            for entry in log {
                let own = own_entry(entry);
                if let Some((seq, text)) = &own
                    && let Some(version) = Commit::other_version(text)
                {
                    let of_entry = format!("log entry {seq} of version {version}");
                    return Err(of_other_program(partition, &of_entry));
                }
                let commit = own
                    .and_then(|(seq, text)| Commit::from_log(seq, &text).ok())
                    .filter(|commit| commit.parent == parent && commit.seq == seq + 1);
                let Some(commit) = commit else {
                    found.has_others = true;
                    continue;
                };
                (seq, parent) = (commit.seq, commit.id.clone());
                found.descendants.push(commit);
            }
        }
    }

    /// The commits of a partition's log, level or not, without entries of other programs. One round
    /// trip for each 1,000 entries.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn whole_log(&self, partition: PartitionNo) -> Result<Vec<Commit>> {
        let mut commits: Vec<Commit> = vec![];
        let mut from = first_after(0);
        loop {
            let log = match self.head_and_log(partition, &from, 1000).await {
                Err(Error::Corrupt(_)) => return Ok(commits),
                read => read?.entries,
            };
            let Some((last, _)) = log.last() else {
                return Ok(commits);
            };
            from = format!("({last}");
            let own = log.into_iter().filter_map(own_entry);
            commits.extend(own.filter_map(|(seq, text)| Commit::from_log(seq, &text).ok()));
        }
    }

    async fn settled(&self, partition: PartitionNo) -> Result<u64> {
        let mut pipe = redis::pipe();
        pipe.cmd("GET").arg(self.keys().settled(partition));
        let ((text,), _): ((Option<String>,), _) = self.read(&pipe).await?;
        Ok(text.and_then(|text| text.parse().ok()).unwrap_or(0))
    }

    /// Makes a partition level that has all it had: replaces the head, as it was found, by one
    /// with the run id that answered. It needs no right to recover and no memory. Returns false if
    /// the head has changed since. One round trip: `GET`, `SET` in a script.
    ///
    /// # Errors
    /// `NotLevel` if Redis restarted since; `Unavailable`.
    pub async fn renew_head(
        &self,
        partition: PartitionNo,
        head: &Head,
        renewed: &Head,
    ) -> Result<bool> {
        let (old, new) = (head.to_text(), renewed.to_text());
        let args = [old.as_bytes(), new.as_bytes(), renewed.run_id.as_bytes()];
        let script = &self.inner.scripts.renew;
        let answer: String = self.write(script, &[self.keys().head(partition)], &args).await?;
        match answer.as_str() {
            "DONE" => Ok(true),
            "STALE" => Ok(false),
            _ => Err(Error::NotLevel(partition.0)),
        }
    }

    /// The keys of a partition's standings, of all boards or one, including foreign keys with the
    /// same pattern. `SCAN`: several round trips, O(keys of the server).
    pub async fn standings_keys(
        &self,
        partition: PartitionNo,
        board: Option<BoardNo>,
    ) -> Result<Vec<String>> {
        let pattern = self.keys().standings_pattern(partition, board);
        self.scan(partition, &pattern).await
    }

    /// The keys that match a pattern on the server that has a partition, as
    /// [`each_key`](Self::each_key) finds them, in order.
    pub(crate) async fn scan(&self, partition: PartitionNo, pattern: &str) -> Result<Vec<String>> {
        let mut keys = vec![];
        self.each_key(partition, pattern, |key| keys.push(key)).await?;
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    /// Visits the keys that match a pattern on the server that has a partition, some of them
    /// twice. Each step is a transaction with a command that fails while the partition's slot
    /// moves, as some of its keys are then on another server.
    pub(crate) async fn each_key(
        &self,
        partition: PartitionNo,
        pattern: &str,
        visit: impl FnMut(String) + Send,
    ) -> Result<()> {
        let (mut cursor, mut began_on, mut visit) = ("0".to_owned(), None, visit);
        loop {
            let mut pipe = redis::pipe();
            pipe.atomic();
            self.stay(&mut pipe, partition);
            pipe.cmd("SCAN").arg(&cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(SCAN_COUNT);
            let ((_, (next, found)), run_id): ((u64, (String, Vec<String>)), _) =
                self.read(&pipe).await?;
            if began_on.get_or_insert_with(|| run_id.clone()) != &run_id {
                return Err(Error::Unavailable(
                    "Redis restarted or changed servers while its keys were listed; try again"
                        .into(),
                ));
            }
            found.into_iter().for_each(&mut visit);
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// Makes a transaction fail while the partition's slot moves from one server to another.
    fn stay(&self, pipe: &mut Pipeline, partition: PartitionNo) {
        let keys = self.keys();
        let command = pipe.cmd("EXISTS").arg(keys.head(partition));
        command.arg(keys.nowhere(partition));
    }
}

/// The error of a partition with something that a program of another version wrote.
fn of_other_program(partition: PartitionNo, found: &str) -> Error {
    Error::Unavailable(format!(
        "partition {partition} has {found}, which a program of another version wrote: it is left as it is; start the programs of that version until SQL has all of it, and never two versions side by side"
    ))
}

impl Recovery {
    /// The run id of the Redis under recovery.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// As [`Store::find_log`], in the run under recovery.
    pub async fn find(&self, cursor_seq: u64, cursor_commit: &str) -> Result<Found> {
        let found = self.store.find_log(self.partition, cursor_seq, cursor_commit).await?;
        match found.run_id == self.run_id {
            true => Ok(found),
            false => Err(Error::NotLevel(self.partition.0)),
        }
    }

    /// Deletes the head: from now on writers are refused and readers see that the partition is not
    /// level. One round trip.
    pub async fn close(&self) -> Result<()> {
        let mut writes = Writes::default();
        writes.drop_key(&self.store.keys().head(self.partition));
        self.apply(&writes).await
    }

    /// Deletes the log: the next commit begins a new one. One round trip.
    pub async fn drop_log(&self) -> Result<()> {
        let mut writes = Writes::default();
        writes.drop_key(&self.store.keys().log(self.partition));
        writes.drop_key(&self.store.keys().sizes(self.partition));
        self.apply(&writes).await
    }

    /// Deletes the partition's log, standings, lists of periods, marks and event ids, but not its
    /// owner. `SCAN` and `UNLINK`: O(keys of the server).
    pub async fn clear(&self) -> Result<()> {
        let keys = self.store.keys();
        let mut found = vec![
            keys.log(self.partition),
            keys.sizes(self.partition),
            keys.settled(self.partition),
            keys.board_marks(self.partition),
        ];
        let all = self.store.scan(self.partition, &keys.pattern(self.partition)).await?;
        found.extend(all.into_iter().filter(|key| keys.is_of_history(self.partition, key)));
        for chunk in found.chunks(500) {
            let mut writes = Writes::default();
            for key in chunk {
                writes.drop_key(key);
            }
            self.apply(&writes).await?;
        }
        Ok(())
    }

    /// The owner of the partition's keys; `None` if it has none. One round trip.
    pub async fn owner(&self) -> Result<Option<Owner>> {
        self.store.owner(self.partition).await
    }

    /// Sets the owner of the partition's keys. One round trip.
    pub async fn set_owner(&self, owner: &Owner) -> Result<()> {
        let mut writes = Writes::default();
        writes.push("SET", &self.store.keys().owner(self.partition), vec![owner.to_text()]);
        self.apply(&writes).await
    }

    /// Sets the head, which reopens the partition in an epoch, and gives up the right to recover
    /// it. If SQL has all up to the head and the log is empty, its readers begin there.
    pub async fn finish(
        &self,
        (seq, commit): (u64, &str),
        epoch: u64,
        clock_ms: i64,
        is_settled: bool,
    ) -> Result<()> {
        let (commit, run_id) = (commit.to_owned(), self.run_id.to_string());
        let deployment = self.store.deployment().to_owned();
        let head = Head { seq, commit, clock_ms, epoch, deployment, run_id };
        let (keys, mut writes) = (self.store.keys(), Writes::default());
        if is_settled {
            writes.push("SET", &keys.settled(self.partition), vec![seq.to_string()]);
        }
        writes.push("SET", &keys.head(self.partition), vec![head.to_text()]);
        writes.drop_key(&keys.recovery(self.partition));
        self.apply(&writes).await
    }

    /// Gives up the right to recover; the partition stays as it is.
    pub async fn abandon(&self) -> Result<()> {
        let mut writes = Writes::default();
        writes.drop_key(&self.store.keys().recovery(self.partition));
        self.apply(&writes).await
    }

    /// Keeps the right to recover during a long step elsewhere. One round trip.
    pub async fn renew(&self) -> Result<()> {
        self.apply(&Writes::default()).await
    }

    /// Writes, but only while this recovery holds its right. One round trip: `GET` and the writes,
    /// in a script.
    ///
    /// # Errors
    /// `NotLevel` if the right is lost; `Unavailable`; `Corrupt` if a key has a foreign type.
    pub async fn apply(&self, writes: &Writes) -> Result<()> {
        let lifetime = RECOVERY_LIFETIME.as_millis().to_string();
        let mut keys = vec![self.store.keys().recovery(self.partition)];
        let said = [self.token.clone(), self.run_id.to_string(), lifetime];
        let mut argv: Vec<Vec<u8>> = said.map(String::into_bytes).into();
        argv.extend(writes.encode(&mut keys));
        let argv: Vec<&[u8]> = argv.iter().map(Vec::as_slice).collect();
        let answer: String =
            self.store.write(&self.store.inner.scripts.recover, &keys, &argv).await?;
        match answer.as_str() {
            "DONE" => Ok(()),
            "LOST" | "RESTARTED" => Err(Error::NotLevel(self.partition.0)),
            other => Err(Error::corrupt(format!("a step of recovery was refused: {other}"))),
        }
    }
}
