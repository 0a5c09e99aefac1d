//! Reports of members by players, for moderators.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ActiveEnum, ActiveValue::Set, NotSet, QueryOrder, QuerySelect};
use serde_json::json;

use crate::audit::Act;
use crate::sql::dialect::{delete, statement};
use crate::sql::{begin, first_rows};
use crate::{board, member};

/// The most open reports of a reporter.
pub const REPORTS_OPEN_MAX: u64 = 50;

/// The most reports of a member on a board that are kept. Further ones take the place of resolved
/// ones, or are counted alone.
pub const REPORTS_KEPT_MAX: u64 = 100;

/// The reason of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Reason {
    /// Scores that cannot be honest.
    #[sea_orm(string_value = "CHEATING")]
    Cheating,
    /// A name or a picture.
    #[sea_orm(string_value = "NAME")]
    Name,
    /// The behavior towards others.
    #[sea_orm(string_value = "BEHAVIOR")]
    Behavior,
    /// Anything else.
    #[sea_orm(string_value = "OTHER")]
    Other,
}

/// The state of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum State {
    /// It waits for a moderator.
    #[sea_orm(string_value = "OPEN")]
    Open,
    /// A moderator found nothing wrong.
    #[sea_orm(string_value = "DISMISSED")]
    Dismissed,
    /// A moderator agreed.
    #[sea_orm(string_value = "UPHELD")]
    Upheld,
}

/// A row of `member_report`.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "member_report")]
pub struct Model {
    /// The number, never used again.
    #[sea_orm(primary_key)]
    pub no: i64,
    /// The board.
    pub board_no: i64,
    /// The member that is reported.
    pub member: String,
    /// The member that reports it.
    pub reporter: String,
    /// The reason.
    pub reason: Reason,
    /// More about it.
    pub text: Option<String>,
    /// The number of further reports that were counted with this one and not kept.
    pub further: i64,
    /// The time of the report, in Unix milliseconds; of the last one, if it was replaced.
    pub reported_at_ms: i64,
    /// The state.
    pub state: State,
    /// When it was resolved, in Unix milliseconds; none while it is open.
    pub resolved_at_ms: Option<i64>,
}

no_relations!();

/// A report to keep.
#[derive(Debug, Clone)]
pub struct Report {
    /// The board.
    pub board_no: i64,
    /// The member that is reported.
    pub member: String,
    /// The member that reports it, which has a row.
    pub reporter: String,
    /// The reason.
    pub reason: Reason,
    /// More about it.
    pub text: Option<String>,
}

/// The outcome of keeping a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// It is kept, perhaps in place of the one that this reporter made before.
    Done,
    /// The member has as many reports on the board as are kept: it is counted.
    Counted,
    /// The reporter has as many open reports as it may have.
    Full,
}

/// Keeps a report, in one transaction. The locks of the rows of board and reporter make the limits
/// exact.
pub async fn keep(db: &DatabaseConnection, report: Report, now_ms: i64) -> Result<Kept, DbErr> {
    let transaction = begin(db).await?;
    lock(&transaction, &report).await?;
    let of_member = || {
        Entity::find()
            .filter(Column::BoardNo.eq(report.board_no))
            .filter(Column::Member.eq(&report.member))
    };
    let known = of_member().filter(Column::Reporter.eq(&report.reporter));
    let known = known.one(&transaction).await?;
    if known.as_ref().is_none_or(|known| known.state != State::Open) {
        let open = Entity::find()
            .filter(Column::Reporter.eq(&report.reporter))
            .filter(Column::State.eq(State::Open));
        if open.count(&transaction).await? >= REPORTS_OPEN_MAX {
            transaction.rollback().await?;
            return Ok(Kept::Full);
        }
    }
    if known.is_none() && of_member().count(&transaction).await? >= REPORTS_KEPT_MAX {
        let oldest = |select: Select<Entity>| select.order_by_asc(Column::No).limit(1);
        let resolved = oldest(of_member().filter(Column::State.ne(State::Open)));
        match resolved.one(&transaction).await? {
            Some(resolved) => {
                Entity::delete_by_id(resolved.no).exec(&transaction).await?;
            }
            None => {
                let first = oldest(of_member()).one(&transaction).await?;
                Entity::update_many()
                    .col_expr(Column::Further, Expr::col(Column::Further).add(1))
                    .filter(Column::No.eq(first.map_or(0, |first| first.no)))
                    .exec(&transaction)
                    .await?;
                transaction.commit().await?;
                return Ok(Kept::Counted);
            }
        }
    }
    let row = ActiveModel {
        no: known.as_ref().map_or(NotSet, |known| Set(known.no)),
        board_no: Set(report.board_no),
        member: Set(report.member.clone()),
        reporter: Set(report.reporter.clone()),
        reason: Set(report.reason),
        text: Set(report.text.clone()),
        further: Set(known.as_ref().map_or(0, |known| known.further)),
        reported_at_ms: Set(now_ms),
        state: Set(State::Open),
        resolved_at_ms: Set(None),
    };
    match known {
        Some(_) => drop(Entity::update(row).exec(&transaction).await?),
        None => drop(Entity::insert(row).exec_without_returning(&transaction).await?),
    }
    transaction.commit().await?;
    Ok(Kept::Done)
}

/// Updates that change nothing and take the locks of the rows.
async fn lock(transaction: &impl ConnectionTrait, report: &Report) -> Result<(), DbErr> {
    board::Entity::update_many()
        .col_expr(board::Column::EntrantsNo, Expr::col(board::Column::EntrantsNo))
        .filter(board::Column::No.eq(report.board_no))
        .exec(transaction)
        .await?;
    member::Entity::update_many()
        .col_expr(member::Column::Region, Expr::col(member::Column::Region))
        .filter(member::Column::Key.eq(&report.reporter))
        .exec(transaction)
        .await?;
    Ok(())
}

/// Resolves a report, or resolves it in another way, with the row of the audit log. Returns false
/// if it was resolved so before.
pub async fn resolve(
    db: &DatabaseConnection,
    row: &Model,
    to: State,
    now_ms: i64,
    act: Act,
) -> Result<bool, DbErr> {
    let resolved =
        ActiveModel { state: Set(to), resolved_at_ms: Set(Some(now_ms)), ..Default::default() };
    let transaction = begin(db).await?;
    let resolved = Entity::update_many()
        .set(resolved)
        .filter(Column::No.eq(row.no))
        .filter(Column::State.ne(to))
        .exec(&transaction)
        .await?;
    let is_resolved = resolved.rows_affected == 1;
    if is_resolved {
        let value = |state: State| json!({ "report": row.no, "state": state.to_value() });
        act.before(value(row.state)).after(value(to)).write(&transaction).await?;
    }
    transaction.commit().await?;
    Ok(is_resolved)
}

/// Gives the reports of a member and those by it to another one, as a part of a transaction. Of two
/// by one reporter, the other one's stays; no member reports itself.
pub async fn give(db: &impl ConnectionTrait, from: &str, to: &str) -> Result<(), DbErr> {
    let backend = db.get_database_backend();
    for (given, same) in [("member", "reporter"), ("reporter", "member")] {
        let twice = format!(
            r#"e."{given}" = $1 AND EXISTS (SELECT 1 FROM "member_report" AS o
            WHERE o."board_no" = e."board_no" AND o."{same}" = e."{same}" AND o."{given}" = $2)"#
        );
        let twice = delete(backend, "member_report", r#""no""#, &twice);
        db.execute_raw(statement(backend, twice, [from.into(), to.into()])).await?;
        let update = format!(r#"UPDATE "member_report" SET "{given}" = $1 WHERE "{given}" = $2"#);
        db.execute_raw(statement(backend, update, [to.into(), from.into()])).await?;
    }
    Entity::delete_many()
        .filter(Column::Member.eq(to))
        .filter(Column::Reporter.eq(to))
        .exec(db)
        .await?;
    Ok(())
}

/// The report of a number.
pub async fn find(db: &impl ConnectionTrait, no: i64) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(no).one(db).await
}

/// A page of a board's reports, in the order of their numbers: those in some states, of one member
/// or of all, after a number; and true if there are more.
pub async fn page(
    db: &impl ConnectionTrait,
    board_no: i64,
    (states, member): (&[State], Option<&str>),
    after: i64,
    limit: usize,
) -> Result<(Vec<Model>, bool), DbErr> {
    let mut select = Entity::find()
        .filter(Column::BoardNo.eq(board_no))
        .filter(Column::State.is_in(states.iter().copied()))
        .filter(Column::No.gt(after));
    if let Some(member) = member {
        select = select.filter(Column::Member.eq(member));
    }
    first_rows(db, select.order_by_asc(Column::No), limit).await
}
