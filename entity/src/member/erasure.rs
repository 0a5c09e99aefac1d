//! Erasures of members: one record decides each, and is its receipt afterwards.

use std::collections::BTreeMap;

use ranking::id::{MemberId, PartitionNo};
use ranking::merge::MemberMark;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict};
use sea_orm::{ActiveValue::Set, Condition, IntoActiveModel, QueryOrder, QuerySelect};

use crate::sql::dialect::add_to_each;
use crate::sql::{first_rows, insert_chunked};

/// The steps of an erasure, each of which is decided by a compare-and-set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Step {
    /// The member is held, and its history is checked. The erasure may still be refused.
    #[sea_orm(string_value = "HELD")]
    Held,
    /// It cannot be carried out. Partitions are being told, and then the row goes.
    #[sea_orm(string_value = "REFUSED")]
    Refused,
    /// The member is being taken off its boards, and its rows are being deleted.
    #[sea_orm(string_value = "ERASING")]
    Erasing,
    /// SQL has nothing of the member any more. Partitions are being told, and forget it.
    #[sea_orm(string_value = "RELEASING")]
    Releasing,
    /// Nothing is left to do, and the row is a receipt.
    #[sea_orm(string_value = "DONE")]
    Done,
}

/// The treatment of the member's scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Mode {
    /// They are deleted.
    #[sea_orm(string_value = "DELETE")]
    Delete,
    /// They stay, as those of a member with a new random key.
    #[sea_orm(string_value = "ANONYMIZE")]
    Anonymize,
}

/// A row of `member_erasure`.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "member_erasure")]
pub struct Model {
    /// The random id.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// The member; none once nothing of it is left.
    pub member: Option<String>,
    /// The present step.
    pub step: Step,
    /// Random digits that go into the hash.
    pub salt: String,
    /// SHA-256 of the salt, a line feed and the member, in hexadecimal. Only a reader who has the
    /// key already can tell that the receipt is of it.
    pub hash: String,
    /// The numbers of rows that went, by table, as a JSON object.
    pub counts: String,
    /// When it began, in Unix milliseconds.
    pub started_at_ms: i64,
    /// When nothing was left, in Unix milliseconds.
    pub erased_at_ms: Option<i64>,
    /// The treatment of the member's scores.
    pub mode: Mode,
    /// The new random key, while the scores are being given to it. Nothing tells afterwards whose
    /// it is.
    pub target: Option<String>,
}

no_relations!();

/// The numbers of rows by table.
pub type Counts = BTreeMap<String, u64>;

impl Model {
    /// The numbers of rows that went.
    ///
    /// # Errors
    /// `Corrupt` if they are not a JSON object of numbers.
    pub fn counts(&self) -> ranking::Result<Counts> {
        serde_json::from_str(&self.counts)
            .map_err(|error| ranking::Error::Corrupt(format!("erasure {}: {error}", self.id)))
    }

    /// The member, while the erasure is under way.
    ///
    /// # Errors
    /// `Corrupt` if there is none.
    pub fn member_id(&self) -> ranking::Result<MemberId> {
        let key = self.member.as_deref().and_then(|key| MemberId::new(key).ok());
        key.ok_or_else(|| ranking::Error::Corrupt(format!("erasure {} has no member", self.id)))
    }

    /// The new key, while the scores are being given to it.
    ///
    /// # Errors
    /// `Corrupt` if it is no member's.
    pub fn target_id(&self) -> ranking::Result<Option<MemberId>> {
        let broken = |_| ranking::Error::Corrupt(format!("erasure {} has no target", self.id));
        self.target.as_deref().map(MemberId::new).transpose().map_err(broken)
    }

    /// The mark that the row means for its member: it is held until SQL has nothing of it.
    pub fn mark(&self) -> MemberMark {
        match self.step {
            Step::Held | Step::Erasing => MemberMark::Held,
            Step::Refused | Step::Releasing | Step::Done => MemberMark::None,
        }
    }
}

/// The numbers of a commit's events that erasures took.
pub mod event {
    use super::*;

    /// A row of `erased_event`.
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "erased_event")]
    pub struct Model {
        /// The partition of the commit.
        #[sea_orm(primary_key, auto_increment = false)]
        pub partition: i32,
        /// The seq of the commit.
        #[sea_orm(primary_key, auto_increment = false)]
        pub seq: i64,
        /// The number of its events that are erased.
        pub events: i32,
    }

    no_relations!();

    /// The number of a commit's events that are erased.
    pub async fn of_commit(
        db: &impl ConnectionTrait,
        partition: PartitionNo,
        seq: i64,
    ) -> Result<i32, DbErr> {
        let row = Entity::find_by_id((i32::from(partition), seq)).one(db).await?;
        Ok(row.map_or(0, |row| row.events))
    }

    /// Counts erased events, by partition and seq. Part of a transaction.
    pub async fn count(
        db: &impl ConnectionTrait,
        erased: &BTreeMap<(i32, i64), u32>,
    ) -> Result<(), DbErr> {
        if erased.is_empty() {
            return Ok(());
        }
        let rows = erased.keys().map(|&(partition, seq)| ActiveModel {
            partition: Set(partition),
            seq: Set(seq),
            events: Set(0),
        });
        let known = OnConflict::columns([Column::Partition, Column::Seq])
            .do_nothing_on([Column::Partition])
            .to_owned();
        insert_chunked::<Entity, _>(db, rows.collect(), Some(known)).await?;
        let row = |(&(partition, seq), &more): (&(i32, i64), &u32)| {
            (i64::from(partition), seq, i64::from(more))
        };
        let column = ("erased_event", "events");
        let rows = erased.iter().map(row);
        let sql = add_to_each(db.get_database_backend(), column, ["partition", "seq"], rows);
        db.execute_unprepared(&sql).await?;
        Ok(())
    }
}

/// The erasure of an id.
pub async fn find(db: &impl ConnectionTrait, id: &str) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(id).one(db).await
}

/// The erasure of a member that is under way.
pub async fn of(db: &impl ConnectionTrait, member: &str) -> Result<Option<Model>, DbErr> {
    Entity::find().filter(Column::Member.eq(member)).one(db).await
}

/// The erasures of some members that are under way: at most some thousand members.
pub async fn of_any(
    db: &impl ConnectionTrait,
    members: impl IntoIterator<Item = &str>,
) -> Result<Vec<Model>, DbErr> {
    Entity::find().filter(Column::Member.is_in(members)).all(db).await
}

/// The erasures under way, oldest first; those that began before an instant in Unix milliseconds.
pub async fn under_way(db: &impl ConnectionTrait, before_ms: i64) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::Member.is_not_null())
        .filter(Column::StartedAtMs.lt(before_ms))
        .order_by_asc(Column::StartedAtMs)
        .all(db)
        .await
}

/// True if an erasure is under way.
pub async fn is_under_way(db: &impl ConnectionTrait) -> Result<bool, DbErr> {
    Ok(Entity::find().filter(Column::Member.is_not_null()).one(db).await?.is_some())
}

/// The newest receipts, at most `limit`.
pub async fn receipts(db: &impl ConnectionTrait, limit: u64) -> Result<Vec<Model>, DbErr> {
    let newest = Entity::find().order_by_desc(Column::StartedAtMs).order_by_asc(Column::Id);
    newest.limit(limit).all(db).await
}

/// The place of a receipt in the list: when it began, and its id.
pub type Place = (i64, String);

/// A page of the receipts, newest first: at most `limit` behind a place; and true if there are
/// more.
pub async fn page_after(
    db: &impl ConnectionTrait,
    after: Option<Place>,
    limit: usize,
) -> Result<(Vec<Model>, bool), DbErr> {
    let beyond = after.map(|(started_at_ms, id)| {
        let same = Column::StartedAtMs.eq(started_at_ms).and(Column::Id.gt(id));
        Column::StartedAtMs.lt(started_at_ms).or(same)
    });
    let select = Entity::find()
        .filter(Condition::all().add_option(beyond))
        .order_by_desc(Column::StartedAtMs)
        .order_by_asc(Column::Id);
    first_rows(db, select, limit).await
}

/// Inserts an erasure, unless one of this member is under way.
pub async fn insert(db: &impl ConnectionTrait, row: Model) -> Result<(), DbErr> {
    let known = OnConflict::column(Column::Member).do_nothing_on([Column::Id]).to_owned();
    Entity::insert(row.into_active_model()).on_conflict(known).exec_without_returning(db).await?;
    Ok(())
}

/// Moves an erasure on to its next step. Returns false if it is at another step.
pub async fn advance(db: &impl ConnectionTrait, row: &Model, to: Step) -> Result<bool, DbErr> {
    let advanced = at_step(row).col_expr(Column::Step, Expr::value(to)).exec(db).await?;
    Ok(advanced.rows_affected == 1)
}

/// Takes the lock of an erasure's row in a transaction, and adds to its numbers. Returns false if
/// it is at another step.
pub async fn add_counts(
    transaction: &impl ConnectionTrait,
    row: &Model,
    more: &Counts,
) -> crate::error::Result<bool> {
    let locked = at_step(row).col_expr(Column::Counts, Expr::col(Column::Counts));
    if locked.exec(transaction).await?.rows_affected != 1 {
        return Ok(false);
    }
    let Some(now) = find(transaction, &row.id).await? else { return Ok(false) };
    let mut counts = now.counts()?;
    for (table, number) in more.iter().filter(|(_, number)| **number > 0) {
        *counts.entry(table.clone()).or_default() += number;
    }
    let text = serde_json::to_string(&counts).expect("numbers have a JSON form");
    at_step(row).col_expr(Column::Counts, Expr::value(text)).exec(transaction).await?;
    Ok(true)
}

/// Moves an erasure on to its next step, once the scores have been given to the new key. Returns
/// false if it is at another step.
pub async fn forget_target(
    db: &impl ConnectionTrait,
    row: &Model,
    to: Step,
) -> Result<bool, DbErr> {
    let advanced = at_step(row)
        .col_expr(Column::Target, Expr::value(None::<String>))
        .col_expr(Column::Step, Expr::value(to))
        .exec(db)
        .await?;
    Ok(advanced.rows_affected == 1)
}

/// True if the merge of a source into a target is part of an erasure, so that nothing of the source
/// may be seen of the target.
pub async fn is_anonymous(
    db: &impl ConnectionTrait,
    source: &str,
    target: &str,
) -> Result<bool, DbErr> {
    Ok(of(db, source).await?.is_some_and(|row| row.target.as_deref() == Some(target)))
}

/// Makes an erasure's row a receipt, which no longer names the member.
pub async fn finish(db: &impl ConnectionTrait, row: &Model, now_ms: i64) -> Result<(), DbErr> {
    at_step(row)
        .col_expr(Column::Step, Expr::value(Step::Done))
        .col_expr(Column::Member, Expr::value(None::<String>))
        .col_expr(Column::ErasedAtMs, Expr::value(now_ms))
        .exec(db)
        .await?;
    Ok(())
}

/// Deletes the row of an erasure that was refused, once all partitions know.
pub async fn forget(db: &impl ConnectionTrait, row: &Model) -> Result<(), DbErr> {
    Entity::delete_many()
        .filter(Column::Id.eq(&row.id))
        .filter(Column::Step.eq(Step::Refused))
        .exec(db)
        .await?;
    Ok(())
}

/// An update of an erasure's row while it is at a step.
fn at_step(row: &Model) -> sea_orm::UpdateMany<Entity> {
    Entity::update_many().filter(Column::Id.eq(&row.id)).filter(Column::Step.eq(row.step))
}
