//! The signs of work for upkeep, and of trouble for the watch: each from many tables by one
//! statement.

use sea_orm::{ConnectionTrait, DbErr, Value};

use crate::deployment::clock::sql_now;
use crate::deployment::process::{self, ALIVE_MS};
use crate::sql::dialect::statement;

/// The signs of work for upkeep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Signs {
    /// The number of the last change of a board, which its row has as `change`.
    pub last_change: i64,
    /// The number of refused events that are not voided yet.
    pub dead_letters: i64,
    /// The number of running jobs.
    pub jobs: i64,
    /// The number of merges of members under way.
    pub merges: i64,
    /// The number of changes of members' bans under way.
    pub bans: i64,
    /// The number of erasures of members under way.
    pub erasures: i64,
    /// The number of webhooks.
    pub webhooks: i64,
    /// The number of circles within which members are overtaken.
    pub circles: i64,
}

/// Reads the signs. Its cost does not depend on the number of boards.
pub async fn read(db: &impl ConnectionTrait) -> Result<Signs, DbErr> {
    let sql = r#"SELECT (SELECT "changes" FROM "board_change"),
        (SELECT COUNT(*) FROM "dead_letter" WHERE "state" = 'PENDING'),
        (SELECT COUNT(*) FROM "job" WHERE "running" IS NOT NULL),
        (SELECT COUNT(*) FROM "member_merge" WHERE "step" IN ('HELD', 'REFUSED', 'DECIDED', 'MERGED')),
        (SELECT COUNT(*) FROM "member_ban" WHERE "step" IN ('CHANGING', 'RELEASING')),
        (SELECT COUNT(*) FROM "member_erasure" WHERE "member" IS NOT NULL),
        (SELECT COUNT(*) FROM "webhook"),
        (SELECT COUNT(*) FROM "webhook_circle")"#;
    let asked = statement(db.get_database_backend(), sql, []);
    let answer = db.query_one_raw(asked).await?;
    let answer = answer.ok_or_else(|| DbErr::RecordNotFound("the signs of work".to_owned()))?;
    Ok(Signs {
        last_change: answer.try_get_by_index(0)?,
        dead_letters: answer.try_get_by_index(1)?,
        jobs: answer.try_get_by_index(2)?,
        merges: answer.try_get_by_index(3)?,
        bans: answer.try_get_by_index(4)?,
        erasures: answer.try_get_by_index(5)?,
        webhooks: answer.try_get_by_index(6)?,
        circles: answer.try_get_by_index(7)?,
    })
}

/// The signs of trouble for the watch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Trouble {
    /// The time by SQL's clock, in Unix milliseconds.
    pub now_ms: i64,
    /// The number of other living processes on the same database file whose private Redis is
    /// another one.
    pub strangers: i64,
    /// The number of events that SQL refused lately.
    pub dead_letters: i64,
}

/// Reads the signs of trouble for a process; events count that SQL refused within this many
/// milliseconds, by its clock.
pub async fn trouble(
    db: &impl ConnectionTrait,
    own: &process::Model,
    within_ms: i64,
) -> Result<Trouble, DbErr> {
    let backend = db.get_database_backend();
    let now = sql_now(backend);
    let sql = format!(
        r#"SELECT {now},
        (SELECT COUNT(*) FROM "process" WHERE "id" <> $1 AND "heartbeat_at_ms" > {now} - {ALIVE_MS}
            AND "database" = $2 AND COALESCE("redis", '') <> COALESCE($3, '')),
        (SELECT COUNT(*) FROM "dead_letter" WHERE "created_at_ms" >= {now} - $4)"#
    );
    let values: [Value; 4] = [
        own.id.clone().into(),
        own.database.clone().into(),
        own.redis.clone().into(),
        within_ms.into(),
    ];
    let answer = db.query_one_raw(statement(backend, sql, values)).await?;
    let answer = answer.ok_or_else(|| DbErr::RecordNotFound("the signs of trouble".to_owned()))?;
    Ok(Trouble {
        now_ms: answer.try_get_by_index(0)?,
        strangers: answer.try_get_by_index(1)?,
        dead_letters: answer.try_get_by_index(2)?,
    })
}
