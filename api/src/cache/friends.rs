//! Friendships, which are mutual and kept in SQL, and the cache of them.

use std::sync::Arc;

use engine::deployment::Deployment;
use entity::{friendship, member};
use ranking::id::MemberId;
use sea_orm::sea_query::OnConflict;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, Condition, DatabaseConnection, EntityTrait, PaginatorTrait,
    QueryFilter, QuerySelect, TransactionTrait,
};
use tokio::time::Instant;

use crate::cache::sql::SqlCache;
use crate::error::{Error, ErrorCode, Result};

/// The most friends of one member.
pub const FRIENDS_MAX: usize = 10_000;

/// The most memory that cached lists of friends may take, in bytes.
const BYTES_MAX: u64 = 256 << 20;

/// The cache of lists of friends, by member.
pub struct Friends(SqlCache<MemberId, Arc<[MemberId]>>);

impl Friends {
    /// Starts empty.
    #[must_use]
    pub fn new() -> Self {
        let bytes = |friends: &Arc<[MemberId]>| {
            let bytes: usize = friends.iter().map(|friend| friend.as_str().len() + 40).sum();
            u32::try_from(bytes + 100).unwrap_or(u32::MAX)
        };
        Self(SqlCache::new(BYTES_MAX, bytes))
    }

    /// Finds a member's friends, ordered by key; and the instant until which the list is good.
    ///
    /// # Errors
    /// `UNAVAILABLE` if the list must be loaded and SQL does not answer.
    pub async fn of(
        &self,
        db: &DatabaseConnection,
        member: &MemberId,
    ) -> Result<(Arc<[MemberId]>, Instant)> {
        let read = || async {
            let mut friends = vec![];
            use friendship::Column::{High, Low};
            for (own, other) in [(Low, High), (High, Low)] {
                let keys: Vec<String> = friendship::Entity::find()
                    .select_only()
                    .column(other)
                    .filter(own.eq(member.as_str()))
                    .into_tuple()
                    .all(db)
                    .await?;
                friends.extend(keys);
            }
            let mut friends: Vec<MemberId> =
                friends.iter().map(|key| MemberId::new(key)).collect::<ranking::Result<_>>()?;
            friends.sort_unstable();
            Ok(friends.into())
        };
        self.0.find(member, read).await
    }

    /// Makes two members friends; does nothing if they are. Both must have rows.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` if one of them would have more than [`FRIENDS_MAX`] friends.
    pub async fn add(&self, deployment: &Deployment, a: &MemberId, b: &MemberId) -> Result<()> {
        let Deployment { db, clock, .. } = deployment;
        let (low, high) = (a.min(b), a.max(b));
        let transaction = db.begin().await?;
        let row = friendship::ActiveModel {
            low: Set(low.to_string()),
            high: Set(high.to_string()),
            created_at_ms: Set(clock.now_ms()),
        };
        let known = OnConflict::columns([friendship::Column::Low, friendship::Column::High])
            .do_nothing_on([friendship::Column::Low])
            .to_owned();
        friendship::Entity::insert(row)
            .on_conflict(known)
            .exec_without_returning(&transaction)
            .await?;
        for member in [low, high] {
            let of_member = Condition::any()
                .add(friendship::Column::Low.eq(member.as_str()))
                .add(friendship::Column::High.eq(member.as_str()));
            let count = friendship::Entity::find().filter(of_member).count(&transaction).await?;
            if count > FRIENDS_MAX as u64 {
                transaction.rollback().await?;
                return Err(Error::new(
                    ErrorCode::LimitExceeded,
                    format!(
                        "{member} already has {FRIENDS_MAX} friends, the most that a member may have"
                    ),
                ));
            }
        }
        transaction.commit().await?;
        self.changed(a, b);
        Ok(())
    }

    /// Ends a friendship; does nothing if there is none.
    pub async fn remove(&self, db: &DatabaseConnection, a: &MemberId, b: &MemberId) -> Result<()> {
        let key = (a.min(b).to_string(), a.max(b).to_string());
        friendship::Entity::delete_by_id(key).exec(db).await?;
        self.changed(a, b);
        Ok(())
    }

    fn changed(&self, a: &MemberId, b: &MemberId) {
        self.0.changed(a);
        self.0.changed(b);
    }
}

/// Inserts the row of a member that has none.
pub async fn ensure_row(deployment: &Deployment, key: &MemberId) -> Result<()> {
    let Deployment { db, clock, .. } = deployment;
    let row = member::ActiveModel {
        key: Set(key.to_string()),
        name: Set(None),
        name_folded: Set(None),
        region: Set(None),
        created_at_ms: Set(clock.now_ms()),
    };
    let known =
        OnConflict::column(member::Column::Key).do_nothing_on([member::Column::Key]).to_owned();
    member::Entity::insert(row).on_conflict(known).exec_without_returning(db).await?;
    Ok(())
}
