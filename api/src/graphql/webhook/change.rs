//! The mutations of webhooks.

use async_graphql::{Context, ID, MaybeUndefined};
use entity::webhook::outbox::{self, Notice};
use entity::webhook::{self as row, Kind, Model, State, types_text};
use entity::{random_id, sql};
use serde_json::json;

use super::circle::chosen;
use super::input::{CreateWebhookInput, RotateWebhookSecretInput, UpdateWebhookInput};
use super::{Webhook, WebhookEvent};
use crate::error::{Error, ErrorCode, Result};
use crate::graphql::audit::writer::Audit;
use crate::graphql::board;
use crate::graphql::request::app;
use crate::graphql::types::global_id::GlobalId;
use crate::graphql::types::scalar::text;
use crate::webhook::signature::new_secret;

/// The longest time for which two secrets sign, in seconds.
const OVERLAP_SECONDS_MAX: i32 = 7 * 86_400;

/// Makes a webhook, which begins at the present end of the history. Returns its secret, too.
pub(crate) async fn create(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    input: CreateWebhookInput,
) -> Result<(Webhook, String)> {
    let CreateWebhookInput { name, url, events, board, overtaken } = input;
    let url = app(ctx).receivers.check(&url).await?;
    let deployment = &app(ctx).deployment;
    let now_ms = deployment.clock.now_ms();
    let row = Model {
        id: random_id(),
        name: name_of(name)?,
        url: url.to_string(),
        types: types_of(&events)?,
        board_no: board_of(ctx, audit, board.as_deref()).await?,
        secret: secret()?,
        former_secret: None,
        former_until_ms: None,
        state: State::Active,
        reason: None,
        state_since_ms: now_ms,
        created_at_ms: now_ms,
        periods_since_ms: now_ms,
        delivered_at_ms: None,
        dropped: 0,
        holder: None,
        held_until_ms: 0,
    };
    let circle = chosen(ctx, &row, overtaken, None).await?;
    let with_circle = (&row, circle.as_ref());
    row::insert(&deployment.db, with_circle, partitions(ctx), audit.act()).await?;
    audit.written();
    let secret = row.secret.clone();
    Ok((Webhook(row), secret))
}

/// Changes a webhook.
pub(crate) async fn update(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    input: UpdateWebhookInput,
) -> Result<Webhook> {
    let UpdateWebhookInput { id, name, url, events, board, overtaken } = input;
    let keeps_circle = events.is_none() && board.is_undefined() && overtaken.is_none();
    let mut row = present(ctx, &id).await?;
    let former = row.clone();
    if let Some(name) = name {
        row.name = name_of(name)?;
    }
    if let Some(url) = url {
        row.url = app(ctx).receivers.check(&url).await?.to_string();
    }
    if let Some(events) = events {
        row.types = types_of(&events)?;
    }
    match board {
        MaybeUndefined::Undefined => {}
        MaybeUndefined::Null => row.board_no = None,
        MaybeUndefined::Value(slug) => row.board_no = board_of(ctx, audit, Some(&slug)).await?,
    }
    if (former.asks_for_periods(), former.board_no) != (true, row.board_no) {
        row.periods_since_ms = app(ctx).deployment.clock.now_ms();
    }
    let circle = match keeps_circle {
        // Another administrator may change it, or an erasure take a member from it, meanwhile.
        true => None,
        false => Some(chosen(ctx, &row, overtaken, Some(&former)).await?),
    };
    let (db, with_circle) = (&app(ctx).deployment.db, (&row, circle));
    let changed = row::update(db, &former, with_circle, partitions(ctx), audit.act()).await?;
    let changed = changed.ok_or_else(unknown)?;
    audit.written();
    Ok(Webhook(changed))
}

/// Gives a webhook a new secret, and returns it. The former ones sign too for a while.
pub(crate) async fn rotate_secret(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    input: &RotateWebhookSecretInput,
) -> Result<(Webhook, String)> {
    let seconds = input.overlap_seconds;
    if !(0..=OVERLAP_SECONDS_MAX).contains(&seconds) {
        let message = format!("invalid overlapSeconds: expected 0 to {OVERLAP_SECONDS_MAX}");
        return Err(Error::bad_input(message).at("input.overlapSeconds"));
    }
    let deployment = &app(ctx).deployment;
    let now_ms = deployment.clock.now_ms();
    let until_ms = (seconds > 0).then(|| now_ms + i64::from(seconds) * 1000);
    let (id, secret) = (id_of(&input.id)?, secret()?);
    let rotated =
        row::rotate(&deployment.db, &id, secret.clone(), (now_ms, until_ms), audit.act()).await?;
    let row = rotated.ok_or_else(unknown)?;
    audit.written();
    Ok((Webhook(row), secret))
}

/// Sets the state of a webhook.
pub(crate) async fn set_state(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    id: &ID,
    to: State,
) -> Result<Webhook> {
    let own = id_of(id)?;
    let (db, now_ms) = (&app(ctx).deployment.db, app(ctx).deployment.clock.now_ms());
    if !row::set_state(db, &own, to, now_ms, audit.act()).await? {
        return Err(unknown());
    }
    audit.written();
    Ok(Webhook(present(ctx, id).await?))
}

/// Deletes a webhook, with all that waits for it. Returns the global id that it had.
pub(crate) async fn delete(ctx: &Context<'_>, audit: &Audit<'_>, id: &ID) -> Result<ID> {
    let own = id_of(id)?;
    let act = audit.act().before(json!({ "id": own }));
    if !row::delete(&app(ctx).deployment.db, &own, act).await? {
        return Err(unknown());
    }
    audit.written();
    Ok(GlobalId::Webhook(own).to_text().into())
}

/// Sends a test to the receiver, behind all that waits in the outbox.
pub(crate) async fn send_test(ctx: &Context<'_>, audit: &Audit<'_>, id: &ID) -> Result<Webhook> {
    let row = present(ctx, id).await?;
    let deployment = &app(ctx).deployment;
    let notice = Notice {
        kind: Kind::Test,
        board_no: None,
        member: None,
        data: json!({ "webhook": row.name }),
        at_ms: deployment.clock.now_ms(),
    };
    let transaction = sql::begin(&deployment.db).await?;
    outbox::tell_some(&transaction, &notice, [row.id.as_str()]).await?;
    audit.act().after(json!({ "id": row.id })).write(&transaction).await?;
    transaction.commit().await?;
    audit.written();
    Ok(Webhook(row))
}

/// The webhook of a global id.
async fn present(ctx: &Context<'_>, id: &ID) -> Result<Model> {
    let id = id_of(id)?;
    row::find(&app(ctx).deployment.db, &id).await?.ok_or_else(unknown)
}

fn id_of(id: &ID) -> Result<String> {
    match GlobalId::parse(id) {
        Some(GlobalId::Webhook(id)) => Ok(id),
        _ => Err(unknown()),
    }
}

fn unknown() -> Error {
    let message = "there is no such webhook: expected an id of webhooks";
    Error::new(ErrorCode::NotFound, message).at("input.id")
}

fn partitions(ctx: &Context<'_>) -> u16 {
    app(ctx).deployment.store.partitions().count()
}

fn name_of(name: String) -> Result<String> {
    let name = text("name", name).map_err(|error| error.within("input"))?;
    match name.trim().is_empty() {
        true => Err(Error::bad_input("invalid name: expected a text").at("input.name")),
        false => Ok(name),
    }
}

fn types_of(events: &[WebhookEvent]) -> Result<String> {
    if events.is_empty() {
        return Err(Error::bad_input("invalid events: expected at least one").at("input.events"));
    }
    let chosen = |kind: &Kind| events.iter().any(|event| event.kind() == *kind);
    let kinds: Vec<Kind> = Kind::CHOICES.into_iter().filter(chosen).collect();
    Ok(types_text(&kinds))
}

fn secret() -> Result<String> {
    new_secret().map_err(|error| Error::internal(&error))
}

/// The number of a board by its slug.
async fn board_of(ctx: &Context<'_>, audit: &Audit<'_>, slug: Option<&str>) -> Result<Option<i64>> {
    let Some(slug) = slug else { return Ok(None) };
    let board = board::named(ctx, slug).await.map_err(|error| error.within("input"))?;
    audit.note(|act| act.on(&board.row));
    Ok(Some(board.row.no))
}
