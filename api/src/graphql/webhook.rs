//! Webhooks: the receivers of events. For administrators.

pub(crate) mod change;
pub(crate) mod circle;
pub(crate) mod input;

use async_graphql::connection::{Edge, EmptyFields};
use async_graphql::{Context, Enum, ID, Object, Result};
use entity::webhook::{self as row, Kind, lane, outbox};

use super::board::Board;
use super::guard::Needs;
use super::price;
use super::request::{app, state};
use super::types::connection::{Connection, PageCursor, limit};
use super::types::global_id::GlobalId;
use super::types::scalar::{DateTime, int};
use crate::access::scope::Scope;
use circle::WebhookCircle;

/// A kind of event that a webhook asks for.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookEvent {
    /// "laurel.score.v1": a score, a removal or a void that the history has.
    Score,
    /// "laurel.period.ended.v1": a period is over and its standings are final.
    PeriodEnded,
    /// "laurel.period.corrected.v1": the final standings of a period are others than it was told.
    PeriodCorrected,
    /// "laurel.overtaken.v1": a member of the webhook's circle was overtaken.
    Overtaken,
    /// "laurel.board.v1": a board was created, changed or deleted.
    Board,
    /// "laurel.member.v1": a member was banned, merged, hidden or erased.
    Member,
    /// "laurel.quarantine.v1": a score was quarantined, released or voided.
    Quarantine,
}

impl WebhookEvent {
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Score => Kind::Score,
            Self::PeriodEnded => Kind::PeriodEnded,
            Self::PeriodCorrected => Kind::PeriodCorrected,
            Self::Overtaken => Kind::Overtaken,
            Self::Board => Kind::Board,
            Self::Member => Kind::Member,
            Self::Quarantine => Kind::Quarantine,
        }
    }

    fn of_kind(kind: Kind) -> Option<Self> {
        Some(match kind {
            Kind::Score => Self::Score,
            Kind::PeriodEnded => Self::PeriodEnded,
            Kind::PeriodCorrected => Self::PeriodCorrected,
            Kind::Overtaken => Self::Overtaken,
            Kind::Board => Self::Board,
            Kind::Member => Self::Member,
            Kind::Quarantine => Self::Quarantine,
            Kind::Test => return None,
        })
    }
}

/// The state of a webhook.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "entity::webhook::State")]
pub enum WebhookState {
    /// Events are delivered.
    Active,
    /// An administrator paused it. Events wait.
    Paused,
    /// Deliveries failed for too long, or the receiver answered 410 Gone. Events wait.
    Failed,
}

/// A receiver of events. Its secret cannot be read.
pub struct Webhook(pub(crate) row::Model);

/// A receiver of events. Its secret cannot be read.
#[Object]
impl Webhook {
    /// The global id: "webhook:<id>".
    pub(crate) async fn id(&self) -> ID {
        GlobalId::Webhook(self.0.id.clone()).to_text().into()
    }

    /// The name that tells what it is for.
    async fn name(&self) -> &str {
        &self.0.name
    }

    /// The address of the receiver, or "feed:NAME".
    async fn url(&self) -> &str {
        &self.0.url
    }

    /// The kinds of events that it asks for.
    async fn events(&self) -> Vec<WebhookEvent> {
        self.0.kinds().into_iter().filter_map(WebhookEvent::of_kind).collect()
    }

    /// The only board whose events it gets; null for all, and if that board is deleted.
    async fn board(&self, ctx: &Context<'_>) -> Result<Option<Board>> {
        let Some(no) = self.0.board_no else { return Ok(None) };
        state(ctx).spend(price::BOARD_ROW).await?;
        let boards = state(ctx).loaders.boards([no].into()).await?;
        Ok(boards.get(&no).cloned().map(Board))
    }

    /// The circle within which it hears of members who were overtaken; null unless it asks for
    /// `OVERTAKEN`, and if its board is deleted.
    async fn overtaken(&self, ctx: &Context<'_>) -> Result<Option<WebhookCircle>> {
        if !self.0.asks_for(Kind::Overtaken) {
            return Ok(None);
        }
        state(ctx).spend(price::select(1)).await?;
        let db = &app(ctx).deployment.reads;
        let circle = row::circle::of(db, &self.0.id).await.map_err(crate::error::Error::from)?;
        Ok(circle.map(WebhookCircle::from))
    }

    /// The state.
    async fn state(&self) -> WebhookState {
        self.0.state.into()
    }

    /// The reason for which it failed; null unless it did.
    async fn reason(&self) -> Option<&str> {
        self.0.reason.as_deref()
    }

    /// The time since which it is in this state.
    async fn state_since(&self) -> DateTime {
        DateTime(self.0.state_since_ms)
    }

    /// The time of creation.
    async fn created_at(&self) -> DateTime {
        DateTime(self.0.created_at_ms)
    }

    /// The time until which former secrets sign too, up to three of them; null if none does.
    async fn former_secret_until(&self, ctx: &Context<'_>) -> Option<DateTime> {
        let until_ms = self.0.former_until_ms.filter(|until_ms| state(ctx).now_ms < *until_ms);
        until_ms.map(DateTime)
    }

    /// The last time that the receiver took an event; null if it never did.
    async fn delivered_at(&self) -> Option<DateTime> {
        self.0.delivered_at_ms.map(DateTime)
    }

    /// The error of the last attempt, of those events that fail longest; null if none fails.
    async fn last_error(&self, ctx: &Context<'_>) -> Result<Option<String>> {
        Ok(self.worst(ctx).await?.and_then(|lane| lane.error))
    }

    /// The time since which attempts fail, of those events that fail longest; null if none fails.
    async fn failing_since(&self, ctx: &Context<'_>) -> Result<Option<DateTime>> {
        Ok(self.worst(ctx).await?.and_then(|lane| lane.failing_since_ms).map(DateTime))
    }

    /// The number of commits of the history that it was not told of yet, also of other boards.
    async fn commits_behind(&self, ctx: &Context<'_>) -> Result<i32> {
        state(ctx).spend(price::select(1)).await?;
        let db = &app(ctx).deployment.reads;
        let behind = lane::behind(db, &self.0.id).await.map_err(crate::error::Error::from)?;
        Ok(int(behind.commits.unsigned_abs())?)
    }

    /// The number of other events that wait: at most 100,000, as more of them drop the oldest.
    async fn events_waiting(&self, ctx: &Context<'_>) -> Result<i32> {
        state(ctx).spend(price::select(1)).await?;
        let db = &app(ctx).deployment.reads;
        let count = outbox::count(db, &self.0.id).await.map_err(crate::error::Error::from)?;
        Ok(int(count)?)
    }

    /// The number of events that were dropped, as too many waited.
    async fn events_dropped(&self) -> Result<i32> {
        Ok(int(self.0.dropped.unsigned_abs())?)
    }
}

impl Webhook {
    /// The lane that has failed longest.
    async fn worst(&self, ctx: &Context<'_>) -> crate::error::Result<Option<lane::Model>> {
        state(ctx).spend(price::select(1)).await?;
        Ok(lane::worst(&app(ctx).deployment.reads, &self.0.id).await?)
    }
}

/// The webhook of an id.
pub(crate) async fn find(ctx: &Context<'_>, id: &str) -> crate::error::Result<Option<Webhook>> {
    Needs::Scope(Scope::Admin).met(ctx)?;
    state(ctx).spend(price::select(1)).await?;
    Ok(row::find(&app(ctx).deployment.reads, id).await?.map(Webhook))
}

/// A page of the webhooks, oldest first.
pub(crate) async fn list(
    ctx: &Context<'_>,
    first: Option<i32>,
    after: Option<&str>,
) -> crate::error::Result<Connection<Webhook, EmptyFields>> {
    let limit = limit("first", first)?;
    let place = after.map(PageCursor::place::<(i64, String)>).transpose()?;
    state(ctx).spend(price::select(limit)).await?;
    let mut rows = row::list(&app(ctx).deployment.reads).await?;
    if let Some(place) = place {
        rows.retain(|row| (row.created_at_ms, &row.id) > (place.0, &place.1));
    }
    let has_next = rows.len() > limit;
    rows.truncate(limit);
    let mut connection = Connection::new(after.is_some(), has_next);
    let edges = rows.into_iter().map(|row| {
        let cursor = PageCursor::of(&(row.created_at_ms, row.id.clone()));
        Edge::new(cursor, Webhook(row))
    });
    connection.edges.extend(edges);
    Ok(connection)
}
