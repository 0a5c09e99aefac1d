//! The fold of a small board's history, event by event: polars takes milliseconds to plan a fold,
//! however few events there are.

use std::collections::BTreeMap;

use anyhow::Result;
use engine::deployment::Deployment;
use entity::history::score_event;
use ranking::board::Board;
use ranking::fold::replay::Replay;
use ranking::standings_id::StandingsId;
use ranking::window::Window;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QuerySelect};

use super::PartitionDiff;
use crate::diff::rows::{List, Rows};
use crate::frame::fold::Which;
use crate::frame::history::{check_layout, heads};

/// The most events of a small board.
const EVENTS_MAX: u64 = 5000;

/// True if SQL has few events of a board, in all partitions together: an index then finds them
/// faster than a walk through its partitions.
pub(crate) async fn is_small(deployment: &Deployment, board: &Board) -> Result<bool> {
    use score_event::Column::{AtMs, BoardNo};
    let events = score_event::Entity::find()
        .select_only()
        .column(AtMs)
        .filter(BoardNo.eq(board.no.0))
        .limit(EVENTS_MAX + 1);
    let times: Vec<Option<i64>> = events.into_tuple().all(&deployment.db).await?;
    Ok(times.len() as u64 <= EVENTS_MAX)
}

/// The events of a small board in a partition, in order; `None` if some are elsewhere, in the
/// archive or where the board was before it moved.
pub(super) async fn events(part: &PartitionDiff<'_>) -> Result<Option<Vec<score_event::Model>>> {
    let (board, partition) = (part.board, part.partition);
    if board.has_moved() {
        return Ok(None);
    }
    let heads = heads(partition.deployment, &[partition]).await?;
    let mut rows = score_event::Entity::find()
        .filter(score_event::Column::BoardNo.eq(board.no.0))
        .all(&partition.db)
        .await?;
    check_layout(&partition.db, board).await?;
    // Rows are deleted only after a mark has moved past them.
    if partition.archive_mark(board.no).await?.archived_seq != 0 {
        return Ok(None);
    }
    let through_seq = heads[&partition.no].seq as i64;
    rows.retain(|row| row.partition == i32::from(partition.no) && row.seq <= through_seq);
    rows.sort_unstable_by_key(|row| (row.seq, row.event_index));
    Ok(Some(rows))
}

/// The entries that events fold to, by window.
///
/// # Errors
/// If an event cannot be read, or leads to a score that has no key.
pub(super) fn rows(
    board: &Board,
    events: &[score_event::Model],
    through_ms: i64,
) -> Result<BTreeMap<Window, Rows>> {
    let voided = events.iter().filter_map(score_event::Model::voids).collect();
    let mut replay = Replay::without(voided, through_ms);
    for row in events {
        replay.apply(board, row.place()?, &row.to_ranking()?)?;
    }
    let mut lists: BTreeMap<Window, Vec<(StandingsId, List)>> = BTreeMap::new();
    for (id, entries) in replay.entries()? {
        let sealed = board.sealed(id.window);
        let period = id.window.period_named(&id.period, &board.rules.calendar)?;
        if Which::of(board, id.window) == Which::Open
            && period.present_from_ms < sealed.sealing_before_ms
        {
            continue;
        }
        let mut list: List = vec![];
        for (key, member) in entries {
            let state = replay.state_of(&id, &member);
            list.extend(state.map(|state| (member.as_str().to_owned(), key.to_i64(), state.score)));
        }
        lists.entry(id.window).or_default().push((id, list));
    }
    Ok(lists.into_iter().map(|(window, lists)| (window, Rows::of_lists(lists))).collect())
}

#[cfg(test)]
mod tests {
    use polars::prelude::IntoLazy;
    use proptest::prelude::*;

    use super::*;
    use crate::frame::counted::Counted;
    use crate::frame::events::Events;
    use crate::frame::fold::folded;
    use crate::frame::fold::tests::{boards, rows as histories};

    /// The standings, and their entries in order.
    fn content(rows: &Rows) -> impl PartialEq + std::fmt::Debug {
        let owned = |(segment, member, held): (&str, &str, (i64, i64))| {
            (segment.to_owned(), member.to_owned(), held)
        };
        let ids: Vec<StandingsId> = rows.lists().cloned().collect();
        (ids, rows.entries().map(owned).collect::<Vec<_>>())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn a_small_board_folds_as_polars_folds_it(board in boards(), events in histories(), later_ms in -9_000_000_000_i64..900_000_000) {
            let through_ms = 1_762_100_000_000 + later_ms;
            let mut frame = Events::default();
            events.iter().for_each(|row| frame.push(row.clone(), 0, None));
            let counted = Counted::of(frame.into_frame().unwrap().lazy(), &board.layouts, 100).unwrap();
            let mut by_window = rows(&board, &events, through_ms).unwrap();
            for &window in &board.rules.windows {
                let folded = folded(&board, window, &counted, through_ms, Which::of(&board, window)).unwrap();
                let expected = Rows::of_fold(&board, window, folded).unwrap();
                let found = by_window.remove(&window).unwrap_or_default();
                prop_assert_eq!(content(&found), content(&expected), "{}", window);
            }
            prop_assert!(by_window.is_empty());
        }
    }
}
