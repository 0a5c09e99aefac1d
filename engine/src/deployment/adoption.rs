//! Joining a Redis and an SQL that do not know each other, or are of different pasts: first a look
//! at what would be lost, then the deed.

use std::collections::HashSet;
use std::fmt;

use entity::deployment as row;
use entity::error::Result;
use entity::history::commit;
use entity::sql::signs;
use ranking::commit::Commit;
use ranking::id::PartitionNo;
use ranking::store::owner::Owner;

use super::Deployment;
use crate::partition::Partition;

/// The commits that one SELECT looks for.
const COMMITS_AT_ONCE: usize = 500;

/// A partition as it is in both stores, and what joining them would lose.
#[derive(Debug, Clone)]
pub struct Difference {
    /// The partition.
    pub partition: PartitionNo,
    /// The deployment that has the partition's keys in Redis; none if they have no owner.
    pub owner: Option<String>,
    /// True if that is this deployment.
    pub is_own: bool,
    /// True if Redis has keys of the partition.
    pub has_data: bool,
    /// The epoch and seq of the head in Redis, if there is one.
    pub redis: Option<(u64, u64)>,
    /// The epoch and seq of SQL's cursor.
    pub sql: (u64, u64),
    /// True if the log leads on from SQL's cursor to the head: nothing is lost then.
    pub leads_on: bool,
    /// The commits that only Redis has, and their events.
    pub only_in_redis: (u64, u64),
    /// The commits that Redis knows to have been in SQL, and that neither has now.
    pub in_neither: u64,
}

impl Difference {
    /// True if joining loses something of the partition.
    pub fn loses(&self) -> bool {
        self.has_data && (!self.is_own || self.only_in_redis.0 > 0 || self.in_neither > 0)
    }
}

impl fmt::Display for Difference {
    /// One line: both states, then the loss.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (epoch, seq) = self.sql;
        write!(
            f,
            "partition {}: the database is at commit {seq} of epoch {epoch}, ",
            self.partition
        )?;
        match self.redis {
            Some((epoch, seq)) => write!(f, "Redis at commit {seq} of epoch {epoch}")?,
            None if self.has_data => write!(f, "Redis has keys without a head")?,
            None => write!(f, "Redis is empty")?,
        }
        match &self.owner {
            Some(owner) => write!(f, " of deployment {owner}")?,
            None if self.has_data => write!(f, " of no deployment")?,
            None => {}
        }
        let (commits, events) = self.only_in_redis;
        match (self.loses(), self.in_neither) {
            (false, _) => write!(f, "; nothing would be lost"),
            (true, 0) => write!(
                f,
                "; Redis' keys would be cleared, with {commits} commits of {events} events that only Redis has"
            ),
            (true, gone) => write!(
                f,
                "; Redis' keys would be cleared, with {commits} commits of {events} events that only Redis has; {gone} commits are in neither"
            ),
        }
    }
}

impl Deployment {
    /// The differences of this database and this Redis, partition by partition, and the loss that
    /// joining the two would cost. Changes nothing.
    ///
    /// # Errors
    /// If a store fails.
    pub async fn differences(&self) -> Result<Vec<Difference>> {
        let owners = self.store.owners().await?;
        let mut differences = vec![];
        for (partition, owner) in self.partitions().zip(owners) {
            differences.push(partition.difference(owner?).await?);
        }
        Ok(differences)
    }

    /// Joins this database and this Redis: SQL wins. All that does not lead on from it is cleared
    /// in Redis, and each partition is loaded from SQL.
    ///
    /// # Errors
    /// `Unavailable` if another process uses the Redis that the database names; or if a store
    /// fails: call it again.
    pub async fn adopt_redis(&self) -> Result<()> {
        let known = self.row().await?.redis;
        let owners = self.store.owners().await?;
        let of_own = |owner: &Owner| owner.deployment == *self.identity;
        let here = owners.into_iter().flatten().flatten().find(of_own).map(|owner| owner.redis);
        let redis = here.unwrap_or_else(entity::random_id);
        if let Some(known) = known.as_deref().filter(|known| *known != redis) {
            self.wait_until_gone(known).await?;
        }
        if known.as_deref() != Some(redis.as_str())
            && !row::record_redis(&self.db, known.as_deref(), &redis).await?
        {
            return Err(ranking::Error::Unavailable(
                "another process gave the deployment another Redis a moment ago; try again".into(),
            )
            .into());
        }
        let owner = Owner { deployment: self.identity.to_string(), redis };
        for partition in self.partitions() {
            partition.adopt(&owner).await?;
        }
        Ok(self.store.note_changes(signs::read(&self.db).await?.last_change).await?)
    }
}

impl Partition<'_> {
    async fn difference(self, owner: Option<Owner>) -> Result<Difference> {
        let cursor = self.cursor_or_root().await?;
        let (seq, owner) = (cursor.seq as u64, owner.map(|owner| owner.deployment));
        let is_own = owner.as_deref() == Some(&*self.identity);
        let found = self.store.find_log(self.no, seq, &cursor.commit_id).await?;
        let leads_on = is_own
            && found.leads_on(seq, &cursor.commit_id)
            && !(found.had_more(seq) && self.misfit(&found).await?.is_some());
        let head = found.head.as_ref();
        let log = match leads_on {
            true => vec![],
            false => self.store.whole_log(self.no).await?,
        };
        let first = log.iter().map(|commit| commit.seq).find(|first| *first > seq);
        let kept_from = first.unwrap_or(u64::MAX).min(found.settled + 1);
        let in_neither = if is_own { kept_from.saturating_sub(seq + 1) } else { 0 };
        Ok(Difference {
            partition: self.no,
            owner,
            is_own,
            has_data: self.store.key_with_data(self.no).await?.is_some(),
            redis: head.map(|head| (head.epoch, head.seq)),
            sql: (cursor.epoch.unsigned_abs(), seq),
            leads_on,
            only_in_redis: self.only_in_redis(&log).await?,
            in_neither: if leads_on { 0 } else { in_neither },
        })
    }

    /// The commits of a log that SQL does not have, and their events.
    async fn only_in_redis(self, log: &[Commit]) -> Result<(u64, u64)> {
        let mut known: HashSet<String> = HashSet::new();
        for chunk in log.chunks(COMMITS_AT_ONCE) {
            let seqs = chunk.iter().map(|commit| commit.seq as i64).collect();
            let links = commit::links_of_seqs(&self.db, self.no.into(), seqs).await?;
            known.extend(links.into_iter().flat_map(|(id, parent)| [id, parent]));
        }
        let (mut commits, mut events) = (0, 0);
        for commit in log.iter().rev() {
            // An id stands for all commits before it: an archive may have taken them out of SQL.
            if known.contains(&commit.id) {
                known.insert(commit.parent.clone());
                continue;
            }
            commits += 1;
            events += commit.events.len() as u64;
        }
        Ok((commits, events))
    }
}
