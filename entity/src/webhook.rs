//! Webhooks: the receivers of events, and how far each has been told.

mod change;
pub mod circle;
pub mod ended_period;
pub mod lane;
pub mod outbox;
pub mod told_period;

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::ExprTrait;
use sea_orm::{ActiveValue::Set, Condition, IntoActiveModel, QueryOrder};
use serde_json::json;

use crate::audit::Act;
use crate::deployment::clock::sql_now;
use crate::error::Result;
use crate::sql::begin;
use circle::Circle;

pub use change::{rotate, update};

/// The most webhooks of a deployment.
pub const WEBHOOKS_MAX: u64 = 16;

/// The most secrets of a webhook that sign beside the present one: each more is a signature in each
/// request.
pub const FORMER_SECRETS_MAX: usize = 3;

/// How long a process that delivers to a webhook counts as alive without a word, in milliseconds.
pub const HELD_MS: i64 = 60_000;

/// The address of a webhook whose events a program of its own takes to a broker begins so.
const FEED: &str = "feed:";

/// The longest name of a feed, in bytes.
pub const FEED_NAME_BYTES_MAX: usize = 64;

/// The state of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum State {
    /// Events are delivered.
    #[sea_orm(string_value = "ACTIVE")]
    Active,
    /// An administrator paused it.
    #[sea_orm(string_value = "PAUSED")]
    Paused,
    /// Deliveries failed for too long, or the receiver is gone.
    #[sea_orm(string_value = "FAILED")]
    Failed,
}

/// The kind of an event that a webhook may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A score, a removal or a void of the history.
    Score,
    /// A period is over.
    PeriodEnded,
    /// The final standings of a period have changed since they were told.
    PeriodCorrected,
    /// A member of a circle was overtaken.
    Overtaken,
    /// A board was made, changed or deleted.
    Board,
    /// A member was banned, merged, hidden or erased.
    Member,
    /// A score in quarantine.
    Quarantine,
    /// A test, which every webhook gets.
    Test,
}

impl Kind {
    /// The kinds that a webhook chooses among.
    pub const CHOICES: [Self; 7] = [
        Self::Score,
        Self::PeriodEnded,
        Self::PeriodCorrected,
        Self::Overtaken,
        Self::Board,
        Self::Member,
        Self::Quarantine,
    ];

    /// The type of its CloudEvents, which is also its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Score => "laurel.score.v1",
            Self::PeriodEnded => "laurel.period.ended.v1",
            Self::PeriodCorrected => "laurel.period.corrected.v1",
            Self::Overtaken => "laurel.overtaken.v1",
            Self::Board => "laurel.board.v1",
            Self::Member => "laurel.member.v1",
            Self::Quarantine => "laurel.quarantine.v1",
            Self::Test => "laurel.test.v1",
        }
    }

    /// The kind of a name.
    fn of_name(name: &str) -> Option<Self> {
        Self::CHOICES.into_iter().find(|kind| kind.name() == name)
    }
}

/// A row of `webhook`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "webhook")]
pub struct Model {
    /// The random id.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// A name that tells what it is for.
    pub name: String,
    /// The address of the receiver, or that of a feed.
    pub url: String,
    /// The kinds of events that it asks for, as a JSON array of their names.
    pub types: String,
    /// The only board whose events it gets; none for all.
    pub board_no: Option<i64>,
    /// The secret that signs, as text.
    pub secret: String,
    /// The secrets before it that sign as well, newest first, with spaces between them.
    pub former_secret: Option<String>,
    /// The first instant at which the former secrets no longer sign, in Unix milliseconds.
    pub former_until_ms: Option<i64>,
    /// The state.
    pub state: State,
    /// The reason for which it failed.
    pub reason: Option<String>,
    /// The time since which it is in this state, in Unix milliseconds.
    pub state_since_ms: i64,
    /// Creation time, in Unix milliseconds.
    pub created_at_ms: i64,
    /// It gets the ends of periods that are final after this instant, in Unix milliseconds.
    pub periods_since_ms: i64,
    /// The last time that the receiver took an event, in Unix milliseconds.
    pub delivered_at_ms: Option<i64>,
    /// The number of events that were dropped because too many waited.
    pub dropped: i64,
    /// The process that delivers to it.
    pub holder: Option<String>,
    /// Until when that process counts as alive, by SQL's clock in Unix milliseconds.
    pub held_until_ms: i64,
}

no_relations!();

impl Model {
    /// The kinds of events that it asks for. A list that cannot be read, as it was edited, has
    /// none.
    pub fn kinds(&self) -> Vec<Kind> {
        let names: Vec<String> = serde_json::from_str(&self.types).unwrap_or_default();
        names.iter().filter_map(|name| Kind::of_name(name)).collect()
    }

    /// True if it asks for ends of periods, or for corrections of them.
    pub fn asks_for_periods(&self) -> bool {
        self.asks_for(Kind::PeriodEnded) || self.asks_for(Kind::PeriodCorrected)
    }

    /// True if it asks for events of a kind.
    pub fn asks_for(&self, kind: Kind) -> bool {
        self.kinds().contains(&kind)
    }

    /// The secrets that sign at an instant, the present one first.
    pub fn secrets(&self, now_ms: i64) -> Vec<&str> {
        let former = self.former_until_ms.is_some_and(|until_ms| now_ms < until_ms);
        let former = self.former_secret.as_deref().filter(|_| former).unwrap_or_default();
        std::iter::once(self.secret.as_str()).chain(former.split_whitespace()).collect()
    }

    /// An act that made the row and its circle what they are, with all but secrets and the keys of
    /// members.
    fn of_act(&self, circle: Option<&Circle>, act: Act) -> Act {
        act.after(json!({
            "id": self.id,
            "name": self.name,
            "url": self.url,
            "types": self.kinds().iter().map(|kind| kind.name()).collect::<Vec<_>>(),
            "boardNo": self.board_no,
            "formerSecretUntil": self.former_until_ms,
            "state": self.state.to_value(),
            "circle": circle.map(Circle::shown),
        }))
    }
}

/// The name of the feed that an address stands for; `None` for any other address.
pub fn feed_name(url: &str) -> Option<&str> {
    let is_plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    let name = url.strip_prefix(FEED)?;
    let is_name = (1..=FEED_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain);
    is_name.then_some(name)
}

/// The column `types` for some kinds.
pub fn types_text(kinds: &[Kind]) -> String {
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    serde_json::to_string(&names).expect("texts have a JSON form")
}

/// The webhook of an id.
pub async fn find(db: &impl ConnectionTrait, id: &str) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(id).one(db).await
}

/// All webhooks, oldest first.
pub async fn list(db: &impl ConnectionTrait) -> Result<Vec<Model>, DbErr> {
    Entity::find().order_by_asc(Column::CreatedAtMs).order_by_asc(Column::Id).all(db).await
}

/// Inserts a webhook and its circle, with the row of the audit log. It begins at the present end of
/// the history.
///
/// # Errors
/// `LimitExceeded` if there are [`WEBHOOKS_MAX`] already.
pub async fn insert(
    db: &DatabaseConnection,
    (row, circle): (&Model, Option<&Circle>),
    partitions: u16,
    act: Act,
) -> Result<()> {
    let transaction = begin(db).await?;
    Entity::insert(row.clone().into_active_model()).exec_without_returning(&transaction).await?;
    // The locks of the other rows: of two that are made at once near the limit, one waits.
    Entity::update_many()
        .col_expr(Column::HeldUntilMs, Expr::col(Column::HeldUntilMs))
        .filter(Column::Id.ne(&row.id))
        .exec(&transaction)
        .await?;
    if Entity::find().count(&transaction).await? > WEBHOOKS_MAX {
        return Err(ranking::Error::LimitExceeded(format!(
            "there are {WEBHOOKS_MAX} webhooks, the most that there may be"
        ))
        .into());
    }
    if row.asks_for(Kind::Score) {
        lane::begin_history(&transaction, &row.id, partitions).await?;
    }
    circle::set(&transaction, &row.id, circle).await?;
    row.of_act(circle, act).write(&transaction).await?;
    Ok(transaction.commit().await?)
}

/// Sets the state of a webhook by an administrator, with the row of the audit log. One that is
/// active again goes on where it stopped, at once. Returns false if it is gone.
pub async fn set_state(
    db: &DatabaseConnection,
    id: &str,
    state: State,
    now_ms: i64,
    act: Act,
) -> Result<bool> {
    let transaction = begin(db).await?;
    let set = ActiveModel {
        state: Set(state),
        reason: Set(None),
        state_since_ms: Set(now_ms),
        ..Default::default()
    };
    let other = Column::State.ne(state);
    Entity::update_many()
        .set(set)
        .filter(Column::Id.eq(id))
        .filter(other)
        .exec(&transaction)
        .await?;
    if state == State::Active {
        lane::forget_failures(&transaction, id).await?;
    }
    let Some(row) = find(&transaction, id).await? else { return Ok(false) };
    let circle = circle::of(&transaction, id).await?;
    row.of_act(circle.as_ref(), act).write(&transaction).await?;
    transaction.commit().await?;
    Ok(true)
}

/// Deletes a webhook and all that waits for it, with the row of the audit log. Returns false if it
/// was gone.
pub async fn delete(db: &DatabaseConnection, id: &str, act: Act) -> Result<bool> {
    let transaction = begin(db).await?;
    let deleted = Entity::delete_by_id(id).exec(&transaction).await?;
    if deleted.rows_affected == 0 {
        return Ok(false);
    }
    outbox::delete_of(&transaction, id).await?;
    lane::delete_of(&transaction, id).await?;
    circle::set(&transaction, id, None).await?;
    act.write(&transaction).await?;
    transaction.commit().await?;
    Ok(true)
}

/// Notes that an active webhook failed for good. Returns true to one caller only.
pub async fn fail(
    db: &impl ConnectionTrait,
    id: &str,
    reason: &str,
    now_ms: i64,
) -> Result<bool, DbErr> {
    let failed = ActiveModel {
        state: Set(State::Failed),
        reason: Set(Some(reason.to_owned())),
        state_since_ms: Set(now_ms),
        ..Default::default()
    };
    let active = Column::State.eq(State::Active);
    let done = Entity::update_many().set(failed).filter(Column::Id.eq(id)).filter(active);
    Ok(done.exec(db).await?.rows_affected == 1)
}

/// Takes an active webhook for a process, or goes on holding it, for [`HELD_MS`]. `gone` is a
/// process that is known to have ended. Returns false if another process holds it.
pub async fn hold(
    db: &impl ConnectionTrait,
    id: &str,
    own: &str,
    gone: Option<&str>,
) -> Result<bool, DbErr> {
    let now = || Expr::cust(sql_now(db.get_database_backend()));
    let free = Condition::any()
        .add(Column::Holder.is_null())
        .add(Column::Holder.eq(own))
        .add(Expr::col(Column::HeldUntilMs).lt(now()))
        .add_option(gone.map(|gone| Column::Holder.eq(gone)));
    let held = Entity::update_many()
        .col_expr(Column::Holder, Expr::value(own))
        .col_expr(Column::HeldUntilMs, now().add(HELD_MS))
        .filter(Column::Id.eq(id))
        .filter(Column::State.eq(State::Active))
        .filter(free)
        .exec(db)
        .await?;
    Ok(held.rows_affected == 1)
}

/// Lets other processes take a webhook.
pub async fn let_go(db: &impl ConnectionTrait, id: &str, own: &str) -> Result<(), DbErr> {
    let free = ActiveModel { holder: Set(None), held_until_ms: Set(0), ..Default::default() };
    let of_own = Entity::update_many().set(free).filter(Column::Id.eq(id));
    of_own.filter(Column::Holder.eq(own)).exec(db).await.map(drop)
}

/// Notes that the receiver took an event.
pub async fn note_delivery(db: &impl ConnectionTrait, id: &str, now_ms: i64) -> Result<(), DbErr> {
    let taken = ActiveModel { delivered_at_ms: Set(Some(now_ms)), ..Default::default() };
    Entity::update_many().set(taken).filter(Column::Id.eq(id)).exec(db).await.map(drop)
}
