//! The rows of `standing`, which the transaction that writes history keeps in step with it.

use std::collections::{BTreeMap, HashMap, HashSet};

use futures::TryStreamExt;
use ranking::board::Board;
use ranking::board::State;
use ranking::commit::{Event, EventKind};
use ranking::fold::replay::Replay;
use ranking::id::{BoardNo, MemberId, PartitionNo};
use ranking::score::rank_key::RankKey;
use ranking::window::{Period, Window};
use sea_orm::{ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, IntoActiveModel, QueryFilter};

use crate::partition::HistoryTransaction;
use crate::partition::home::fold_row_or_skip;
use entity::archive::{archive_mark, archived_entry};
use entity::history::score_event;
use entity::sql::insert_chunked;
use entity::standings::standing::{Column, Entity, Model, of_members, replace, replacing};

/// The most members in one SELECT: SQLite allows 32,766 parameters.
const MEMBERS_MAX: usize = 1000;

/// Folds events onto the rows that [`load`] returned. The events are in order and come with the
/// seqs of their commits.
///
/// A removal deletes the member's rows. A void replaces them with a fold of the member's history,
/// which the transaction already has. So does a row that cannot be read, as it was edited by hand.
///
/// The rows follow from history, so a bad row must not stop the event. One whose new value no key
/// can hold stays unchanged and is logged. The integrity diff reports it and a rebuild repairs it.
pub(crate) async fn fold_onto(
    within: HistoryTransaction<'_>,
    events: &[(u64, &Event)],
    mut rows: Loaded,
) -> Result<(), DbErr> {
    let mut by_member: BTreeMap<(BoardNo, &str), Vec<(u64, &Event)>> = BTreeMap::new();
    for &(seq, event) in events {
        by_member.entry((event.board, event.member.as_str())).or_default().push((seq, event));
    }
    let (mut changed, mut moved) = (vec![], vec![]);
    for ((no, member), events) in by_member {
        let Some(board) = within.boards.get(&no) else {
            continue;
        };
        let known = rows.remove(&(no, member.to_owned())).unwrap_or_default();
        let has_moved = known.iter().any(|row| row.partition != i32::from(within.partition));
        let states = fold_member(within, board, member, known, &events).await?;
        for (segment, state) in states {
            let Some((state, seq)) = state else {
                Entity::delete_by_id((no.0, segment, member.to_owned())).exec(within.db).await?;
                continue;
            };
            match row_of(board, segment, member, state, within.partition, seq) {
                Ok(row) if has_moved => moved.push(row.into_active_model()),
                Ok(row) => changed.push(row.into_active_model()),
                Err(error) => {
                    tracing::error!(board = %no, member, %error, "a row of standing cannot be written; rebuild the board")
                }
            }
        }
    }
    // Naming the partition in the update doubles the cost of SQLite's index, even if it stays the
    // same.
    insert_chunked::<Entity, _>(
        within.db,
        changed,
        Some(replacing([Column::Score, Column::RankKey, Column::Seq])),
    )
    .await?;
    insert_chunked::<Entity, _>(within.db, moved, Some(replace())).await
}

/// A member's states by segment, each with the seq of its last commit; `None` for a removed one.
type States = BTreeMap<String, Option<(State, u64)>>;

/// Folds a member's events onto its rows.
async fn fold_member(
    within: HistoryTransaction<'_>,
    board: &Board,
    member: &str,
    known: Vec<Model>,
    events: &[(u64, &Event)],
) -> Result<States, DbErr> {
    let (mut states, mut is_readable) = (States::new(), true);
    for row in known {
        let state = match RankKey::from_i64(row.rank_key) {
            Ok(key) => Some((board.rules.state(Window::All, &Period::all(), key), row.seq as u64)),
            Err(error) => {
                tracing::error!(board = %board.no, member, %error, "a row of standing cannot be read and is folded from history");
                is_readable = false;
                None
            }
        };
        states.insert(row.segment, state);
    }
    let is_void = |(_, event): &&(u64, &Event)| matches!(event.kind, EventKind::Void { .. });
    let last_void = events.iter().rfind(is_void);
    if let Some(&(seq, _)) = last_void.or(events.last().filter(|_| !is_readable)) {
        states.values_mut().for_each(|state| *state = None);
        for (segment, state) in refold(within.db, within.partition, board, member).await? {
            states.insert(segment, Some((state, seq)));
        }
        return Ok(states);
    }
    for &(seq, event) in events {
        let (score, at_ms) = match event.kind {
            EventKind::Score { score, at_ms, .. } => (score, at_ms),
            _ => {
                states.values_mut().for_each(|state| *state = None);
                continue;
            }
        };
        let step = board.rules.first(Window::All, score, at_ms);
        for segment in std::iter::once("").chain(event.segments.iter().map(String::as_str)) {
            let state = states.entry(segment.to_owned()).or_insert(None);
            let before = state.map(|(state, _)| state);
            *state = Some((board.rules.fold(Window::All, before, step), seq));
        }
    }
    Ok(states)
}

/// The rows that a member's whole history adds up to, as of a commit that the transaction has.
pub async fn recompute(
    transaction: &DatabaseTransaction,
    partition: PartitionNo,
    board: &Board,
    member: &str,
    seq: u64,
) -> Result<Vec<Model>, DbErr> {
    let states = refold(transaction, partition, board, member).await?;
    let mut rows = vec![];
    for (segment, state) in states {
        match row_of(board, segment, member, state, partition, seq) {
            Ok(row) => rows.push(row),
            Err(error) => {
                tracing::error!(board = %board.no, member, %error, "a row of standing cannot be written; look at the member's rows of score_event");
            }
        }
    }
    Ok(rows)
}

/// The sums of a member's whole history by segment: the archived part, and the events after it. The
/// transaction locks the partition's cursor, so nothing is archived at the same time.
async fn refold(
    transaction: &DatabaseTransaction,
    partition: PartitionNo,
    board: &Board,
    member: &str,
) -> Result<Vec<(String, State)>, DbErr> {
    let mark = archive_mark::of(transaction, board.no, partition).await?;
    let archived = archived_entry::of_members(transaction, &mark, [member]).await?;
    let history = || {
        let history = score_event::history_of(board, member);
        history.filter(score_event::Column::Seq.gt(mark.archived_seq))
    };
    // Scores alone have a time.
    let amendments = history().filter(score_event::Column::AtMs.is_null());
    let amendments = amendments.all(transaction).await?;
    let voided = amendments.iter().filter_map(score_event::Model::voids).collect();
    drop(amendments);
    let mut replay = Replay::without(voided, 0).only([Window::All]);
    match MemberId::new(member) {
        Ok(id) => {
            let sums = archived.values().filter_map(|row| Some((&row.segment, row.state()?)));
            sums.for_each(|(segment, state)| replay.begin_with(board, &id, segment, state));
        }
        Err(error) => tracing::error!(board = %board.no, %error, "a row names no member"),
    }
    // One by one: a history is long, and a row takes ten times the memory of its event.
    let mut rows = history().stream(transaction).await?;
    while let Some(row) = rows.try_next().await? {
        fold_row_or_skip(&mut replay, board, &row);
    }
    Ok(replay.into_states(Window::All))
}

/// Rows by board and member.
pub(crate) type Loaded = HashMap<(BoardNo, String), Vec<Model>>;

/// The rows of the members that the events belong to.
pub(crate) async fn load(
    transaction: &DatabaseTransaction,
    events: &[(u64, &Event)],
) -> Result<Loaded, DbErr> {
    let mut by_board: BTreeMap<BoardNo, HashSet<&str>> = BTreeMap::new();
    for (_, event) in events {
        let members = by_board.entry(event.board).or_default();
        members.insert(event.member.as_str());
    }
    let mut rows = Loaded::new();
    for (no, members) in by_board {
        let members: Vec<&str> = members.into_iter().collect();
        for chunk in members.chunks(MEMBERS_MAX) {
            for row in of_members(transaction, no.0, chunk).await? {
                rows.entry((no, row.member.clone())).or_default().push(row);
            }
        }
    }
    Ok(rows)
}

/// The row of a state as of a commit.
///
/// # Errors
/// `OutOfRange` if no key can hold the state.
pub(super) fn row_of(
    board: &Board,
    segment: String,
    member: &str,
    state: State,
    partition: PartitionNo,
    seq: u64,
) -> ranking::Result<Model> {
    Ok(Model {
        board_no: board.no.0,
        segment,
        member: member.to_owned(),
        score: state.score,
        rank_key: board.rules.key(Window::All, &Period::all(), state)?.to_i64(),
        partition: partition.into(),
        seq: seq as i64,
    })
}
