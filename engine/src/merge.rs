//! Merges of members: the source's scores become the target's, on all boards.
//!
//! One record decides a merge, and each step can be repeated by any process:
//!
//! 1. `HELD`. Every partition marks both members, and accepts nothing for them. SQL then has their
//!    whole histories, which do not change. They are checked; a merge that cannot be carried out is
//!    `REFUSED`: every partition frees both members, and then the record goes.
//! 2. `DECIDED`. Board by board, the target gets a copy of each score of the source that counts.
//!    Once SQL has all copies of a board, the source is removed from it.
//! 3. `MERGED`. The target has the source's friends, requests, places on boards and reports. Every
//!    partition marks the source as merged, and holds the target no longer.
//! 4. `DONE`.
//!
//! A process tells a partition of a step by a commit, and reads the record after the head. So one
//! that slept through a step writes nothing of an earlier one.

mod given;
mod scores;
mod start;

use std::collections::BTreeSet;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use ranking::id::{BoardNo, MemberId};
use ranking::merge::MemberMark;
use ranking::store::write::Writes;
use tokio::time::Instant;

pub use self::scores::ArchivedEvents;
use self::start::{Purpose, start};
use crate::deployment::Deployment;
use crate::erasure::check_not_erasing;
use crate::failpoint;
use crate::partition::Partition;
use crate::partition::change::{Change, Proposal};
use entity::board;
use entity::board::seen::Seen;
use entity::deployment::clock::sql_now_ms;
use entity::error::Result;
use entity::member::ban;
use entity::member::erasure::is_anonymous;
use entity::member::friendship::{self, FRIENDS_MAX};
use entity::member::merge::{self, Step};

/// The age from which on the background work goes on with a merge or a ban, whose process may have
/// ended.
pub(crate) const RESUMED_AFTER: Duration = Duration::from_secs(5);

/// The longest time that the background work takes for a merge or a ban in one round.
pub(crate) const RESUME_TIMEOUT: Duration = Duration::from_secs(20);

/// The most partitions that are told of a step at once.
const PARTITIONS_AT_ONCE: usize = 16;

/// The boards of one SELECT.
const BOARDS_MAX: usize = 100;

/// The result of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merged {
    /// The target has all that the source had.
    Done,
    /// The merge is decided, and the background work goes on with it.
    UnderWay,
    /// There is no source: neither a member nor a score.
    NoSuchMember,
}

/// Merges a member into another one, until `deadline`. Needs SQL. May be called again.
///
/// # Errors
/// `Invalid` or `OutOfRange` if the histories cannot be merged; `LimitExceeded` for too many
/// friends; `MemberMerged` if one of them was merged into another member; `Unavailable` while one
/// of them takes part in another merge. Nothing is merged then.
pub async fn merge(
    deployment: &Deployment,
    source: &MemberId,
    target: &MemberId,
    deadline: Instant,
) -> Result<Merged> {
    if source == target {
        let message = "a member cannot be merged into itself: expected two members";
        return Err(ranking::Error::Invalid(message.into()).into());
    }
    let db = &deployment.db;
    let row = match merge::of(db, source.as_str()).await? {
        Some(row) => row,
        None => match start(deployment, source, target, Purpose::Merge).await? {
            Some(row) => row,
            None => return Ok(Merged::NoSuchMember),
        },
    };
    if row.target != target.as_str() {
        return Err(refusal(&row).into());
    }
    go_on(deployment, row, None, deadline).await
}

/// Merges a member that is being erased into the random key of that erasure. The key gets the
/// scores, archived ones too, and nothing else that the source has.
///
/// # Errors
/// As [`merge`].
pub(crate) async fn anonymize(
    deployment: &Deployment,
    [source, target]: [&MemberId; 2],
    archived: Option<&ArchivedEvents>,
    deadline: Instant,
) -> Result<Merged> {
    let row = match merge::of(&deployment.db, source.as_str()).await? {
        Some(row) => row,
        None => match start(deployment, source, target, Purpose::Erasure).await? {
            Some(row) => row,
            None => return Ok(Merged::NoSuchMember),
        },
    };
    go_on(deployment, row, archived, deadline).await
}

/// Goes on with merges whose processes may have ended. An erasure goes on with its own.
pub async fn resume(deployment: &Deployment) -> Result<()> {
    let before_ms = sql_now_ms(&deployment.db).await? - RESUMED_AFTER.as_millis() as i64;
    for row in merge::under_way(&deployment.db, before_ms).await? {
        if is_anonymous(&deployment.db, &row.source, &row.target).await? {
            continue;
        }
        let (source, target) = (row.source.clone(), row.target.clone());
        let deadline = Instant::now() + RESUME_TIMEOUT;
        if let Err(error) = go_on(deployment, row, None, deadline).await {
            tracing::warn!(source, target, %error, "a merge waits");
        }
    }
    Ok(())
}

/// Checks that members were not merged into others, and are not being merged.
///
/// # Errors
/// `MemberMerged`; `Unavailable` while one of them is being merged.
pub async fn check_unmerged(deployment: &Deployment, keys: &[&str]) -> Result<()> {
    match merge::of_any(&deployment.db, keys.iter().copied()).await?.first() {
        Some(row) => Err(refusal(row).into()),
        None => Ok(()),
    }
}

/// Checks that a member was not merged into another one, and takes part in no merge.
///
/// # Errors
/// As [`check_unmerged`].
pub(crate) async fn check_takes_part_in_none(
    deployment: &Deployment,
    member: &MemberId,
) -> Result<()> {
    check_unmerged(deployment, &[member.as_str()]).await?;
    check_not_erasing(deployment, &[member.as_str()]).await?;
    match merge::other(&deployment.db, member.as_str(), member.as_str()).await? {
        Some(row) => Err(refusal(&row).into()),
        None => Ok(()),
    }
}

/// Checks that no merge is under way: a window or a season that is added meanwhile might not have
/// room for what it copies.
///
/// # Errors
/// `Unavailable` if one is.
pub async fn check_none_under_way(deployment: &Deployment) -> Result<()> {
    if merge::is_under_way(&deployment.db).await? {
        let text = "members are being merged; try again in a few seconds";
        return Err(ranking::Error::Unavailable(text.into()).into());
    }
    Ok(())
}

/// The error for a member that takes part in another merge, or did.
fn refusal(row: &merge::Model) -> ranking::Error {
    match (row.step, MemberId::new(&row.target)) {
        (Step::Merged | Step::Done, Ok(target)) => ranking::Error::MemberMerged(target),
        _ => ranking::Error::Unavailable(format!(
            "{} is being merged into {}: try again once that is over",
            row.source, row.target
        )),
    }
}

/// The error for a merge whose record is gone.
fn taken_back() -> entity::Error {
    entity::Error::Overtaken("this merge was taken back".into())
}

/// Takes back a merge that is not decided. Returns false if it is. The row stays until all
/// partitions know: else a member would stay held if the process ended in between.
async fn take_back(deployment: &Deployment, row: &merge::Model) -> Result<bool> {
    let db = &deployment.db;
    if row.step == Step::Held {
        merge::advance(db, row, Step::Refused).await?;
    }
    failpoint::hit("refused");
    match merge::of(db, &row.source).await?.filter(|now| now.target == row.target) {
        None => Ok(true),
        Some(refused) if refused.step == Step::Refused => {
            tell(deployment, &refused).await?;
            merge::forget(db, &refused).await?;
            Ok(true)
        }
        Some(_) => Ok(false),
    }
}

/// Does the steps of a merge from the one that its row has.
async fn go_on(
    deployment: &Deployment,
    mut row: merge::Model,
    archived: Option<&ArchivedEvents>,
    deadline: Instant,
) -> Result<Merged> {
    let db = &deployment.db;
    loop {
        match row.step {
            Step::Held => {
                failpoint::hit("recorded");
                tell(deployment, &row).await?;
                failpoint::hit("held");
                match scores::check(deployment, &row, archived, deadline).await {
                    Ok(()) => given::decide(deployment, &row).await?,
                    Err(error) if error.is_transient() => return Err(error),
                    Err(error) => {
                        if take_back(deployment, &row).await? {
                            return Err(error);
                        }
                    }
                }
                failpoint::hit("decided");
            }
            Step::Refused => {
                take_back(deployment, &row).await?;
                return Err(taken_back());
            }
            Step::Done => return Ok(Merged::Done),
            Step::Decided | Step::Merged => {
                match finish(deployment, &row, archived, deadline).await {
                    Ok(()) => {}
                    // The background work goes on.
                    Err(error) if error.is_transient() => {
                        let merge::Model { source, target, .. } = row;
                        tracing::info!(source, target, %error, "a merge is decided and goes on later");
                        return Ok(Merged::UnderWay);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        // It may be another merge of the same source by now.
        let now = merge::of(db, &row.source).await?.filter(|now| now.target == row.target);
        row = now.ok_or_else(taken_back)?;
        if row.step != Step::Done && Instant::now() >= deadline {
            return Ok(Merged::UnderWay);
        }
    }
}

/// Does a step after the decision.
async fn finish(
    deployment: &Deployment,
    row: &merge::Model,
    archived: Option<&ArchivedEvents>,
    deadline: Instant,
) -> Result<()> {
    if row.step == Step::Decided {
        scores::move_all(deployment, row, archived, deadline).await?;
        failpoint::hit("moved");
        given::give(deployment, row).await?;
        failpoint::hit("merged");
        return Ok(());
    }
    tell(deployment, row).await?;
    failpoint::hit("told");
    merge::advance(&deployment.db, row, Step::Done).await?;
    Ok(())
}

/// Checks that the target may have the friends of both.
async fn check_friends(deployment: &Deployment, row: &merge::Model) -> Result<()> {
    let mut friends = BTreeSet::new();
    for member in [&row.source, &row.target] {
        friends.extend(friendship::friends(&deployment.db, member).await?);
    }
    friends.remove(&row.source);
    friends.remove(&row.target);
    if friends.len() > FRIENDS_MAX {
        return Err(ranking::Error::LimitExceeded(format!(
            "{} and {} have {} friends: expected at most {FRIENDS_MAX}",
            row.source,
            row.target,
            friends.len()
        ))
        .into());
    }
    Ok(())
}

/// Tells all partitions of a merge's step, and waits until SQL has what they accepted before.
async fn tell(deployment: &Deployment, row: &merge::Model) -> Result<()> {
    tell_members(deployment, row.marks()?.map(|(member, _)| member).into()).await
}

/// Tells all partitions of the marks that SQL means for members, and waits until SQL has what they
/// accepted before.
pub(crate) async fn tell_members(deployment: &Deployment, members: Vec<MemberId>) -> Result<()> {
    let told = deployment.partitions().map(|partition| {
        let mut telling = Telling { members: members.clone() };
        async move {
            partition.commit_change(&mut telling).await?;
            partition.settle().await
        }
    });
    // Collected first: the futures of a lazy iterator are not Send.
    let told: Vec<_> = told.collect();
    stream::iter(told).buffer_unordered(PARTITIONS_AT_ONCE).try_collect::<Vec<u64>>().await?;
    Ok(())
}

/// A commit that sets the marks of members to what SQL says.
struct Telling {
    members: Vec<MemberId>,
}

impl Change for Telling {
    type Outcome = ();

    async fn propose(&mut self, partition: Partition<'_>) -> Result<Proposal<()>> {
        let tail = partition.head(BoardNo(0), &[]).await?;
        // Read after the head: who goes on to another step tells the partition of it by a commit,
        // even if the marks are as they should be.
        let marks: Vec<(MemberId, MemberMark)> =
            ban::marks_of(&partition.db, &self.members).await?;
        let mut writes = Writes::default();
        writes.mark_members(partition.store.keys(), partition.no, &marks);
        Ok(Proposal::nothing(tail.head, ()).writing(writes, partition.clock.now_ms()))
    }
}

/// The boards on which a member has an entry, by number.
pub(crate) async fn boards_of(deployment: &Deployment, member: &str) -> Result<Vec<board::Model>> {
    let (mut boards, mut after) = (vec![], None);
    loop {
        let page = board::of_member(&deployment.db, member, &Seen::All, after, BOARDS_MAX).await?;
        let (mut rows, more) = page;
        after = rows.last().map(|row| row.no);
        boards.append(&mut rows);
        if !more {
            return Ok(boards);
        }
    }
}
