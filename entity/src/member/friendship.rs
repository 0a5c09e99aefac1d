//! Friendships. They are mutual: each is one row, the smaller key first.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;
use sea_orm::{ActiveValue::Set, Condition, QuerySelect};

use super::friend_request;
use crate::member;
use crate::sql::{begin, insert_chunked};

/// The most friends of one member.
pub const FRIENDS_MAX: usize = 10_000;

/// A row of `friendship`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "friendship")]
pub struct Model {
    /// The smaller key, by bytes.
    #[sea_orm(primary_key, auto_increment = false)]
    pub low: String,
    /// The larger key.
    #[sea_orm(primary_key, auto_increment = false)]
    pub high: String,
    /// Creation time, in Unix milliseconds.
    pub created_at_ms: i64,
}

no_relations!();

/// The keys of a member's friends, in no particular order.
pub async fn friends(db: &impl ConnectionTrait, member: &str) -> Result<Vec<String>, DbErr> {
    use Column::{High, Low};
    let mut friends = vec![];
    for (own, other) in [(Low, High), (High, Low)] {
        let keys: Vec<String> = Entity::find()
            .select_only()
            .column(other)
            .filter(own.eq(member))
            .into_tuple()
            .all(db)
            .await?;
        friends.extend(keys);
    }
    Ok(friends)
}

/// True if two members are friends, the smaller key first.
pub async fn are(db: &impl ConnectionTrait, (low, high): (&str, &str)) -> Result<bool, DbErr> {
    let row = Entity::find_by_id((low.to_owned(), high.to_owned())).one(db).await?;
    Ok(row.is_some())
}

/// Makes two members friends, and ends a request of one of them; does nothing if they are. If one
/// of them would have more than `friends_max` friends, writes nothing and returns the key of that
/// member.
pub async fn insert<'a>(
    db: &DatabaseConnection,
    pair: (&'a str, &'a str),
    now_ms: i64,
    friends_max: u64,
) -> Result<Option<&'a str>, DbErr> {
    let transaction = begin(db).await?;
    member::lock(&transaction, [pair.0, pair.1]).await?;
    friend_request::delete(&transaction, pair).await?;
    let full = insert_in(&transaction, pair, now_ms, friends_max).await?;
    match full {
        None => transaction.commit().await?,
        Some(_) => transaction.rollback().await?,
    }
    Ok(full)
}

/// As [`insert`], as a part of a transaction that has locked both members, which must not be
/// committed if one of them would have too many friends.
pub(super) async fn insert_in<'a>(
    db: &impl ConnectionTrait,
    (low, high): (&'a str, &'a str),
    now_ms: i64,
    friends_max: u64,
) -> Result<Option<&'a str>, DbErr> {
    let row = ActiveModel {
        low: Set(low.to_owned()),
        high: Set(high.to_owned()),
        created_at_ms: Set(now_ms),
    };
    let known =
        OnConflict::columns([Column::Low, Column::High]).do_nothing_on([Column::Low]).to_owned();
    Entity::insert(row).on_conflict(known).exec_without_returning(db).await?;
    for member in [low, high] {
        let of_member = Condition::any().add(Column::Low.eq(member)).add(Column::High.eq(member));
        let count = Entity::find().filter(of_member).count(db).await?;
        if count > friends_max {
            return Ok(Some(member));
        }
    }
    Ok(None)
}

/// Gives the friends of one member to another, who keeps its own, and is no friend of itself.
pub async fn give(
    db: &impl ConnectionTrait,
    from: &str,
    to: &str,
    now_ms: i64,
) -> Result<(), DbErr> {
    let friends = friends(db, from).await?.into_iter().filter(|friend| friend != to);
    let rows = friends.map(|friend| {
        let (low, high) = if *friend < *to { (&*friend, to) } else { (to, &*friend) };
        ActiveModel {
            low: Set(low.to_owned()),
            high: Set(high.to_owned()),
            created_at_ms: Set(now_ms),
        }
    });
    let known =
        OnConflict::columns([Column::Low, Column::High]).do_nothing_on([Column::Low]).to_owned();
    insert_chunked::<Entity, _>(db, rows.collect(), Some(known)).await?;
    let of_source = Condition::any().add(Column::Low.eq(from)).add(Column::High.eq(from));
    Entity::delete_many().filter(of_source).exec(db).await?;
    Ok(())
}

/// Ends a friendship, or a request of one of them; does nothing if there is neither.
pub async fn delete(db: &DatabaseConnection, (low, high): (&str, &str)) -> Result<(), DbErr> {
    let transaction = begin(db).await?;
    friend_request::delete(&transaction, (low, high)).await?;
    Entity::delete_by_id((low.to_owned(), high.to_owned())).exec(&transaction).await?;
    transaction.commit().await
}
