//! The last use of each token, noted in SQL once a minute.

use std::sync::Arc;
use std::time::Duration;

use entity::access_token;
use sea_orm::DatabaseConnection;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::Principal;

/// The time between two notes of the use of a token, in milliseconds.
const USE_INTERVAL_MS: i64 = 60_000;

/// The notes that are written at a time; further ones come with a later request.
const NOTES_MAX: usize = 2;

/// How long a note may take.
const NOTE_TIMEOUT: Duration = Duration::from_secs(2);

/// Writes the last use of tokens beside the requests, which never wait for it.
#[derive(Debug, Clone)]
pub(super) struct Uses {
    db: DatabaseConnection,
    places: Arc<Semaphore>,
}

impl Uses {
    /// Notes to be written to a database.
    pub(super) fn new(db: &DatabaseConnection) -> Self {
        Self { db: db.clone(), places: Arc::new(Semaphore::new(NOTES_MAX)) }
    }

    /// Notes the use of a token that was just checked, if the last note is old.
    pub(super) fn note(&self, principal: &Principal, last_used_at_ms: Option<i64>, now_ms: i64) {
        let since_ms = now_ms - USE_INTERVAL_MS;
        if last_used_at_ms.is_some_and(|last_ms| last_ms >= since_ms) {
            return;
        }
        let Ok(place) = self.places.clone().try_acquire_owned() else { return };
        let (db, id) = (self.db.clone(), principal.id.clone());
        tokio::spawn(async move {
            let noting = access_token::note_use(&db, &id, since_ms, now_ms);
            if let Ok(Err(error)) = timeout(NOTE_TIMEOUT, noting).await {
                tracing::debug!(%error, "the last use of a token could not be noted");
            }
            drop(place);
        });
    }
}
