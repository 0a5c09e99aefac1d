//! All-time standings, written in the same transaction as the history that they follow from.

use std::iter;

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;
use sea_orm::{DbBackend, QueryOrder, QuerySelect};

use crate::sql::dialect::statement;

/// A row of `standing`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "standing")]
pub struct Model {
    /// The board.
    #[sea_orm(primary_key, auto_increment = false)]
    pub board_no: i64,
    /// The segment; empty for everyone.
    #[sea_orm(primary_key, auto_increment = false)]
    pub segment: String,
    /// The member.
    #[sea_orm(primary_key, auto_increment = false)]
    pub member: String,
    /// The raw score.
    pub score: i64,
    /// The rank key; smaller is better.
    pub rank_key: i64,
    /// The member's partition. Just after the board got another number of shards, it may still be
    /// the former one.
    pub partition: i32,
    /// The seq of the commit that changed it last.
    pub seq: i64,
}

no_relations!();

/// Up to `limit` segments of a board after one, in order, each of which has entries: a SELECT for
/// each, as an index finds the next segment at once and no database skips by itself.
pub async fn segments_after(
    db: &impl ConnectionTrait,
    board_no: i64,
    after: String,
    limit: usize,
) -> Result<Vec<String>, DbErr> {
    let mut segments: Vec<String> = vec![];
    while segments.len() < limit {
        let last = segments.last().unwrap_or(&after);
        let next = Entity::find()
            .select_only()
            .column(Column::Segment)
            .filter(Column::BoardNo.eq(board_no))
            .filter(Column::Segment.gt(last.as_str()))
            .order_by_asc(Column::Segment)
            .limit(1);
        match next.into_tuple::<String>().one(db).await? {
            Some(segment) => segments.push(segment),
            None => break,
        }
    }
    Ok(segments)
}

/// The rows of some members of a board, at most 1,000 members.
///
/// PostgreSQL looks each of them up. By a list it would read all rows of a board that has grown
/// since its statistics, as it takes the board for a small one, and compare each with the whole
/// list.
pub async fn of_members(
    db: &impl ConnectionTrait,
    board_no: i64,
    members: &[&str],
) -> Result<Vec<Model>, DbErr> {
    if db.get_database_backend() != DbBackend::Postgres || members.is_empty() {
        let listed = Column::Member.is_in(members.iter().copied());
        let rows = Entity::find().filter(Column::BoardNo.eq(board_no)).filter(listed);
        return rows.all(db).await;
    }
    let places: Vec<String> =
        (2..members.len() + 2).map(|place| format!("(${place}::TEXT)")).collect();
    // Without OFFSET it would be one join, and the board's rows be read for that.
    let looked_up = format!(
        r#"SELECT s.* FROM (VALUES {}) AS m("member") CROSS JOIN LATERAL (SELECT * FROM "standing"
            WHERE "board_no" = $1 AND "member" = m."member" OFFSET 0) AS s"#,
        places.join(", ")
    );
    let values = iter::once(board_no.into()).chain(members.iter().map(|member| (*member).into()));
    let statement = statement(DbBackend::Postgres, looked_up, values);
    Entity::find().from_raw_sql(statement).all(db).await
}

/// Replaces the row of the same member.
pub fn replace() -> OnConflict {
    use Column::{Partition, RankKey, Score, Seq};
    replacing([Score, RankKey, Partition, Seq])
}

/// Replaces some columns of the row of the same member.
pub fn replacing(columns: impl IntoIterator<Item = Column>) -> OnConflict {
    OnConflict::columns([Column::BoardNo, Column::Member, Column::Segment])
        .update_columns(columns)
        .to_owned()
}
