//! The prices of look-ups, in points: microseconds of CPU of the API and Redis together.
//!
//! A resolver pays before the work with what it knows: shards, lengths, positions. It pays after
//! the work for what only the work tells, such as the number of a member's friends. A look-up that
//! a request makes once is paid once.

mod scan;
mod text;

use async_graphql::Context;
use engine::read::in_sql::SCORES_MAX;
use ranking::board::TieBreak;
use ranking::id::MemberId;
use ranking::standings_id::StandingsId;
use ranking::store::read::Standings;
use ranking::window::Window;

use super::request::{RequestState, app, state};
use super::standings::dense::DENSE_SCORES_MAX;
use crate::app::App;
use crate::error::Result;
use crate::loader::totals::Total;

pub(crate) use scan::{counted, pay_position, scanned};
pub(crate) use text::{pay_boards, pay_text, pay_texts};

/// A round trip: a pipeline and its answers.
const ROUND_TRIP: u64 = 40;

/// The guards of a read, in each shard.
const GUARDS: u64 = 3;

/// The entries before a key, counted in a shard.
const COUNT: u64 = 2;

/// The entries before a place, counted in a shard; where ties go by member, in a run of equal keys.
const PLACE: u64 = 2;
const PLACE_IN_RUN: u64 = 4;

/// An entry of a page.
const ENTRY: u64 = 2;

/// The entries around a place, in each shard.
const AROUND: u64 = 12;

/// A member that is looked up by its key.
const MEMBER: u64 = 6;

/// The round trips of a search for a position.
const SEARCH_ROUND_TRIPS: u64 = 8;

/// The entries and counts of a search for a position, in each shard.
const SEARCH: u64 = 12;

/// A distinct score that a dense rank passes, and one that SQL looks up.
const SCORE: u64 = 2;
const SCORE_OF_ROWS: u64 = 20;

/// A friend in a list, and in a ranking.
const FRIEND: u64 = 1;
const RANKED_FRIEND: u64 = 2;

/// The friends of a page that are named for a point.
const FRIENDS_NAMED: u64 = 4;

/// The friends of a ranking that are passed in a microsecond, and those whom the client may not
/// see.
const FRIENDS_PASSED: u64 = 100;
const FRIENDS_LOOKED_AT: u64 = 10;

/// A SELECT, and a row of its answer.
const SELECT: u64 = 80;
const ROW: u64 = 8;

/// The SELECTs of a page in SQL: its place, the entries before that, and its entries.
const PAGE_SELECTS: u64 = 3;

/// The SELECTs of a neighborhood in SQL: its key, the entries before and behind it, and a count.
const AROUND_SELECTS: u64 = 4;

/// A board, from the cache or by a SELECT.
pub(crate) const BOARD: u64 = 50;

/// The entry of a member on one of many boards: each waits by itself, and takes some 30 KB.
pub(crate) const ENTRY_ELSEWHERE: u64 = 60;

/// A list of friends, before its length is known.
pub(crate) const FRIENDS: u64 = 1000;

/// A member's row, of the SELECT for all that a request asks for.
const MEMBER_ROW: u64 = 10;

/// A member that may be on private boards alone.
pub(crate) const HIDDEN: u64 = 8;

/// The same, of one that a count passes.
pub(crate) const HIDDEN_AT_ONCE: u64 = 2;

/// A board's row, of the SELECT for all that a request asks for.
pub(crate) const BOARD_ROW: u64 = 10;

/// Rows that SQL counts or skips for a point.
const ROWS_SKIPPED: u64 = 20;

/// Rows that SQL searches for a pattern for a point.
const ROWS_SEARCHED: u64 = 4;

/// Events of a member that SQL looks at for a point.
const EVENTS_PASSED: u64 = 2;

/// The metadata of an entry: its parts of some SELECTs and of a look into the log.
const METADATA: u64 = 60;

/// A period that is counted, in each shard.
const PERIOD: u64 = 2;

/// A change of one member's history, and one for which a member's or a board's whole history is
/// looked at. Few requests make them, and none makes many.
pub(crate) const AMENDMENT: u64 = 10_000;
pub(crate) const AMENDMENT_OF_MANY: u64 = 50_000;

/// The events of an open period, folded for a reader and those after it: few folds are under way at
/// a time, so a client has few of them made.
const FOLD: u64 = 10_000;

/// A look-up that the request has made before.
pub(crate) const REPEATED: u64 = 1;

/// A look-up that a request makes once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum LookUp<'a> {
    Size(&'a StandingsId),
    Entry(&'a StandingsId, &'a MemberId),
    Metadata(&'a StandingsId, &'a MemberId),
    ScoresCounted(&'a StandingsId, &'a MemberId),
    Page(&'a StandingsId, u64, usize),
    /// A count of rows, by the level of its field.
    Counted(&'a StandingsId, usize),
    Around(&'a StandingsId, &'a MemberId, usize, usize),
    FriendRanking(&'a StandingsId, &'a MemberId),
    Friends(&'a MemberId),
    Distribution(&'a StandingsId, i32),
    /// Positions in SQL up to about two to the power of a number, for fields of one level: those of
    /// other levels are looked up later, by their own scans.
    Position(&'a StandingsId, u32, usize),
    /// Dense ranks up to a position of about two to the power of a number, for fields of one level.
    Dense(&'a StandingsId, u32, usize),
    Row(&'a str),
    /// Standings that are folded while Redis is away.
    Fold(&'a StandingsId),
    FoldOfPeriods(&'a StandingsId),
    Total(&'a Total),
}

/// Pays for a look-up that the request makes once; returns true the first time.
///
/// # Errors
/// `LIMIT_EXCEEDED` if the request's points are spent.
pub(crate) async fn pay(state: &RequestState, look_up: LookUp<'_>, points: u64) -> Result<bool> {
    let is_new = state.loaders.is_new(&look_up);
    state.spend(if is_new { points } else { REPEATED }).await?;
    Ok(is_new)
}

/// Pays for standings of an open period while Redis is away, if no reader before had their
/// events folded. The fold gives all segments.
///
/// # Errors
/// As [`pay`].
pub(crate) async fn pay_fold(ctx: &Context<'_>, read: &Standings) -> Result<()> {
    if app(ctx).reader().needs_fold(read).await {
        let everyone = StandingsId { segment: String::new(), ..read.id.clone() };
        pay(state(ctx), LookUp::Fold(&everyone), FOLD).await?;
    }
    Ok(())
}

/// As [`pay_fold`], for the list of a window's open periods.
///
/// # Errors
/// As [`pay`].
pub(crate) async fn pay_fold_of_periods(ctx: &Context<'_>, read: &Standings) -> Result<()> {
    if app(ctx).reader().needs_fold_of_periods(read).await {
        pay(state(ctx), LookUp::FoldOfPeriods(&read.id), FOLD).await?;
    }
    Ok(())
}

/// Counts a total of a connection once a request: pays for its SELECTs before, and by the count for
/// the rows that they have counted.
///
/// # Errors
/// `LIMIT_EXCEEDED` if the request's points are spent; the error of the count.
pub(crate) async fn total(
    state: &RequestState,
    total: Total,
    counted: impl FnOnce(u64) -> u64,
) -> Result<u64> {
    // Few are counted that the request cannot pay for.
    let _place = state.budget.scan().await;
    if !state.loaders.is_new(&LookUp::Total(&total)) {
        state.spend(REPEATED).await?;
        return state.loaders.total(total).await;
    }
    state.spend(2 * SELECT).await?;
    let count = state.budget.settle(state.loaders.total(total)).await?;
    state.owe(counted(count)).await?;
    Ok(count)
}

/// True if the entries are rows of SQL, where a position is found by counting.
pub(crate) fn is_counted(app: &App, read: &Standings) -> bool {
    let is_away = || app.deployment.redis_health.is_away(read.partitions());
    read.is_sealed() || (read.id.window == Window::All && is_away())
}

/// The levels above a field: fields of one level are looked up together.
pub(crate) fn level(ctx: &Context<'_>) -> usize {
    ctx.path_node.as_ref().map_or(0, |node| node.parents().count())
}

/// The number of entries.
pub(crate) fn size(app: &App, read: &Standings) -> u64 {
    match is_counted(app, read) {
        true => 2 * SELECT,
        false => round_trip(read),
    }
}

/// Some members' entries.
pub(crate) fn entries(read: &Standings, members: usize) -> u64 {
    members as u64 * (MEMBER + shards(read) * place(read))
}

/// The entries before a key, counted together with others.
pub(crate) fn count(read: &Standings) -> u64 {
    COUNT * (1 + shards(read))
}

/// An entry's metadata, looked up together with those of others.
pub(crate) fn metadata() -> u64 {
    METADATA
}

/// The count of an entry's scores, made together with others, before it is known how many events it
/// passes.
pub(crate) fn scores_counted() -> u64 {
    METADATA
}

/// The events that a count of scores passed, once their number is known.
pub(crate) fn passed_events(passed: u64) -> u64 {
    passed / EVENTS_PASSED
}

/// A page of up to `limit` entries from a position on.
pub(crate) fn page_at(app: &App, read: &Standings, position: u64, limit: usize) -> u64 {
    let search = match (position, shards(read), is_counted(app, read)) {
        (0, _, _) | (_, 1, false) => 0,
        (_, _, true) => position / ROWS_SKIPPED,
        (_, shards, false) => {
            SEARCH_ROUND_TRIPS * (ROUND_TRIP / 2 + shards * GUARDS) + SEARCH * shards * place(read)
        }
    };
    page(app, read, limit).saturating_add(search)
}

/// A page of up to `limit` entries next to a place or an end.
pub(crate) fn page(app: &App, read: &Standings, limit: usize) -> u64 {
    let selects = if is_counted(app, read) { PAGE_SELECTS * SELECT } else { 0 };
    2 * round_trip(read) + limit as u64 * ENTRY + shards(read) * place(read) + selects
}

/// A neighborhood of so many other entries, read together with others.
pub(crate) fn around(app: &App, read: &Standings, others: usize) -> u64 {
    let read_around = match (others, is_counted(app, read)) {
        (0, _) => 0,
        (_, true) => AROUND_SELECTS * SELECT,
        (_, false) => shards(read) * AROUND,
    };
    MEMBER + shards(read) * place(read) + read_around + others as u64 * ENTRY
}

/// The keys of a member's friends in standings.
pub(crate) fn friend_ranking(read: &Standings, friends: usize) -> u64 {
    friends as u64 * RANKED_FRIEND + round_trip(read)
}

/// A ranking of friends that the request has, passed once for a page of it.
pub(crate) fn friends_passed(friends: usize, sees_everyone: bool) -> u64 {
    friends as u64 / if sees_everyone { FRIENDS_PASSED } else { FRIENDS_LOOKED_AT }
}

/// A page of friends, by their keys alone.
pub(crate) fn friends_named(friends: usize) -> u64 {
    friends as u64 / FRIENDS_NAMED
}

/// A list of a member's friends.
pub(crate) fn friends(friends: usize) -> u64 {
    friends as u64 * FRIEND
}

/// A distribution.
pub(crate) fn distribution(read: &Standings, buckets: u64) -> u64 {
    4 * round_trip(read) + buckets * count(read)
}

/// A dense rank of the entry at a position.
pub(crate) fn dense(app: &App, read: &Standings, position: u64) -> u64 {
    let scores = position.min(DENSE_SCORES_MAX);
    match is_counted(app, read) {
        true => (1 + scores / SCORES_MAX as u64) * SELECT + scores * SCORE_OF_ROWS,
        false => ROUND_TRIP + scores * SCORE,
    }
}

/// The points of so many steps of a walk over scores in Redis.
pub(crate) fn dense_steps(app: &App, read: &Standings, steps: u64) -> u64 {
    match is_counted(app, read) {
        true => 0,
        false => steps * 2 * (round_trip(read) + shards(read) * AROUND),
    }
}

/// A member's row.
pub(crate) fn member_row() -> u64 {
    MEMBER_ROW
}

/// A SELECT of up to so many rows.
pub(crate) fn select(rows: usize) -> u64 {
    SELECT + rows as u64 * ROW
}

/// The ranks of so many entries, before a commit and after it.
pub(crate) fn effects(entries: usize) -> u64 {
    entries as u64 * 2 * PLACE
}

/// A page of periods.
pub(crate) fn periods(read: &Standings, limit: usize) -> u64 {
    2 * round_trip(read) + SELECT + limit as u64 * (ROW + PERIOD * shards(read))
}

/// A count of rows in SQL, once the count is known.
pub(crate) fn counted_rows(count: u64) -> u64 {
    count / ROWS_SKIPPED
}

/// A search for so many patterns in so many rows of SQL.
pub(crate) fn searched_rows(count: u64, patterns: u64) -> u64 {
    counted_rows(count) + count.saturating_mul(patterns) / ROWS_SEARCHED
}

/// A count of periods, once it is known.
pub(crate) fn counted_periods(read: &Standings, count: u64) -> u64 {
    count.saturating_mul(PERIOD * shards(read))
}

fn round_trip(read: &Standings) -> u64 {
    ROUND_TRIP + shards(read) * GUARDS
}

fn shards(read: &Standings) -> u64 {
    read.partitions().len() as u64
}

fn place(read: &Standings) -> u64 {
    match read.rules.ties(read.id.window) {
        TieBreak::Member => PLACE_IN_RUN,
        _ => PLACE,
    }
}
