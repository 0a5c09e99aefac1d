//! The tokens that were revoked lately, as this process learns of them: by itself at once, from SQL
//! and Redis within a second.
//!
//! A request needs none of it while SQL answers, as each token is checked again within a second.
//! Open sockets do, and requests while SQL is away.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use engine::deployment::Deployment;
use entity::access_token;
use moka::future::Cache;
use ranking::store::revoked::REVOCATIONS_BEGIN;
use tokio::sync::watch;
use tokio::time::{interval, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::Checked;
use crate::health::Health;

/// The time between two looks for revoked tokens.
const REVOCATIONS_INTERVAL: Duration = Duration::from_millis(300);

/// How long a look may take.
const REVOCATIONS_TIMEOUT: Duration = Duration::from_millis(500);

/// How long a revoked token is remembered: longer than SQL is asked for it, and than a check of it
/// that began before.
const REVOKED_AGE_MAX: Duration = Duration::from_secs(1200);

/// The revoked tokens in memory.
const REVOKED_MAX: u64 = 100_000;

/// How far the clocks of processes may be apart for the looks at SQL, in milliseconds.
const REVOKED_SKEW_MS: i64 = 600_000;

/// The tokens that were revoked lately.
#[derive(Debug)]
pub(super) struct Revocations {
    recent: moka::sync::Cache<String, ()>,
    checked: Cache<String, Arc<Checked>>,
    /// Grows with each.
    news: watch::Sender<u64>,
}

impl Revocations {
    /// None yet, beside the tokens that were checked.
    pub(super) fn new(checked: &Cache<String, Arc<Checked>>) -> Arc<Self> {
        let recent = moka::sync::Cache::builder().max_capacity(REVOKED_MAX);
        Arc::new(Self {
            recent: recent.time_to_live(REVOKED_AGE_MAX).build(),
            checked: checked.clone(),
            news: watch::Sender::new(0),
        })
    }

    /// Looks for those of other processes from now on, where anything depends on it.
    pub(super) fn learn(
        self: &Arc<Self>,
        deployment: &Deployment,
        health: &Arc<Health>,
    ) -> AbortOnDropHandle<()> {
        let (revocations, deployment, health) = (self.clone(), deployment.clone(), health.clone());
        AbortOnDropHandle::new(tokio::spawn(async move {
            let mut place = REVOCATIONS_BEGIN.to_owned();
            let mut looks = interval(REVOCATIONS_INTERVAL);
            loop {
                looks.tick().await;
                let is_away = health.sql.is_away();
                if is_away || revocations.news.receiver_count() > 0 {
                    let look = revocations.look(&deployment, is_away, &mut place);
                    look.await;
                }
            }
        }))
    }

    async fn look(&self, deployment: &Deployment, is_away: bool, place: &mut String) {
        let store = deployment.store.for_reads();
        let in_redis = timeout(REVOCATIONS_TIMEOUT, store.revoked_after(place));
        let since_ms = deployment.clock.now_ms() - REVOKED_SKEW_MS;
        let in_sql = async {
            if is_away {
                return None;
            }
            let asked = access_token::revoked_since(&deployment.lookups, since_ms);
            timeout(REVOCATIONS_TIMEOUT, asked).await.ok()?.ok()
        };
        let (in_redis, in_sql) = tokio::join!(in_redis, in_sql);
        let mut ids = in_sql.unwrap_or_default();
        if let Ok(Ok((more, last))) = in_redis {
            ids.extend(more);
            *place = last.unwrap_or(std::mem::take(place));
        }
        self.add(ids).await;
    }

    /// Forgets revoked tokens, and tells those who follow.
    pub(super) async fn add(&self, ids: Vec<String>) {
        let new: HashSet<String> = ids.into_iter().filter(|id| !self.has(id)).collect();
        if new.is_empty() {
            return;
        }
        for id in &new {
            self.recent.insert(id.clone(), ());
        }
        let hashes: Vec<Arc<String>> = self
            .checked
            .iter()
            .filter(|(_, checked)| new.contains(&*checked.principal.id))
            .map(|(hash, _)| hash)
            .collect();
        for hash in hashes {
            self.checked.invalidate(&*hash).await;
        }
        self.news.send_modify(|count| *count += 1);
    }

    /// True for a token that was revoked lately.
    pub(super) fn has(&self, id: &str) -> bool {
        self.recent.contains_key(id)
    }

    /// Is told of further ones.
    pub(super) fn follow(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }
}
