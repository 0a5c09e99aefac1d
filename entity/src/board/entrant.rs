//! The members who joined a board.
//!
//! The row of the board counts them and numbers the joinings. Each joining takes the lock of that
//! row first, so the limit is exact on every database. A member who joins again gets a higher
//! number.

use ranking::id::PartitionNo;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ActiveValue::Set, QueryOrder, QuerySelect, UpdateMany};

use crate::board;
use crate::history::log_cursor;
use crate::sql::{begin, insert_new};

/// A row of `entrant`.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "entrant")]
pub struct Model {
    /// The board.
    #[sea_orm(primary_key, auto_increment = false)]
    pub board_no: i64,
    /// The member.
    #[sea_orm(primary_key, auto_increment = false)]
    pub member: String,
    /// The number of the joining.
    pub no: i64,
    /// Time of joining, in Unix milliseconds.
    pub joined_at_ms: i64,
}

no_relations!();

/// The outcome of a joining.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joined {
    /// The member has joined now, by this number.
    Now(i64),
    /// The member had joined before, and has this number now.
    Before(i64),
    /// The board has as many entrants as it may have.
    Full(i64),
    /// The board is deleted, or members do not join it.
    NoBoard,
}

/// The outcome of leaving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// The member has left.
    Done,
    /// The member has not joined, or has joined again since.
    Nothing,
    /// The partition was recovered since.
    Recovered,
}

/// Lets a member join a board, in one transaction.
pub async fn join(
    db: &DatabaseConnection,
    board_no: i64,
    member: &str,
    now_ms: i64,
) -> Result<Joined, DbErr> {
    use board::Column::{Entrants, EntrantsMax, EntrantsNo};
    let transaction = begin(db).await?;
    let numbered = of_board(board_no)
        .col_expr(EntrantsNo, Expr::col(EntrantsNo).add(1))
        .exec(&transaction)
        .await?;
    let row: Option<(i64, Option<i32>, i64)> = board::Entity::find_by_id(board_no)
        .select_only()
        .columns([Entrants, EntrantsMax, EntrantsNo])
        .into_tuple()
        .one(&transaction)
        .await?;
    let Some((entrants, max, no)) = row.filter(|_| numbered.rows_affected == 1) else {
        transaction.rollback().await?;
        return Ok(Joined::NoBoard);
    };
    let known = Entity::find_by_id((board_no, member.to_owned())).one(&transaction).await?;
    if known.is_some() {
        let again = ActiveModel { no: Set(no), ..Default::default() };
        Entity::update_many()
            .set(again)
            .filter(Column::BoardNo.eq(board_no))
            .filter(Column::Member.eq(member))
            .exec(&transaction)
            .await?;
        transaction.commit().await?;
        return Ok(Joined::Before(no));
    }
    if let Some(max) = max.map(i64::from).filter(|&max| entrants >= max) {
        transaction.rollback().await?;
        return Ok(Joined::Full(max));
    }
    let entrant = ActiveModel {
        board_no: Set(board_no),
        member: Set(member.to_owned()),
        no: Set(no),
        joined_at_ms: Set(now_ms),
    };
    Entity::insert(entrant).exec_without_returning(&transaction).await?;
    of_board(board_no).col_expr(Entrants, Expr::col(Entrants).add(1)).exec(&transaction).await?;
    transaction.commit().await?;
    Ok(Joined::Now(no))
}

/// Takes back a joining by its number, in one transaction, if the partition that was told before is
/// still in an epoch: one that is loaded meanwhile might have read the row already.
pub async fn leave(
    db: &DatabaseConnection,
    entrant: &Model,
    partition: PartitionNo,
    epoch: u64,
) -> Result<Left, DbErr> {
    use board::Column::Entrants;
    let transaction = begin(db).await?;
    of_board(entrant.board_no)
        .col_expr(Entrants, Expr::col(Entrants).sub(1))
        .exec(&transaction)
        .await?;
    let locked = crate::sql::lock_cursor(partition)
        .filter(log_cursor::Column::Epoch.eq(epoch as i64))
        .exec(&transaction)
        .await?;
    if locked.rows_affected == 0 {
        transaction.rollback().await?;
        return Ok(Left::Recovered);
    }
    let gone = Entity::delete_many()
        .filter(Column::BoardNo.eq(entrant.board_no))
        .filter(Column::Member.eq(&entrant.member))
        .filter(Column::No.eq(entrant.no))
        .exec(&transaction)
        .await?;
    if gone.rows_affected == 0 {
        transaction.rollback().await?;
        return Ok(Left::Nothing);
    }
    transaction.commit().await?;
    Ok(Left::Done)
}

/// Gives a member's places on boards to another one, who keeps its own. Part of a transaction. The
/// partitions ask SQL when they see the other one.
pub async fn give(db: &impl ConnectionTrait, from: &str, to: &str) -> Result<(), DbErr> {
    use board::Column::{Entrants, EntrantsNo};
    let places = Entity::find().filter(Column::Member.eq(from)).order_by_asc(Column::BoardNo);
    for place in places.all(db).await? {
        // The lock of the board's row comes first, as in a joining.
        let numbered = of_board(place.board_no).col_expr(EntrantsNo, Expr::col(EntrantsNo).add(1));
        if numbered.exec(db).await?.rows_affected == 0 {
            continue;
        }
        let gone = Entity::delete_by_id((place.board_no, from.to_owned())).exec(db).await?;
        if gone.rows_affected == 0 {
            continue;
        }
        let no = board::Entity::find_by_id(place.board_no).select_only().column(EntrantsNo);
        let no: Option<i64> = no.into_tuple().one(db).await?;
        let given = ActiveModel {
            board_no: Set(place.board_no),
            member: Set(to.to_owned()),
            no: Set(no.unwrap_or_default()),
            joined_at_ms: Set(place.joined_at_ms),
        };
        // The insertion decides: a snapshot of MariaDB may be older than the lock.
        if !insert_new(db, given, [Column::BoardNo, Column::Member]).await? {
            let fewer = of_board(place.board_no).col_expr(Entrants, Expr::col(Entrants).sub(1));
            fewer.exec(db).await?;
        }
    }
    Ok(())
}

/// An update of a board that members join; it takes the lock of the row.
fn of_board(no: i64) -> UpdateMany<board::Entity> {
    board::Entity::update_many()
        .filter(board::Column::No.eq(no))
        .filter(board::Column::Joining.eq(true))
        .filter(board::Column::DeletedAtMs.is_null())
}

/// A member's joining of a board; `None` if it has not joined.
pub async fn of(
    db: &impl ConnectionTrait,
    board_no: i64,
    member: &str,
) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id((board_no, member.to_owned())).one(db).await
}

/// Those of some members who have joined a board: at most some thousand.
pub async fn of_members(
    db: &impl ConnectionTrait,
    board_no: i64,
    members: impl IntoIterator<Item = &str>,
) -> Result<Vec<Model>, DbErr> {
    let of_board = Entity::find().filter(Column::BoardNo.eq(board_no));
    of_board.filter(Column::Member.is_in(members)).all(db).await
}

/// Up to `limit` entrants of a board after a member, by key.
pub async fn after(
    db: &impl ConnectionTrait,
    board_no: i64,
    member: &str,
    limit: u64,
) -> Result<Vec<Model>, DbErr> {
    let later =
        Entity::find().filter(Column::BoardNo.eq(board_no)).filter(Column::Member.gt(member));
    later.order_by_asc(Column::Member).limit(limit).all(db).await
}

/// The number of a board's entrants; `None` if there is no such board.
pub async fn count(db: &impl ConnectionTrait, board_no: i64) -> Result<Option<i64>, DbErr> {
    let row = board::Entity::find_by_id(board_no).select_only().column(board::Column::Entrants);
    row.into_tuple().one(db).await
}
