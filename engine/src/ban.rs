//! Bans of members, from one board or from all: kept, not ranked, lifted again.
//!
//! A ban takes the member off its boards by removals, which it marks by their event id; a lift
//! voids these removals, which gives everything back. So the history alone gives the standings, as
//! before.
//! One record for each member decides, and each step can be repeated by any process:
//!
//! 1. `CHANGING`. Every partition marks the member, and ranks no score of it on these boards. SQL
//!    then has all that was ranked before. Board by board, the member is removed; or the removal is
//!    voided, where a ban is lifted.
//! 2. `RELEASING`, of a lift. The process tells every partition that the member is back, and
//!    releases the scores that were quarantined meanwhile.
//! 3. `SETTLED`.
//!
//! Each step has a version of its own. A process tells a partition of a step by a commit, and reads
//! the record after the head. So one that slept through a step writes nothing of an earlier one.

use ranking::board::Board;
use ranking::commit::EventPlace;
use ranking::id::MemberId;
use serde_json::json;
use tokio::time::Instant;

use crate::deployment::Deployment;
use crate::failpoint;
use crate::history::amend::{Amended, By, Plan, Voids, amend_members, counting_ban_removals};
use crate::merge::{
    RESUME_TIMEOUT, RESUMED_AFTER, boards_of, check_takes_part_in_none, tell_members,
};
use crate::quarantine::{RELEASED_MAX, Released, release};
use entity::board;
use entity::deployment::clock::sql_now_ms;
use entity::error::{Error, Result};
use entity::member::ban::{self, BOARDS_MAX, EVERYWHERE, Model, Step, Terms, removal};
use entity::member::quarantine;
use entity::webhook::outbox::Notice;

/// The removals of one SELECT.
const REMOVALS_MAX: u64 = 100;

/// The result of a change of a member's bans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// The change is done.
    Done,
    /// The change is decided, and the background work goes on with it.
    UnderWay,
    /// There was nothing to change: no such ban to lift.
    Nothing,
}

/// Bans a member from a board or all of them, or changes the terms of a ban, until `deadline`.
/// Needs SQL. May be called again.
///
/// # Errors
/// `LimitExceeded` for more than [`BOARDS_MAX`] boards; `MemberMerged` for a member that was merged
/// into another one; `Unavailable` while it takes part in a merge.
pub async fn ban(
    deployment: &Deployment,
    member: &MemberId,
    terms: Terms,
    deadline: Instant,
) -> Result<Changed> {
    let db = &deployment.db;
    loop {
        check_takes_part_in_none(deployment, member).await?;
        let row = settled(deployment, member, deadline).await?;
        let mut all = row.terms()?;
        match all.iter_mut().find(|known| known.board == terms.board) {
            Some(known) => *known = Terms { since_ms: known.since_ms, ..terms.clone() },
            None => all.push(terms.clone()),
        }
        if all.iter().filter(|terms| terms.board != EVERYWHERE).count() > BOARDS_MAX {
            return Err(ranking::Error::LimitExceeded(format!(
                "{member} is banned from {BOARDS_MAX} boards: expected at most so many, or a ban from all boards"
            ))
            .into());
        }
        let next = row.changed(&all, &[], sql_now_ms(db).await?);
        let told = notices(deployment, &next, "BANNED", std::slice::from_ref(&terms)).await?;
        if !ban::replace_told(db, (&row, &next), &told).await? {
            continue;
        }
        // A merge may have been recorded at the same time.
        if let Err(refusal) = check_takes_part_in_none(deployment, member).await {
            let before = row.terms()?;
            let is_new = before.iter().all(|known| known.board != terms.board);
            let lifted = if is_new { vec![terms] } else { vec![] };
            let back = next.changed(&before, &lifted, sql_now_ms(db).await?);
            let told = notices(deployment, &back, "BAN_LIFTED", &lifted).await?;
            if ban::replace_told(db, (&next, &back), &told).await? {
                go_on(deployment, back, deadline).await?;
            }
            return Err(refusal);
        }
        return go_on(deployment, next, deadline).await;
    }
}

/// Lifts a ban from a board, or that from all boards, until `deadline`. Needs SQL. May be called
/// again.
///
/// # Errors
/// `Invalid` if archived events prevent it; the ban stays then. `Unavailable` if it cannot be done
/// now.
pub async fn lift(
    deployment: &Deployment,
    member: &MemberId,
    board_no: i64,
    deadline: Instant,
) -> Result<Changed> {
    let db = &deployment.db;
    loop {
        let row = settled(deployment, member, deadline).await?;
        let (lifted, left): (Vec<Terms>, Vec<Terms>) =
            row.terms()?.into_iter().partition(|terms| terms.board == board_no);
        if lifted.is_empty() {
            return Ok(Changed::Nothing);
        }
        let next = row.changed(&left, &lifted, sql_now_ms(db).await?);
        let told = notices(deployment, &next, "BAN_LIFTED", &lifted).await?;
        if ban::replace_told(db, (&row, &next), &told).await? {
            return go_on(deployment, next, deadline).await;
        }
    }
}

/// The events that tell of bans which a row's next one has or no longer has.
async fn notices(
    deployment: &Deployment,
    next: &Model,
    change: &str,
    terms: &[Terms],
) -> Result<Vec<Notice>> {
    let numbers: Vec<i64> = terms.iter().map(|terms| terms.board).collect();
    let boards = board::of_numbers(&deployment.db, &numbers).await?;
    let notice = |terms: &Terms| {
        let board = boards.iter().find(|board| board.no == terms.board);
        let more = json!({
            "board": board.map(|board| &board.slug),
            "shadow": terms.shadow,
            "reason": terms.reason,
        });
        let told = Notice::of_member(&next.member, change, more, next.changed_at_ms);
        Notice { board_no: board.map(|board| board.no), ..told }
    };
    Ok(terms.iter().map(notice).collect())
}

/// Goes on with changes whose processes may have ended.
pub async fn resume(deployment: &Deployment) -> Result<()> {
    let before_ms = sql_now_ms(&deployment.db).await? - RESUMED_AFTER.as_millis() as i64;
    for row in ban::under_way(&deployment.db, before_ms).await? {
        let deadline = Instant::now() + RESUME_TIMEOUT;
        let member = row.member.clone();
        if let Err(error) = go_on(deployment, row, deadline).await {
            tracing::warn!(member, %error, "a change of a member's bans waits");
        }
    }
    Ok(())
}

/// Checks that members are not banned.
///
/// # Errors
/// `Invalid` if one of them is; `Unavailable` while a ban is being lifted.
pub(crate) async fn check_unbanned(deployment: &Deployment, keys: [&str; 2]) -> Result<()> {
    for row in ban::of_any(&deployment.db, keys).await? {
        if !row.terms()?.is_empty() {
            return Err(ranking::Error::Invalid(format!(
                "{} is banned and cannot take part in a merge: expected its bans to be lifted before",
                row.member
            ))
            .into());
        }
        if row.step != Step::Settled {
            return Err(ranking::Error::Unavailable(format!(
                "a ban of {} is being lifted: try again once that is over",
                row.member
            ))
            .into());
        }
    }
    Ok(())
}

/// The member's row once no change is under way.
///
/// # Errors
/// `Overtaken` if that takes too long.
async fn settled(deployment: &Deployment, member: &MemberId, deadline: Instant) -> Result<Model> {
    loop {
        let row = ban::of(&deployment.db, member.as_str()).await?;
        let row = row.unwrap_or_else(|| Model::none(member.as_str()));
        if row.step == Step::Settled {
            return Ok(row);
        }
        if go_on(deployment, row, deadline).await? == Changed::UnderWay {
            return Err(Error::Overtaken("a change of the member's bans takes long".into()));
        }
    }
}

/// Does the steps of a change from the one that its row has. If a lift is refused, its bans are in
/// force again, and what was voided before is removed again.
async fn go_on(deployment: &Deployment, mut row: Model, deadline: Instant) -> Result<Changed> {
    let db = &deployment.db;
    let mut refused = None;
    loop {
        let mut told = vec![];
        let done = match row.step {
            Step::Settled => return refused.map_or(Ok(Changed::Done), Err),
            Step::Changing => change(deployment, &row, deadline).await,
            Step::Releasing => release_all(deployment, &row, deadline).await,
        };
        let next = match done {
            Ok(next) => next,
            Err(error) if error.is_transient() => {
                tracing::info!(member = row.member, %error, "a change of bans goes on later");
                return refused.map_or(Ok(Changed::UnderWay), Err);
            }
            Err(error) => {
                let mut terms = row.terms()?;
                let lifted = row.lifted()?;
                if row.step != Step::Changing || lifted.is_empty() {
                    return Err(error);
                }
                terms.extend(lifted.iter().cloned());
                refused = Some(error);
                let next = row.changed(&terms, &[], sql_now_ms(db).await?);
                told = notices(deployment, &next, "BANNED", &lifted).await?;
                next
            }
        };
        ban::replace_told(db, (&row, &next), &told).await?;
        failpoint::hit("ban-advanced");
        let now = ban::of(db, &row.member).await?;
        row = now.ok_or_else(|| Error::Overtaken("the bans of a member are gone".into()))?;
    }
}

/// Marks the member, takes it off the boards that it is banned from, and puts it back on the
/// others. Returns the row at its next step.
async fn change(deployment: &Deployment, row: &Model, deadline: Instant) -> Result<Model> {
    let db = &deployment.db;
    failpoint::hit("ban-recorded");
    let member = MemberId::new(&row.member)?;
    tell_members(deployment, vec![member.clone()]).await?;
    failpoint::hit("ban-told");
    let lifted = row.lifted()?;
    let terms = row.terms()?;
    let is_banned = |no: i64| terms.iter().any(|of| [no, EVERYWHERE].contains(&of.board));
    for found in boards_of(deployment, &row.member).await? {
        if is_banned(found.no) {
            removal::note(db, &row.member, found.no).await?;
            take_off(deployment, (row, &member), found.no, deadline).await?;
        }
    }
    let mut after = 0;
    while !lifted.is_empty() {
        let boards = removal::boards_after(db, &row.member, after, REMOVALS_MAX).await?;
        let Some(last) = boards.last() else { break };
        after = *last;
        for no in boards.into_iter().filter(|no| !is_banned(*no)) {
            put_back(deployment, (row, &member), no, deadline).await?;
            removal::forget(db, &row.member, no).await?;
        }
    }
    Ok(row.at_step(if lifted.is_empty() { Step::Settled } else { Step::Releasing }))
}

/// The present rules of a board; `None` once it is deleted.
async fn living(deployment: &Deployment, no: i64) -> Result<Option<Board>> {
    let found = board::living_of_numbers(&deployment.db, &[no]).await?.remove(&no);
    Ok(found.map(|found| found.to_ranking()).transpose()?)
}

/// Removes the member from a board, and waits until SQL has the removal.
async fn take_off(
    deployment: &Deployment,
    (row, member): (&Model, &MemberId),
    no: i64,
    deadline: Instant,
) -> Result<()> {
    while let Some(board) = living(deployment, no).await? {
        let plan = Plan::Ban { member, version: row.version };
        if amended(deployment, &board, plan, member, deadline).await? == Some(Amended::Nothing) {
            return Ok(());
        }
        failpoint::hit("ban-removed");
    }
    Ok(())
}

/// Voids the removals of bans from a board, and waits until SQL has the voids.
async fn put_back(
    deployment: &Deployment,
    (row, member): (&Model, &MemberId),
    no: i64,
    deadline: Instant,
) -> Result<()> {
    while let Some(board) = living(deployment, no).await? {
        let targets: Vec<EventPlace> =
            counting_ban_removals(&deployment.db, &board, member).await?;
        if targets.is_empty() {
            return Ok(());
        }
        for target in targets {
            let targets = [(member.clone(), target)];
            let plan = Plan::Lift { of: Voids::of_one(&targets), version: row.version };
            amended(deployment, &board, plan, member, deadline).await?;
            failpoint::hit("ban-voided");
        }
    }
    Ok(())
}

/// Makes a change of the member's history on a board, and waits until SQL has it. `None` if the
/// board changed meanwhile.
async fn amended(
    deployment: &Deployment,
    board: &Board,
    plan: Plan<'_>,
    member: &MemberId,
    deadline: Instant,
) -> Result<Option<Amended>> {
    if Instant::now() >= deadline {
        return Err(Error::Overtaken("a change of bans takes long".into()));
    }
    let partition = deployment.partition(deployment.store.partitions().of_member(board, member));
    match amend_members((partition, board), plan, By::Upkeep, deadline).await {
        Ok(done) => {
            partition.settle().await?;
            Ok(Some(done.amended))
        }
        Err(Error::Ranking(ranking::Error::BoardGone)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Tells all partitions that the member is back, and releases what was quarantined meanwhile.
/// Returns the row at its next step.
async fn release_all(deployment: &Deployment, row: &Model, deadline: Instant) -> Result<Model> {
    tell_members(deployment, vec![MemberId::new(&row.member)?]).await?;
    failpoint::hit("ban-untold");
    for Terms { board, .. } in row.lifted()? {
        let board_no = (board != EVERYWHERE).then_some(board);
        let mut after = 0;
        loop {
            let of_ban = (row.member.as_str(), board_no);
            let page = quarantine::of_ban(&deployment.db, of_ban, after, RELEASED_MAX).await?;
            let (mut rows, more) = page;
            after = rows.last().map_or(after, |row| row.no);
            let mut is_free = Ok(());
            rows.retain(|held| match row.terms_on(held.board_no) {
                Ok(terms) => terms.is_none(),
                Err(error) => {
                    is_free = Err(error);
                    false
                }
            });
            is_free?;
            for outcome in release(deployment, rows, deadline).await?.into_values() {
                // A score that the board does not take stays in quarantine, for a moderator.
                if let Released::Refused(error) = outcome
                    && Error::Ranking(error.clone()).is_transient()
                {
                    return Err(error.into());
                }
            }
            if !more {
                break;
            }
            if Instant::now() >= deadline {
                return Err(Error::Overtaken("a lift takes long".into()));
            }
        }
    }
    Ok(row.at_step(Step::Settled))
}
