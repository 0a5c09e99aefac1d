//! The processes that have a deployment open, on all hosts. Each renews its row while it lives, and
//! SQL's clock judges the age of a row.

use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

use super::clock::sql_now;
use crate::sql::dialect::{or_update, statement};

/// The age of a heartbeat up to which its process counts as alive, in milliseconds.
pub const ALIVE_MS: i64 = 20_000;

/// The interval of heartbeats, in milliseconds.
pub const BEAT_MS: u64 = 5000;

/// A row of `process`.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "process")]
pub struct Model {
    /// A random id, new with each start.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// The name by which other processes of its machine see that it has ended.
    pub holder: String,
    /// The name of its host.
    pub host: String,
    /// Its process id there.
    pub pid: i32,
    /// The file of its database; empty for a server, which all processes reach as one. A copy of
    /// that file has this row, too.
    pub database: String,
    /// The identity of its private Redis; none if a URL names its Redis.
    pub redis: Option<String>,
    /// The directory of its private Redis, or the address of its Redis without the login.
    pub place: String,
    /// Start time by SQL's clock, in Unix milliseconds.
    pub started_at_ms: i64,
    /// The time of its last heartbeat by SQL's clock, in Unix milliseconds.
    pub heartbeat_at_ms: i64,
}

no_relations!();

/// Writes a process that starts, or renews its heartbeat. SQL sets both times.
pub async fn beat(db: &DatabaseConnection, process: &Model) -> Result<(), DbErr> {
    let backend = db.get_database_backend();
    let now = sql_now(backend);
    let or_update = or_update(backend, r#""id""#, &format!(r#""heartbeat_at_ms" = {now}"#));
    let sql = format!(
        r#"INSERT INTO "process" ("id", "holder", "host", "pid", "database", "redis", "place", "started_at_ms", "heartbeat_at_ms")
        VALUES ($1, $2, $3, $4, $5, $6, $7, {now}, {now})
        {or_update}"#
    );
    let values: [Value; 7] = [
        process.id.clone().into(),
        process.holder.clone().into(),
        process.host.clone().into(),
        process.pid.into(),
        process.database.clone().into(),
        process.redis.clone().into(),
        process.place.clone().into(),
    ];
    db.execute_raw(statement(backend, sql, values)).await?;
    Ok(())
}

/// Takes the row of a process away, as it ends.
pub async fn end(db: &DatabaseConnection, id: &str) -> Result<(), DbErr> {
    Entity::delete_by_id(id).exec(db).await?;
    Ok(())
}

/// The processes other than this one whose heartbeat is young enough, longest alive first.
pub async fn others_alive(db: &impl ConnectionTrait, id: &str) -> Result<Vec<Model>, DbErr> {
    let now = sql_now(db.get_database_backend());
    Entity::find()
        .filter(Column::Id.ne(id))
        .filter(Expr::cust(format!(r#""heartbeat_at_ms" > {now} - {ALIVE_MS}"#)))
        .order_by_asc(Column::StartedAtMs)
        .order_by_asc(Column::Id)
        .all(db)
        .await
}
