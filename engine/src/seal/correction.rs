//! Corrections of sealed entries after their members' history went on. The persister makes them in
//! the transaction that writes the history.
//!
//! Nothing is subtracted: the member's history is folded again for the periods concerned. Where
//! part of that history is archived, the event is folded onto the entry instead.
//!
//! A persister never misses a seal. The board's row records the seal before any partition is
//! marked, and the persister reads the row after the log. So with an event that came after the
//! mark, it knows of the seal.

mod onto;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use ranking::board::Board;
use ranking::commit::{Event, EventKind};
use ranking::fold::replay::Replay;
use ranking::id::{BoardNo, MemberId};
use ranking::standings_id::StandingsId;
use ranking::submission::Periods;
use ranking::window::roll::Rolls;
use ranking::window::seal::NEVER_MS;
use ranking::window::{Period, Window};
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ColumnTrait, Condition, DbErr, EntityTrait, QueryFilter, Select};

use crate::partition::HistoryTransaction;
use entity::archive::archive_mark;
use entity::history::score_event;
use entity::standings::sealed_period::Growth;
use entity::standings::{sealed_entry, sealed_period};

/// The most rows that one statement names.
const ROWS_MAX: usize = 1000;

/// The sealed entries of one member that need correction.
#[derive(Debug, Default)]
struct AffectedEntries<'a> {
    /// True if all of them do, because something was taken back.
    all: bool,
    /// The instants of its scores in sealed periods.
    at_ms: BTreeSet<i64>,
    /// The last commit that concerns it.
    seq: u64,
    /// The events that concern it.
    events: Vec<&'a Event>,
    /// Periods that start before this instant have archived events.
    archived_before_ms: Option<i64>,
}

impl AffectedEntries<'_> {
    /// True if a period may have archived events, so that it cannot be folded again.
    fn is_archived(&self, period: &Period) -> bool {
        let before_ms = self.archived_before_ms;
        before_ms.is_some_and(|before_ms| period.start_ms < before_ms)
    }
}

/// The sealed standings whose entries were corrected, by number, and by how much they grow.
#[derive(Debug, Default)]
struct Corrected {
    standings: BTreeSet<i64>,
    growth: Growth,
}

impl Corrected {
    /// Adds standings of which entries were deleted.
    fn deleted(&mut self, growth: Growth) {
        self.standings.extend(growth.standings());
        self.growth.add(growth);
    }
}

/// The origin of events that concern sealed entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The history; the transaction has them already.
    History,
    /// The dead letters; they never count.
    DeadLetters,
}

/// Corrects the sealed entries that events concern.
pub(crate) async fn correct(
    within: HistoryTransaction<'_>,
    events: &[(u64, &Event)],
    source: Source,
) -> Result<(), DbErr> {
    let mut by_member: BTreeMap<(BoardNo, &MemberId), AffectedEntries<'_>> = BTreeMap::new();
    for &(seq, event) in events {
        let Some(board) = within.boards.get(&event.board) else {
            continue;
        };
        let until_ms = sealing_until_ms(board);
        let at_ms = match event.kind {
            EventKind::Score { at_ms, .. } if at_ms < until_ms => Some(at_ms),
            EventKind::Score { .. } => continue,
            _ if until_ms == NEVER_MS => continue,
            _ => None,
        };
        let concerned = by_member.entry((event.board, &event.member)).or_default();
        concerned.seq = seq;
        concerned.events.push(event);
        concerned.all |= at_ms.is_none();
        concerned.at_ms.extend(at_ms);
    }
    let (mut corrected, mut archived) = (Corrected::default(), BTreeMap::new());
    for ((no, member), mut concerned) in by_member {
        let board = &within.boards[&no];
        // The transaction locks the partition's cursor, so nothing is archived at the same time.
        if let Entry::Vacant(unknown) = archived.entry(no) {
            unknown.insert(archive_mark::of(within.db, no, within.partition).await?);
        }
        // The mark decides, not the board's row: the row is set before anything is archived, and
        // stays set if the archive never completes.
        concerned.archived_before_ms = archived[&no].archived_before_ms;
        if concerned.archived_before_ms.is_some() && source == Source::History {
            onto::fold_onto(within, board, member, &concerned, &mut corrected).await?;
        }
        correct_member(within, board, member, &concerned, &mut corrected).await?;
    }
    // Persisters of other partitions correct the same standings.
    let Corrected { standings, growth } = corrected;
    sealed_period::lock(within.db, &standings).await?;
    sealed_period::grow(within.db, growth).await?;
    let standings: Vec<i64> = standings.into_iter().collect();
    for chunk in standings.chunks(ROWS_MAX) {
        use sealed_period::Column::{CorrectedAtMs, Corrections, No};
        sealed_period::Entity::update_many()
            .col_expr(Corrections, Expr::col(Corrections).add(1))
            .col_expr(CorrectedAtMs, Expr::value(within.now_ms))
            .filter(No.is_in(chunk.iter().copied()))
            .exec(within.db)
            .await?;
    }
    Ok(())
}

/// The last instant before which any window of a board is being sealed.
pub fn sealing_until_ms(board: &Board) -> i64 {
    let windows = board.added.values();
    let sealing = windows.map(|added| added.sealed.sealing_before_ms);
    sealing.max().unwrap_or(NEVER_MS)
}

/// Corrects one member's entries.
async fn correct_member(
    within: HistoryTransaction<'_>,
    board: &Board,
    member: &MemberId,
    concerned: &AffectedEntries<'_>,
    corrected: &mut Corrected,
) -> Result<(), DbErr> {
    let folded = match affected(board, concerned) {
        Ok(affected) => {
            let rows = history(board, member, concerned, &affected).all(within.db);
            fold(board, &rows.await?, concerned, &affected)
        }
        Err(error) => Err(error),
    };
    let (replay, touched) = match folded {
        Ok(folded) => folded,
        Err(error) => {
            tracing::error!(board = %board.no, %member, %error, "a history cannot be folded; look at its rows of score_event");
            return Ok(());
        }
    };
    let held: BTreeMap<StandingsId, Period> = touched
        .iter()
        .filter(|(id, _)| replay.state_of(id, member).is_some())
        .map(|(id, period)| (id.clone(), period.clone()))
        .collect();
    sealed_period::number(within.db, &held, within.now_ms).await?;
    let numbers = sealed_period::numbers(within.db, &touched).await?;
    let (mut upserts, mut gone) = (vec![], vec![]);
    for (id, &no) in &numbers {
        let Some(state) = replay.state_of(id, member) else {
            gone.push(no);
            continue;
        };
        let row = sealed_entry::Model {
            standings_no: no,
            member: member.to_string(),
            score: state.score,
            rank_key: board.rules.nearest_key(id.window, &touched[id], state).to_i64(),
            partition: within.partition.into(),
            seq: concerned.seq as i64,
        };
        upserts.push(row);
    }
    for chunk in gone.chunks(ROWS_MAX) {
        let of_member = Condition::all()
            .add(sealed_entry::Column::StandingsNo.is_in(chunk.iter().copied()))
            .add(sealed_entry::Column::Member.eq(member.as_str()));
        corrected.growth.add(sealed_entry::delete(within.db, of_member).await?);
    }
    corrected.growth.add(sealed_entry::insert(within.db, upserts, sealed_entry::replace()).await?);
    corrected.standings.extend(numbers.into_values());
    Ok(())
}

/// The sealed periods that the scores belong to, by window and start.
fn affected(
    board: &Board,
    concerned: &AffectedEntries<'_>,
) -> ranking::Result<BTreeMap<(Window, i64), Period>> {
    let mut periods = Periods::default();
    let mut affected = BTreeMap::new();
    // Only periods that have begun can be sealed.
    let rolls = Rolls::to(sealing_until_ms(board));
    for &at_ms in &concerned.at_ms {
        for (id, period) in periods.standings(board, &[], at_ms, &rolls)? {
            if period.present_from_ms < board.sealed(id.window).sealing_before_ms {
                affected.insert((id.window, period.present_from_ms), period);
            }
        }
    }
    Ok(affected)
}

/// The member's events that count for these periods: its scores between the first start and the
/// last end, and all removals and voids.
fn history(
    board: &Board,
    member: &MemberId,
    concerned: &AffectedEntries<'_>,
    affected: &BTreeMap<(Window, i64), Period>,
) -> Select<score_event::Entity> {
    use score_event::Column::{AtMs, Kind};
    let history = score_event::history_of(board, member.as_str());
    let start_ms = affected.values().map(|period| period.start_ms).min();
    let end_ms = affected.values().filter_map(|period| period.end_ms).max();
    match start_ms.zip(end_ms).filter(|_| !concerned.all) {
        Some((start_ms, end_ms)) => history.filter(
            Condition::any()
                .add(Kind.ne(score_event::Kind::Score))
                .add(Condition::all().add(AtMs.gte(start_ms)).add(AtMs.lt(end_ms))),
        ),
        None => history,
    }
}

/// Folds a member's history. Returns the fold, and the sealed standings that must match it: all
/// that its scores of these periods ever were in, voided scores included.
fn fold(
    board: &Board,
    rows: &[score_event::Model],
    concerned: &AffectedEntries<'_>,
    affected: &BTreeMap<(Window, i64), Period>,
) -> ranking::Result<(Replay, BTreeMap<StandingsId, Period>)> {
    let sealing = |window: Window| board.sealed(window).sealing_before_ms;
    let windows = board.rules.windows.iter().copied();
    let windows: Vec<Window> = windows.filter(|&window| sealing(window) > NEVER_MS).collect();
    let mut periods = Periods::default();
    // Only periods that have begun can be sealed.
    let rolls = Rolls::to(sealing_until_ms(board));
    let voided = rows.iter().filter_map(score_event::Model::voids).collect();
    let mut replay = Replay::without(voided, rolls.now_ms).only(windows);
    let mut touched = BTreeMap::new();
    for row in rows {
        let event = row.to_ranking()?;
        replay.apply(board, row.place()?, &event)?;
        let EventKind::Score { at_ms, .. } = event.kind else {
            continue;
        };
        for (id, period) in periods.standings(board, &event.segments, at_ms, &rolls)? {
            let is_sealed =
                period.present_from_ms < sealing(id.window) && !concerned.is_archived(&period);
            let place = (id.window, period.present_from_ms);
            if is_sealed && (concerned.all || affected.contains_key(&place)) {
                touched.insert(id, period);
            }
        }
    }
    Ok((replay, touched))
}
