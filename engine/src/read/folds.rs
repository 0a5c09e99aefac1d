//! SQL in place of a Redis that is away, and the folds that a reader would begin, and pay for.

use entity::error::{Error, Result};
use ranking::store::read::Standings;
use ranking::window::Window;

use super::fallback::Fallback;
use super::reader::Reader;

impl Reader {
    /// True if Redis is away, and a reader of these standings would have the events of their period
    /// folded. One SELECT, shared for some seconds.
    pub async fn needs_fold(&self, standings: &Standings) -> bool {
        match self.folding(standings).filter(|_| !standings.is_sealed()) {
            // A reader will find the error.
            Some(fallback) => {
                fallback.needs_fold(&self.deployment, standings).await.unwrap_or(false)
            }
            None => false,
        }
    }

    /// As [`Self::needs_fold`], for the list of the open periods of the window.
    pub async fn needs_fold_of_periods(&self, standings: &Standings) -> bool {
        match self.folding(standings) {
            Some(fallback) => {
                fallback.needs_fold_of_periods(&self.deployment, standings).await.unwrap_or(false)
            }
            None => false,
        }
    }

    /// The standings in SQL, if Redis is away and those of a window are folded from its events.
    fn folding(&self, standings: &Standings) -> Option<&Fallback> {
        let is_folded = standings.id.window != Window::All
            && self.deployment.redis_health.is_away(standings.partitions());
        self.fallback.as_deref().filter(|_| is_folded)
    }

    /// The standings in SQL, if they answer instead of a Redis that gave this error; else the
    /// error.
    pub(super) fn fallback_for(&self, error: Error) -> Result<&Fallback> {
        let is_away = matches!(
            error,
            Error::Ranking(
                ranking::Error::Unavailable(_)
                    | ranking::Error::NotLevel(_)
                    | ranking::Error::NotRolled(_)
            )
        );
        self.fallback.as_deref().filter(|_| is_away).ok_or(error)
    }
}
