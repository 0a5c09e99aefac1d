//! Rows of `standing` and of sealed standings, told where their members are after a move.

use std::collections::BTreeMap;

use ranking::board::Board;
use ranking::id::MemberId;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, UpdateMany,
};
use tokio::time::{Duration, sleep};

use crate::deployment::Deployment;
use crate::error::Result;
use crate::{sealed_entry, sealed_period, standing};

/// How many rows are looked at at once; the persister writes between two steps.
const ROWS_MAX: u64 = 1000;

/// How often an update is tried again.
const RETRIES_MAX: usize = 5;

/// How long is waited before.
const PAUSE: Duration = Duration::from_millis(50);

/// Tells all rows of a board.
pub(super) async fn settle(deployment: &Deployment, board: &Board) -> Result<()> {
    let db = &deployment.db;
    let segments: Vec<String> = standing::Entity::find()
        .select_only()
        .column(standing::Column::Segment)
        .distinct()
        .filter(standing::Column::BoardNo.eq(board.no.0))
        .into_tuple()
        .all(db)
        .await?;
    for segment in segments {
        use standing::Column::{BoardNo, Member, Partition, Segment};
        let mut last = None;
        loop {
            let mut page = standing::Entity::find()
                .select_only()
                .columns([Member, Partition])
                .filter(BoardNo.eq(board.no.0))
                .filter(Segment.eq(&segment));
            if let Some(last) = last.take() {
                page = page.filter(Member.gt::<String>(last));
            }
            let page = page.order_by_asc(Member).limit(ROWS_MAX).into_tuple();
            let rows: Vec<(String, i32)> = page.all(db).await?;
            let Some((member, _)) = rows.last() else {
                break;
            };
            last = Some(member.clone());
            for (there, members) in moved(deployment, board, rows)? {
                let row = standing::ActiveModel {
                    partition: Set(there),
                    ..Default::default()
                };
                let update = standing::Entity::update_many()
                    .set(row)
                    .filter(BoardNo.eq(board.no.0))
                    .filter(Segment.eq(&segment))
                    .filter(Member.is_in(members));
                patiently(deployment, &update).await?;
            }
        }
    }
    let sealed: Vec<i64> = sealed_period::Entity::find()
        .select_only()
        .column(sealed_period::Column::No)
        .filter(sealed_period::Column::BoardNo.eq(board.no.0))
        .into_tuple()
        .all(db)
        .await?;
    for no in sealed {
        use sealed_entry::Column::{Member, Partition, StandingsNo};
        let mut last = None;
        loop {
            let mut page = sealed_entry::Entity::find()
                .select_only()
                .columns([Member, Partition])
                .filter(StandingsNo.eq(no));
            if let Some(last) = last.take() {
                page = page.filter(Member.gt::<String>(last));
            }
            let page = page.order_by_asc(Member).limit(ROWS_MAX).into_tuple();
            let rows: Vec<(String, i32)> = page.all(db).await?;
            let Some((member, _)) = rows.last() else {
                break;
            };
            last = Some(member.clone());
            for (there, members) in moved(deployment, board, rows)? {
                let row = sealed_entry::ActiveModel {
                    partition: Set(there),
                    ..Default::default()
                };
                let update = sealed_entry::Entity::update_many()
                    .set(row)
                    .filter(StandingsNo.eq(no))
                    .filter(Member.is_in(members));
                patiently(deployment, &update).await?;
            }
        }
    }
    Ok(())
}

/// Members whose rows name another partition than they are in, by that.
fn moved(
    deployment: &Deployment,
    board: &Board,
    rows: Vec<(String, i32)>,
) -> Result<BTreeMap<i32, Vec<String>>> {
    let mut moved: BTreeMap<i32, Vec<String>> = BTreeMap::new();
    for (member, partition) in rows {
        let id = MemberId::new(&member)?;
        let there: i32 = deployment.store.partitions().of_member(board, &id).0.into();
        if there != partition {
            moved.entry(there).or_default().push(member);
        }
    }
    Ok(moved)
}

/// Updates rows. The persister may write the same ones in another order.
async fn patiently<E: EntityTrait>(deployment: &Deployment, update: &UpdateMany<E>) -> Result<()> {
    let mut updated = update.clone().exec(&deployment.db).await;
    for _ in 0..RETRIES_MAX {
        if updated.is_ok() {
            break;
        }
        sleep(PAUSE).await;
        updated = update.clone().exec(&deployment.db).await;
    }
    updated?;
    Ok(())
}
