//! The reset of a period of a board: voids the scores that were earned in it, in bounded steps.
//!
//! The first step fixes the instant up to which scores are voided, and a step goes on behind the
//! score at which the one before ended. So steps come to an end however many members play. The
//! scores of a member are voided together, as its whole history is folded for that.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::str::FromStr;

use entity::board;
use entity::error::Result;
use entity::history::by_time::{self, Timed};
use entity::history::score_event;
use futures::future::try_join_all;
use ranking::board::Board;
use ranking::commit::EventPlace;
use ranking::id::MemberId;
use ranking::window::Period;
use sea_orm::DatabaseConnection;
use tokio::time::Instant;

use super::remove::settle;
use super::together::Together;
use crate::deployment::Deployment;
use crate::history::amend::{By, Plan, Voids, amend_members};

/// The most scores that one step looks at.
pub const VOIDED_MAX: usize = 1000;

/// The most members whose scores are voided at once; their histories are read together, unless they
/// are long.
const MEMBERS_AT_ONCE: usize = 100;

/// The end of a step: the score behind which the next one begins, and the instant before which
/// scores are voided, in Unix milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reached {
    /// The instant.
    pub before_ms: i64,
    /// The score.
    pub last: Timed,
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.before_ms, self.last.at_ms, self.last.place)
    }
}

impl FromStr for Reached {
    type Err = ranking::Error;

    fn from_str(text: &str) -> ranking::Result<Self> {
        let invalid = || ranking::Error::Invalid("this is not the end of a step".into());
        let mut parts = text.splitn(3, '/');
        let mut next = || parts.next().ok_or_else(invalid);
        let (before_ms, at_ms, place) = (next()?, next()?, next()?);
        let number = |text: &str| text.parse().map_err(|_| invalid());
        let last = Timed { at_ms: number(at_ms)?, place: place.parse()? };
        Ok(Self { before_ms: number(before_ms)?, last })
    }
}

/// A step of a reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The number of scores that were voided.
    pub voided: usize,
    /// The end of the step; `None` if it found no score.
    pub end: Option<Reached>,
    /// True if scores may be left.
    pub has_more: bool,
}

/// Voids the next scores of a period, at most [`VOIDED_MAX`]. Begins no commit after `deadline`.
/// Needs SQL.
///
/// # Errors
/// `Invalid` if scores of the period are archived; otherwise as
/// [`amend`](crate::history::amend::amend). Scores that were voided before an error stay voided.
pub async fn void_step(
    deployment: &Deployment,
    board: &Board,
    period: &Period,
    after: Option<Reached>,
    deadline: Instant,
) -> Result<Step> {
    settle(deployment, board, deadline).await?;
    let db = &deployment.db;
    if board::archived_before_ms(db, board.no).await?.is_some_and(|at_ms| at_ms > period.start_ms) {
        let message =
            "scores of this period are archived and cannot be voided; expected a period after them";
        return Err(ranking::Error::Invalid(message.into()).into());
    }
    let before_ms = match after {
        Some(after) => after.before_ms,
        None => deployment.clock.now_ms() + 1,
    };
    let times = period.start_ms..period.end_ms.map_or(before_ms, |end_ms| end_ms.min(before_ms));
    let last = after.map(|after| after.last);
    let (rows, mut has_more) = by_time::page(db, board.no, times, last, VOIDED_MAX).await?;
    let mut end = rows.last();
    let scores = Scores::of(db, board, &rows).await?;
    let mut together = Together::new(db, board.no, MEMBERS_AT_ONCE);
    let (mut voided, mut left) = (0, &scores.members[..]);
    while !left.is_empty() {
        let members = together.next(&mut left).await?;
        voided += void(deployment, board, (members, &scores), deadline).await?;
        // The members are in the order of their first scores, so all before that of the next one
        // are voided.
        if let Some(next) = left.first().filter(|_| Instant::now() >= deadline) {
            let before =
                rows.iter().take_while(|row| row.member != next.as_str() || scores.passes(row));
            (end, has_more) = (before.last(), true);
            break;
        }
    }
    if let Err(error) = settle(deployment, board, deadline).await {
        // The voids stand; readers of the history may just not see them yet.
        tracing::debug!(board = %board.no, %error, "voids wait for the database");
    }
    let end = end.and_then(Timed::of).map(|last| Reached { before_ms, last });
    Ok(Step { voided, end, has_more })
}

/// The scores of a page that are not voided yet.
struct Scores {
    /// Their members, in the order of the first score of each.
    members: Vec<MemberId>,
    places: HashMap<MemberId, Vec<EventPlace>>,
    /// Those of the page that are voided.
    voided: HashSet<EventPlace>,
}

impl Scores {
    async fn of(
        db: &DatabaseConnection,
        board: &Board,
        rows: &[score_event::Model],
    ) -> Result<Self> {
        let keys: BTreeSet<&str> = rows.iter().map(|row| row.member.as_str()).collect();
        let seqs: BTreeSet<i64> = rows.iter().map(|row| row.seq).collect();
        let seqs = seqs.into_iter().collect();
        let voided = score_event::voided_of_members(db, board.no, keys, seqs).await?;
        let mut scores = Self { members: vec![], places: HashMap::new(), voided };
        for row in rows {
            let (member, place) = (MemberId::new(&row.member)?, row.place()?);
            if scores.voided.contains(&place) {
                continue;
            }
            let places = scores.places.entry(member.clone()).or_default();
            if places.is_empty() {
                scores.members.push(member);
            }
            places.push(place);
        }
        Ok(scores)
    }

    /// True for a score that was voided before this step.
    fn passes(&self, row: &score_event::Model) -> bool {
        row.place().is_ok_and(|place| self.voided.contains(&place))
    }
}

/// Voids the scores of members, those of one partition in one commit unless the members have very
/// many entries. Returns the number of scores that counted until then.
async fn void(
    deployment: &Deployment,
    board: &Board,
    (members, scores): (&[MemberId], &Scores),
    deadline: Instant,
) -> Result<usize> {
    let by_partition = deployment.by_partition(board, members, |member| member);
    let voids = by_partition.map(async |(partition, members): (_, Vec<MemberId>)| {
        let mut targets = vec![];
        for member in &members {
            let places = scores.places.get(member).into_iter().flatten();
            targets.extend(places.map(|place| (member.clone(), *place)));
        }
        let (mut left, mut voided) = (&targets[..], 0);
        while !left.is_empty() {
            // Histories of members whose scores are voided are not read again.
            let mut members: Vec<_> = left.iter().map(|(member, _)| member.clone()).collect();
            members.dedup();
            let plan = Plan::Voids(Voids::of(&members, left));
            let done = amend_members((partition, board), plan, By::Client, deadline).await?;
            voided += done.events;
            left = &left[done.looked_at..];
        }
        Ok::<_, entity::Error>(voided)
    });
    Ok(try_join_all(voids).await?.into_iter().sum())
}
