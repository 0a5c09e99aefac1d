//! Requests for friendship, where it needs the consent of both members: each is one row, the
//! smaller key first, whichever way it goes. So of two members who ask each other at once, the
//! second one finds the request of the first.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;
use sea_orm::{ActiveValue::Set, Condition, QueryOrder, QuerySelect};

use super::friendship;
use crate::member;
use crate::sql::{begin, insert_chunked};

/// The most requests of a member that wait for an answer.
pub const FRIEND_REQUESTS_SENT_MAX: u64 = 1000;

/// The most requests to a member that wait for its answer.
pub const FRIEND_REQUESTS_RECEIVED_MAX: u64 = 1000;

/// A row of `friend_request`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "friend_request")]
pub struct Model {
    /// The smaller key, by bytes.
    #[sea_orm(primary_key, auto_increment = false)]
    pub low: String,
    /// The larger key.
    #[sea_orm(primary_key, auto_increment = false)]
    pub high: String,
    /// The member who asks.
    pub asker: String,
    /// The member who is asked.
    pub asked: String,
    /// Creation time, in Unix milliseconds.
    pub created_at_ms: i64,
}

no_relations!();

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// The two members are friends: they were, or both have asked now.
    Friends,
    /// The request waits for the other member.
    Waits,
    /// The asker has sent as many requests as wait for an answer at most.
    SentFull,
    /// The other member has received as many as it may have.
    ReceivedFull,
    /// One of them would have too many friends: true for the asker.
    FriendsFull {
        /// The asker has too many.
        asker: bool,
    },
}

/// Asks a member for its friendship, in one transaction; if that one has asked before, they become
/// friends.
pub async fn ask(
    db: &DatabaseConnection,
    (asker, asked): (&str, &str),
    now_ms: i64,
    friends_max: u64,
) -> Result<Asked, DbErr> {
    let pair = ordered(asker, asked);
    let transaction = begin(db).await?;
    member::lock(&transaction, [asker, asked]).await?;
    let row = request((asker, asked), now_ms);
    Entity::insert(row).on_conflict(known()).exec_without_returning(&transaction).await?;
    if friendship::are(&transaction, pair).await? {
        transaction.rollback().await?;
        return Ok(Asked::Friends);
    }
    // The request of the other one, which may have come first by a moment.
    let answered = Entity::delete_many()
        .filter(Column::Low.eq(pair.0))
        .filter(Column::High.eq(pair.1))
        .filter(Column::Asker.eq(asked))
        .exec(&transaction)
        .await?;
    let outcome = if answered.rows_affected > 0 {
        match friendship::insert_in(&transaction, pair, now_ms, friends_max).await? {
            None => Asked::Friends,
            Some(full) => Asked::FriendsFull { asker: full == asker },
        }
    } else {
        let count = async |column: Column, member: &str| {
            Entity::find().filter(column.eq(member)).count(&transaction).await
        };
        if count(Column::Asker, asker).await? > FRIEND_REQUESTS_SENT_MAX {
            Asked::SentFull
        } else if count(Column::Asked, asked).await? > FRIEND_REQUESTS_RECEIVED_MAX {
            Asked::ReceivedFull
        } else {
            Asked::Waits
        }
    };
    match outcome {
        Asked::Friends | Asked::Waits => transaction.commit().await?,
        _ => transaction.rollback().await?,
    }
    Ok(outcome)
}

/// Takes a request back, or declines it; does nothing if there is none. Returns true if there was
/// one.
pub async fn delete(db: &impl ConnectionTrait, pair: (&str, &str)) -> Result<bool, DbErr> {
    let (low, high) = ordered(pair.0, pair.1);
    let deleted = Entity::delete_by_id((low.to_owned(), high.to_owned())).exec(db).await?;
    Ok(deleted.rows_affected > 0)
}

/// True if one of two members waits for the answer of the other.
pub async fn is_there(db: &impl ConnectionTrait, pair: (&str, &str)) -> Result<bool, DbErr> {
    let (low, high) = ordered(pair.0, pair.1);
    let row = Entity::find_by_id((low.to_owned(), high.to_owned())).one(db).await?;
    Ok(row.is_some())
}

/// At most `limit` members who have asked one, by key, after a key.
pub async fn askers_of(
    db: &impl ConnectionTrait,
    asked: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<String>, DbErr> {
    let later = after.map(|after| Column::Asker.gt(after));
    Entity::find()
        .select_only()
        .column(Column::Asker)
        .filter(Column::Asked.eq(asked))
        .filter(Condition::all().add_option(later))
        .order_by_asc(Column::Asker)
        .limit(limit as u64)
        .into_tuple()
        .all(db)
        .await
}

/// The number of members who have asked one.
pub async fn count_of(db: &impl ConnectionTrait, asked: &str) -> Result<u64, DbErr> {
    Entity::find().filter(Column::Asked.eq(asked)).count(db).await
}

/// Gives the requests of one member, sent and received, to another, who keeps its own and asks no
/// friend of its own. Of both kinds it has as many as a member may have at most; further ones end.
/// Part of a transaction, after the friends are given.
pub async fn give(
    db: &impl ConnectionTrait,
    from: &str,
    to: &str,
    now_ms: i64,
) -> Result<(), DbErr> {
    let friends = friendship::friends(db, to).await?;
    let of =
        |member: &str| Condition::any().add(Column::Asker.eq(member)).add(Column::Asked.eq(member));
    let own = Entity::find().filter(of(to)).all(db).await?;
    let given = Entity::find().filter(of(from)).order_by_asc(Column::CreatedAtMs).all(db).await?;
    let other = |row: &Model, member: &str| match row.asker == member {
        true => row.asked.clone(),
        false => row.asker.clone(),
    };
    let mut rows = vec![];
    for sent in [true, false] {
        let max = if sent { FRIEND_REQUESTS_SENT_MAX } else { FRIEND_REQUESTS_RECEIVED_MAX };
        let present = own.iter().filter(|row| (row.asker == to) == sent).count();
        let given = given.iter().filter(|row| (row.asker == from) == sent);
        let given = given.map(|row| other(row, from));
        let given = given.filter(|other| other != to && !friends.contains(other));
        let given = given.filter(|new| own.iter().all(|row| other(row, to) != *new));
        for other in given.take((max as usize).saturating_sub(present)) {
            let pair = if sent { (to, other.as_str()) } else { (other.as_str(), to) };
            rows.push(request(pair, now_ms));
        }
    }
    insert_chunked::<Entity, _>(db, rows, Some(known())).await?;
    Entity::delete_many().filter(of(from)).exec(db).await?;
    Ok(())
}

fn request((asker, asked): (&str, &str), now_ms: i64) -> ActiveModel {
    let (low, high) = ordered(asker, asked);
    ActiveModel {
        low: Set(low.to_owned()),
        high: Set(high.to_owned()),
        asker: Set(asker.to_owned()),
        asked: Set(asked.to_owned()),
        created_at_ms: Set(now_ms),
    }
}

fn known() -> OnConflict {
    OnConflict::columns([Column::Low, Column::High]).do_nothing_on([Column::Low]).to_owned()
}

/// Two keys, the smaller one first.
fn ordered<'a>(one: &'a str, other: &'a str) -> (&'a str, &'a str) {
    if one < other { (one, other) } else { (other, one) }
}
