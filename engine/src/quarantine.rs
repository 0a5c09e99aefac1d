//! Releases of quarantined scores: each becomes an event of its own time and event id.
//!
//! A score in quarantine is in no history. So its release is an ordinary score that came late, and
//! no fold knows of it. SQL notes first that a score is being released, and last that it is: a
//! release that was cut short is continued by another one, and the event id makes the score count
//! once.

use std::collections::{BTreeMap, HashSet};

use ranking::board::Board;
use ranking::id::{EventId, MemberId};
use ranking::metadata::Metadata;
use ranking::submission::effect::Report;
use ranking::submission::{Submission, Verdict};
use tokio::time::Instant;

use crate::deployment::Deployment;
use crate::failpoint;
use crate::partition::Partition;
use crate::partition::submit::Prepared;
use entity::board;
use entity::error::Result;
use entity::history::event_ids;
use entity::member::quarantine::{self, Model, OPEN, State};
use entity::sql::begin;

/// The most scores of one release, and of one commit.
pub const RELEASED_MAX: usize = 1000;

/// How often the scores of a board are submitted because the board changed meanwhile.
const TRIES_MAX: usize = 3;

/// The outcome of the release of a score.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Released {
    /// The score counts from now on.
    Done,
    /// The score counts already: it was released, or a score with its event id was accepted.
    Before,
    /// The score is voided.
    Voided,
    /// The board does not take the score, which stays in quarantine.
    Refused(ranking::Error),
}

/// Releases scores, and tells the outcome of each, by its number. Tries until `deadline`. Needs
/// SQL. May be called again.
///
/// # Errors
/// As [`Partition::submit`]; then some may have been released.
pub async fn release(
    deployment: &Deployment,
    rows: Vec<Model>,
    deadline: Instant,
) -> Result<BTreeMap<i64, Released>> {
    let mut outcomes = BTreeMap::new();
    let mut by_board: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for row in rows {
        match row.state {
            State::Held | State::Releasing => {
                by_board.entry(row.board_no).or_default().push(row.no)
            }
            State::Released => drop(outcomes.insert(row.no, Released::Before)),
            State::Voided => drop(outcomes.insert(row.no, Released::Voided)),
        }
    }
    for (board_no, numbers) in by_board {
        outcomes.extend(release_on(deployment, board_no, &numbers, deadline).await?);
    }
    Ok(outcomes)
}

/// Releases scores of a board.
async fn release_on(
    deployment: &Deployment,
    board_no: i64,
    numbers: &[i64],
    deadline: Instant,
) -> Result<BTreeMap<i64, Released>> {
    let db = &deployment.db;
    quarantine::advance(db, numbers, (&OPEN, State::Releasing), None).await?;
    failpoint::hit("releasing");
    let mut outcomes = BTreeMap::new();
    let mut left = vec![];
    for row in quarantine::of_numbers(db, numbers.iter().copied()).await? {
        match row.state {
            State::Releasing => left.push(row),
            State::Voided => drop(outcomes.insert(row.no, Released::Voided)),
            State::Held | State::Released => drop(outcomes.insert(row.no, Released::Before)),
        }
    }
    for _ in 0..TRIES_MAX {
        let Some(found) = board::living_of_numbers(db, &[board_no]).await?.remove(&board_no) else {
            break;
        };
        let board = found.to_ranking()?.without_admission();
        let mut by_partition: BTreeMap<_, Vec<Model>> = BTreeMap::new();
        for row in std::mem::take(&mut left) {
            let member = MemberId::new(&row.member)?;
            let no = deployment.store.partitions().of_member(&board, &member);
            by_partition.entry(no).or_default().push(row);
        }
        for (no, rows) in by_partition {
            for some in rows.chunks(RELEASED_MAX) {
                let told = release_in(deployment.partition(no), &board, some, deadline).await?;
                for (row, outcome) in some.iter().zip(told) {
                    match outcome {
                        Released::Refused(ranking::Error::BoardGone) => left.push(row.clone()),
                        outcome => drop(outcomes.insert(row.no, outcome)),
                    }
                }
            }
        }
        if left.is_empty() {
            break;
        }
    }
    let gone = |row: Model| (row.no, Released::Refused(ranking::Error::BoardGone));
    outcomes.extend(left.into_iter().map(gone));
    failpoint::hit("released");
    let now_ms = deployment.clock.now_ms();
    let those = |is_wanted: fn(&Released) -> bool| {
        let wanted = outcomes.iter().filter(|(_, outcome)| is_wanted(outcome));
        wanted.map(|(no, _)| *no).collect::<Vec<i64>>()
    };
    let counting = those(|outcome| matches!(outcome, Released::Done | Released::Before));
    let releasing: &[State] = &[State::Releasing];
    let transaction = begin(db).await?;
    quarantine::decide(&transaction, &counting, (releasing, State::Released), now_ms).await?;
    transaction.commit().await?;
    let refused = those(|outcome| matches!(outcome, Released::Refused(_)));
    quarantine::advance(db, &refused, (releasing, State::Held), None).await?;
    Ok(outcomes)
}

/// Submits scores of a partition that SQL does not have as events. Returns the outcomes in order.
async fn release_in(
    partition: Partition<'_>,
    board: &Board,
    rows: &[Model],
    deadline: Instant,
) -> Result<Vec<Released>> {
    // An id may be older than the dedup window, so the whole history is asked.
    partition.settle().await?;
    let mut known: HashSet<(String, String)> = HashSet::new();
    let mut by_member: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in rows {
        by_member.entry(&row.member).or_default().push(&row.event_id);
    }
    for (member, ids) in by_member {
        let found = event_ids::counting(&partition.db, board.no, member, ids).await?;
        known.extend(found.into_iter().map(|id| (member.to_owned(), id)));
    }
    let is_known = |row: &Model| known.contains(&(row.member.clone(), row.event_id.clone()));
    let mut submissions = vec![];
    for row in rows.iter().filter(|row| !is_known(row)) {
        submissions.push(submission_of(board, row)?);
    }
    let now_ms = partition.clock.now_ms();
    let verdicts = match submissions.is_empty() {
        true => vec![],
        false => {
            let prepared = Prepared::new(submissions, now_ms);
            partition.submit(prepared, None, deadline).await?.verdicts
        }
    };
    let mut verdicts = verdicts.into_iter();
    let verdict = |row: &Model| if is_known(row) { None } else { verdicts.next() };
    Ok(rows.iter().map(verdict).map(outcome).collect())
}

/// The outcome that a verdict means; none for a score that the history has.
fn outcome(verdict: Option<Verdict>) -> Released {
    match verdict {
        None | Some(Verdict::Duplicate { .. } | Verdict::Taken { .. }) => Released::Before,
        // Its id is known with another content, and that one counts.
        Some(Verdict::Rejected(ranking::Error::EventIdConflict(_))) => Released::Before,
        Some(Verdict::Accepted { .. }) => Released::Done,
        Some(Verdict::Rejected(error)) => Released::Refused(error),
        Some(Verdict::Quarantined { suspicion, message }) => {
            Released::Refused(ranking::Error::Suspicious(suspicion, message))
        }
    }
}

/// The score of a row.
fn submission_of(board: &Board, row: &Model) -> ranking::Result<Submission> {
    Ok(Submission {
        board: board.clone(),
        member: MemberId::new(&row.member)?,
        score: row.score,
        at_ms: Some(row.at_ms),
        event_id: Some(EventId::new(&row.event_id)?),
        segments: row.segments()?,
        metadata: row.metadata.as_deref().map(Metadata::stored),
        provenance: None,
        report: Report::Nothing,
    })
}
