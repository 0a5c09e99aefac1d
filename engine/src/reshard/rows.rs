//! Updating the partition in rows of `standing` and of sealed standings after a move.

use std::collections::BTreeMap;

use ranking::board::Board;
use ranking::id::MemberId;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ColumnTrait, Condition, EntityTrait, QueryFilter, QueryOrder, QuerySelect, UpdateMany,
};
use tokio::time::{Duration, sleep};

use crate::deployment::Deployment;
use entity::error::Result;
use entity::standings::{sealed_entry, sealed_period, standing};

/// The most members in one step; the persister writes between two steps.
const MEMBERS_MAX: u64 = 1000;

/// The number of retries of an update.
const RETRIES_MAX: usize = 5;

/// The pause before a retry.
const PAUSE: Duration = Duration::from_millis(50);

/// Updates all rows of a board.
pub(super) async fn settle(deployment: &Deployment, board: &Board) -> Result<()> {
    let db = &deployment.db;
    let of_board = Condition::all().add(standing::Column::BoardNo.eq(board.no.0));
    let columns = [standing::Column::Member, standing::Column::Partition];
    settle_list::<standing::Entity>(deployment, board, &of_board, columns).await?;
    let sealed: Vec<i64> = sealed_period::Entity::find()
        .select_only()
        .column(sealed_period::Column::No)
        .filter(sealed_period::Column::BoardNo.eq(board.no.0))
        .into_tuple()
        .all(db)
        .await?;
    for no in sealed {
        let of_no = Condition::all().add(sealed_entry::Column::StandingsNo.eq(no));
        let columns = [sealed_entry::Column::Member, sealed_entry::Column::Partition];
        settle_list::<sealed_entry::Entity>(deployment, board, &of_no, columns).await?;
    }
    Ok(())
}

/// Updates the rows of some standings, given the columns of the member and the partition.
async fn settle_list<E: EntityTrait>(
    deployment: &Deployment,
    board: &Board,
    which: &Condition,
    [member, partition]: [E::Column; 2],
) -> Result<()> {
    let mut last = None;
    loop {
        let after = last.take().map(|last: String| member.gt(last));
        let page = E::find()
            .select_only()
            .column(member)
            .distinct()
            .filter(which.clone().add_option(after))
            .order_by_asc(member)
            .limit(MEMBERS_MAX)
            .into_tuple();
        let members: Vec<String> = page.all(&deployment.db).await?;
        last = members.last().cloned();
        if last.is_none() {
            return Ok(());
        }
        for (there, members) in by_partition(deployment, board, members)? {
            let of_them = which.clone().add(member.is_in(members));
            let update = E::update_many()
                .col_expr(partition, Expr::value(there))
                .filter(of_them.add(partition.ne(there)));
            update_with_retries(deployment, &update).await?;
        }
    }
}

/// Groups members by their partition.
fn by_partition(
    deployment: &Deployment,
    board: &Board,
    members: Vec<String>,
) -> Result<BTreeMap<i32, Vec<String>>> {
    let mut there: BTreeMap<i32, Vec<String>> = BTreeMap::new();
    for member in members {
        let id = MemberId::new(&member)?;
        let partition = deployment.store.partitions().of_member(board, &id);
        there.entry(partition.into()).or_default().push(member);
    }
    Ok(there)
}

/// Updates rows, with retries: the persister may lock the same rows in another order.
async fn update_with_retries<E: EntityTrait>(
    deployment: &Deployment,
    update: &UpdateMany<E>,
) -> Result<()> {
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
