//! Corrections of sealed entries whose events are partly archived. Late scores are folded onto the
//! entry, and removals delete it. Voids that would need a fold from the start are refused
//! beforehand.

use std::collections::BTreeMap;

use ranking::board::Board;
use ranking::board::State;
use ranking::commit::EventKind;
use ranking::id::MemberId;
use ranking::score::rank_key::RankKey;
use ranking::standings_id::StandingsId;
use ranking::submission::Periods;
use ranking::window::Period;
use ranking::window::roll::Rolls;
use sea_orm::{
    ColumnTrait, Condition, DatabaseTransaction, DbErr, EntityTrait, QueryFilter, QuerySelect,
    QueryTrait,
};

use super::{AffectedEntries, Corrected, sealing_until_ms};
use crate::partition::HistoryTransaction;
use entity::standings::sealed_period::Growth;
use entity::standings::{sealed_entry, sealed_period};

/// Folds a member's events onto its sealed entries of periods with archived events.
pub(super) async fn fold_onto(
    within: HistoryTransaction<'_>,
    board: &Board,
    member: &MemberId,
    concerned: &AffectedEntries<'_>,
    corrected: &mut Corrected,
) -> Result<(), DbErr> {
    let last_removal = concerned.events.iter().rposition(|event| event.kind == EventKind::Removal);
    if last_removal.is_some() {
        corrected.deleted(remove(within.db, board, member).await?);
    }
    let late = &concerned.events[last_removal.map_or(0, |place| place + 1)..];
    let mut periods = Periods::default();
    let rolls = Rolls::to(sealing_until_ms(board));
    let mut touched: BTreeMap<StandingsId, (Period, Vec<(i64, i64)>)> = BTreeMap::new();
    for event in late {
        let EventKind::Score { score, at_ms, .. } = event.kind else {
            continue;
        };
        let standings = match periods.standings(board, &event.segments, at_ms, &rolls) {
            Ok(standings) => standings,
            Err(error) => {
                tracing::error!(board = %board.no, %member, %error, "a late score belongs to no period; look at its row of score_event");
                continue;
            }
        };
        for (id, period) in standings {
            let is_sealed = period.present_from_ms < board.sealed(id.window).sealing_before_ms;
            if is_sealed && concerned.is_archived(&period) {
                let (_, scores) = touched.entry(id).or_insert_with(|| (period, vec![]));
                scores.push((score, at_ms));
            }
        }
    }
    let of_period = |(id, (period, _)): (&StandingsId, &(Period, _))| (id.clone(), period.clone());
    let held: BTreeMap<StandingsId, Period> = touched.iter().map(of_period).collect();
    sealed_period::number(within.db, &held, within.now_ms).await?;
    let mut rows = vec![];
    for (id, no) in sealed_period::numbers(within.db, &held).await? {
        let (period, scores) = &touched[&id];
        let row = sealed_entry::Entity::find_by_id((no, member.to_string())).one(within.db).await?;
        let mut state = row.and_then(|row| {
            // The nearest key does not hold the score, so the score comes from the row.
            let key = RankKey::from_i64(row.rank_key).ok()?;
            Some(State { score: row.score, ..board.rules.state(id.window, period, key) })
        });
        for &(score, at_ms) in scores {
            let step = board.rules.first(id.window, score, at_ms);
            state = Some(board.rules.fold(id.window, state, step));
        }
        let Some(state) = state else { continue };
        let row = sealed_entry::Model {
            standings_no: no,
            member: member.to_string(),
            score: state.score,
            rank_key: board.rules.nearest_key(id.window, period, state).to_i64(),
            partition: within.partition.into(),
            seq: concerned.seq as i64,
        };
        rows.push(row);
        corrected.standings.insert(no);
    }
    corrected.growth.add(sealed_entry::insert(within.db, rows, sealed_entry::replace()).await?);
    Ok(())
}

/// Deletes all sealed entries of a member; scores after the removal are added later.
async fn remove(
    transaction: &DatabaseTransaction,
    board: &Board,
    member: &MemberId,
) -> Result<Growth, DbErr> {
    let of_board = sealed_period::Entity::find()
        .select_only()
        .column(sealed_period::Column::No)
        .filter(sealed_period::Column::BoardNo.eq(board.no.0))
        .into_query();
    let of_member = Condition::all()
        .add(sealed_entry::Column::Member.eq(member.as_str()))
        .add(sealed_entry::Column::StandingsNo.in_subquery(of_board));
    sealed_entry::delete(transaction, of_member).await
}
