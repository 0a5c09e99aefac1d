//! The owner of a partition's keys: the deployment that wrote them, and the Redis that they are in.
//!
//! Both are random ids. SQL has them too, so that no database takes the Redis of another one, and
//! no Redis that was replaced is taken for the present one.

use futures::future::join_all;

use super::log::by_partition;
use super::{Store, decode};
use crate::error::{Error, Result};
use crate::id::PartitionNo;

/// The two ids, as every partition carries them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The deployment.
    pub deployment: String,
    /// The Redis. It stays while the data does: over restarts and failovers, and in copies.
    pub redis: String,
}

impl Owner {
    /// Reads `<deployment> <Redis>`.
    ///
    /// # Errors
    /// `Corrupt` for any other form.
    pub fn parse(text: &str) -> Result<Self> {
        match text.split(' ').collect::<Vec<_>>()[..] {
            [deployment, redis] if !deployment.is_empty() && !redis.is_empty() => {
                Ok(Self { deployment: deployment.to_owned(), redis: redis.to_owned() })
            }
            _ => Err(Error::corrupt(format!("{text:?} is not an owner of a partition"))),
        }
    }

    /// The text that [`Self::parse`] reads.
    pub fn to_text(&self) -> String {
        format!("{} {}", self.deployment, self.redis)
    }
}

impl Store {
    /// The owner of a partition's keys; `None` if it has none. One round trip.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt` if another program wrote the key.
    pub async fn owner(&self, partition: PartitionNo) -> Result<Option<Owner>> {
        let mut pipe = redis::pipe();
        pipe.cmd("GET").arg(self.keys().owner(partition));
        let ((text,), _): ((Option<String>,), _) = self.read(&pipe).await?;
        text.as_deref().map(Owner::parse).transpose()
    }

    /// The owners of all partitions, in order; `None` for a partition that has none, and an error
    /// for one whose server does not answer. One round trip to all servers at once: a `GET` for
    /// each partition.
    ///
    /// # Errors
    /// `Unavailable` if no server answers.
    pub async fn owners(&self) -> Result<Vec<Result<Option<Owner>>>> {
        let groups = self.inner.cluster.map().await?.by_server();
        let asked = join_all(groups.iter().map(|group| self.owners_of(group))).await;
        Ok(by_partition(groups, asked)?.into_iter().map(Result::flatten).collect())
    }

    async fn owners_of(&self, partitions: &[PartitionNo]) -> Result<Vec<Result<Option<Owner>>>> {
        let mut pipe = redis::pipe();
        for &partition in partitions {
            pipe.cmd("GET").arg(self.keys().owner(partition));
        }
        let values = self.read_many(&pipe).await?.values;
        let owner = |value| {
            let text: Option<String> = decode(Some(value))?;
            text.as_deref().map(Owner::parse).transpose()
        };
        Ok(values.into_iter().map(owner).collect())
    }

    /// Gives a partition an owner unless it has one. Returns the one that it has then. One round
    /// trip: `SET NX`, `GET` in a transaction.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt` if another program wrote the key.
    pub async fn claim(&self, partition: PartitionNo, owner: &Owner) -> Result<Owner> {
        let key = self.keys().owner(partition);
        let mut pipe = redis::pipe();
        pipe.atomic();
        pipe.cmd("SET").arg(&key).arg(owner.to_text()).arg("NX");
        pipe.cmd("GET").arg(&key);
        let ((_, text), _): ((Option<String>, String), _) = self.read(&pipe).await?;
        Owner::parse(&text)
    }

    /// The number of the last change of a board that SQL has had, as it was noted last. One round
    /// trip.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn noted_changes(&self) -> Result<Option<i64>> {
        let mut pipe = redis::pipe();
        pipe.cmd("GET").arg(self.keys().changes());
        let ((text,), _): ((Option<String>,), _) = self.read(&pipe).await?;
        Ok(text.and_then(|text| text.parse().ok()))
    }

    /// Notes the number of the last change of a board. One round trip.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn note_changes(&self, last: i64) -> Result<()> {
        let mut pipe = redis::pipe();
        pipe.cmd("SET").arg(self.keys().changes()).arg(last);
        let ((_,), _): ((String,), _) = self.read(&pipe).await?;
        Ok(())
    }

    /// A key of a partition that holds data; `None` if there is none. `SCAN`: several round trips,
    /// O(keys of the server).
    ///
    /// # Errors
    /// `Unavailable`, also while the partition moves from one server to another.
    pub async fn key_with_data(&self, partition: PartitionNo) -> Result<Option<String>> {
        let keys = self.keys();
        let found = self.scan(partition, &keys.pattern(partition)).await?;
        Ok(found.into_iter().find(|key| !keys.may_be_unowned(partition, key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_two_words() {
        let owner = Owner { deployment: "d".into(), redis: "r".into() };
        assert_eq!(Owner::parse(&owner.to_text()), Ok(owner));
        for bad in ["", "d", "d ", " r", "d r x"] {
            assert!(Owner::parse(bad).is_err(), "{bad:?}");
        }
    }
}
