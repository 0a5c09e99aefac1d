//! Friendships, which are mutual and kept in SQL, and the cache of them.

use std::sync::Arc;

use engine::deployment::Deployment;
use entity::member::friend_request::{
    self, Asked, FRIEND_REQUESTS_RECEIVED_MAX, FRIEND_REQUESTS_SENT_MAX,
};
use entity::member::friendship::{self, FRIENDS_MAX};
use ranking::id::MemberId;
use sea_orm::DatabaseConnection;
use tokio::time::Instant;

use crate::cache::sql::{Lane, SqlCache};
use crate::error::{Error, Result};
use crate::health::Health;

/// The most memory that cached lists of friends may take, in bytes.
const BYTES_MAX: u64 = 256 << 20;

/// The cache of lists of friends, by member.
pub struct Friends(SqlCache<MemberId, Arc<[MemberId]>>);

impl Friends {
    /// Starts empty.
    pub fn new(health: &Arc<Health>) -> Self {
        let bytes = |friends: &Arc<[MemberId]>| {
            let bytes: usize = friends.iter().map(|friend| friend.as_str().len() + 40).sum();
            u32::try_from(bytes + 100).unwrap_or(u32::MAX)
        };
        Self(SqlCache::new(health, Lane::Reads, BYTES_MAX, bytes))
    }

    /// Finds a member's friends, ordered by key; and the instant until which the list is good.
    ///
    /// # Errors
    /// `UNAVAILABLE` if the list must be loaded and SQL does not answer.
    pub async fn of(
        &self,
        deployment: &Deployment,
        member: &MemberId,
    ) -> Result<(Arc<[MemberId]>, Instant)> {
        // In a box, as most look-ups read nothing.
        let read = || {
            Box::pin(async {
                let keys = friendship::friends(&deployment.reads, member.as_str()).await?;
                let mut friends: Vec<MemberId> =
                    keys.iter().map(|key| MemberId::new(key)).collect::<ranking::Result<_>>()?;
                friends.sort_unstable();
                Ok(friends.into())
            })
        };
        self.0.find(member, read).await
    }

    /// Makes two members friends; does nothing if they are. Both must have rows.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` if one of them would have more than [`FRIENDS_MAX`] friends.
    pub async fn add(&self, deployment: &Deployment, a: &MemberId, b: &MemberId) -> Result<()> {
        let Deployment { db, clock, .. } = deployment;
        let pair = (a.min(b).as_str(), a.max(b).as_str());
        let full = friendship::insert(db, pair, clock.now_ms(), FRIENDS_MAX as u64).await?;
        if let Some(member) = full {
            return Err(Error::limit_exceeded(format!(
                "{member} already has {FRIENDS_MAX} friends, the most that a member may have"
            )));
        }
        self.changed(a, b);
        Ok(())
    }

    /// Asks a member for its friendship; if that one has asked before, they become friends. Returns
    /// true if they are. Both must have rows.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` for too many requests that wait, or too many friends.
    pub async fn ask(
        &self,
        deployment: &Deployment,
        asker: &MemberId,
        asked: &MemberId,
    ) -> Result<bool> {
        let Deployment { db, clock, .. } = deployment;
        let pair = (asker.as_str(), asked.as_str());
        let outcome = friend_request::ask(db, pair, clock.now_ms(), FRIENDS_MAX as u64).await?;
        let full = match outcome {
            Asked::Friends => {
                self.changed(asker, asked);
                return Ok(true);
            }
            Asked::Waits => return Ok(false),
            Asked::SentFull => format!(
                "{asker} has {FRIEND_REQUESTS_SENT_MAX} requests for friendship without an answer, the most that a member may have"
            ),
            Asked::ReceivedFull => format!(
                "{asked} has {FRIEND_REQUESTS_RECEIVED_MAX} requests for friendship to answer, the most that a member may have"
            ),
            Asked::FriendsFull { asker: of_asker } => {
                let member = if of_asker { asker } else { asked };
                format!(
                    "{member} already has {FRIENDS_MAX} friends, the most that a member may have"
                )
            }
        };
        Err(Error::limit_exceeded(full))
    }

    /// Ends a friendship, or a request for it; does nothing if there is neither.
    pub async fn remove(&self, db: &DatabaseConnection, a: &MemberId, b: &MemberId) -> Result<()> {
        friendship::delete(db, (a.min(b).as_str(), a.max(b).as_str())).await?;
        self.changed(a, b);
        Ok(())
    }

    /// Reads the lists of two members again.
    pub fn changed(&self, a: &MemberId, b: &MemberId) {
        self.0.changed(a);
        self.0.changed(b);
    }
}
