//! Answers that SQL gave instead of Redis, as those who show them ask for.

use ranking::store::read::Standings;
use tokio::time::Instant;

use super::fallback::Answered;
use super::reader::Reader;

impl Reader {
    /// The last answer about some standings since an instant that SQL gave instead of Redis.
    pub async fn answered_by_sql(&self, standings: &Standings, since: Instant) -> Option<Answered> {
        self.fallback.as_ref()?.answered_since(&standings.id, since).await
    }

    /// Notes that an answer of SQL was given once more.
    pub async fn note_from_sql(&self, standings: &Standings, answered: Answered) {
        if let Some(fallback) = &self.fallback {
            fallback.note(&standings.id, answered.complete_at).await;
        }
    }
}
