//! Rows of `standing`, told where their members are after a move.

use std::collections::BTreeMap;

use ranking::board::Board;
use ranking::id::MemberId;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, Condition, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
};

use tokio::time::{Duration, sleep};

use crate::deployment::Deployment;
use crate::error::Result;
use crate::standing;

/// How many rows are looked at at once; the persister writes between two steps.
const ROWS_MAX: u64 = 1000;

/// How often an update is tried again.
const RETRIES_MAX: usize = 5;

/// How long is waited before.
const PAUSE: Duration = Duration::from_millis(50);

/// Tells all rows of a board.
pub(super) async fn settle(deployment: &Deployment, board: &Board) -> Result<()> {
    use standing::Column::{BoardNo, Member, Partition, Segment};
    let db = &deployment.db;
    let mut last: Option<(String, String)> = None;
    loop {
        let mut select = standing::Entity::find()
            .select_only()
            .columns([Segment, Member])
            .column(Partition)
            .filter(BoardNo.eq(board.no.0));
        if let Some((segment, member)) = last.take() {
            let after = Condition::all()
                .add(Segment.eq(segment.clone()))
                .add(Member.gt(member));
            select = select.filter(Condition::any().add(Segment.gt(segment)).add(after));
        }
        let rows: Vec<(String, String, i32)> = select
            .order_by_asc(Segment)
            .order_by_asc(Member)
            .limit(ROWS_MAX)
            .into_tuple()
            .all(db)
            .await?;
        let Some((segment, member, _)) = rows.last() else {
            return Ok(());
        };
        last = Some((segment.clone(), member.clone()));
        let mut moved: BTreeMap<(i32, String), Vec<String>> = BTreeMap::new();
        for (segment, member, partition) in rows {
            let id = MemberId::new(&member)?;
            let there: i32 = deployment.store.partitions().of_member(board, &id).0.into();
            if there != partition {
                moved.entry((there, segment)).or_default().push(member);
            }
        }
        for ((there, segment), members) in moved {
            let row = standing::ActiveModel {
                partition: Set(there),
                ..Default::default()
            };
            let update = standing::Entity::update_many()
                .set(row)
                .filter(BoardNo.eq(board.no.0))
                .filter(Segment.eq(segment))
                .filter(Member.is_in(members));
            // The persister may write the same rows in another order.
            let mut updated = update.clone().exec(db).await;
            for _ in 0..RETRIES_MAX {
                if updated.is_ok() {
                    break;
                }
                sleep(PAUSE).await;
                updated = update.clone().exec(db).await;
            }
            updated?;
        }
    }
}
