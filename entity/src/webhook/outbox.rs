//! The outbox: events that the history does not have. Each webhook that asks for one has a row of
//! its own, which the transaction of the change writes, and which goes once the receiver took it.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ActiveValue::Set, NotSet, QueryOrder, QuerySelect};
use serde_json::{Value, json};

use super::Kind;
use crate::board;
use crate::error::Result;
use crate::random_id;
use crate::sql::dialect::{contains, delete_among, statement};
use crate::sql::insert_chunked;

/// The most events of the outbox that wait for a webhook; more of them drop the oldest.
pub const OUTBOX_ROWS_MAX: u64 = 100_000;

/// The rows of one DELETE or UPDATE.
const ROWS_MAX: u64 = 1000;

/// A row of `outbox`.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "outbox")]
pub struct Model {
    /// The number: a later event of a webhook has a higher one.
    #[sea_orm(primary_key)]
    pub no: i64,
    /// The random id of the event for this webhook.
    pub id: String,
    /// The webhook.
    pub webhook: String,
    /// The type of the event, as [`Kind::name`] gives it.
    pub kind: String,
    /// The board, if it is about one.
    pub board_no: Option<i64>,
    /// The member, if it is about one.
    pub member: Option<String>,
    /// The data of the event, as JSON.
    pub data: String,
    /// The time of the event, in Unix milliseconds.
    pub created_at_ms: i64,
}

no_relations!();

/// An event to tell.
#[derive(Debug, Clone)]
pub struct Notice {
    /// The kind.
    pub kind: Kind,
    /// The board, if it is about one.
    pub board_no: Option<i64>,
    /// The member, if it is about one.
    pub member: Option<String>,
    /// The data, without the key of another member.
    pub data: Value,
    /// The time, in Unix milliseconds.
    pub at_ms: i64,
}

impl Notice {
    /// A change of a board.
    pub fn of_board(row: &board::Model, change: &str, at_ms: i64) -> Self {
        let data = json!({ "change": change, "board": row.slug, "title": row.title });
        Self { kind: Kind::Board, board_no: Some(row.no), member: None, data, at_ms }
    }

    /// A change of a member; `more` is an object of further data.
    pub fn of_member(member: &str, change: &str, more: Value, at_ms: i64) -> Self {
        let mut data = json!({ "change": change, "member": member });
        if let (Some(data), Value::Object(more)) = (data.as_object_mut(), more) {
            data.extend(more);
        }
        Self { kind: Kind::Member, board_no: None, member: Some(member.to_owned()), data, at_ms }
    }

    /// The row for a webhook.
    fn row(&self, webhook: &str) -> ActiveModel {
        ActiveModel {
            no: NotSet,
            id: Set(random_id()),
            webhook: Set(webhook.to_owned()),
            kind: Set(self.kind.name().to_owned()),
            board_no: Set(self.board_no),
            member: Set(self.member.clone()),
            data: Set(self.data.to_string()),
            created_at_ms: Set(self.at_ms),
        }
    }
}

/// A webhook, as far as the choice of its events needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asking {
    /// The webhook.
    pub id: String,
    /// The only board whose events it gets; none for all.
    pub board_no: Option<i64>,
    /// It gets the ends of periods that are final after this instant, in Unix milliseconds.
    pub periods_since_ms: i64,
}

/// The webhooks that ask for events of a kind, paused and failed ones too.
pub async fn asking(db: &impl ConnectionTrait, kind: Kind) -> Result<Vec<Asking>, DbErr> {
    use super::Column;
    // Batch jobs have no right to read secrets.
    let all: Vec<(String, String, Option<i64>, i64)> = super::Entity::find()
        .select_only()
        .columns([Column::Id, Column::Types, Column::BoardNo, Column::PeriodsSinceMs])
        .into_tuple()
        .all(db)
        .await?;
    let of_kind = |(id, types, board_no, periods_since_ms): (String, String, Option<i64>, i64)| {
        let names: Vec<String> = serde_json::from_str(&types).unwrap_or_default();
        let asks = names.iter().any(|name| name == kind.name());
        asks.then_some(Asking { id, board_no, periods_since_ms })
    };
    Ok(all.into_iter().filter_map(of_kind).collect())
}

/// Tells all webhooks that ask for events of a kind. Part of the transaction of the change. Notices
/// of one kind come together.
pub async fn tell(db: &impl ConnectionTrait, notices: &[Notice]) -> Result<(), DbErr> {
    let Some(first) = notices.first() else { return Ok(()) };
    let asking = asking(db, first.kind).await?;
    for notice in notices {
        let is_of = |of: &&Asking| of.board_no.is_none() || of.board_no == notice.board_no;
        let webhooks = asking.iter().filter(is_of).map(|of| of.id.as_str());
        tell_some(db, notice, webhooks).await?;
    }
    Ok(())
}

/// Tells some webhooks. Part of the transaction of the change.
pub async fn tell_some<'a>(
    db: &impl ConnectionTrait,
    notice: &Notice,
    webhooks: impl IntoIterator<Item = &'a str>,
) -> Result<(), DbErr> {
    let rows = webhooks.into_iter().map(|webhook| notice.row(webhook));
    insert_chunked::<Entity, _>(db, rows.collect(), None).await
}

/// Tells one webhook of some events, in their order. Part of the transaction of the change.
pub async fn tell_one(
    db: &impl ConnectionTrait,
    notices: &[Notice],
    webhook: &str,
) -> Result<(), DbErr> {
    let rows = notices.iter().map(|notice| notice.row(webhook));
    insert_chunked::<Entity, _>(db, rows.collect(), None).await
}

/// The first events that wait for a webhook.
pub async fn first(
    db: &impl ConnectionTrait,
    webhook: &str,
    limit: u64,
) -> Result<Vec<Model>, DbErr> {
    Entity::find()
        .filter(Column::Webhook.eq(webhook))
        .order_by_asc(Column::No)
        .limit(limit)
        .all(db)
        .await
}

/// The number of the events that wait for a webhook.
pub async fn count(db: &impl ConnectionTrait, webhook: &str) -> Result<u64, DbErr> {
    Entity::find().filter(Column::Webhook.eq(webhook)).count(db).await
}

/// Deletes an event that the receiver took.
pub async fn delete(db: &impl ConnectionTrait, no: i64) -> Result<(), DbErr> {
    Entity::delete_by_id(no).exec(db).await.map(drop)
}

/// Deletes all events that wait for a webhook. Part of a transaction.
pub(super) async fn delete_of(db: &impl ConnectionTrait, webhook: &str) -> Result<(), DbErr> {
    Entity::delete_many().filter(Column::Webhook.eq(webhook)).exec(db).await.map(drop)
}

/// Drops the oldest events that wait for a webhook beyond [`OUTBOX_ROWS_MAX`], at most 1,000, and
/// counts them in its row. Returns their number.
pub async fn drop_oldest(db: &DatabaseConnection, webhook: &str) -> Result<u64, DbErr> {
    let count = count(db, webhook).await?;
    let more = Ord::min(count.saturating_sub(OUTBOX_ROWS_MAX), ROWS_MAX);
    if more == 0 {
        return Ok(0);
    }
    let transaction = crate::sql::begin(db).await?;
    let backend = db.get_database_backend();
    let oldest =
        format!(r#"SELECT "no" FROM "outbox" WHERE "webhook" = $1 ORDER BY "no" LIMIT {more}"#);
    let delete = delete_among(backend, "outbox", r#""no""#, &oldest);
    let deleted = transaction.execute_raw(statement(backend, delete, [webhook.into()])).await?;
    let dropped = deleted.rows_affected();
    super::Entity::update_many()
        .col_expr(
            super::Column::Dropped,
            Expr::col(super::Column::Dropped).add(dropped.cast_signed()),
        )
        .filter(super::Column::Id.eq(webhook))
        .exec(&transaction)
        .await?;
    transaction.commit().await?;
    Ok(dropped)
}

/// Takes a member from all events that wait: those about it go, and in lists of others its key
/// becomes null. Part of a transaction. Returns the number of events that changed.
pub async fn erase(db: &impl ConnectionTrait, member: &str) -> Result<u64> {
    let about = Entity::delete_many().filter(Column::Member.eq(member)).exec(db).await?;
    let mut changed = about.rows_affected;
    let quoted = serde_json::to_string(member).map_err(|error| {
        ranking::Error::Invalid(format!("a key that has no form in JSON: {error}"))
    })?;
    let mut after = 0;
    loop {
        let naming = Entity::find()
            .filter(Column::No.gt(after))
            .filter(contains(db.get_database_backend(), Expr::col(Column::Data), quoted.clone()))
            .order_by_asc(Column::No)
            .limit(ROWS_MAX)
            .all(db)
            .await?;
        let Some(last) = naming.last() else { return Ok(changed) };
        after = last.no;
        for row in naming {
            let mut data: Value = serde_json::from_str(&row.data).unwrap_or_default();
            blank(&mut data, member);
            let update = ActiveModel { data: Set(data.to_string()), ..Default::default() };
            let of_row = Entity::update_many().set(update).filter(Column::No.eq(row.no));
            of_row.exec(db).await?;
            changed += 1;
        }
    }
}

/// Puts null in the place of a text wherever a value has it.
fn blank(data: &mut Value, text: &str) {
    match data {
        Value::String(own) if own == text => *data = Value::Null,
        Value::Array(items) => items.iter_mut().for_each(|item| blank(item, text)),
        Value::Object(fields) => fields.values_mut().for_each(|field| blank(field, text)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_erased_key_is_null_wherever_it_stands() {
        let mut data = json!({ "winners": [{ "member": "ann" }, { "member": "anna" }] });
        blank(&mut data, "ann");
        assert_eq!(data, json!({ "winners": [{ "member": null }, { "member": "anna" }] }));
    }
}
