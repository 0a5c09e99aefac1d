//! Reports of members: made by players, and resolved by moderators.

use std::sync::Arc;

use async_graphql::connection::{Edge, EmptyFields};
use async_graphql::{Context, Enum, ID, InputObject, Object, SimpleObject};
use entity::board as board_row;
use entity::member;
use entity::member::report::{self as row, Kept, REPORTS_OPEN_MAX, Report, State};
use ranking::id::MemberId;
use ranking::shown;

use super::Member;
use super::merge::check_unmerged;
use crate::access::scope::Scope;
use crate::cache::boards::CachedBoard;
use crate::error::{Error, ErrorCode, Result};
use crate::graphql::audit::writer::Audit;
use crate::graphql::board::{self, Board};
use crate::graphql::guard::Needs;
use crate::graphql::price;
use crate::graphql::request::{app, state};
use crate::graphql::standings::member_id;
use crate::graphql::types::connection::{
    Connection, PAGE_DEFAULT, PageCursor, limit_or, states_or,
};
use crate::graphql::types::global_id::GlobalId;
use crate::graphql::types::scalar::{DateTime, int, text_within};

/// The longest text of a report, in characters.
const REPORT_CHARS_MAX: usize = 500;

/// The reason why a player reports a member.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "entity::member::report::Reason")]
pub enum ReportReason {
    /// Scores that cannot be honest.
    Cheating,
    /// A name or a picture.
    Name,
    /// The behavior towards others.
    Behavior,
    /// Anything else.
    Other,
}

/// The state of a report.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "entity::member::report::State")]
pub enum ReportState {
    /// It waits for a moderator.
    Open,
    /// A moderator found nothing wrong.
    Dismissed,
    /// A moderator agreed.
    Upheld,
}

/// The decision about a report.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportResolution {
    /// Nothing is wrong.
    Dismissed,
    /// The reporter is right.
    Upheld,
}

/// A report of a member by a player.
pub struct MemberReport {
    board: Arc<CachedBoard>,
    row: row::Model,
}

/// A report of a member by a player.
#[Object]
impl MemberReport {
    /// The global id: "memberReport:<number>".
    pub(crate) async fn id(&self) -> ID {
        GlobalId::MemberReport(self.row.no).to_text().into()
    }

    /// The board.
    async fn board(&self) -> Board {
        Board(self.board.clone())
    }

    /// The member that is reported.
    async fn member(&self) -> Member {
        Member::named(&self.row.member)
    }

    /// The member that reports it.
    async fn reporter(&self) -> Member {
        Member::named(&self.row.reporter)
    }

    /// The reason.
    async fn reason(&self) -> ReportReason {
        self.row.reason.into()
    }

    /// More about it; null if the reporter wrote nothing.
    async fn text(&self) -> Option<&str> {
        self.row.text.as_deref()
    }

    /// The number of further reports of the member on the board that were counted with this one and
    /// not kept, as there were 100.
    async fn further(&self) -> async_graphql::Result<i32> {
        Ok(int(self.row.further.unsigned_abs())?)
    }

    /// The time of the report; of the last one, if the reporter has replaced it.
    async fn reported_at(&self) -> DateTime {
        DateTime(self.row.reported_at_ms)
    }

    /// The state.
    async fn state(&self) -> ReportState {
        self.row.state.into()
    }

    /// The time when it was resolved; null while it is open.
    async fn resolved_at(&self) -> Option<DateTime> {
        self.row.resolved_at_ms.map(DateTime)
    }
}

/// A member to report.
#[derive(InputObject)]
pub struct ReportMemberInput {
    /// The slug of the board.
    board: String,
    /// The key of the member.
    member: String,
    /// The reason.
    reason: ReportReason,
    /// More about it, at most 500 characters.
    text: Option<String>,
    /// The key of the member that reports it: needed from a service, and the member itself by
    /// default with a member's own token.
    reporter: Option<String>,
}

/// The result of `reportMember`.
#[derive(SimpleObject)]
pub struct ReportMemberPayload {
    /// The board.
    board: Board,
    /// The member that is reported.
    member: Member,
}

/// A report to resolve.
#[derive(InputObject)]
pub struct ResolveReportInput {
    /// The global id of the report.
    id: ID,
    /// The decision.
    resolution: ReportResolution,
}

/// The result of `resolveReport`.
#[derive(SimpleObject)]
pub struct ResolveReportPayload {
    /// True if it is resolved so from now on; false if it was before.
    resolved: bool,
    /// The report.
    report: MemberReport,
}

/// Reports a member.
pub(crate) async fn report_member(
    ctx: &Context<'_>,
    input: ReportMemberInput,
) -> Result<ReportMemberPayload> {
    let board = board::named(ctx, &input.board).await.map_err(|error| error.within("input"))?;
    let reporter = reporter(ctx, input.reporter.as_deref())?;
    let text = input.text.map(|text| text_within("text", text, REPORT_CHARS_MAX)).transpose();
    let text = text.map_err(|error| error.within("input"))?;
    let member = member_id("input.member", &input.member)?;
    if member == reporter {
        let message = "invalid member: expected another one than the reporter";
        return Err(Error::bad_input(message).at("input.member"));
    }
    let keys = [member.to_string(), reporter.to_string()];
    let arguments = ["input.member", "input.reporter"];
    let found = Member::nameable(ctx, &keys).await?;
    for ((key, argument), found) in keys.iter().zip(arguments).zip(&found) {
        if found.is_none() {
            return Err(no_such(key, argument));
        }
    }
    for (key, argument) in [&member, &reporter].into_iter().zip(arguments) {
        check_unmerged(ctx, key, || no_such(key.as_str(), argument)).await?;
    }
    let deployment = &app(ctx).deployment;
    let now_ms = deployment.clock.now_ms();
    // A reporter whose first score came a moment ago may have no row yet.
    member::insert_missing(&deployment.db, reporter.as_str(), now_ms).await?;
    let report = Report {
        board_no: board.row.no,
        member: member.to_string(),
        reporter: reporter.to_string(),
        reason: input.reason.into(),
        text,
    };
    if row::keep(&deployment.db, report, now_ms).await? == Kept::Full {
        let message = format!(
            "{} has {REPORTS_OPEN_MAX} open reports: expected at most so many",
            shown(reporter.as_str())
        );
        return Err(Error::limit_exceeded(message));
    }
    Ok(ReportMemberPayload { board: Board(board), member: Member::named(member.as_str()) })
}

fn no_such(key: &str, argument: &str) -> Error {
    Error::new(ErrorCode::NotFound, format!("there is no member {}", shown(key))).at(argument)
}

/// The reporter: the member of the token, or the one that a service names.
fn reporter(ctx: &Context<'_>, given: Option<&str>) -> Result<MemberId> {
    let principal = state(ctx).require(Scope::Submit)?;
    match (principal.member.as_deref(), given) {
        (Some(own), Some(given)) if own != given => {
            let message = format!("this access token may report members for {own} only");
            Err(Error::forbidden(message))
        }
        (Some(own), _) => member_id("input.reporter", own),
        (None, Some(given)) => member_id("input.reporter", given),
        (None, None) => {
            let message = "invalid reporter: expected the key of the member that reports, as this access token is bound to none";
            Err(Error::bad_input(message).at("input.reporter"))
        }
    }
}

/// Resolves a report.
pub(crate) async fn resolve_report(
    ctx: &Context<'_>,
    audit: &Audit<'_>,
    input: &ResolveReportInput,
) -> Result<ResolveReportPayload> {
    let unknown = || {
        let message = "there is no such report: expected an id of Board.reports";
        Error::new(ErrorCode::NotFound, message).at("input.id")
    };
    let Some(GlobalId::MemberReport(no)) = GlobalId::parse(&input.id) else {
        return Err(unknown());
    };
    let MemberReport { board, row } = find(ctx, no).await?.ok_or_else(unknown)?;
    audit.note(|act| act.on(&board.row).on_member(&row.member));
    let to = match input.resolution {
        ReportResolution::Dismissed => State::Dismissed,
        ReportResolution::Upheld => State::Upheld,
    };
    let deployment = &app(ctx).deployment;
    let now_ms = deployment.clock.now_ms();
    let resolved = row::resolve(&deployment.db, &row, to, now_ms, audit.act()).await?;
    if resolved {
        audit.written();
    }
    let row = row::find(&deployment.db, no).await?.ok_or_else(unknown)?;
    Ok(ResolveReportPayload { resolved, report: MemberReport { board, row } })
}

/// The report of a number.
pub(crate) async fn find(ctx: &Context<'_>, no: i64) -> Result<Option<MemberReport>> {
    Needs::Scope(Scope::Moderate).met(ctx)?;
    state(ctx).spend(price::select(2)).await?;
    let db = &app(ctx).deployment.db;
    let Some(row) = row::find(db, no).await? else { return Ok(None) };
    let board = board_row::living_of_numbers(db, &[row.board_no]).await?.remove(&row.board_no);
    let board = board.filter(|board| state(ctx).seen().includes(board));
    let board = board.map(CachedBoard::new).transpose()?;
    Ok(board.map(|board| MemberReport { board, row }))
}

/// A page of a board's reports.
pub(crate) async fn page(
    ctx: &Context<'_>,
    board: &Arc<CachedBoard>,
    (states, member): (Option<Vec<ReportState>>, Option<String>),
    first: Option<i32>,
    after: Option<&str>,
) -> Result<Connection<MemberReport, EmptyFields>> {
    let limit = limit_or("first", first, PAGE_DEFAULT)?;
    let place = after.map(PageCursor::place::<i64>).transpose()?;
    let member = member.map(|member| member_id("member", &member)).transpose()?;
    let states: Vec<State> = states_or(states, &[State::Open])?;
    state(ctx).spend(price::select(limit)).await?;
    let (db, no) = (&app(ctx).deployment.reads, board.row.no);
    let of = (states.as_slice(), member.as_ref().map(MemberId::as_str));
    let (rows, has_next) = row::page(db, no, of, place.unwrap_or_default(), limit).await?;
    let mut connection = Connection::new(after.is_some(), has_next);
    connection.edges.extend(
        rows.into_iter().map(|row| {
            Edge::new(PageCursor::of(&row.no), MemberReport { board: board.clone(), row })
        }),
    );
    Ok(connection)
}
