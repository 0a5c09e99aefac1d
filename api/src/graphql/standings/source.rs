//! The source of an answer, and the instant of which it is.

use async_graphql::{Context, Enum};
use ranking::store::read::Standings;
use tokio::time::Instant;

use crate::graphql::request::{app, state};
use crate::graphql::types::scalar::DateTime;

/// The source of an answer.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandingsSource {
    /// Redis.
    Live,
    /// The sealed standings of past periods, in SQL.
    Archive,
    /// The history in SQL, while Redis is away.
    Fallback,
}

/// The source of the answers about standings, and the instant of which they are; no instant if none
/// is known. It waits for the look-ups of the request, as one of them may be the first to learn
/// that Redis is away.
pub(crate) async fn source_of(
    ctx: &Context<'_>,
    standings: &Standings,
) -> (StandingsSource, Option<DateTime>) {
    let (app, state) = (app(ctx), state(ctx));
    let as_of = |complete_at: Option<Instant>| {
        let ago = complete_at.map(|at| at.elapsed().as_millis() as i64);
        ago.map(|ago| DateTime(state.now_ms - ago))
    };
    let redis = &app.deployment.redis_health;
    let complete_at = redis.complete_at(standings.partitions());
    if standings.is_sealed() {
        return (StandingsSource::Archive, as_of(complete_at));
    }
    state.loaders.wait_for_look_ups().await;
    match app.reader().answered_by_sql(standings, state.loaders.began_at()).await {
        Some(answered) => (StandingsSource::Fallback, as_of(answered.complete_at)),
        None if redis.is_away(standings.partitions()) => {
            (StandingsSource::Fallback, as_of(complete_at))
        }
        None => (StandingsSource::Live, Some(DateTime(state.now_ms))),
    }
}
