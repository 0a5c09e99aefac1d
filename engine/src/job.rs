//! Batch jobs, running and ended: one of a kind at a time on a board, in the whole deployment.
//!
//! A running job's row is its lease. `running` names what it keeps others from, and is unique: whoever begins inserts a row, or is told who
//! was first. A task of its process renews the heartbeat. Where the process has ended (seen at once on the same machine), or its heartbeat
//! stays away for [`LEASE_MS`], whoever notices first ends the job as FAILED; the next may begin.
//!
//! A job on one board and one of that kind on all boards do not keep each other from running, and need not: whatever a job changes, it
//! changes by commits that name what they were folded onto. What makes a board's standings anew (REBUILD, RESTORE) is one kind here.

mod holder;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sea_orm::entity::prelude::*;
use sea_orm::{ActiveValue::Set, SqlErr};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use entity::error::Result;
use entity::job::{ActiveModel, Column, Entity, Model};

/// How long a job whose heartbeat stays away is taken to be running, in milliseconds. Clocks of machines that share a deployment differ by less.
pub const LEASE_MS: i64 = 60_000;

/// How often the heartbeat is renewed.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);

/// How often progress is written, where there is some.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// How often a row is tried for before whoever has it is believed to have it.
const ATTEMPTS_MAX: usize = 5;

/// The longest summary, in characters.
const SUMMARY_CHARS_MAX: usize = 10_000;

/// Whether a job could begin.
#[derive(Debug)]
pub enum Begun {
    /// It has.
    Running(Running),
    /// Another one of its kind is running.
    Taken(Box<Model>),
}

/// A job that this process runs. Dropped without an end it is no longer renewed; [`end_own`] ends what is left so.
#[derive(Debug)]
pub struct Running {
    db: DatabaseConnection,
    id: i64,
    said: Arc<Mutex<Said>>,
    renewal: AbortHandle,
}

/// What a running job says of itself.
#[derive(Debug, Clone, PartialEq, Default)]
struct Said {
    progress: f64,
    doing: Option<String>,
}

/// What a running job of a kind keeps others from, on a board or on all.
fn name(kind: &str, board_no: Option<i64>) -> String {
    let kind = match kind {
        "REBUILD" | "RESTORE" => "STANDINGS",
        kind => kind,
    };
    match board_no {
        Some(no) => format!("{kind}:{no}"),
        None => format!("{kind}:*"),
    }
}

/// Begins a job of a kind on a board or on all, unless one is running.
pub async fn begin(db: &DatabaseConnection, kind: &str, board_no: Option<i64>) -> Result<Begun> {
    let mut attempts = 0;
    loop {
        let now_ms = entity::now_ms();
        let row = ActiveModel {
            kind: Set(kind.to_owned()),
            board_no: Set(board_no),
            state: Set("RUNNING".to_owned()),
            progress: Set(0.0),
            started_at_ms: Set(now_ms),
            running: Set(Some(name(kind, board_no))),
            holder: Set(Some(holder::own().to_owned())),
            heartbeat_at_ms: Set(Some(now_ms)),
            ..Default::default()
        };
        let error = match Entity::insert(row).exec(db).await {
            Ok(inserted) => {
                return Ok(Begun::Running(Running::new(db, inserted.last_insert_id)));
            }
            Err(error) => error,
        };
        if !matches!(error.sql_err(), Some(SqlErr::UniqueConstraintViolation(_))) {
            return Err(error.into());
        }
        attempts += 1;
        let Some(other) = running(db, kind, board_no).await? else {
            // It has just ended.
            if attempts < ATTEMPTS_MAX {
                continue;
            }
            return Err(error.into());
        };
        if attempts >= ATTEMPTS_MAX || !is_dead(&other, now_ms) {
            return Ok(Begun::Taken(Box::new(other)));
        }
        bury(&other, db).await?;
    }
}

/// The job that is running where one of that kind, on a board or on all, would have to wait for it.
pub async fn running(
    db: &DatabaseConnection,
    kind: &str,
    board_no: Option<i64>,
) -> Result<Option<Model>> {
    let of_name = Entity::find().filter(Column::Running.eq(name(kind, board_no)));
    Ok(of_name.one(db).await?)
}

/// Whether a job of a kind on a board, or on all, failed since an instant, in Unix milliseconds.
pub async fn failed_since(
    db: &DatabaseConnection,
    kind: &str,
    board_no: Option<i64>,
    since_ms: i64,
) -> Result<bool> {
    let of_board = match board_no {
        Some(no) => Column::BoardNo.eq(no),
        None => Column::BoardNo.is_null(),
    };
    let failed = Entity::find()
        .filter(Column::FinishedAtMs.gt(since_ms))
        .filter(Column::State.eq("FAILED"))
        .filter(Column::Kind.eq(kind))
        .filter(of_board);
    Ok(failed.one(db).await?.is_some())
}

/// Ends the jobs whose processes are gone or silent, as FAILED.
pub async fn bury_dead(db: &DatabaseConnection) -> Result<()> {
    let now_ms = entity::now_ms();
    let running = Entity::find().filter(Column::Running.is_not_null());
    for job in running.all(db).await? {
        if is_dead(&job, now_ms) {
            bury(&job, db).await?;
        }
    }
    Ok(())
}

/// Ends what this process was at, as FAILED: it was told to stop, and whoever did the work is gone.
pub async fn end_own(db: &DatabaseConnection, why: &str) -> Result<()> {
    Entity::update_many()
        .set(ended("FAILED", why))
        .filter(Column::Running.is_not_null())
        .filter(Column::Holder.eq(holder::own()))
        .exec(db)
        .await?;
    Ok(())
}

/// What a job's row says once it has ended.
fn ended(state: &str, summary: &str) -> ActiveModel {
    ActiveModel {
        state: Set(state.to_owned()),
        finished_at_ms: Set(Some(entity::now_ms())),
        summary: Set(Some(summary.chars().take(SUMMARY_CHARS_MAX).collect())),
        running: Set(None),
        holder: Set(None),
        heartbeat_at_ms: Set(None),
        ..Default::default()
    }
}

impl Running {
    fn new(db: &DatabaseConnection, id: i64) -> Self {
        let said: Arc<Mutex<Said>> = Arc::default();
        Self {
            db: db.clone(),
            id,
            renewal: tokio::spawn(renew(db.clone(), id, said.clone())).abort_handle(),
            said,
        }
    }

    /// Says what it is at.
    pub fn at_stage(&self, doing: String) {
        self.say(|said| said.doing = Some(doing));
    }

    /// Says how far it is, from 0 to 1.
    pub fn progressed(&self, progress: f64) {
        self.say(|said| said.progress = progress.clamp(said.progress, 1.0));
    }

    fn say(&self, change: impl FnOnce(&mut Said)) {
        change(&mut self.said.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Ends it with its figures, or with why it failed.
    ///
    /// # Errors
    /// What SQL says; the job is then taken for dead once its lease is over.
    pub async fn end(&self, outcome: std::result::Result<&str, &str>) -> Result<()> {
        let mut row = match outcome {
            Ok(figures) => ended("DONE", figures),
            Err(why) => ended("FAILED", why),
        };
        if outcome.is_ok() {
            row.progress = Set(1.0);
        }
        let ended = Entity::update_many()
            .set(row)
            .filter(Column::Id.eq(self.id))
            .filter(Column::Running.is_not_null())
            .exec(&self.db)
            .await?;
        if ended.rows_affected == 0 {
            tracing::warn!(job = self.id, "a job was taken for dead before it ended");
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.renewal.abort();
    }
}

/// Renews a job's heartbeat and writes its progress, until it is aborted or the job is ended by somebody else.
async fn renew(db: DatabaseConnection, id: i64, said: Arc<Mutex<Said>>) {
    let (mut written, mut renewed) = (Said::default(), Instant::now());
    loop {
        sleep(PROGRESS_INTERVAL).await;
        let now = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if now == written && renewed.elapsed() < HEARTBEAT_INTERVAL {
            continue;
        }
        let row = ActiveModel {
            progress: Set(now.progress),
            summary: Set(now.doing.clone()),
            heartbeat_at_ms: Set(Some(entity::now_ms())),
            ..Default::default()
        };
        let renewing = Entity::update_many()
            .set(row)
            .filter(Column::Id.eq(id))
            .filter(Column::Running.is_not_null())
            .exec(&db);
        match renewing.await {
            Ok(result) if result.rows_affected == 0 => return,
            Ok(_) => (written, renewed) = (now, Instant::now()),
            Err(error) => tracing::debug!(%error, job = id, "a heartbeat was not written"),
        }
    }
}

/// Whether its process has ended, or has been silent for too long.
fn is_dead(job: &Model, now_ms: i64) -> bool {
    let is_silent = |at_ms: i64| now_ms - at_ms > LEASE_MS;
    job.heartbeat_at_ms.is_some_and(is_silent) || job.holder.as_deref().is_some_and(holder::is_gone)
}

/// Ends it, unless its process, or another one, was first.
async fn bury(job: &Model, db: &DatabaseConnection) -> Result<()> {
    Entity::update_many()
        .set(ended("FAILED", "its process ended without a word"))
        .filter(Column::Id.eq(job.id))
        .filter(Column::Running.is_not_null())
        .filter(Column::HeartbeatAtMs.eq(job.heartbeat_at_ms))
        .exec(db)
        .await?;
    Ok(())
}
