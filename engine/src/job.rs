//! Leases of batch jobs: one job of a kind at a time on a board, in the whole deployment.
//!
//! A running job's row is its lease. The column `running` holds the lease's name and is unique: a
//! process that begins a job inserts a row, or learns which job was first. A task of the process
//! renews the heartbeat, by SQL's clock. The next process to look ends the job as FAILED if its
//! process has ended (seen at once on the same machine), or if its heartbeat is older than
//! [`LEASE_MS`].
//!
//! A job on one board and a job of the same kind on all boards do not exclude each other. They need
//! not: jobs change data only by commits that name the head that they were folded onto. REBUILD and
//! RESTORE both rebuild a board's standings, and share one lease.
//!
//! Several processes may [share](shared) one job.

pub mod holder;
pub mod part;
pub mod shared;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sea_orm::entity::prelude::*;
use sea_orm::{ActiveValue::Set, Condition, SqlErr};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use entity::deployment::clock::{Clock, sql_now, sql_now_ms};
use entity::error::Result;
use entity::job::{ActiveModel, Column, Entity, Model, REBUILD, RESTORE, State};
use entity::sql::begin as begin_transaction;

/// The age of a heartbeat by SQL's clock up to which its job counts as running, in milliseconds.
pub const LEASE_MS: i64 = 60_000;

/// The interval of heartbeats.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);

/// The longest time of one heartbeat. A few that fail leave the job running.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(10);

/// The interval at which changed progress is written.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// The number of inserts before [`begin`] reports the lease as taken, or fails if its row keeps
/// vanishing.
const ATTEMPTS_MAX: usize = 5;

/// The longest summary, in characters.
const SUMMARY_CHARS_MAX: usize = 10_000;

/// The result of [`begin`].
#[derive(Debug)]
pub enum Begun {
    /// This process runs the job.
    Running(Running),
    /// Another job holds the lease.
    Taken(Box<Model>),
}

/// A job that this process runs. If it is dropped before [`Running::end`], its heartbeat stops;
/// [`end_own`] ends such jobs.
#[derive(Debug)]
pub struct Running {
    db: DatabaseConnection,
    clock: Clock,
    id: i64,
    reporter: Reporter,
}

/// Renews the heartbeat of a job or a part, and writes its progress, until it is dropped.
#[derive(Debug)]
pub struct Reporter {
    said: Arc<Mutex<Said>>,
    renewal: AbortHandle,
}

/// A row with a heartbeat.
#[derive(Debug, Clone, Copy)]
enum Row {
    /// A job that one process runs.
    Job(i64),
    /// A part of a job.
    Part { job_id: i64, part: i32 },
}

/// Progress that a running job reports.
#[derive(Debug, Clone, PartialEq, Default)]
struct Said {
    progress: f64,
    doing: Option<String>,
}

/// The name of the lease that a job of a kind takes, on a board or on all.
fn name(kind: &str, board_no: Option<i64>) -> String {
    let kind = match kind {
        REBUILD | RESTORE => "STANDINGS",
        kind => kind,
    };
    match board_no {
        Some(no) => format!("{kind}:{no}"),
        None => format!("{kind}:*"),
    }
}

/// Begins a job of a kind on a board or on all boards, unless another job holds the lease.
pub async fn begin(
    db: &DatabaseConnection,
    clock: &Clock,
    kind: &str,
    board_no: Option<i64>,
) -> Result<Begun> {
    let mut attempts = 0;
    loop {
        let (now_ms, sql_ms) = (clock.now_ms(), sql_now_ms(db).await?);
        let row = ActiveModel {
            kind: Set(kind.to_owned()),
            board_no: Set(board_no),
            state: Set(State::Running),
            progress: Set(0.0),
            started_at_ms: Set(now_ms),
            running: Set(Some(name(kind, board_no))),
            holder: Set(Some(holder::own().to_owned())),
            heartbeat_at_ms: Set(Some(sql_ms)),
            ..Default::default()
        };
        let error = match Entity::insert(row).exec(db).await {
            Ok(inserted) => {
                return Ok(Begun::Running(Running::new(db, clock, inserted.last_insert_id)));
            }
            Err(error) => error,
        };
        if !matches!(error.sql_err(), Some(SqlErr::UniqueConstraintViolation(_))) {
            return Err(error.into());
        }
        attempts += 1;
        let Some(other) = running(db, kind, board_no).await? else {
            // That job has just ended.
            if attempts < ATTEMPTS_MAX {
                continue;
            }
            return Err(error.into());
        };
        if attempts >= ATTEMPTS_MAX || !is_dead(&other, sql_ms) {
            return Ok(Begun::Taken(Box::new(other)));
        }
        end_as_failed(&other, db, now_ms).await?;
    }
}

/// The running job that holds the lease which a job of this kind would need, on a board or on all.
pub async fn running(
    db: &DatabaseConnection,
    kind: &str,
    board_no: Option<i64>,
) -> Result<Option<Model>> {
    let of_name = Entity::find().filter(Column::Running.eq(name(kind, board_no)));
    Ok(of_name.one(db).await?)
}

/// True if a job of a kind on a board, or on all boards, failed since an instant in Unix
/// milliseconds.
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
        .filter(Column::State.eq(State::Failed))
        .filter(Column::Kind.eq(kind))
        .filter(of_board);
    Ok(failed.one(db).await?.is_some())
}

/// Ends jobs as FAILED if their process is gone or silent.
pub async fn end_dead(db: &DatabaseConnection, now_ms: i64) -> Result<()> {
    let running = Entity::find().filter(Column::Running.is_not_null());
    let running = running.all(db).await?;
    if running.is_empty() {
        return Ok(());
    }
    let sql_ms = sql_now_ms(db).await?;
    for job in running {
        if is_dead(&job, sql_ms) {
            end_as_failed(&job, db, now_ms).await?;
        }
    }
    Ok(())
}

/// Ends all jobs of this process, and parts of jobs, as FAILED: it is stopping, and the tasks that
/// did the work are gone.
pub async fn end_own(db: &DatabaseConnection, why: &str, now_ms: i64) -> Result<()> {
    Entity::update_many()
        .set(ended(State::Failed, why, now_ms))
        .filter(Column::Running.is_not_null())
        .filter(Column::Holder.eq(holder::own()))
        .exec(db)
        .await?;
    shared::fail_own(db, Condition::all(), why).await
}

/// The columns of a job that has ended.
fn ended(state: State, summary: &str, now_ms: i64) -> ActiveModel {
    ActiveModel {
        state: Set(state),
        finished_at_ms: Set(Some(now_ms)),
        summary: Set(Some(shortened(summary))),
        running: Set(None),
        holder: Set(None),
        heartbeat_at_ms: Set(None),
        ..Default::default()
    }
}

fn shortened(summary: &str) -> String {
    summary.chars().take(SUMMARY_CHARS_MAX).collect()
}

impl Running {
    fn new(db: &DatabaseConnection, clock: &Clock, id: i64) -> Self {
        let reporter = Reporter::begin(db, Row::Job(id), 0.0);
        Self { db: db.clone(), clock: clock.clone(), id, reporter }
    }

    /// Reports the present stage.
    pub fn at_stage(&self, doing: String) {
        self.reporter.at_stage(doing);
    }

    /// Reports progress, from 0 to 1.
    pub fn progressed(&self, progress: f64) {
        self.reporter.progressed(progress);
    }

    /// Progress and stage.
    pub fn reporter(&self) -> &Reporter {
        &self.reporter
    }

    /// Ends the job as DONE with its figures, or as FAILED with the reason.
    ///
    /// # Errors
    /// If SQL fails; the job then ends as FAILED once its lease has expired.
    pub async fn end(&self, outcome: std::result::Result<&str, &str>) -> Result<()> {
        let now_ms = self.clock.now_ms();
        let mut row = match outcome {
            Ok(figures) => ended(State::Done, figures, now_ms),
            Err(why) => ended(State::Failed, why, now_ms),
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
            tracing::warn!(job = self.id, "another process ended the job as dead");
        }
        Ok(())
    }
}

impl Reporter {
    /// Begins to report, with the progress that the row has.
    fn begin(db: &DatabaseConnection, row: Row, progress: f64) -> Self {
        let said = Arc::new(Mutex::new(Said { progress, doing: None }));
        let renewal = tokio::spawn(renew(db.clone(), row, said.clone())).abort_handle();
        Self { said, renewal }
    }

    /// Reports the present stage.
    pub fn at_stage(&self, doing: String) {
        self.say(|said| said.doing = Some(doing));
    }

    /// Reports progress, from 0 to 1.
    pub fn progressed(&self, progress: f64) {
        self.say(|said| said.progress = progress.clamp(said.progress, 1.0));
    }

    fn say(&self, change: impl FnOnce(&mut Said)) {
        change(&mut self.said.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.renewal.abort();
    }
}

/// Renews a heartbeat and writes the progress, until it is aborted or another process ends the job.
async fn renew(db: DatabaseConnection, row: Row, said: Arc<Mutex<Said>>) {
    let (mut written, mut renewed) = (Said::default(), Instant::now());
    let mut job_renewed = Instant::now();
    loop {
        sleep(PROGRESS_INTERVAL).await;
        let now = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if now == written && renewed.elapsed() < HEARTBEAT_INTERVAL {
            continue;
        }
        let renewing = async {
            let is_there = row.renew(&db, &now).await?;
            if let Row::Part { job_id, .. } = row
                && job_renewed.elapsed() >= HEARTBEAT_INTERVAL
            {
                shared::touch(&db, job_id).await?;
                job_renewed = Instant::now();
            }
            Result::<bool>::Ok(is_there)
        };
        // A silent connection must not keep the next heartbeat back.
        match timeout(HEARTBEAT_TIMEOUT, renewing).await {
            Ok(Ok(false)) => return,
            Ok(Ok(true)) => (written, renewed) = (now, Instant::now()),
            Ok(Err(error)) => tracing::debug!(%error, ?row, "writing a heartbeat failed"),
            Err(_) => tracing::debug!(?row, "writing a heartbeat took too long"),
        }
    }
}

impl Row {
    /// Writes a heartbeat and the progress. Returns false if the row is not this process' any more.
    async fn renew(self, db: &DatabaseConnection, said: &Said) -> Result<bool> {
        use entity::job::part as of_part;
        let now = || Expr::cust(sql_now(db.get_database_backend()));
        let (progress, summary) = (said.progress, said.doing.clone());
        let renewed = match self {
            Self::Job(id) => {
                Entity::update_many()
                    .col_expr(Column::Progress, Expr::value(progress))
                    .col_expr(Column::Summary, Expr::value(summary))
                    .col_expr(Column::HeartbeatAtMs, now())
                    .filter(Column::Id.eq(id))
                    .filter(Column::Running.is_not_null())
                    .exec(db)
                    .await?
            }
            Self::Part { job_id, part } => {
                of_part::Entity::update_many()
                    .col_expr(of_part::Column::Progress, Expr::value(progress))
                    .col_expr(of_part::Column::Summary, Expr::value(summary))
                    .col_expr(of_part::Column::HeartbeatAtMs, now())
                    .filter(of_part::Column::JobId.eq(job_id))
                    .filter(of_part::Column::Part.eq(part))
                    .filter(of_part::Column::Holder.eq(holder::own()))
                    .exec(db)
                    .await?
            }
        };
        Ok(renewed.rows_affected == 1)
    }
}

/// True if the job's process has ended or has been silent for too long, by SQL's clock. A job of
/// several parts waits longer for the next of its processes.
fn is_dead(job: &Model, now_ms: i64) -> bool {
    let silence_ms = if job.parts.is_some() { shared::SILENCE_MS } else { LEASE_MS };
    let is_silent = |at_ms: i64| now_ms - at_ms > silence_ms;
    job.heartbeat_at_ms.is_some_and(is_silent) || job.holder.as_deref().is_some_and(holder::is_gone)
}

/// Ends a job and its parts, unless its own or another process was first.
async fn end_as_failed(job: &Model, db: &DatabaseConnection, now_ms: i64) -> Result<()> {
    let why = match (job.parts, &job.summary) {
        (None, _) => "its process ended without a word".to_owned(),
        (Some(_), said) => {
            format!("no process runs its parts: {}", said.as_deref().unwrap_or("none is done"))
        }
    };
    let transaction = begin_transaction(db).await?;
    let ended = Entity::update_many()
        .set(ended(State::Failed, &why, now_ms))
        .filter(Column::Id.eq(job.id))
        .filter(Column::Running.is_not_null())
        .filter(Column::HeartbeatAtMs.eq(job.heartbeat_at_ms))
        .exec(&transaction)
        .await?;
    if ended.rows_affected > 0 && job.parts.is_some() {
        entity::job::part::delete_of_job(&transaction, job.id).await?;
    }
    Ok(transaction.commit().await?)
}
