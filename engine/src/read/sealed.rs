//! Sealed standings in SQL, and the list of their periods.

use entity::error::Result;
use entity::standings::sealed_period;
use ranking::store::read::{Range, Standings};
use ranking::window::ListedPeriod;
use sea_orm::{
    ColumnTrait, DatabaseConnection, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder,
    QuerySelect,
};

use super::in_sql::SqlStandings;
use super::in_sql::rows::Rows;

/// Finds sealed standings; `None` if no member ever had an entry there.
pub async fn find(db: &DatabaseConnection, standings: &Standings) -> Result<Option<SqlStandings>> {
    let found: Option<(i64, i64)> = sealed_period::Entity::find()
        .select_only()
        .columns([sealed_period::Column::No, sealed_period::Column::Size])
        .filter(sealed_period::of_list(&standings.id))
        .filter(sealed_period::Column::StartMs.eq(standings.period.present_from_ms))
        .into_tuple()
        .one(db)
        .await?;
    // Its writers keep the size.
    let of =
        |(no, size): (i64, i64)| SqlStandings::of_rows(Rows::sealed(db, no), size.unsigned_abs());
    Ok(found.map(of))
}

/// True of the rows of `sealed_period` whose standings have entries; an index answers it.
const HAS_ENTRIES: &str =
    r#"EXISTS (SELECT 1 FROM "sealed_entry" WHERE "standings_no" = "sealed_period"."no")"#;

/// The number of sealed periods that have entries and start before `before_ms`, of the same board,
/// segment and window as `standings`.
pub async fn count_periods(
    db: &DatabaseConnection,
    standings: &Standings,
    before_ms: i64,
) -> Result<u64> {
    let of_list = sealed_period::of_list(&standings.id);
    let count = sealed_period::Entity::find()
        .filter(of_list.add(sealed_period::Column::StartMs.lt(before_ms)))
        .filter(sea_orm::sea_query::Expr::cust(HAS_ENTRIES))
        .count(db);
    Ok(count.await?)
}

/// Up to `limit` sealed periods that have entries and start before `before_ms`, of the same board,
/// segment and window as `standings`. They have the form of [`ranking::store::Store::periods`].
pub async fn periods(
    db: &DatabaseConnection,
    standings: &Standings,
    range: Range,
    before_ms: i64,
    limit: usize,
) -> Result<Vec<ListedPeriod>> {
    use sealed_period::Column::StartMs;
    let of_list = sealed_period::of_list(&standings.id).add(StartMs.lt(before_ms));
    let select = match range {
        Range::Before(ms) => {
            sealed_period::Entity::find().filter(StartMs.lt(ms)).order_by_desc(StartMs)
        }
        Range::After(ms) => {
            sealed_period::Entity::find().filter(StartMs.gt(ms)).order_by_asc(StartMs)
        }
    };
    let rows = select
        .filter(of_list)
        .filter(sea_orm::sea_query::Expr::cust(HAS_ENTRIES))
        .limit(limit as u64)
        .all(db)
        .await?;
    let began = |row: sealed_period::Model| ListedPeriod {
        present_from_ms: row.start_ms,
        label: row.label,
    };
    Ok(rows.into_iter().map(began).collect())
}
