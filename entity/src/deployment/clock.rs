//! The clock of a deployment, and that of SQL.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use sea_orm::{ConnectionTrait, DbErr};

pub use crate::sql::dialect::sql_now;
use crate::sql::dialect::statement;

/// A clock: the system's, until it is set.
#[derive(Debug, Clone, Default)]
pub struct Clock(Arc<AtomicI64>);

impl Clock {
    /// Unix milliseconds.
    pub fn now_ms(&self) -> i64 {
        match self.0.load(Ordering::Relaxed) {
            0 => machine_ms(),
            set_ms => set_ms,
        }
    }

    /// Stops it, and all its clones, at an instant in Unix milliseconds.
    pub fn set(&self, now_ms: i64) {
        self.0.store(now_ms, Ordering::Relaxed);
    }
}

fn machine_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970");
    since.as_millis() as i64
}

/// Unix milliseconds by SQL's clock.
pub async fn sql_now_ms(db: &impl ConnectionTrait) -> Result<i64, DbErr> {
    let backend = db.get_database_backend();
    let asked = statement(backend, format!("SELECT {}", sql_now(backend)), []);
    let answer = db.query_one_raw(asked).await?;
    let answer = answer.ok_or_else(|| DbErr::RecordNotFound("the time".to_owned()))?;
    answer.try_get_by_index(0)
}
