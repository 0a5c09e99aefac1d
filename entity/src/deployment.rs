//! The one row that describes the deployment; its clocks, and the processes that have it open.

pub mod clock;
pub mod process;

use std::collections::BTreeSet;

use sea_orm::entity::prelude::*;

use self::clock::sql_now;

/// A row of `deployment`: what all its processes must agree on.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "deployment")]
pub struct Model {
    /// Always 1.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i32,
    /// A random id. Redis has it, too.
    pub identity: String,
    /// The number of partitions, fixed when the deployment is created.
    pub partitions: i32,
    /// The time that an event id is remembered, in hours, fixed when the deployment is created.
    pub dedup_hours: i32,
    /// The version of the time zone database by which periods begin and end.
    pub tzdb: String,
    /// The random id of its Redis, which has it, too; none before the first start.
    pub redis: Option<String>,
    /// When a process last reached that Redis, by SQL's clock, in Unix milliseconds.
    pub redis_seen_at_ms: Option<i64>,
    /// Creation time, in Unix milliseconds.
    pub created_at_ms: i64,
}

no_relations!();

/// The row of the deployment; `None` before it is created.
pub async fn find(db: &impl ConnectionTrait) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(1).one(db).await
}

/// Records another Redis by compare-and-set, as reached now. Returns false if the deployment no
/// longer has the former one.
pub async fn record_redis(
    db: &impl ConnectionTrait,
    former: Option<&str>,
    redis: &str,
) -> Result<bool, DbErr> {
    let is_former = match former {
        Some(former) => Column::Redis.eq(former),
        None => Column::Redis.is_null(),
    };
    let now = sql_now(db.get_database_backend());
    let recorded = Entity::update_many()
        .col_expr(Column::Redis, Expr::value(redis.to_owned()))
        .col_expr(Column::RedisSeenAtMs, Expr::cust(now))
        .filter(is_former)
        .exec(db)
        .await?;
    Ok(recorded.rows_affected == 1)
}

/// The age, in milliseconds, up to which a note that the Redis is reached needs no other one.
const NOTE_MS: i64 = 1000;

/// Notes that a process reaches the deployment's Redis now, if that is one of those with these ids.
/// Writes nothing a moment after another process did.
pub async fn record_redis_seen(
    db: &impl ConnectionTrait,
    reached: &BTreeSet<&str>,
) -> Result<(), DbErr> {
    let now = sql_now(db.get_database_backend());
    Entity::update_many()
        .col_expr(Column::RedisSeenAtMs, Expr::cust(now))
        .filter(Column::Redis.is_in(reached.iter().copied()))
        .filter(Expr::cust(format!(
            r#"("redis_seen_at_ms" IS NULL OR ABS({now} - "redis_seen_at_ms") > {NOTE_MS})"#
        )))
        .exec(db)
        .await?;
    Ok(())
}

/// Takes another version of the time zone database for the deployment's.
pub async fn accept_tzdb(db: &impl ConnectionTrait, version: &str) -> Result<(), DbErr> {
    Entity::update_many().col_expr(Column::Tzdb, Expr::value(version.to_owned())).exec(db).await?;
    Ok(())
}
