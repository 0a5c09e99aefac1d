//! The partitions of the deployment, as the process that answers sees them. For operators.

use async_graphql::connection::{Edge, EmptyFields};
use async_graphql::{Context, Enum, ID, Object, Result};
use tokio::time::Instant;

use super::guard::Needs;
use super::job::JOBS_DEFAULT;
use super::price;
use super::request::{app, state};
use super::types::connection::{Connection, PageCursor, limit_or};
use super::types::global_id::GlobalId;
use super::types::scalar::int;
use crate::access::scope::Scope;
use crate::health::partition::{self as health, PartitionHealth};

/// The state of a partition.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionState {
    /// Redis and SQL agree: it takes scores and answers reads.
    Level,
    /// It waits for recovery: SQL answers reads, and scores are refused.
    NotLevel,
    /// Its server of Redis does not answer.
    Silent,
}

/// The reason why the commits of a partition do not get to SQL.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq)]
#[graphql(remote = "health::StuckBy")]
pub enum StuckBy {
    /// SQL does not answer.
    Sql,
    /// Redis does not answer.
    Redis,
    /// The partition waits for recovery.
    NotLevel,
    /// No process writes them.
    Persister,
}

/// A share of all boards and members, with a log of its own that gets to SQL by itself.
pub struct Partition {
    number: u16,
    health: PartitionHealth,
    is_sql_away: bool,
}

/// A share of all boards and members, with a log of its own that gets to SQL by itself.
#[Object]
impl Partition {
    /// The global id: "partition:<number>".
    pub(crate) async fn id(&self) -> ID {
        GlobalId::Partition(self.number).to_text().into()
    }

    /// The number, from 0.
    async fn number(&self) -> i32 {
        self.number.into()
    }

    /// The state.
    async fn state(&self) -> PartitionState {
        match self.health.is_level {
            Some(true) => PartitionState::Level,
            Some(false) => PartitionState::NotLevel,
            None => PartitionState::Silent,
        }
    }

    /// The number of commits that SQL does not have yet.
    async fn commits_behind(&self) -> Result<i32> {
        Ok(int(self.health.commits_behind())?)
    }

    /// The time for which the oldest of these commits has waited, in seconds, as far as this
    /// process has seen it wait.
    async fn seconds_behind(&self) -> f64 {
        self.health.behind_for(Instant::now()).as_secs_f64()
    }

    /// The reason why SQL has not got any of these commits for 10 seconds; null if it gets them.
    async fn stuck_by(&self) -> Option<StuckBy> {
        self.health.stuck_by(Instant::now(), self.is_sql_away).map(Into::into)
    }

    /// The error of the last attempt of this process to write the commits to SQL; null if it
    /// succeeded.
    async fn error(&self) -> Option<&str> {
        self.health.error.as_deref()
    }
}

/// The partition of a number.
pub(crate) fn find(ctx: &Context<'_>, number: u16) -> crate::error::Result<Option<Partition>> {
    Needs::Scope(Scope::Admin).met(ctx)?;
    let (health, index) = (&app(ctx).health, usize::from(number));
    let found = health.partitions().into_iter().nth(index);
    let is_sql_away = health.sql.is_away();
    Ok(found.map(|health| Partition { number, health, is_sql_away }))
}

/// A page of the partitions, in the order of their numbers; only those that need attention if
/// wanted.
pub(crate) async fn list(
    ctx: &Context<'_>,
    unwell: bool,
    first: Option<i32>,
    after: Option<&str>,
) -> crate::error::Result<Connection<Partition, EmptyFields>> {
    let limit = limit_or("first", first, JOBS_DEFAULT)?;
    let after = after.map(PageCursor::place::<u16>).transpose()?;
    state(ctx).spend(price::select(limit)).await?;
    let (health, now) = (&app(ctx).health, Instant::now());
    let is_sql_away = health.sql.is_away();
    let is_wanted = |of: &Partition| !unwell || of.health.is_unwell(now);
    let partitions = (0..).zip(health.partitions());
    let mut following = partitions
        .skip(after.map_or(0, |after| usize::from(after) + 1))
        .map(|(number, health)| Partition { number, health, is_sql_away })
        .filter(is_wanted);
    let page: Vec<Partition> = following.by_ref().take(limit).collect();
    let has_next = following.next().is_some();
    let mut connection = Connection::new(after.is_some(), has_next);
    let edges = page.into_iter().map(|one| Edge::new(PageCursor::of(&one.number), one));
    connection.edges.extend(edges);
    Ok(connection)
}
