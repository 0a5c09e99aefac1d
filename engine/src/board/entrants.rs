//! Joining a board and leaving it.
//!
//! SQL decides: a joining is one transaction there, and no commit. Then the member's partition is
//! told, so that submissions need no SQL. If it was not told, as the process ended or the partition
//! was just loaded, the first submission asks SQL once and tells it.
//!
//! Leaving is a commit, so that no submission that was folded before can follow. It notes in Redis
//! that the member left, by the number of its joining, before SQL deletes the row. The transaction
//! requires that the partition was not recovered in between, as it might have the row again.

use ranking::board::Board;
use ranking::id::MemberId;
use ranking::merge::MemberMark;
use ranking::standings_id::StandingsId;
use ranking::store::entrants::Entrant;
use ranking::store::write::Writes;
use ranking::submission::Wanted;
use tokio::time::Instant;

use crate::deployment::Deployment;
use crate::partition::Partition;
use crate::partition::change::{Change, Proposal};
use entity::board::entrant::{self, Joined, Left};
use entity::error::{Error, Result};

/// The result of leaving a board.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// The member has left.
    Done,
    /// The member had not joined.
    Nothing,
    /// The member has an entry, and stays.
    HasScored,
}

/// Lets a member join a board, and tells its partition.
///
/// # Errors
/// If SQL fails. If Redis fails, the first submission of the member tells the partition.
pub async fn join(deployment: &Deployment, board: &Board, member: &MemberId) -> Result<Joined> {
    let now_ms = deployment.clock.now_ms();
    let joined = entrant::join(&deployment.db, board.no.0, member.as_str(), now_ms).await?;
    if let Joined::Now(no) | Joined::Before(no) = joined
        && let Err(error) = tell(deployment, board, &[(member.clone(), no)]).await
    {
        tracing::debug!(board = %board.no, %error, "a partition does not know yet that a member joined");
    }
    Ok(joined)
}

/// Lets a member without a score leave a board. Tries until `deadline`.
///
/// # Errors
/// As [`Partition::submit`]; if SQL fails, the member may or may not have left.
pub async fn leave(
    deployment: &Deployment,
    board: &Board,
    member: &MemberId,
    deadline: Instant,
) -> Result<Leaving> {
    let partition = deployment.partition(deployment.store.partitions().of_member(board, member));
    loop {
        let Some(row) = entrant::of(&deployment.db, board.no.0, member.as_str()).await? else {
            return Ok(Leaving::Nothing);
        };
        let mut noting = NotingLeft { board, entrant: (member.clone(), row.no) };
        let Some(epoch) = partition.commit_with_retry(&mut noting, deadline).await?.outcome else {
            return Ok(Leaving::HasScored);
        };
        // A Redis that lost the commit would take the member for an entrant still, unless SQL has
        // it and knows that Redis is behind.
        partition.settle().await?;
        match entrant::leave(&deployment.db, &row, partition.no, epoch).await? {
            Left::Done => return Ok(Leaving::Done),
            Left::Nothing | Left::Recovered if Instant::now() < deadline => {}
            Left::Nothing | Left::Recovered => {
                let why = "the member joins again, or its partition is recovered".to_owned();
                return Err(Error::Overtaken(why));
            }
        }
    }
}

/// Asks SQL which of some members have joined a board, and tells their partitions. Returns those
/// who have.
///
/// # Errors
/// If a store fails.
pub async fn ask(
    deployment: &Deployment,
    board: &Board,
    members: &[MemberId],
) -> Result<Vec<MemberId>> {
    let keys = members.iter().map(MemberId::as_str);
    let rows = entrant::of_members(&deployment.lookups, board.no.0, keys).await?;
    let entrants = rows.into_iter().map(|row| Ok((MemberId::new(&row.member)?, row.no)));
    let entrants: Vec<Entrant> = entrants.collect::<ranking::Result<_>>()?;
    tell(deployment, board, &entrants).await?;
    Ok(entrants.into_iter().map(|(member, _)| member).collect())
}

/// Tells the partitions of members that they joined a board.
async fn tell(deployment: &Deployment, board: &Board, entrants: &[Entrant]) -> Result<()> {
    for (partition, there) in deployment.by_partition(board, entrants, |(member, _)| member) {
        let told = deployment.store.put_entrants(partition.no, board, &there).await;
        if let Err(ranking::Error::NotLevel(_)) = told {
            partition.recover().await?;
            deployment.store.put_entrants(partition.no, board, &there).await?;
        } else {
            told?;
        }
    }
    Ok(())
}

/// Notes in Redis that a member has left, unless it has an entry.
struct NotingLeft<'a> {
    board: &'a Board,
    entrant: Entrant,
}

impl Change for NotingLeft<'_> {
    /// The epoch of the partition; `None` if the member has an entry.
    type Outcome = Option<u64>;

    async fn propose(&mut self, partition: Partition<'_>) -> Result<Proposal<Option<u64>>> {
        let all_time = StandingsId::all_time(self.board, String::new());
        let wanted = Wanted {
            boards: vec![self.board.no],
            members: vec![self.entrant.0.clone()],
            standings: vec![(all_time, vec![self.entrant.0.clone()])],
            ..Wanted::default()
        };
        let snapshot = partition.snapshot(&wanted).await?;
        for mark in &snapshot.boards {
            mark.check(self.board)?;
        }
        // Copies of a merge may be on their way. One that was merged may be taken off the board.
        if snapshot.members.contains(&MemberMark::Held) {
            return Err(ranking::Error::MemberHeld.into());
        }
        for key in snapshot.keys.into_iter().flatten() {
            if key?.is_some() {
                return Ok(Proposal::nothing(snapshot.head, None));
            }
        }
        let mut writes = Writes::default();
        writes.set_left(partition.store.keys(), partition.no, self.board, &self.entrant);
        let epoch = snapshot.head.epoch;
        let proposal = Proposal::nothing(snapshot.head, Some(epoch));
        Ok(proposal.writing(writes, partition.clock.now_ms()))
    }
}
