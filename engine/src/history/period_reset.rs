//! The reset of a period of a board: voids the scores that were earned in it, in bounded steps.
//!
//! The first step fixes the instant up to which scores are voided, and a step goes on behind the
//! score at which the one before ended. So steps come to an end however many members play.

use std::collections::BTreeSet;
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
use tokio::time::Instant;

use super::remove::settle;
use crate::deployment::Deployment;
use crate::history::amend::{By, Plan, Voids, amend_members};

/// The most scores that one step looks at.
pub const VOIDED_MAX: usize = 1000;

/// The scores that are voided at once: those of one partition in one commit, unless their members
/// have very many entries. The histories of these members are read together.
const VOIDED_AT_ONCE: usize = 100;

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
    let page = by_time::page(db, board.no, times, last, VOIDED_MAX);
    let (rows, mut has_more) = page.await?;
    let (mut voided, mut end) = (0, None);
    for part in rows.chunks(VOIDED_AT_ONCE) {
        if end.is_some() && Instant::now() >= deadline {
            has_more = true;
            break;
        }
        voided += void(deployment, board, part, deadline).await?;
        let last = part.last().and_then(Timed::of);
        end = last.map(|last| Reached { before_ms, last });
    }
    if let Err(error) = settle(deployment, board, deadline).await {
        // The voids stand; readers of the history may just not see them yet.
        tracing::debug!(board = %board.no, %error, "voids wait for the database");
    }
    Ok(Step { voided, end, has_more })
}

/// Voids scores that still count. Returns their number.
async fn void(
    deployment: &Deployment,
    board: &Board,
    rows: &[score_event::Model],
    deadline: Instant,
) -> Result<usize> {
    let mut scores = vec![];
    for row in rows {
        scores.push((MemberId::new(&row.member)?, row.place()?));
    }
    let by_partition = deployment.by_partition(board, &scores, |(member, _)| member);
    let voids = by_partition.map(async |(partition, scores): (_, Vec<(MemberId, EventPlace)>)| {
        let members: BTreeSet<MemberId> = scores.iter().map(|(member, _)| member.clone()).collect();
        let members: Vec<MemberId> = members.into_iter().collect();
        let (mut left, mut voided) = (&scores[..], 0);
        while !left.is_empty() {
            let plan = Plan::Voids(Voids::of(&members, left));
            let done = amend_members((partition, board), plan, By::Client, deadline).await?;
            voided += done.events;
            left = &left[done.looked_at..];
        }
        Ok::<_, entity::Error>(voided)
    });
    Ok(try_join_all(voids).await?.into_iter().sum())
}
