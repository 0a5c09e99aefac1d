//! Erasures of members: afterwards SQL and Redis have nothing that names the member, and everybody
//! else's standings are as before.
//!
//! One record decides an erasure, and each step can be repeated by any process:
//!
//! 1. `HELD`. Every partition marks the member, and accepts nothing for it. SQL then has its whole
//!    history, which does not change. A member that cannot be erased is `REFUSED`: every partition
//!    frees it, and then the record goes. If its scores are to stay, it is merged into a random key
//!    before the next step; archived ones by a program that can read the archive's files.
//! 2. `ERASING`. Board by board, the member is removed. Then its events go, while their commits
//!    keep the leaves: archived ones first, by a program that can write the archive's files again.
//!    Last, in one transaction, its other rows go.
//! 3. `RELEASING`. Every partition forgets the member, and drops the commits that SQL has from its
//!    log.
//! 4. `DONE`. The record no longer names the member: it is the receipt.

mod scrub;

use ranking::commit::content::to_hex;
use ranking::id::{BoardNo, MemberId};
use tokio::time::Instant;

use crate::deployment::Deployment;
use crate::deployment::checksum::sha256_of;
use crate::failpoint;
use crate::history::amend::{Amended, By, Plan, amend_members, void_dead_letters};
use crate::history::archive::erasing::places;
use crate::merge::{
    ArchivedEvents, Merged, RESUME_TIMEOUT, RESUMED_AFTER, anonymize, boards_of, tell_members,
};
use entity::deployment::clock::sql_now_ms;
use entity::error::{Error, Result};
use entity::history::dead_letter;
use entity::member::ban;
use entity::member::erasure::{self, Mode, Model, Step};
use entity::member::merge;
use entity::member::visibility::{self, Visibility};
use entity::sql::begin;
use entity::{board, member};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};

/// The result of an erasure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Erased {
    /// Nothing of the member is left: the receipt.
    Done(Model),
    /// The erasure is decided, and the background work goes on with it.
    UnderWay(Model),
    /// There is no such member.
    NoSuchMember,
}

/// Erases a member, until `deadline`. Needs SQL. May be called again: an erasure that is under way
/// keeps its mode.
///
/// # Errors
/// `Invalid` if others were merged into the member, or if its scores are to stay and it is banned;
/// nothing is erased then. `Unavailable` while it takes part in a merge, its bans change, or a
/// board moves to another number of shards.
pub async fn erase(
    deployment: &Deployment,
    member: &MemberId,
    mode: Mode,
    deadline: Instant,
) -> Result<Erased> {
    let row = match erasure::of(&deployment.db, member.as_str()).await? {
        Some(row) => row,
        None => match start(deployment, member, mode).await? {
            Some(row) => row,
            None => return Ok(Erased::NoSuchMember),
        },
    };
    go_on(deployment, row, None, deadline).await
}

/// Goes on with erasures whose processes may have ended.
pub async fn resume(deployment: &Deployment) -> Result<()> {
    let before_ms = sql_now_ms(&deployment.db).await? - RESUMED_AFTER.as_millis() as i64;
    for row in erasure::under_way(&deployment.db, before_ms).await? {
        if row.step == Step::Held && waits_for_files(deployment, &row).await? {
            continue;
        }
        let deadline = Instant::now() + RESUME_TIMEOUT;
        let id = row.id.clone();
        if let Err(error) = go_on(deployment, row, None, deadline).await {
            tracing::warn!(id, %error, "an erasure waits");
        }
    }
    Ok(())
}

/// Checks that members are not being erased.
///
/// # Errors
/// `Unavailable` if one of them is.
pub(crate) async fn check_not_erasing(deployment: &Deployment, keys: &[&str]) -> Result<()> {
    let rows = erasure::of_any(&deployment.db, keys.iter().copied()).await?;
    match rows.is_empty() {
        true => Ok(()),
        false => Err(ranking::Error::Unavailable(
            "the member is being erased: try again in a few seconds".into(),
        )
        .into()),
    }
}

/// Records an erasure. Returns `None` if there is no such member.
async fn start(deployment: &Deployment, member: &MemberId, mode: Mode) -> Result<Option<Model>> {
    let (db, key) = (&deployment.db, member.as_str());
    check_free(deployment, member).await?;
    let is_known = async || {
        let is_banned = ban::of(db, key).await?.is_some();
        Ok::<_, Error>(is_banned || member::find(db, key).await?.is_some())
    };
    if !is_known().await? {
        // Its first score may be on its way.
        for partition in deployment.partitions() {
            partition.settle().await?;
        }
        if !is_known().await? && !scrub::has_quarantined(db, key).await? {
            return Ok(None);
        }
    }
    let salt = to_hex(&rand::random::<[u8; 16]>());
    let row = Model {
        id: entity::random_id(),
        member: Some(key.to_owned()),
        step: Step::Held,
        hash: sha256_of(format!("{salt}\n{key}").as_bytes()),
        salt,
        counts: "{}".to_owned(),
        started_at_ms: sql_now_ms(db).await?,
        erased_at_ms: None,
        mode,
        target: (mode == Mode::Anonymize).then(|| format!("erased-{}", entity::random_id())),
    };
    erasure::insert(db, row).await?;
    let row = erasure::of(db, key).await?.ok_or_else(overtaken)?;
    // A merge or a ban may have been recorded at the same time.
    if let Err(error) = check_free(deployment, member).await {
        take_back(deployment, &row).await?;
        return Err(error);
    }
    Ok(Some(row))
}

/// Checks that no merge, ban or move of a board is under way that the erasure would meet.
async fn check_free(deployment: &Deployment, member: &MemberId) -> Result<()> {
    let (db, key) = (&deployment.db, member.as_str());
    let unavailable = |why: &str| Err(Error::from(ranking::Error::Unavailable(why.into())));
    let merging = merge::of(db, key).await?.is_some_and(|row| row.step != merge::Step::Done);
    if merging || merge::other(db, key, key).await?.is_some() {
        return unavailable("the member is being merged: try again once that is over");
    }
    if ban::of(db, key).await?.is_some_and(|row| row.step != ban::Step::Settled) {
        return unavailable("the member's bans are changing: try again once that is over");
    }
    let moving = board::living().filter(board::Column::Reshard.is_not_null()).one(db).await?;
    if moving.is_some() {
        return unavailable("a board is moving to another number of shards: try again afterwards");
    }
    Ok(())
}

/// Checks that the member can be erased. It is held, so what is found stays true.
async fn check(deployment: &Deployment, member: &MemberId) -> Result<()> {
    let (db, key) = (&deployment.db, member.as_str());
    let into = merge::Entity::find().filter(merge::Column::Target.eq(key)).one(db).await?;
    if let Some(row) = into {
        return Err(ranking::Error::Invalid(format!(
            "{} was merged into this member: expected it to be erased before",
            ranking::shown(&row.source)
        ))
        .into());
    }
    let pending = dead_letter::pending(db, None).await?;
    let is_own = |row: &dead_letter::Model| row.event().is_ok_and(|(_, of)| of.member == *member);
    if pending.iter().any(is_own) {
        void_dead_letters(deployment).await?;
    }
    Ok(())
}

fn overtaken() -> Error {
    Error::Overtaken("this erasure is over".into())
}

/// Takes back an erasure that is not decided. The row stays until all partitions know.
async fn take_back(deployment: &Deployment, row: &Model) -> Result<()> {
    let db = &deployment.db;
    erasure::advance(db, row, Step::Refused).await?;
    failpoint::hit("erasure-refused");
    let now = erasure::find(db, &row.id).await?;
    if let Some(refused) = now.filter(|now| now.step == Step::Refused) {
        tell_members(deployment, vec![refused.member_id()?]).await?;
        erasure::forget(db, &refused).await?;
    }
    Ok(())
}

/// Does the steps of an erasure from the one that its row has, up to where files of the archive are
/// in the way. A program that reads these files passes all archived events of the member.
///
/// # Errors
/// As [`erase`].
pub async fn go_on(
    deployment: &Deployment,
    mut row: Model,
    archived: Option<&ArchivedEvents>,
    deadline: Instant,
) -> Result<Erased> {
    let db = &deployment.db;
    loop {
        let done = match row.step {
            Step::Done => return Ok(Erased::Done(row)),
            Step::Held => match hold(deployment, &row, archived, deadline).await {
                Ok(false) => return Ok(Erased::UnderWay(row)),
                held => held.map(drop),
            },
            Step::Refused => {
                take_back(deployment, &row).await?;
                return Err(overtaken());
            }
            Step::Erasing => match carry_out(deployment, &row, deadline).await {
                Ok(Deleted::UpToFiles) => return Ok(Erased::UnderWay(row)),
                done => done.map(drop),
            },
            Step::Releasing => scrub::release(deployment, &row).await,
        };
        match done {
            Ok(()) => {}
            Err(error) if error.is_transient() && row.step != Step::Held => {
                tracing::info!(id = row.id, %error, "an erasure is decided and goes on later");
                return Ok(Erased::UnderWay(row));
            }
            Err(error) => return Err(error),
        }
        row = erasure::find(db, &row.id).await?.ok_or_else(overtaken)?;
        if row.step != Step::Done && Instant::now() >= deadline {
            return Ok(Erased::UnderWay(row));
        }
    }
}

/// Tells all partitions to hold the member, and decides the erasure, or refuses it. Returns false
/// if its scores are still being given to a random key.
async fn hold(
    deployment: &Deployment,
    row: &Model,
    archived: Option<&ArchivedEvents>,
    deadline: Instant,
) -> Result<bool> {
    failpoint::hit("erasure-recorded");
    let (db, member) = (&deployment.db, row.member_id()?);
    tell_members(deployment, vec![member.clone()]).await?;
    failpoint::hit("erasure-held");
    match prepare(deployment, (row, &member), archived, deadline).await {
        Ok(false) => Ok(false),
        Ok(true) => {
            erasure::forget_target(db, row, Step::Erasing).await?;
            failpoint::hit("erasure-decided");
            Ok(true)
        }
        Err(error) if error.is_transient() => Err(error),
        Err(error) => {
            // A merge that is decided goes on to its end, and so does the erasure.
            if merge::of(db, member.as_str()).await?.is_none() {
                take_back(deployment, row).await?;
            }
            Err(error)
        }
    }
}

/// Checks that the member can be erased, and gives its scores to the random key if they are to
/// stay. Returns false while that goes on.
async fn prepare(
    deployment: &Deployment,
    (row, member): (&Model, &MemberId),
    archived: Option<&ArchivedEvents>,
    deadline: Instant,
) -> Result<bool> {
    check(deployment, member).await?;
    let Some(target) = row.target_id()? else { return Ok(true) };
    if archived.is_none() && waits_for_files(deployment, row).await? {
        return Ok(false);
    }
    let merged = anonymize(deployment, [member, &target], archived, deadline).await?;
    failpoint::hit("erasure-anonymized");
    Ok(merged != Merged::UnderWay)
}

/// How far the deletion of a member's rows is.
enum Deleted {
    /// All of them are deleted.
    All,
    /// Files of the archive may have events of the member. [`waits_for_files`] tells so until they
    /// have none.
    UpToFiles,
}

/// Takes the member off its boards, and deletes its rows.
async fn carry_out(deployment: &Deployment, row: &Model, deadline: Instant) -> Result<Deleted> {
    let member = row.member_id()?;
    take_off_boards(deployment, row, deadline).await?;
    failpoint::hit("erasure-removed");
    show(deployment, &member).await?;
    // A fold of events in files needs the removals in SQL, so these go later.
    if scrub::waits_for_files(&deployment.db, row, &member).await? {
        return Ok(Deleted::UpToFiles);
    }
    scrub::delete_events(deployment, row, &member, deadline).await?;
    // An archive that read them before may be writing them to a file.
    if scrub::waits_for_files(&deployment.db, row, &member).await? {
        return Ok(Deleted::UpToFiles);
    }
    scrub::delete_rest(deployment, row, &member).await?;
    failpoint::hit("erasure-deleted");
    Ok(Deleted::All)
}

/// Takes the member of an erasure off its boards, and waits until SQL has that. From there on its
/// events count nowhere.
///
/// # Errors
/// `Overtaken` at the deadline; if a store does not answer.
pub async fn take_off_boards(
    deployment: &Deployment,
    row: &Model,
    deadline: Instant,
) -> Result<()> {
    let member = row.member_id()?;
    for found in boards_of(deployment, member.as_str()).await? {
        take_off(deployment, &member, BoardNo(found.no), deadline).await?;
    }
    Ok(())
}

/// True if an erasure goes on once files of the archive or of the lake are read and written again,
/// or finished.
///
/// # Errors
/// If SQL does not answer.
pub async fn waits_for_files(deployment: &Deployment, row: &Model) -> Result<bool> {
    match &row.member {
        Some(_) if row.step == Step::Erasing => {
            scrub::waits_for_files(&deployment.db, row, &row.member_id()?).await
        }
        Some(member) if row.step == Step::Held && row.target.is_some() => {
            Ok(!places(&deployment.db, member).await?.is_empty())
        }
        _ => Ok(false),
    }
}

/// Makes the member public, as it has nothing to show any more: processes that remember who has
/// hidden learn of it before the row goes.
async fn show(deployment: &Deployment, member: &MemberId) -> Result<()> {
    if visibility::is_stored(&deployment.db, member.as_str()).await? {
        let transaction = begin(&deployment.db).await?;
        let public = [(member.to_string(), Visibility::Public)].into();
        visibility::set(&transaction, &public).await?;
        transaction.commit().await?;
    }
    Ok(())
}

/// Removes the member from a board, and waits until SQL has the removal.
async fn take_off(
    deployment: &Deployment,
    member: &MemberId,
    no: BoardNo,
    deadline: Instant,
) -> Result<()> {
    loop {
        if Instant::now() >= deadline {
            return Err(Error::Overtaken("an erasure takes long".into()));
        }
        let found = board::living_of_numbers(&deployment.db, &[no.0]).await?.remove(&no.0);
        let Some(found) = found else { return Ok(()) };
        let board = found.to_ranking()?;
        let of_member = deployment.store.partitions().of_member(&board, member);
        let partition = deployment.partition(of_member);
        let plan = Plan::Removal(std::slice::from_ref(member));
        match amend_members((partition, &board), plan, By::Upkeep, deadline).await {
            Ok(done) => {
                partition.settle().await?;
                if done.amended == Amended::Nothing {
                    return Ok(());
                }
            }
            Err(Error::Ranking(ranking::Error::BoardGone)) => {}
            Err(error) => return Err(error),
        }
    }
}
