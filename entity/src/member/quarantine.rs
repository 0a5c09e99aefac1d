//! Quarantined scores: kept, and in no history, until a moderator releases or voids them.

use std::collections::BTreeMap;

use ranking::board::fair_play::Suspicion;
use ranking::shown_instant;
use ranking::submission::Submission;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveEnum, ActiveValue::Set, Condition, IntoActiveModel, NotSet, QueryOrder};
use serde_json::json;

use crate::error::Result;
use crate::history::segments;
use crate::member::ban;
use crate::sql::{begin, first_rows, insert_chunked};
use crate::webhook::Kind;
use crate::webhook::outbox::{self, Notice};
use crate::{board, random_id};

/// The most scores of a member in quarantine on a board.
pub const QUARANTINED_MAX: usize = 10_000;

/// The state of a quarantined score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum State {
    /// It waits for a moderator.
    #[sea_orm(string_value = "HELD")]
    Held,
    /// It is being released: it may be an event already. Another release goes on.
    #[sea_orm(string_value = "RELEASING")]
    Releasing,
    /// It is an event.
    #[sea_orm(string_value = "RELEASED")]
    Released,
    /// It does not count.
    #[sea_orm(string_value = "VOIDED")]
    Voided,
}

/// The states of a score that is not decided.
pub const OPEN: [State; 2] = [State::Held, State::Releasing];

/// A row of `quarantined_score`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "quarantined_score")]
pub struct Model {
    /// The number, never used again.
    #[sea_orm(primary_key)]
    pub no: i64,
    /// The board.
    pub board_no: i64,
    /// The member, which may have no row yet.
    pub member: String,
    /// The raw score.
    pub score: i64,
    /// The time at which it was earned, in Unix milliseconds.
    pub at_ms: i64,
    /// The id of the event that it may become.
    pub event_id: String,
    /// True if the client sent that id.
    pub event_id_sent: bool,
    /// The segments that it may count in besides everyone, as a JSON array.
    pub segments: String,
    /// The metadata, as JSON.
    pub metadata: Option<String>,
    /// The name of the reason, as [`Suspicion::name`] gives it.
    pub suspicion: String,
    /// The reason, for people.
    pub message: String,
    /// The time of arrival, in Unix milliseconds.
    pub received_at_ms: i64,
    /// The state.
    pub state: State,
    /// When it was released or voided, in Unix milliseconds; none while it is open.
    pub decided_at_ms: Option<i64>,
}

no_relations!();

/// A score to keep, and the reason.
#[derive(Debug, Clone)]
pub struct Suspect {
    /// The score.
    pub submission: Submission,
    /// The reason.
    pub suspicion: Suspicion,
    /// The reason, for people.
    pub message: String,
}

/// The outcome of keeping a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// The score is kept.
    Done,
    /// The score is kept, and its member is banned in silence.
    InSilence,
    /// The member has as many scores in quarantine on the board as it may have.
    Full,
    /// The event id is one of another score in quarantine.
    Conflict,
    /// The member's ban is over, or is being lifted: submit the score again.
    NotBanned,
}

impl Model {
    /// The segments that it may count in besides everyone.
    ///
    /// # Errors
    /// `Corrupt` if they are not a JSON array of texts.
    pub fn segments(&self) -> ranking::Result<Vec<String>> {
        segments::of(&self.segments)
    }

    /// The reason.
    ///
    /// # Errors
    /// `Corrupt` if the row names none.
    pub fn suspicion(&self) -> ranking::Result<Suspicion> {
        Suspicion::from_name(&self.suspicion)
    }

    /// True for the same content.
    fn is_same(&self, other: &Self) -> bool {
        (self.score, &self.metadata) == (other.score, &other.metadata)
    }
}

/// The row of a score that arrived at an instant.
fn row_of(suspect: &Suspect, now_ms: i64) -> Model {
    let Suspect { submission, suspicion, message } = suspect;
    let sent = submission.event_id.as_ref().map(ToString::to_string);
    Model {
        no: 0,
        board_no: submission.board.no.0,
        member: submission.member.to_string(),
        score: submission.score,
        at_ms: submission.at_ms.map_or(now_ms, |at_ms| at_ms.min(now_ms)),
        event_id_sent: sent.is_some(),
        // A score that its source hands out again is the same one.
        event_id: sent.unwrap_or_else(|| match &submission.provenance {
            Some(provenance) => format!("position:{provenance}"),
            None => format!("quarantined:{}", random_id()),
        }),
        segments: segments::text(&submission.segments),
        metadata: submission.metadata.as_ref().map(ToString::to_string),
        suspicion: suspicion.name().to_owned(),
        message: message.clone(),
        received_at_ms: now_ms,
        state: State::Held,
        decided_at_ms: None,
    }
}

/// Keeps scores of one board, in one transaction, and says of each whether it is kept. The lock of
/// the board's row makes the limit exact, and those of bans put a lift before or after all of it.
pub async fn keep(
    db: &DatabaseConnection,
    board_no: i64,
    suspects: &[Suspect],
    now_ms: i64,
) -> Result<Vec<Kept>> {
    let transaction = begin(db).await?;
    board::Entity::update_many()
        .col_expr(board::Column::EntrantsNo, Expr::col(board::Column::EntrantsNo))
        .filter(board::Column::No.eq(board_no))
        .exec(&transaction)
        .await?;
    let rows: Vec<Model> = suspects.iter().map(|suspect| row_of(suspect, now_ms)).collect();
    let mut by_member: BTreeMap<&str, Vec<&Model>> = BTreeMap::new();
    for row in &rows {
        by_member.entry(&row.member).or_default().push(row);
    }
    let (mut counts, mut bans, mut known) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for (member, rows) in by_member {
        counts.insert(member, of_member(board_no, member).count(&transaction).await? as usize);
        if rows.iter().any(|row| row.suspicion == Suspicion::Banned.name()) {
            bans.insert(member, ban::locked_terms(&transaction, member, board_no).await?);
        }
        let there = Entity::find()
            .filter(Column::BoardNo.eq(board_no))
            .filter(Column::Member.eq(member))
            .filter(Column::EventId.is_in(rows.iter().map(|row| row.event_id.as_str())))
            .all(&transaction)
            .await?;
        known.extend(there.into_iter().map(|row| ((member, row.event_id.clone()), row)));
    }
    let (mut outcomes, mut new, mut kept) = (Vec::with_capacity(rows.len()), vec![], vec![]);
    for (suspect, row) in suspects.iter().zip(&rows) {
        let member = row.member.as_str();
        let terms = bans.get(member).and_then(Option::as_ref);
        if suspect.suspicion == Suspicion::Banned && terms.is_none() {
            outcomes.push(Kept::NotBanned);
            continue;
        }
        let done =
            if terms.is_some_and(|terms| terms.shadow) { Kept::InSilence } else { Kept::Done };
        let count = counts.entry(member).or_default();
        let place = (member, row.event_id.clone());
        match known.get(&place) {
            Some(known) if OPEN.contains(&known.state) => {
                outcomes.push(if known.is_same(row) { done } else { Kept::Conflict });
                continue;
            }
            _ if *count >= QUARANTINED_MAX => {
                outcomes.push(Kept::Full);
                continue;
            }
            // It was decided before, and is judged again.
            Some(known) => {
                let again = row.clone().into_active_model().reset_all();
                let again = ActiveModel { no: Set(known.no), ..again };
                Entity::update(again).exec(&transaction).await?;
            }
            None => new.push(ActiveModel { no: NotSet, ..row.clone().into_active_model() }),
        }
        known.insert(place, row.clone());
        kept.push(row.clone());
        *count += 1;
        outcomes.push(done);
    }
    insert_chunked::<Entity, _>(&transaction, new, None).await?;
    tell(&transaction, "QUARANTINED", &kept, now_ms).await?;
    transaction.commit().await?;
    Ok(outcomes)
}

/// The open scores of a member on a board.
fn of_member(board_no: i64, member: &str) -> Select<Entity> {
    Entity::find()
        .filter(Column::BoardNo.eq(board_no))
        .filter(Column::Member.eq(member))
        .filter(Column::State.is_in(OPEN))
}

/// The scores of some numbers, in the order of their numbers: at most some thousand.
pub async fn of_numbers(
    db: &impl ConnectionTrait,
    numbers: impl IntoIterator<Item = i64>,
) -> Result<Vec<Model>, DbErr> {
    Entity::find().filter(Column::No.is_in(numbers)).order_by_asc(Column::No).all(db).await
}

/// The first open scores of a member, on a board or on all, that are in quarantine as it was
/// banned, after a number.
pub async fn of_ban(
    db: &impl ConnectionTrait,
    (member, board_no): (&str, Option<i64>),
    after: i64,
    limit: usize,
) -> Result<(Vec<Model>, bool), DbErr> {
    let mut select = Entity::find()
        .filter(Column::Member.eq(member))
        .filter(Column::State.is_in(OPEN))
        .filter(Column::Suspicion.eq(Suspicion::Banned.name()))
        .filter(Column::No.gt(after));
    if let Some(no) = board_no {
        select = select.filter(Column::BoardNo.eq(no));
    }
    first_rows(db, select.order_by_asc(Column::No), limit).await
}

/// A page of a board's quarantine, in the order of arrival: the scores in some states, of one
/// member or all, after a number; and true if there are more.
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

/// Moves scores from some states to RELEASED or VOIDED, and tells webhooks of it. Part of a
/// transaction. Returns the number of those that moved.
pub async fn decide(
    db: &impl ConnectionTrait,
    numbers: &[i64],
    (from, to): (&[State], State),
    now_ms: i64,
) -> Result<u64, DbErr> {
    let moved = advance(db, numbers, (from, to), Some(now_ms)).await?;
    let mut rows = if moved == 0 { vec![] } else { of_numbers(db, numbers.to_vec()).await? };
    rows.retain(|row| row.state == to && row.decided_at_ms == Some(now_ms));
    tell(db, &to.to_value(), &rows, now_ms).await?;
    Ok(moved)
}

/// Tells webhooks of scores. Part of a transaction.
async fn tell(
    db: &impl ConnectionTrait,
    change: &str,
    rows: &[Model],
    now_ms: i64,
) -> Result<(), DbErr> {
    let mut numbers: Vec<i64> = rows.iter().map(|row| row.board_no).collect();
    numbers.dedup();
    let boards = match rows.is_empty() {
        true => vec![],
        false => board::of_numbers(db, &numbers).await?,
    };
    let notice = |row: &Model| {
        let board = boards.iter().find(|board| board.no == row.board_no);
        let decimals = board.and_then(|board| u8::try_from(board.decimals).ok());
        let data = json!({
            "change": change,
            "board": board.map(|board| &board.slug),
            "member": row.member,
            "score": ranking::score::format(row.score, decimals.unwrap_or_default()),
            "at": shown_instant(row.at_ms),
            "eventId": row.event_id_sent.then_some(&row.event_id),
            "suspicion": row.suspicion,
        });
        let (board_no, member) = (Some(row.board_no), Some(row.member.clone()));
        Notice { kind: Kind::Quarantine, board_no, member, data, at_ms: now_ms }
    };
    outbox::tell(db, &rows.iter().map(notice).collect::<Vec<_>>()).await
}

/// Moves scores from some states to another one; `decided_at_ms` is the instant of a decision.
/// Returns the number of those that moved.
pub async fn advance(
    db: &impl ConnectionTrait,
    numbers: &[i64],
    (from, to): (&[State], State),
    decided_at_ms: Option<i64>,
) -> Result<u64, DbErr> {
    let moved =
        ActiveModel { state: Set(to), decided_at_ms: Set(decided_at_ms), ..Default::default() };
    let still = Condition::all()
        .add(Column::No.is_in(numbers.iter().copied()))
        .add(Column::State.is_in(from.iter().copied()));
    let updated = Entity::update_many().set(moved).filter(still).exec(db).await?;
    Ok(updated.rows_affected)
}
