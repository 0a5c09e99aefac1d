//! The parts of the document that belong to no board, or to several.

use std::collections::BTreeMap;

use anyhow::Result;
use entity::history::dead_letter;
use entity::integrity::integrity_finding;
use entity::member::ban::{EVERYWHERE, Terms};
use entity::member::{ban, friend_request, friendship, merge, report, visibility};
use entity::{access_token, audit, board, member};
use futures::TryStreamExt;
use ranking::attribute::Attributes;
use sea_orm::{
    ActiveEnum, ColumnTrait, Condition, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder,
    Select,
};
use serde::Serialize;

use super::Kept;
use super::document::{Document, Shape, Time};

/// A row of `member`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MemberRow {
    name: Option<String>,
    region: Option<String>,
    avatar_url: Option<String>,
    attributes: Attributes,
    created_at: Time,
}

#[derive(Serialize)]
struct Friend {
    member: String,
    since: Time,
}

#[derive(Serialize)]
struct Request {
    from: String,
    to: String,
    since: Time,
}

/// A report by the member, or about it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReportOf {
    board: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<String>,
    reason: String,
    text: Option<String>,
    state: String,
    reported_at: Time,
    resolved_at: Option<Time>,
}

/// An act on the member by an administrator or a moderator.
#[derive(Serialize)]
struct ActOn {
    at: Time,
    act: String,
    board: Option<String>,
    outcome: String,
}

/// An access token of the member, without what proves it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Token {
    id: String,
    name: Option<String>,
    scopes: String,
    /// The numbers of boards as a JSON array, `all`, or null for public boards.
    boards: Option<String>,
    created_at: Time,
    expires_at: Option<Time>,
    revoked_at: Option<Time>,
    last_used_at: Option<Time>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BanOf {
    /// The board; null for all boards.
    board: Option<BoardName>,
    shadow: bool,
    reason: Option<String>,
    since: Time,
    is_being_lifted: bool,
}

#[derive(Serialize, Clone)]
struct BoardName {
    no: i64,
    /// Null if the board is deleted.
    slug: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MergeOf {
    source: String,
    target: String,
    step: String,
    started_at: Time,
}

/// A score that SQL refused.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RefusedEvent {
    id: String,
    event: String,
    reason: String,
    state: String,
    created_at: Time,
}

/// A difference that the integrity diff found in an entry of the member. Scores are in units of the
/// board's last decimal.
#[derive(Serialize)]
struct Finding {
    run: i64,
    kind: String,
    board: i64,
    window: String,
    period: String,
    segment: String,
    history: Option<i64>,
    sql: Option<i64>,
    redis: Option<i64>,
    repaired: bool,
    place: String,
    note: Option<String>,
}

/// Writes these parts.
///
/// # Errors
/// If SQL does not answer, a row holds a value that Laurel never writes, or the document cannot be
/// written.
pub(super) async fn write(kept: &Kept<'_>, document: &mut Document) -> Result<()> {
    let (view, key) = (kept.view, kept.key());
    if let Some(row) = member::find(view, key).await? {
        document.field("member", &MemberRow::of(row))?;
    }
    let visibility = visibility::Entity::find().filter(visibility::Column::Member.eq(key));
    list(view, document, "visibility", visibility, |row| Ok(Some(row.visibility.to_value())))
        .await?;
    write_friends(kept, document).await?;
    write_requests(kept, document).await?;
    let tokens = access_token::Entity::find()
        .filter(access_token::Column::Member.eq(key))
        .order_by_asc(access_token::Column::CreatedAtMs);
    list(view, document, "tokens", tokens, |row| Ok(Some(Token::of(row)))).await?;
    write_bans(kept, document).await?;
    use merge::Column::{Source, Target};
    let merges = merge::Entity::find()
        .filter(Condition::any().add(Source.eq(key)).add(Target.eq(key)))
        .order_by_asc(Source);
    list(view, document, "merges", merges, |row| Ok(Some(MergeOf::of(row)))).await?;
    let refused = |row: dead_letter::Model| {
        if row.is_blank() {
            return Ok(None);
        }
        let (place, event) = row.event()?;
        let is_own = event.member.as_str() == key;
        Ok(is_own.then(|| RefusedEvent {
            id: format!("event:{}:{}:{}", place.partition, place.seq, place.index),
            event: row.payload,
            reason: row.reason,
            state: row.state.to_value(),
            created_at: Time(row.created_at_ms),
        }))
    };
    list(view, document, "refusedEvents", dead_letter::Entity::find(), refused).await?;
    use integrity_finding::Column as F;
    let findings = integrity_finding::Entity::find()
        .filter(F::Member.eq(key))
        .order_by_asc(F::RunId)
        .order_by_asc(F::FindingIndex);
    list(view, document, "findings", findings, |row| Ok(Some(Finding::of(row)))).await?;
    use report::Column as R;
    let made = report::Entity::find().filter(R::Reporter.eq(key)).order_by_asc(R::No);
    list(view, document, "reportsMade", made, |row| Ok(Some(ReportOf::of(row, true)))).await?;
    // Those who reported the member are not named to it.
    let about = report::Entity::find().filter(R::Member.eq(key)).order_by_asc(R::No);
    list(view, document, "reportsAbout", about, |row| Ok(Some(ReportOf::of(row, false)))).await?;
    let acts = audit::Entity::find().filter(audit::Column::Member.eq(key));
    let acts = acts.order_by_asc(audit::Column::No);
    list(view, document, "acts", acts, |row| Ok(Some(ActOn::of(row)))).await
}

/// Writes a list of the selected rows as they come. `item` leaves out those that it has none for.
pub(super) async fn list<E: EntityTrait, T: Serialize>(
    view: &DatabaseTransaction,
    document: &mut Document,
    name: &'static str,
    rows: Select<E>,
    item: impl Fn(E::Model) -> Result<Option<T>>,
) -> Result<()>
where
    E::Model: Send,
{
    document.open(Some(name), Shape::List, &())?;
    let mut rows = rows.stream(view).await?;
    while let Some(row) = rows.try_next().await? {
        if let Some(item) = item(row)? {
            document.item(&item)?;
        }
    }
    document.close()?;
    Ok(())
}

async fn write_friends(kept: &Kept<'_>, document: &mut Document) -> Result<()> {
    use friendship::Column::{High, Low};
    document.open(Some("friends"), Shape::List, &())?;
    for own in [Low, High] {
        let rows = friendship::Entity::find().filter(own.eq(kept.key()));
        let mut rows = rows.order_by_asc(Low).order_by_asc(High).stream(kept.view).await?;
        while let Some(row) = rows.try_next().await? {
            let member = if row.low == kept.key() { row.high } else { row.low };
            document.item(&Friend { member, since: Time(row.created_at_ms) })?;
        }
    }
    document.close()?;
    Ok(())
}

async fn write_requests(kept: &Kept<'_>, document: &mut Document) -> Result<()> {
    use friend_request::Column::{Asked, Asker};
    let own = Condition::any().add(Asked.eq(kept.key())).add(Asker.eq(kept.key()));
    let rows = friend_request::Entity::find().filter(own).order_by_asc(Asker).order_by_asc(Asked);
    list(kept.view, document, "friendRequests", rows, |row| {
        Ok(Some(Request { from: row.asker, to: row.asked, since: Time(row.created_at_ms) }))
    })
    .await
}

async fn write_bans(kept: &Kept<'_>, document: &mut Document) -> Result<()> {
    let Some(row) = ban::of(kept.view, kept.key()).await? else { return Ok(()) };
    let (bans, lifting) = (row.terms()?, row.lifted()?);
    let numbers: Vec<i64> = bans.iter().chain(&lifting).map(|terms| terms.board).collect();
    let boards = board::of_numbers(kept.view, &numbers).await?;
    let slugs: BTreeMap<i64, Option<String>> = boards
        .into_iter()
        .map(|row| (row.no, row.deleted_at_ms.is_none().then_some(row.slug)))
        .collect();
    let of = |terms: Terms, is_being_lifted| BanOf {
        board: (terms.board != EVERYWHERE).then(|| BoardName {
            no: terms.board,
            slug: slugs.get(&terms.board).cloned().flatten(),
        }),
        shadow: terms.shadow,
        reason: terms.reason,
        since: Time(terms.since_ms),
        is_being_lifted,
    };
    document.open(Some("bans"), Shape::List, &())?;
    for terms in bans {
        document.item(&of(terms, false))?;
    }
    for terms in lifting {
        document.item(&of(terms, true))?;
    }
    document.close()?;
    Ok(())
}

impl MemberRow {
    fn of(row: member::Model) -> Self {
        Self {
            attributes: row.other_attributes(),
            name: row.name,
            region: row.region,
            avatar_url: row.avatar_url,
            created_at: Time(row.created_at_ms),
        }
    }
}

impl Token {
    fn of(row: access_token::Model) -> Self {
        Self {
            id: row.id,
            name: row.name,
            scopes: row.scopes,
            boards: row.boards,
            created_at: Time(row.created_at_ms),
            expires_at: row.expires_at_ms.map(Time),
            revoked_at: row.revoked_at_ms.map(Time),
            last_used_at: row.last_used_at_ms.map(Time),
        }
    }
}

impl ReportOf {
    fn of(row: report::Model, is_own: bool) -> Self {
        Self {
            board: row.board_no,
            member: is_own.then_some(row.member),
            reason: row.reason.to_value(),
            text: row.text,
            state: row.state.to_value(),
            reported_at: Time(row.reported_at_ms),
            resolved_at: row.resolved_at_ms.map(Time),
        }
    }
}

impl ActOn {
    fn of(row: audit::Model) -> Self {
        Self {
            at: Time(row.at_ms),
            act: row.act,
            board: row.board,
            outcome: row.outcome.to_value(),
        }
    }
}

impl MergeOf {
    fn of(row: merge::Model) -> Self {
        Self {
            source: row.source,
            target: row.target,
            step: row.step.to_value(),
            started_at: Time(row.started_at_ms),
        }
    }
}

impl Finding {
    fn of(row: integrity_finding::Model) -> Self {
        Self {
            run: row.run_id,
            kind: row.kind,
            board: row.board_no,
            window: row.window,
            period: row.period,
            segment: row.segment,
            history: row.history,
            sql: row.sql,
            redis: row.redis,
            repaired: row.repaired,
            place: row.place,
            note: row.note,
        }
    }
}
