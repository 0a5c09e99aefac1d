//! Jobs that several processes run, each a part of its own.
//!
//! The row of the job has the number of parts and the terms that all processes must agree on, and
//! holds the lease. A row of `job_part` is the lease of a part: the first process inserts all of
//! them, and each takes its own by compare-and-set. A part whose process has ended can be taken
//! again. The end of the last part and that of the job are one transaction.
//!
//! Between two processes the job stays open for [`SILENCE_MS`], as a scheduler may start them one
//! after the other.

mod refusal;

use sea_orm::ActiveValue::Set;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbErr,
    EntityTrait, QueryFilter, SqlErr,
};

use super::part::Part;
use super::{ATTEMPTS_MAX, LEASE_MS, Reporter, Row, end_as_failed, ended, holder, is_dead, name};
use entity::deployment::clock::{Clock, sql_now, sql_now_ms};
use entity::error::{Error, Result, is_deadlock};
use entity::integrity::integrity_run;
use entity::job::part::{self, State, Terms};
use entity::job::{self, DIFF};
use entity::sql::{begin as begin_transaction, insert_chunked};
use refusal::{moved, other, run_by_another};

/// How long a job of several parts stays open without a process at work, in milliseconds.
/// Kubernetes waits for up to six minutes before it starts a pod again.
pub const SILENCE_MS: i64 = 15 * 60_000;

/// Stands for the processes of the parts in the row of their job.
const HOLDER: &str = "the processes of its parts";

/// The result of [`begin`].
#[derive(Debug)]
pub enum Begun {
    /// This process runs the part.
    Running(Box<RunningPart>),
    /// An earlier process did the part.
    Done {
        /// The number of the job.
        job_id: i64,
        /// The run of the integrity diff that the parts share.
        run_id: Option<i64>,
        /// Its figures as JSON.
        figures: String,
    },
    /// Another job is running, or another process runs the part; the text says what is in the way,
    /// and what would be accepted.
    Refused(String),
}

/// A part that this process runs. If it is dropped before it has ended, its heartbeat stops;
/// [`super::end_own`] ends such parts.
#[derive(Debug)]
pub struct RunningPart {
    db: DatabaseConnection,
    clock: Clock,
    job: job::Model,
    terms: Terms,
    part: Part,
    reporter: Reporter,
}

/// Begins a part of a job of a kind on a board or on all boards. The terms have no run of the diff
/// yet: the first process of a DIFF inserts one.
pub async fn begin(
    db: &DatabaseConnection,
    clock: &Clock,
    kind: &str,
    board_no: Option<i64>,
    part: Part,
    terms: &Terms,
) -> Result<Begun> {
    for _ in 0..ATTEMPTS_MAX {
        let Some(job) = super::running(db, kind, board_no).await? else {
            insert(db, clock, kind, board_no, part, terms).await?;
            continue;
        };
        if let Some(begun) = join(db, clock, job, part, terms).await? {
            return Ok(begun);
        }
    }
    Ok(Begun::Refused(format!(
        "other processes began and ended jobs of this kind while part {part} was to begin: expected this command again"
    )))
}

/// Takes a part of a running job; `None` if the job or the part has changed since it was read, or
/// has been ended here.
async fn join(
    db: &DatabaseConnection,
    clock: &Clock,
    job: job::Model,
    part: Part,
    terms: &Terms,
) -> Result<Option<Begun>> {
    let (now_ms, sql_ms) = (clock.now_ms(), sql_now_ms(db).await?);
    let parts = part::of_job(db, job.id).await?;
    let held = terms_of(&job);
    if let Some(held) = &held
        && held.layouts != terms.layouts
    {
        end_moved(db, job.id, now_ms).await?;
        return Ok(Some(Begun::Refused(moved(&job))));
    }
    let fits = job.parts == Some(part.count().into());
    let fits = fits && !is_dead(&job, sql_ms);
    let Some(held) = held.filter(|held| fits && held.options == terms.options) else {
        let is_at_work = match job.parts {
            Some(_) => parts.iter().any(|part| is_alive(part, sql_ms)),
            None => !is_dead(&job, sql_ms),
        };
        if is_at_work {
            return Ok(Some(Begun::Refused(other(&job))));
        }
        // No process works on what another call has begun.
        end_as_failed(&job, db, now_ms).await?;
        return Ok(None);
    };
    let Some(row) = parts.into_iter().find(|row| row.part == i32::from(part.index())) else {
        return Ok(None);
    };
    if let Some(figures) = row.figures {
        return Ok(Some(Begun::Done { job_id: job.id, run_id: held.run_id, figures }));
    }
    if is_alive(&row, sql_ms) {
        return Ok(Some(Begun::Refused(run_by_another(&job, part))));
    }
    if !take(db, &row).await? {
        return Ok(None);
    }
    let reporter = Reporter::begin(db, Row::Part { job_id: job.id, part: row.part }, row.progress);
    touch(db, job.id).await?;
    let (db, clock) = (db.clone(), clock.clone());
    let running = RunningPart { db, clock, job, terms: held, part, reporter };
    Ok(Some(Begun::Running(Box::new(running))))
}

/// Inserts a job and all its parts, and for a diff its run, unless another job is running.
async fn insert(
    db: &DatabaseConnection,
    clock: &Clock,
    kind: &str,
    board_no: Option<i64>,
    part: Part,
    terms: &Terms,
) -> Result<()> {
    let transaction = begin_transaction(db).await?;
    let (now_ms, sql_ms) = (clock.now_ms(), sql_now_ms(&transaction).await?);
    let mut terms = terms.clone();
    if kind == DIFF {
        terms.run_id = Some(integrity_run::begin(&transaction, board_no, now_ms).await?);
    }
    let job = job::ActiveModel {
        kind: Set(kind.to_owned()),
        board_no: Set(board_no),
        state: Set(job::State::Running),
        progress: Set(0.0),
        started_at_ms: Set(now_ms),
        running: Set(Some(name(kind, board_no))),
        holder: Set(Some(HOLDER.to_owned())),
        heartbeat_at_ms: Set(Some(sql_ms)),
        parts: Set(Some(part.count().into())),
        terms: Set(Some(serde_json::to_string(&terms).expect("texts have a JSON form"))),
        ..Default::default()
    };
    let inserted = match job::Entity::insert(job).exec(&transaction).await {
        Ok(inserted) => inserted.last_insert_id,
        Err(error) if is_taken(&error) => {
            return Ok(transaction.rollback().await?);
        }
        Err(error) => return Err(error.into()),
    };
    let row = |index: u16| part::ActiveModel {
        job_id: Set(inserted),
        part: Set(index.into()),
        state: Set(State::Waiting),
        progress: Set(0.0),
        ..Default::default()
    };
    let rows = (0..part.count()).map(row).collect();
    insert_chunked::<part::Entity, _>(&transaction, rows, None).await?;
    Ok(transaction.commit().await?)
}

/// True if another process inserts the job at the same time.
fn is_taken(error: &DbErr) -> bool {
    let is_unique = matches!(error.sql_err(), Some(SqlErr::UniqueConstraintViolation(_)));
    is_unique || is_deadlock(error)
}

/// Takes a part that no process runs, unless its row has changed since it was read.
async fn take(db: &DatabaseConnection, row: &part::Model) -> Result<bool> {
    use part::Column::{Figures, HeartbeatAtMs, Holder, JobId, Part, Summary};
    let same_holder = match &row.holder {
        Some(holder) => {
            Condition::all().add(Holder.eq(holder)).add(HeartbeatAtMs.eq(row.heartbeat_at_ms))
        }
        None => Condition::all().add(Holder.is_null()),
    };
    let taken = part::Entity::update_many()
        .col_expr(part::Column::State, Expr::value("RUNNING"))
        .col_expr(Holder, Expr::value(holder::own()))
        .col_expr(HeartbeatAtMs, Expr::cust(sql_now(db.get_database_backend())))
        .col_expr(Summary, Expr::value(None::<String>))
        .filter(JobId.eq(row.job_id))
        .filter(Part.eq(row.part))
        .filter(Figures.is_null())
        .filter(same_holder)
        .exec(db)
        .await?;
    Ok(taken.rows_affected == 1)
}

/// The terms of a job of several parts.
fn terms_of(job: &job::Model) -> Option<Terms> {
    serde_json::from_str(job.terms.as_deref()?).ok()
}

/// True if a process runs the part.
fn is_alive(part: &part::Model, now_ms: i64) -> bool {
    let is_heard = part.heartbeat_at_ms.is_some_and(|at_ms| now_ms - at_ms <= LEASE_MS);
    is_heard && !part.holder.as_deref().is_some_and(holder::is_gone)
}

/// Ends a job because a board moved in the course of it.
async fn end_moved(db: &DatabaseConnection, job_id: i64, now_ms: i64) -> Result<()> {
    let why = "a board moved to another number of shards during it";
    let transaction = begin_transaction(db).await?;
    end(&transaction, job_id, job::State::Failed, why, now_ms).await?;
    Ok(transaction.commit().await?)
}

/// Ends a job, and deletes its parts.
async fn end(
    db: &impl ConnectionTrait,
    job_id: i64,
    state: job::State,
    summary: &str,
    now_ms: i64,
) -> Result<()> {
    let mut row = ended(state, summary, now_ms);
    if state == job::State::Done {
        row.progress = Set(1.0);
    }
    job::Entity::update_many()
        .set(row)
        .filter(job::Column::Id.eq(job_id))
        .filter(job::Column::Running.is_not_null())
        .exec(db)
        .await?;
    Ok(part::delete_of_job(db, job_id).await?)
}

/// Takes the lock of a job's row. Returns false if the job has ended.
async fn lock(transaction: &DatabaseTransaction, job_id: i64) -> Result<bool> {
    let locked = job::Entity::update_many()
        .col_expr(job::Column::Kind, Expr::col(job::Column::Kind))
        .filter(job::Column::Id.eq(job_id))
        .filter(job::Column::Running.is_not_null())
        .exec(transaction)
        .await?;
    Ok(locked.rows_affected == 1)
}

/// Writes a heartbeat of a job, and how far its parts are.
pub(super) async fn touch(db: &impl ConnectionTrait, job_id: i64) -> Result<()> {
    let parts = part::of_job(db, job_id).await?;
    let (done, count) =
        (parts.iter().filter(|part| part.state == State::Done).count(), parts.len().max(1));
    let progress = parts.iter().map(|part| part.progress).sum::<f64>() / count as f64;
    job::Entity::update_many()
        .col_expr(job::Column::HeartbeatAtMs, Expr::cust(sql_now(db.get_database_backend())))
        .col_expr(job::Column::Progress, Expr::value(progress.min(1.0)))
        .col_expr(job::Column::Summary, Expr::value(format!("{done} of {count} parts are done")))
        .filter(job::Column::Id.eq(job_id))
        .filter(job::Column::Running.is_not_null())
        .exec(db)
        .await?;
    Ok(())
}

impl RunningPart {
    /// The number of the job.
    pub fn job_id(&self) -> i64 {
        self.job.id
    }

    /// The part.
    pub fn part(&self) -> Part {
        self.part
    }

    /// The run of the integrity diff that the parts share.
    pub fn run_id(&self) -> Option<i64> {
        self.terms.run_id
    }

    /// Progress and stage.
    pub fn reporter(&self) -> &Reporter {
        &self.reporter
    }

    /// Seconds since the job began.
    pub fn job_seconds(&self) -> f64 {
        (self.clock.now_ms() - self.job.started_at_ms).max(0) as f64 / 1000.0
    }

    /// Marks the part as done in a transaction, with its figures as JSON. Returns the figures of
    /// all parts if it is the last one; the caller then ends the job by [`Self::finish_in`] in the
    /// same transaction.
    ///
    /// # Errors
    /// `Overtaken` if the job has ended, another process took the part, or a board moved to another
    /// number of shards: `layouts` are those of now.
    pub async fn end_in(
        &self,
        transaction: &DatabaseTransaction,
        figures: &str,
        layouts: &str,
    ) -> Result<Option<Vec<String>>> {
        use part::Column::{Holder, JobId, Part};
        // The lock comes first: of two parts that end at once, one sees that the other is done.
        if !lock(transaction, self.job.id).await? {
            return Err(Error::Overtaken(format!(
                "job {} was ended before part {} was done",
                self.job.id, self.part
            )));
        }
        if self.terms.layouts != layouts {
            return Err(Error::Overtaken(moved(&self.job)));
        }
        let row = part::ActiveModel {
            progress: Set(1.0),
            figures: Set(Some(figures.to_owned())),
            ..released(State::Done, None)
        };
        let ended = part::Entity::update_many()
            .set(row)
            .filter(JobId.eq(self.job.id))
            .filter(Part.eq(i32::from(self.part.index())))
            .filter(Holder.eq(holder::own()))
            .exec(transaction)
            .await?;
        if ended.rows_affected == 0 {
            return Err(Error::Overtaken(format!(
                "another process took part {} of job {} after a minute without a heartbeat of this one",
                self.part, self.job.id
            )));
        }
        touch(transaction, self.job.id).await?;
        let parts = part::of_job(transaction, self.job.id).await?;
        Ok(parts.into_iter().map(|part| part.figures).collect())
    }

    /// Ends the job as DONE with the figures of all its parts.
    pub async fn finish_in(&self, transaction: &DatabaseTransaction, summary: &str) -> Result<()> {
        end(transaction, self.job.id, job::State::Done, summary, self.clock.now_ms()).await
    }

    /// Ends the part as FAILED, so that it can be run again; if a board moved, the job.
    pub async fn fail(&self, why: &str, layouts: &str) -> Result<()> {
        if self.terms.layouts != layouts {
            return end_moved(&self.db, self.job.id, self.clock.now_ms()).await;
        }
        let of_part = Condition::all()
            .add(part::Column::JobId.eq(self.job.id))
            .add(part::Column::Part.eq(i32::from(self.part.index())));
        fail_own(&self.db, of_part, why).await?;
        touch(&self.db, self.job.id).await
    }
}

/// Ends the parts of this process that meet a condition as FAILED.
pub(super) async fn fail_own(db: &DatabaseConnection, which: Condition, why: &str) -> Result<()> {
    part::Entity::update_many()
        .set(released(State::Failed, Some(super::shortened(why))))
        .filter(part::Column::State.eq(State::Running))
        .filter(part::Column::Holder.eq(holder::own()))
        .filter(which)
        .exec(db)
        .await?;
    Ok(())
}

/// The columns of a part that its process has let go.
fn released(state: State, summary: Option<String>) -> part::ActiveModel {
    part::ActiveModel {
        state: Set(state),
        holder: Set(None),
        heartbeat_at_ms: Set(None),
        summary: Set(summary),
        ..Default::default()
    }
}
