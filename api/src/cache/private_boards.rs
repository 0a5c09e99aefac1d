//! The knowledge that there are private boards, without which no member has to be hidden.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use entity::board::has_private;
use sea_orm::DatabaseConnection;
use tokio::time::Instant;

use crate::error::Result;
use crate::http::turns;

/// How long the absence of private boards is believed.
const NO_PRIVATE_AGE_MAX: Duration = Duration::from_millis(500);

/// When SQL was last found to have no private board.
#[derive(Debug, Default)]
pub struct PrivateBoards(Mutex<Option<Instant>>);

impl PrivateBoards {
    /// True if there are some. At most one SELECT of one row.
    ///
    /// # Errors
    /// `UNAVAILABLE` if SQL must be asked and does not answer.
    pub async fn exist(&self, db: &DatabaseConnection) -> Result<bool> {
        let none_at = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if none_at.is_some_and(|at| at.elapsed() < NO_PRIVATE_AGE_MAX) {
            return Ok(false);
        }
        let at = Instant::now();
        // Every request needs the connections of look-ups.
        let _shared = turns::share();
        let exist = has_private(db).await?;
        let none_at = (!exist).then_some(at);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = none_at;
        Ok(exist)
    }
}
