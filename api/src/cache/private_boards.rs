//! The knowledge that there are private boards, without which no member has to be hidden.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use entity::board::has_private;
use sea_orm::DatabaseConnection;
use tokio::time::Instant;

use crate::error::Result;
use crate::http::turns;

/// How long an answer of SQL is believed.
const PRIVATE_AGE_MAX: Duration = Duration::from_millis(500);

/// When SQL was last asked for private boards, and whether it had some.
#[derive(Debug, Default)]
pub struct PrivateBoards(Mutex<Option<(Instant, bool)>>);

impl PrivateBoards {
    /// True if there are some. At most one SELECT of one row.
    ///
    /// # Errors
    /// `UNAVAILABLE` if SQL must be asked and does not answer.
    pub async fn exist(&self, db: &DatabaseConnection) -> Result<bool> {
        let found = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, exist)) = found.filter(|(at, _)| at.elapsed() < PRIVATE_AGE_MAX) {
            return Ok(exist);
        }
        let at = Instant::now();
        // Every request needs the connections of look-ups.
        let _shared = turns::share();
        let exist = has_private(db).await?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((at, exist));
        Ok(exist)
    }
}
