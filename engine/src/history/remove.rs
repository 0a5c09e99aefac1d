//! Removal of the members of a board that a filter selects, in bounded steps.
//!
//! A step goes on behind the key at which the one before ended. So a member that comes back behind
//! that key stays, and steps come to an end however many members play.

use futures::future::{try_join, try_join_all};
use ranking::board::Board;
use ranking::id::MemberId;
use tokio::time::{Instant, timeout_at};

use super::together::Together;
use crate::deployment::Deployment;
use crate::history::amend::{By, Plan, amend_members};
use entity::error::Result;
use entity::standings::filter::Filter;

/// The most members that one step removes.
pub const REMOVED_MAX: usize = 1000;

/// The most members that one commit removes; their histories are read together, unless they are
/// long.
const REMOVED_AT_ONCE: usize = 100;

/// A step of a removal.
#[derive(Debug)]
pub struct Step {
    /// The members that were removed, or would be, ordered by the bytes of their keys.
    pub members: Vec<MemberId>,
    /// The key behind which the next step begins; `None` if this step found no member.
    pub end: Option<String>,
    /// True if members are left that the filter selects.
    pub has_more: bool,
}

/// Finds the members of the next step, and the number of all that the filter selects. Removes none.
///
/// # Errors
/// As [`remove_step`].
pub async fn find(
    deployment: &Deployment,
    board: &Board,
    filter: &Filter,
    after: Option<&str>,
    deadline: Instant,
) -> Result<(Step, u64)> {
    settle(deployment, board, deadline).await?;
    let count = filter.count(&deployment.db, board);
    try_join(page(deployment, board, filter, after), count).await
}

/// Removes the next members that the filter selects, at most [`REMOVED_MAX`]. Begins no commit
/// after `deadline`. Needs SQL.
///
/// # Errors
/// `Invalid` for a filter that the board does not support; otherwise as
/// [`amend`](crate::history::amend::amend). Members that were removed before an error stay removed.
pub async fn remove_step(
    deployment: &Deployment,
    board: &Board,
    filter: &Filter,
    after: Option<&str>,
    deadline: Instant,
) -> Result<Step> {
    settle(deployment, board, deadline).await?;
    let Step { members, mut end, mut has_more } = page(deployment, board, filter, after).await?;
    let mut removed = vec![];
    let mut together = Together::new(&deployment.db, board.no, REMOVED_AT_ONCE);
    let mut left = &members[..];
    while !left.is_empty() {
        let part = together.next(&mut left).await?;
        removed.extend(remove(deployment, board, part, deadline).await?);
        if !left.is_empty() && Instant::now() >= deadline {
            end = part.last().map(ToString::to_string);
            has_more = true;
            break;
        }
    }
    if let Err(error) = settle(deployment, board, deadline).await {
        // The removals stand; readers of the history may just not see them yet.
        tracing::debug!(board = %board.no, %error, "removals wait for the database");
    }
    removed.sort_unstable();
    Ok(Step { members: removed, end, has_more })
}

/// Removes members; those of one partition in one commit, unless they have very many entries.
/// Returns the members that had any.
async fn remove(
    deployment: &Deployment,
    board: &Board,
    members: &[MemberId],
    deadline: Instant,
) -> Result<Vec<MemberId>> {
    let by_partition = deployment.by_partition(board, members, |member| member);
    let removals = by_partition.map(async |(partition, members)| {
        let (mut left, mut removed) = (&members[..], vec![]);
        while !left.is_empty() {
            let plan = Plan::Removal(left);
            let done = amend_members((partition, board), plan, By::Client, deadline).await?;
            removed.extend(done.members);
            left = &left[done.looked_at..];
        }
        Ok::<_, entity::Error>(removed)
    });
    Ok(try_join_all(removals).await?.concat())
}

/// The members of the next step. Rows whose member is none, as they were edited by hand, are left
/// out.
async fn page(
    deployment: &Deployment,
    board: &Board,
    filter: &Filter,
    after: Option<&str>,
) -> Result<Step> {
    let mut keys = filter.page(&deployment.db, board, after, REMOVED_MAX + 1).await?;
    let has_more = keys.len() > REMOVED_MAX;
    keys.truncate(REMOVED_MAX);
    let members = keys.iter().filter_map(|key| MemberId::new(key).ok()).collect();
    Ok(Step { members, end: keys.pop(), has_more })
}

/// Waits until SQL has all scores of the board that were accepted before.
pub(super) async fn settle(
    deployment: &Deployment,
    board: &Board,
    deadline: Instant,
) -> Result<()> {
    let partitions = deployment.partitions_of(board).into_iter();
    let settled = try_join_all(partitions.map(|partition| partition.settle()));
    let late = || ranking::Error::Unavailable("the database is behind; try again".into());
    timeout_at(deadline, settled).await.map_err(|_| late())??;
    Ok(())
}
