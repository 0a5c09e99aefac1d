//! Erasures of members: the mutation, and the receipts.

use async_graphql::connection::{Edge, EmptyFields};
use async_graphql::{Context, Enum, ID, InputObject, Object, SimpleObject};
use engine::erasure::{Erased, erase, waits_for_files};
use entity::member::erasure as row;
use ranking::shown;
use serde_json::json;
use tokio::time::Instant;

use crate::access::scope::Scope;
use crate::error::{Error, ErrorCode, Result};
use crate::graphql::audit::writer::Audit;
use crate::graphql::event::amendment::AMEND_TIMEOUT;
use crate::graphql::guard::Needs;
use crate::graphql::price;
use crate::graphql::request::{app, state};
use crate::graphql::standings::member_id;
use crate::graphql::types::connection::{Connection, PageCursor, limit};
use crate::graphql::types::global_id::GlobalId;
use crate::graphql::types::scalar::DateTime;

/// The treatment of the scores of a member that is erased.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "entity::member::erasure::Mode")]
pub enum ErasureMode {
    /// The scores are deleted.
    Delete,
    /// The scores stay, as those of a member with a new random key: "erased-<random digits>". They
    /// have neither event ids nor metadata any more. Refused if the member is banned.
    Anonymize,
}

/// The step of an erasure.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "entity::member::erasure::Step")]
pub enum ErasureStep {
    /// The member is held, and its history is checked. The erasure may still be refused. Scores
    /// that stay are given to the new key.
    Held,
    /// It cannot be carried out, and the member is being freed.
    Refused,
    /// The member is being taken off its boards, and its rows and events are being deleted.
    Erasing,
    /// SQL and the archive have nothing of the member any more. Redis is being told.
    Releasing,
    /// Nothing is left of the member.
    Done,
}

/// The member to erase.
#[derive(InputObject)]
pub struct EraseMemberInput {
    /// The key of the member.
    member: String,
    /// The treatment of its scores.
    #[graphql(default_with = "ErasureMode::Delete")]
    mode: ErasureMode,
}

/// The result of `eraseMember`.
#[derive(SimpleObject)]
pub struct EraseMemberPayload {
    /// True if nothing is left of the member. False if the erasure goes on in the background.
    erased: bool,
    /// True if the erasure waits until files of the archive are read and written again: by a server
    /// that has them and runs the daily diff, or by `laurel erase-files`.
    waits_for_files: bool,
    /// The receipt.
    receipt: ErasureReceipt,
}

/// The receipt of an erasure. It does not name the member.
pub struct ErasureReceipt(row::Model);

/// The receipt of an erasure. It does not name the member.
#[Object]
impl ErasureReceipt {
    /// The global id: "erasureReceipt:<id>".
    pub(crate) async fn id(&self) -> ID {
        GlobalId::ErasureReceipt(self.0.id.clone()).to_text().into()
    }

    /// The treatment of the scores.
    async fn mode(&self) -> ErasureMode {
        self.0.mode.into()
    }

    /// The present step.
    async fn step(&self) -> ErasureStep {
        self.0.step.into()
    }

    /// The time when it began.
    async fn started_at(&self) -> DateTime {
        DateTime(self.0.started_at_ms)
    }

    /// The time when nothing was left of the member; null until then.
    async fn erased_at(&self) -> Option<DateTime> {
        self.0.erased_at_ms.map(DateTime)
    }

    /// Random digits that go into `hash`.
    async fn salt(&self) -> &str {
        &self.0.salt
    }

    /// SHA-256 of `salt`, a line feed and the member's key, in hexadecimal digits. Only a reader
    /// who has the key can tell that the receipt is of it.
    async fn hash(&self) -> &str {
        &self.0.hash
    }

    /// The numbers of rows that went by now, by table, as a JSON object.
    async fn counts(&self) -> &str {
        &self.0.counts
    }
}

/// Erases a member.
pub(crate) async fn erase_member(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    input: &EraseMemberInput,
) -> Result<EraseMemberPayload> {
    state(ctx).spend(price::AMENDMENT_OF_MANY).await?;
    let member = member_id("input.member", &input.member)?;
    // The row of the act does not name the member.
    audit.announce().await?;
    let (app, deadline) = (app(ctx), Instant::now() + AMEND_TIMEOUT);
    let erased = Box::pin(erase(&app.deployment, &member, input.mode.into(), deadline)).await;
    app.friends.changed(&member, &member);
    state(ctx).loaders.clear().await;
    let (erased, row) = match erased? {
        Erased::Done(row) => (true, row),
        Erased::UnderWay(row) => (false, row),
        Erased::NoSuchMember => {
            let message = format!("there is no member {}", shown(&input.member));
            return Err(Error::new(ErrorCode::NotFound, message).at("input.member"));
        }
    };
    audit.note(|act| act.after(json!({ "erased": erased, "receipt": row.id })));
    let waits_for_files = waits_for_files(&app.deployment, &row).await?;
    Ok(EraseMemberPayload { erased, waits_for_files, receipt: ErasureReceipt(row) })
}

/// The receipt of an id.
pub(crate) async fn find(ctx: &Context<'_>, id: &str) -> Result<Option<ErasureReceipt>> {
    Needs::Scope(Scope::Admin).met(ctx)?;
    state(ctx).spend(price::select(1)).await?;
    Ok(row::find(&app(ctx).deployment.reads, id).await?.map(ErasureReceipt))
}

/// A page of the receipts, newest first.
pub(crate) async fn list(
    ctx: &Context<'_>,
    first: Option<i32>,
    after: Option<&str>,
) -> Result<Connection<ErasureReceipt, EmptyFields>> {
    let limit = limit("first", first)?;
    let place = after.map(PageCursor::place::<row::Place>).transpose()?;
    state(ctx).spend(price::select(limit)).await?;
    let (rows, more) = row::page_after(&app(ctx).deployment.reads, place, limit).await?;
    let mut connection = Connection::new(after.is_some(), more);
    let edge = |row: row::Model| {
        let place = (row.started_at_ms, row.id.clone());
        Edge::new(PageCursor::of(&place), ErasureReceipt(row))
    };
    connection.edges.extend(rows.into_iter().map(edge));
    Ok(connection)
}
