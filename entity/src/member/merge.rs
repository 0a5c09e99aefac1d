//! Merges of members: one record decides each.

use ranking::id::MemberId;
use ranking::merge::MemberMark;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, OnConflict};
use sea_orm::{ActiveValue::Set, Condition, QueryOrder, QuerySelect};

/// The steps of a merge, each of which is decided by a compare-and-set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Step {
    /// Both members are held, and their histories are checked. The merge may still be refused.
    #[sea_orm(string_value = "HELD")]
    Held,
    /// It cannot be carried out. Partitions are being told, and then the row goes.
    #[sea_orm(string_value = "REFUSED")]
    Refused,
    /// The merge goes on to its end: the source's events are being copied to the target, and the
    /// source is being removed.
    #[sea_orm(string_value = "DECIDED")]
    Decided,
    /// The target has the source's events and friends. Partitions are being told.
    #[sea_orm(string_value = "MERGED")]
    Merged,
    /// Nothing is left to do.
    #[sea_orm(string_value = "DONE")]
    Done,
}

/// A row of `member_merge`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "member_merge")]
pub struct Model {
    /// The member that is merged. It is merged once.
    #[sea_orm(primary_key, auto_increment = false)]
    pub source: String,
    /// The member that it is merged into.
    pub target: String,
    /// The present step.
    pub step: Step,
    /// When it began, in Unix milliseconds.
    pub started_at_ms: i64,
}

no_relations!();

impl Model {
    /// The marks that the row means for its members.
    ///
    /// # Errors
    /// `Corrupt` if a key is no member's.
    pub fn marks(&self) -> ranking::Result<[(MemberId, MemberMark); 2]> {
        let member = |key: &str| {
            let broken = |_| ranking::Error::Corrupt("a row of member_merge is invalid".into());
            MemberId::new(key).map_err(broken)
        };
        let (source, target) = (member(&self.source)?, member(&self.target)?);
        let [of_source, of_target] = match self.step {
            Step::Held | Step::Decided => [MemberMark::Held, MemberMark::Held],
            Step::Refused => [MemberMark::None, MemberMark::None],
            Step::Merged | Step::Done => [MemberMark::Merged(target.clone()), MemberMark::None],
        };
        Ok([(source, of_source), (target, of_target)])
    }
}

/// The merge of a source.
pub async fn of(db: &impl ConnectionTrait, source: &str) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(source).one(db).await
}

/// The member that a source was merged into; `None` if it was not, or not yet.
pub async fn target_of(db: &impl ConnectionTrait, source: &str) -> Result<Option<String>, DbErr> {
    let merged = of(db, source).await?;
    let merged = merged.filter(|row| matches!(row.step, Step::Merged | Step::Done));
    Ok(merged.map(|row| row.target))
}

/// The merges of those of these members that are sources. The call takes at most some thousand.
pub async fn of_any(
    db: &impl ConnectionTrait,
    sources: impl IntoIterator<Item = &str>,
) -> Result<Vec<Model>, DbErr> {
    Entity::find().filter(Column::Source.is_in(sources)).all(db).await
}

/// The merges under way, oldest first; those that began before an instant in Unix milliseconds.
pub async fn under_way(db: &impl ConnectionTrait, before_ms: i64) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::Step.ne(Step::Done))
        .filter(Column::StartedAtMs.lt(before_ms))
        .order_by_asc(Column::StartedAtMs)
        .all(db)
        .await
}

/// The marks of members, by all merges that they take part in, or did.
///
/// # Errors
/// If SQL does not answer; `Corrupt` if a key is no member's.
pub async fn marks_of(
    db: &impl ConnectionTrait,
    members: &[MemberId],
) -> crate::error::Result<Vec<(MemberId, MemberMark)>> {
    let keys = || members.iter().map(MemberId::as_str);
    let of_target = Condition::all()
        .add(Column::Target.is_in(keys()))
        .add(Column::Step.is_in([Step::Held, Step::Decided]));
    let with_them = Condition::any().add(Column::Source.is_in(keys())).add(of_target);
    let rows = Entity::find().filter(with_them).all(db).await?;
    let mut marks: Vec<_> =
        members.iter().map(|member| (member.clone(), MemberMark::None)).collect();
    for row in rows {
        for (member, mark) in row.marks()? {
            let known = marks.iter_mut().find(|(known, _)| *known == member);
            if let Some((_, known)) = known.filter(|_| mark != MemberMark::None) {
                *known = mark;
            }
        }
    }
    Ok(marks)
}

/// True if a merge is under way.
pub async fn is_under_way(db: &impl ConnectionTrait) -> Result<bool, DbErr> {
    Ok(Entity::find().filter(Column::Step.ne(Step::Done)).one(db).await?.is_some())
}

/// Another merge under way that one of these members takes part in.
pub async fn other(
    db: &impl ConnectionTrait,
    source: &str,
    target: &str,
) -> Result<Option<Model>, DbErr> {
    let pair = [source, target];
    let with_them =
        Condition::any().add(Column::Source.is_in(pair)).add(Column::Target.is_in(pair));
    Entity::find()
        .filter(Column::Step.ne(Step::Done))
        .filter(Column::Source.ne(source))
        .filter(with_them)
        .one(db)
        .await
}

/// Inserts a merge, unless there is one of this source.
pub async fn insert(
    db: &impl ConnectionTrait,
    source: &str,
    target: &str,
    now_ms: i64,
) -> Result<(), DbErr> {
    let row = ActiveModel {
        source: Set(source.to_owned()),
        target: Set(target.to_owned()),
        step: Set(Step::Held),
        started_at_ms: Set(now_ms),
    };
    let known = OnConflict::column(Column::Source).do_nothing_on([Column::Source]).to_owned();
    Entity::insert(row).on_conflict(known).exec_without_returning(db).await?;
    Ok(())
}

/// Moves a merge on to its next step. Returns false if it is at another step.
pub async fn advance(db: &impl ConnectionTrait, row: &Model, to: Step) -> Result<bool, DbErr> {
    let advanced = Entity::update_many()
        .col_expr(Column::Step, Expr::value(to))
        .filter(Column::Source.eq(&row.source))
        .filter(Column::Target.eq(&row.target))
        .filter(Column::Step.eq(row.step))
        .exec(db)
        .await?;
    Ok(advanced.rows_affected == 1)
}

/// Deletes the row of a merge that was refused, once all partitions know.
pub async fn forget(db: &impl ConnectionTrait, row: &Model) -> Result<(), DbErr> {
    Entity::delete_many()
        .filter(Column::Source.eq(&row.source))
        .filter(Column::Target.eq(&row.target))
        .filter(Column::Step.eq(Step::Refused))
        .exec(db)
        .await?;
    Ok(())
}

/// A page of all merges, by source, after one.
pub async fn page_after(
    db: &impl ConnectionTrait,
    source: &str,
    limit: u64,
) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::Source.gt(source))
        .order_by_asc(Column::Source)
        .limit(limit)
        .all(db)
        .await
}
