//! The audit log: the acts of administrators and moderators.
//!
//! An act that one transaction carries out writes its row in that transaction. An act that goes
//! through commits, or several transactions, writes its row first, as BEGUN, and completes it
//! afterwards. So an act that took effect always has a row.

mod board_value;
mod value;

use sea_orm::entity::prelude::*;
use sea_orm::{ActiveValue::Set, Condition, NotSet, Order, QueryOrder};
use serde_json::{Map, Value};

pub use self::board_value::board_value;
pub use self::value::{AUDIT_VALUE_BYTES_MAX, text_of};
use crate::board;
use crate::sql::first_rows;

/// The longest error of a row, in characters.
const AUDIT_ERROR_CHARS_MAX: usize = 500;

/// The longest name of an actor, in characters.
const ACTOR_CHARS_MAX: usize = 250;

/// The most keys of members that a row names.
pub const AUDIT_KEYS_MAX: usize = 20;

/// The outcome of an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Outcome {
    /// It is under way, or its process ended: it may have taken effect.
    #[sea_orm(string_value = "BEGUN")]
    Begun,
    /// It took effect, or there was nothing to do.
    #[sea_orm(string_value = "DONE")]
    Done,
    /// It was refused or failed. A part of it may have taken effect.
    #[sea_orm(string_value = "FAILED")]
    Failed,
}

/// A row of `audit_log`.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "audit_log")]
pub struct Model {
    /// The number, never used again.
    #[sea_orm(primary_key)]
    pub no: i64,
    /// The time of its beginning, in Unix milliseconds.
    pub at_ms: i64,
    /// The name of the mutation or the command.
    pub act: String,
    /// The actor: `accessToken:<id>`, or `user:<name>@<host>` at a command line.
    pub actor: String,
    /// The name of the token at that time.
    pub actor_name: Option<String>,
    /// The number of the board.
    pub board_no: Option<i64>,
    /// The slug of the board at that time.
    pub board: Option<String>,
    /// The member, which may not exist.
    pub member: Option<String>,
    /// The outcome.
    pub outcome: Outcome,
    /// The code of the error of a mutation, the message of a command; none unless it failed.
    pub error: Option<String>,
    /// The values before, as JSON.
    pub before: Option<String>,
    /// The values after, as JSON.
    pub after: Option<String>,
}

no_relations!();

/// The author of an act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// As the column [`Model::actor`] has it.
    pub id: String,
    /// The name of the token.
    pub name: Option<String>,
}

/// An act, as far as it is known.
#[derive(Debug, Clone)]
pub struct Act {
    name: String,
    actor: Actor,
    at_ms: i64,
    board_no: Option<i64>,
    board: Option<String>,
    member: Option<String>,
    before: Option<Value>,
    after: Option<Value>,
}

impl Act {
    /// An act of an actor that begins at an instant, in Unix milliseconds.
    pub fn new(name: &str, actor: Actor, at_ms: i64) -> Self {
        Self {
            name: name.to_owned(),
            actor,
            at_ms,
            board_no: None,
            board: None,
            member: None,
            before: None,
            after: None,
        }
    }

    /// The time of its beginning, in Unix milliseconds.
    pub fn at_ms(&self) -> i64 {
        self.at_ms
    }

    /// The act on a board.
    #[must_use]
    pub fn on(self, board: &board::Model) -> Self {
        self.on_board(board.no, &board.slug)
    }

    /// As [`Act::on`], by the number and the slug.
    #[must_use]
    pub fn on_board(self, no: i64, slug: &str) -> Self {
        Self { board_no: Some(no), board: Some(slug.to_owned()), ..self }
    }

    /// The act on a board that may not exist. A text that is no slug names none.
    #[must_use]
    pub fn on_slug(self, slug: &str) -> Self {
        let is_slug = ranking::id::check_slug(slug).is_ok();
        Self { board: is_slug.then(|| slug.to_owned()), ..self }
    }

    /// The act on a member that may not exist. A text that is no key names none.
    #[must_use]
    pub fn on_member(self, key: &str) -> Self {
        let is_key = ranking::id::MemberId::new(key).is_ok();
        Self { member: is_key.then(|| key.to_owned()), ..self }
    }

    /// The act with the values before it.
    #[must_use]
    pub fn before(self, value: Value) -> Self {
        Self { before: Some(value), ..self }
    }

    /// The act with the values after it.
    #[must_use]
    pub fn after(self, value: Value) -> Self {
        Self { after: Some(value), ..self }
    }

    /// The act with the fields of two objects that it changed.
    #[must_use]
    pub fn changed(self, before: Value, after: Value) -> Self {
        let (Value::Object(before), Value::Object(after)) = (before, after) else { return self };
        let differs = |key: &String| before.get(key) != after.get(key);
        let those = |object: &Map<String, Value>| {
            let fields = object.iter().filter(|(key, _)| differs(key));
            Value::Object(fields.map(|(key, value)| (key.clone(), value.clone())).collect())
        };
        let (was, is) = (those(&before), those(&after));
        self.before(was).after(is)
    }

    /// Writes the row of an act that took effect, as a part of the transaction that does it.
    pub async fn write(&self, db: &impl ConnectionTrait) -> Result<(), DbErr> {
        self.insert(db, Outcome::Done, None).await.map(drop)
    }

    /// Writes the row of an act that was refused, or failed, with its error.
    pub async fn write_failed(&self, db: &impl ConnectionTrait, error: &str) -> Result<(), DbErr> {
        self.insert(db, Outcome::Failed, Some(error)).await.map(drop)
    }

    /// Writes the row of an act that is about to begin, and returns its number.
    pub async fn write_begun(&self, db: &impl ConnectionTrait) -> Result<i64, DbErr> {
        self.insert(db, Outcome::Begun, None).await
    }

    /// Completes the row of an act that has begun.
    pub async fn finish(
        &self,
        db: &impl ConnectionTrait,
        no: i64,
        done: Result<(), &str>,
    ) -> Result<(), DbErr> {
        let outcome = if done.is_ok() { Outcome::Done } else { Outcome::Failed };
        let finished = ActiveModel { no: Set(no), ..self.row(outcome, done.err()) };
        Entity::update(finished).exec_without_returning(db).await.map(drop)
    }

    async fn insert(
        &self,
        db: &impl ConnectionTrait,
        outcome: Outcome,
        error: Option<&str>,
    ) -> Result<i64, DbErr> {
        let inserted = Entity::insert(self.row(outcome, error)).exec(db).await?;
        Ok(inserted.last_insert_id)
    }

    fn row(&self, outcome: Outcome, error: Option<&str>) -> ActiveModel {
        let cut = |text: &str, chars: usize| text.chars().take(chars).collect::<String>();
        ActiveModel {
            no: NotSet,
            at_ms: Set(self.at_ms),
            act: Set(self.name.clone()),
            actor: Set(cut(&self.actor.id, ACTOR_CHARS_MAX)),
            actor_name: Set(self.actor.name.clone()),
            board_no: Set(self.board_no),
            board: Set(self.board.clone()),
            member: Set(self.member.clone()),
            outcome: Set(outcome),
            error: Set(error.map(|error| cut(error, AUDIT_ERROR_CHARS_MAX))),
            before: Set(self.before.as_ref().map(text_of)),
            after: Set(self.after.as_ref().map(text_of)),
        }
    }
}

/// The rows of a page: those that meet every condition given.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// The actor, as its column has it.
    pub actor: Option<String>,
    /// The name of the act.
    pub act: Option<String>,
    /// The slug that the board had.
    pub board: Option<String>,
    /// The member.
    pub member: Option<String>,
    /// The first instant, in Unix milliseconds.
    pub since_ms: Option<i64>,
    /// The first instant after it, in Unix milliseconds.
    pub until_ms: Option<i64>,
}

impl Filter {
    fn condition(&self) -> Condition {
        let texts = [
            (Column::Actor, &self.actor),
            (Column::Act, &self.act),
            (Column::Board, &self.board),
            (Column::Member, &self.member),
        ];
        let texts = texts.into_iter().filter_map(|(column, text)| Some(column.eq(text.as_ref()?)));
        texts
            .fold(Condition::all(), Condition::add)
            .add_option(self.since_ms.map(|since_ms| Column::AtMs.gte(since_ms)))
            .add_option(self.until_ms.map(|until_ms| Column::AtMs.lt(until_ms)))
    }
}

/// The place of a row in the log: its time and its number.
pub type Place = (i64, i64);

/// The row of a number.
pub async fn find(db: &impl ConnectionTrait, no: i64) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(no).one(db).await
}

/// A page of the log, newest first: at most `limit` rows of a filter behind a place; and true if
/// there are more.
pub async fn page_after(
    db: &impl ConnectionTrait,
    filter: &Filter,
    after: Option<Place>,
    limit: usize,
) -> Result<(Vec<Model>, bool), DbErr> {
    page(db, filter, after, Order::Desc, limit).await
}

/// The page of the log that ends just before a place, or with the oldest row. Newest first, and
/// true if there are more before it.
pub async fn page_before(
    db: &impl ConnectionTrait,
    filter: &Filter,
    before: Option<Place>,
    limit: usize,
) -> Result<(Vec<Model>, bool), DbErr> {
    let (mut rows, more) = page(db, filter, before, Order::Asc, limit).await?;
    rows.reverse();
    Ok((rows, more))
}

async fn page(
    db: &impl ConnectionTrait,
    filter: &Filter,
    place: Option<Place>,
    order: Order,
    limit: usize,
) -> Result<(Vec<Model>, bool), DbErr> {
    let beyond = place.map(|(at_ms, no)| {
        let same = Condition::all().add(Column::AtMs.eq(at_ms));
        let beyond = Condition::any();
        match order {
            Order::Desc => beyond.add(Column::AtMs.lt(at_ms)).add(same.add(Column::No.lt(no))),
            _ => beyond.add(Column::AtMs.gt(at_ms)).add(same.add(Column::No.gt(no))),
        }
    });
    let select = Entity::find()
        .filter(filter.condition().add_option(beyond))
        .order_by(Column::AtMs, order.clone())
        .order_by(Column::No, order);
    first_rows(db, select, limit).await
}
