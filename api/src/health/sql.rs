//! The health of SQL. While SQL is known to be away, no request waits for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::settings::traces::SPANS;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tracing::Instrument;

use crate::error::{Error, ErrorCode, Result};

/// The health of SQL.
#[derive(Debug)]
pub struct SqlHealth {
    /// How long a look-up may take.
    timeout: Duration,
    is_away: AtomicBool,
    was_asked: AtomicBool,
    /// Since when it is away.
    away: Mutex<Option<Instant>>,
    /// It was found to be away, or may be.
    doubted: Notify,
}

impl SqlHealth {
    pub(super) fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            is_away: AtomicBool::new(false),
            was_asked: AtomicBool::new(false),
            away: Mutex::new(None),
            doubted: Notify::new(),
        }
    }

    /// True while SQL is known to be away.
    pub fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Acquire)
    }

    /// For how long SQL is away; `None` while it answers.
    pub fn away_for(&self) -> Option<Duration> {
        self.lock().map(|since| since.elapsed())
    }

    /// True once SQL has answered.
    pub(crate) fn was_asked(&self) -> bool {
        self.was_asked.load(Ordering::Acquire)
    }

    /// Makes a look-up that a request waits for, unless SQL is known to be away. After one that
    /// gets no answer in time SQL is asked in the background, on a connection that no request
    /// takes: many look-ups of a client may keep all others busy. If it does not answer there, no
    /// look-up waits until it does.
    ///
    /// # Errors
    /// `UNAVAILABLE` if SQL does not answer; the errors of the look-up.
    pub async fn ask<T>(&self, look_up: impl Future<Output = Result<T>>) -> Result<T> {
        self.ask_again(look_up).instrument(tracing::info_span!(target: SPANS, "sql")).await
    }

    /// As [`Self::ask`], without a span, for a look-up that a request makes every few milliseconds.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn ask_again<T>(&self, look_up: impl Future<Output = Result<T>>) -> Result<T> {
        if self.is_away() {
            return Err(unavailable());
        }
        match timeout(self.timeout, look_up).await {
            Ok(answer) => {
                if let Err(error) = &answer
                    && error.code == ErrorCode::Unavailable
                {
                    self.failed("a look-up failed");
                }
                answer
            }
            Err(_) => {
                self.doubted.notify_one();
                Err(unavailable())
            }
        }
    }

    /// Makes a read, unless SQL is known to be away. Other reads may keep its connections busy, so
    /// that it may take longer than a look-up, and does not tell that SQL is away.
    ///
    /// # Errors
    /// `UNAVAILABLE` if SQL is away; the errors of the read.
    pub async fn read<T>(&self, read: impl Future<Output = Result<T>>) -> Result<T> {
        if self.is_away() {
            return Err(unavailable());
        }
        read.instrument(tracing::info_span!(target: SPANS, "sql")).await
    }

    /// Notes that SQL gave no answer.
    pub(super) fn failed(&self, why: &str) {
        let mut away = self.lock();
        if away.is_none() {
            tracing::warn!(
                why,
                "the database does not answer: scores wait in Redis, and what is remembered is used"
            );
            *away = Some(Instant::now());
            self.is_away.store(true, Ordering::Release);
            self.doubted.notify_one();
        }
    }

    /// Waits until SQL is found to be away, or a look-up took too long.
    pub(super) async fn doubted(&self) {
        self.doubted.notified().await;
    }

    /// Notes that SQL answered.
    pub(super) fn answered(&self) {
        self.was_asked.store(true, Ordering::Release);
        if let Some(since) = self.lock().take() {
            self.is_away.store(false, Ordering::Release);
            tracing::info!(seconds = since.elapsed().as_secs(), "the database answers again");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error of a request that needs what SQL alone has.
pub(crate) fn unavailable() -> Error {
    Error::new(ErrorCode::Unavailable, "the database does not answer; try again later")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn look_ups_wait_for_a_silent_database_until_it_is_known() {
        let sql = SqlHealth::new(TIMEOUT);
        let silent = || std::future::pending::<Result<()>>();
        assert_eq!(sql.ask(silent()).await.unwrap_err().code, ErrorCode::Unavailable);
        // Other look-ups may keep the connections busy.
        assert!(!sql.is_away());
        sql.failed("silent");
        let began = Instant::now();
        for _ in 0..1000 {
            assert_eq!(sql.ask(silent()).await.unwrap_err().code, ErrorCode::Unavailable);
        }
        assert!(began.elapsed() < 100 * TIMEOUT, "{:?}", began.elapsed());
        sql.answered();
        assert_eq!(sql.ask(async { Ok(7) }).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_look_up_that_fails_lets_sql_be_asked_at_once() {
        let sql = SqlHealth::new(TIMEOUT);
        assert!(timeout(TIMEOUT, sql.doubted()).await.is_err());
        assert!(sql.ask(std::future::pending::<Result<()>>()).await.is_err());
        assert!(timeout(TIMEOUT, sql.doubted()).await.is_ok());
    }

    #[tokio::test]
    async fn an_answer_that_refuses_is_an_answer() {
        let sql = SqlHealth::new(TIMEOUT);
        let refused = sql.ask(async { Err::<(), _>(Error::bad_input("no")) }).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::BadUserInput);
        assert!(!sql.is_away() && sql.away_for().is_none());
    }
}
