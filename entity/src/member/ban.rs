//! Bans of members: one record for each member says from which boards it is banned, and how far a
//! change of that has come.

use std::collections::BTreeSet;

use ranking::id::{BoardNo, MemberId};
use ranking::merge::{Ban, MemberMark};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, OnConflict};
use sea_orm::{ActiveValue::Set, IntoActiveModel, QueryOrder, QuerySelect};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::member::{erasure, merge};
use crate::sql::{begin, insert_new};
use crate::webhook::outbox::{self, Notice};

/// The most boards that a member may be banned from one by one.
pub const BOARDS_MAX: usize = 100;

/// The number of a ban from all boards: no board has it.
pub const EVERYWHERE: i64 = 0;

/// The event id of a removal by a ban: it tells it from other removals.
pub const REMOVAL_ID: &str = "laurel:ban";

/// The steps of a change of bans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Step {
    /// Partitions are being told, and the member is taken off boards or put back.
    #[sea_orm(string_value = "CHANGING")]
    Changing,
    /// The member is back. Partitions are being told, and what was quarantined meanwhile is being
    /// released.
    #[sea_orm(string_value = "RELEASING")]
    Releasing,
    /// Nothing is left to do.
    #[sea_orm(string_value = "SETTLED")]
    Settled,
}

/// A ban from one board or all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// The board's number, or [`EVERYWHERE`].
    pub board: i64,
    /// True if the member is answered as if its scores counted.
    pub shadow: bool,
    /// The reason, for moderators.
    pub reason: Option<String>,
    /// When it began, in Unix milliseconds.
    pub since_ms: i64,
}

/// A row of `member_ban`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "member_ban")]
pub struct Model {
    /// The member.
    #[sea_orm(primary_key, auto_increment = false)]
    pub member: String,
    /// The step of the last change.
    pub step: Step,
    /// The bans, as a JSON array of [`Terms`].
    pub bans: String,
    /// The bans that are being lifted, as a JSON array of [`Terms`].
    pub lifting: String,
    /// The number of the last change; it goes up with each one.
    pub version: i64,
    /// When the member's bans changed last, in Unix milliseconds.
    pub changed_at_ms: i64,
}

no_relations!();

/// The boards from which bans removed a member.
pub mod removal {
    use super::*;

    /// A row of `ban_removal`.
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "ban_removal")]
    pub struct Model {
        /// The member.
        #[sea_orm(primary_key, auto_increment = false)]
        pub member: String,
        /// The board.
        #[sea_orm(primary_key, auto_increment = false)]
        pub board_no: i64,
    }

    no_relations!();

    /// Notes that a ban is about to remove a member from a board.
    pub async fn note(db: &impl ConnectionTrait, member: &str, board_no: i64) -> Result<(), DbErr> {
        let row = ActiveModel { member: Set(member.to_owned()), board_no: Set(board_no) };
        let known = OnConflict::columns([Column::Member, Column::BoardNo])
            .do_nothing_on([Column::Member])
            .to_owned();
        Entity::insert(row).on_conflict(known).exec_without_returning(db).await?;
        Ok(())
    }

    /// Forgets that, as the member is back.
    pub async fn forget(
        db: &impl ConnectionTrait,
        member: &str,
        board_no: i64,
    ) -> Result<(), DbErr> {
        Entity::delete_by_id((member.to_owned(), board_no)).exec(db).await?;
        Ok(())
    }

    /// At most `limit` boards that bans removed a member from, by number, after one.
    pub async fn boards_after(
        db: &impl ConnectionTrait,
        member: &str,
        board_no: i64,
        limit: u64,
    ) -> Result<Vec<i64>, DbErr> {
        Entity::find()
            .select_only()
            .column(Column::BoardNo)
            .filter(Column::Member.eq(member))
            .filter(Column::BoardNo.gt(board_no))
            .order_by_asc(Column::BoardNo)
            .limit(limit)
            .into_tuple()
            .all(db)
            .await
    }

    /// A member that a ban removed from a board, if there is one.
    pub async fn any_of_board(
        db: &impl ConnectionTrait,
        board_no: i64,
    ) -> Result<Option<String>, DbErr> {
        let row = Entity::find().filter(Column::BoardNo.eq(board_no)).limit(1).one(db).await?;
        Ok(row.map(|row| row.member))
    }
}

impl Model {
    /// The row of a member that is not banned.
    pub fn none(member: &str) -> Self {
        Self {
            member: member.to_owned(),
            step: Step::Settled,
            bans: "[]".to_owned(),
            lifting: "[]".to_owned(),
            version: 0,
            changed_at_ms: 0,
        }
    }

    /// The bans.
    ///
    /// # Errors
    /// `Corrupt` if they are not a JSON array of [`Terms`].
    pub fn terms(&self) -> ranking::Result<Vec<Terms>> {
        serde_json::from_str(&self.bans).map_err(|error| self.corrupt(&error))
    }

    /// The bans that are being lifted.
    ///
    /// # Errors
    /// As [`Self::terms`].
    pub fn lifted(&self) -> ranking::Result<Vec<Terms>> {
        serde_json::from_str(&self.lifting).map_err(|error| self.corrupt(&error))
    }

    /// The ban that covers a board: its own, else that from all boards.
    ///
    /// # Errors
    /// As [`Self::terms`].
    pub fn terms_on(&self, board_no: i64) -> ranking::Result<Option<Terms>> {
        let mut terms = self.terms()?;
        terms.retain(|terms| [board_no, EVERYWHERE].contains(&terms.board));
        terms.sort_by_key(|terms| terms.board == EVERYWHERE);
        Ok(terms.into_iter().next())
    }

    /// The row after a change to these bans: with those being lifted, if any.
    pub fn changed(&self, terms: &[Terms], lifted: &[Terms], now_ms: i64) -> Self {
        let json = "terms have a JSON form";
        Self {
            member: self.member.clone(),
            step: Step::Changing,
            bans: serde_json::to_string(terms).expect(json),
            lifting: serde_json::to_string(lifted).expect(json),
            version: self.version + 1,
            changed_at_ms: now_ms,
        }
    }

    /// The row at another step.
    pub fn at_step(&self, step: Step) -> Self {
        Self { step, version: self.version + 1, ..self.clone() }
    }

    /// The mark that the row means: a member stays banned from a board until it is back there.
    ///
    /// # Errors
    /// As [`Self::terms`].
    pub fn mark(&self) -> ranking::Result<MemberMark> {
        let mut boards: BTreeSet<i64> = self.terms()?.iter().map(|terms| terms.board).collect();
        if self.step == Step::Changing {
            boards.extend(self.lifted()?.iter().map(|terms| terms.board));
        }
        Ok(match boards {
            boards if boards.is_empty() => MemberMark::None,
            boards if boards.contains(&EVERYWHERE) => MemberMark::Banned(Ban::Everywhere),
            boards => MemberMark::Banned(Ban::Boards(boards.into_iter().map(BoardNo).collect())),
        })
    }

    fn corrupt(&self, error: &serde_json::Error) -> ranking::Error {
        ranking::Error::Corrupt(format!("the bans of member {:?}: {error}", self.member))
    }
}

/// The bans of a member.
pub async fn of(db: &impl ConnectionTrait, member: &str) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(member).one(db).await
}

/// The bans of some members: at most some thousand.
pub async fn of_any(
    db: &impl ConnectionTrait,
    members: impl IntoIterator<Item = &str>,
) -> Result<Vec<Model>, DbErr> {
    Entity::find().filter(Column::Member.is_in(members)).all(db).await
}

/// The ban of a member that covers a board, if it is in force, in a transaction that holds the row
/// until its end.
pub async fn locked_terms(
    transaction: &impl ConnectionTrait,
    member: &str,
    board_no: i64,
) -> Result<Option<Terms>> {
    Entity::update_many()
        .col_expr(Column::Version, Expr::col(Column::Version))
        .filter(Column::Member.eq(member))
        .exec(transaction)
        .await?;
    let row = of(transaction, member).await?;
    Ok(row.map(|row| row.terms_on(board_no)).transpose()?.flatten())
}

/// Replaces a row by its next one. Returns false if the row is another one by now.
pub async fn replace(db: &impl ConnectionTrait, row: &Model, next: &Model) -> Result<bool, DbErr> {
    let values = next.clone().into_active_model().reset_all();
    if row.version == 0 {
        return insert_new(db, values, [Column::Member]).await;
    }
    let replaced = Entity::update_many()
        .set(values)
        .filter(Column::Member.eq(&row.member))
        .filter(Column::Version.eq(row.version))
        .exec(db)
        .await?;
    Ok(replaced.rows_affected == 1)
}

/// As [`replace`], in a transaction that tells webhooks of it.
pub async fn replace_told(
    db: &DatabaseConnection,
    (row, next): (&Model, &Model),
    notices: &[Notice],
) -> Result<bool, DbErr> {
    let transaction = begin(db).await?;
    if !replace(&transaction, row, next).await? {
        transaction.rollback().await?;
        return Ok(false);
    }
    outbox::tell(&transaction, notices).await?;
    transaction.commit().await?;
    Ok(true)
}

/// The changes under way, oldest first; those that began before an instant in Unix milliseconds.
pub async fn under_way(db: &impl ConnectionTrait, before_ms: i64) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::Step.ne(Step::Settled))
        .filter(Column::ChangedAtMs.lt(before_ms))
        .order_by_asc(Column::ChangedAtMs)
        .all(db)
        .await
}

/// A page of all rows, by member, after one.
pub async fn page_after(
    db: &impl ConnectionTrait,
    member: &str,
    limit: u64,
) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::Member.gt(member))
        .order_by_asc(Column::Member)
        .limit(limit)
        .all(db)
        .await
}

/// The marks of members, by their merges, else by their bans.
///
/// # Errors
/// If SQL does not answer; `Corrupt` if a row is invalid.
pub async fn marks_of(
    db: &impl ConnectionTrait,
    members: &[MemberId],
) -> Result<Vec<(MemberId, MemberMark)>> {
    let mut marks = merge::marks_of(db, members).await?;
    for row in of_any(db, members.iter().map(MemberId::as_str)).await? {
        let of_row = marks.iter_mut().find(|(member, _)| member.as_str() == row.member);
        if let Some((_, mark)) = of_row.filter(|(_, mark)| *mark == MemberMark::None) {
            *mark = row.mark()?;
        }
    }
    for row in erasure::of_any(db, members.iter().map(MemberId::as_str)).await? {
        let of_row =
            marks.iter_mut().find(|(member, _)| Some(member.as_str()) == row.member.as_deref());
        if let Some((_, mark)) = of_row.filter(|_| row.mark() != MemberMark::None) {
            *mark = row.mark();
        }
    }
    Ok(marks)
}
