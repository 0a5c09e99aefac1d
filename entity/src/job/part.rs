//! The parts of a job that several processes run, while it runs.

use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// The state of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum State {
    /// No process has run it.
    #[sea_orm(string_value = "WAITING")]
    Waiting,
    /// A process runs it.
    #[sea_orm(string_value = "RUNNING")]
    Running,
    /// It is done.
    #[sea_orm(string_value = "DONE")]
    Done,
    /// It failed or was stopped.
    #[sea_orm(string_value = "FAILED")]
    Failed,
}

/// A row of `job_part`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "job_part")]
pub struct Model {
    /// The job's number.
    #[sea_orm(primary_key, auto_increment = false)]
    pub job_id: i64,
    /// The part, from 0.
    #[sea_orm(primary_key, auto_increment = false)]
    pub part: i32,
    /// The state.
    pub state: State,
    /// Progress from 0 to 1; it never decreases.
    pub progress: f64,
    /// While it runs, the process that runs it.
    pub holder: Option<String>,
    /// While it runs, the time of its last heartbeat, in Unix milliseconds.
    pub heartbeat_at_ms: Option<i64>,
    /// The present stage, or why it failed.
    pub summary: Option<String>,
    /// Once it is done, its figures as JSON.
    pub figures: Option<String>,
}

no_relations!();

/// The terms that all processes that run parts of a job must agree on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// The options of the command that change its work, as text.
    pub options: String,
    /// The layouts of the boards when the job began.
    pub layouts: String,
    /// The run of the integrity diff that the parts share.
    #[serde(rename = "runId", skip_serializing_if = "Option::is_none")]
    pub run_id: Option<i64>,
}

/// The parts of a job, in their order; none once it has ended.
pub async fn of_job(db: &impl ConnectionTrait, job_id: i64) -> Result<Vec<Model>, DbErr> {
    Entity::find().filter(Column::JobId.eq(job_id)).order_by_asc(Column::Part).all(db).await
}

/// Deletes the parts of a job.
pub async fn delete_of_job(db: &impl ConnectionTrait, job_id: i64) -> Result<(), DbErr> {
    Entity::delete_many().filter(Column::JobId.eq(job_id)).exec(db).await?;
    Ok(())
}
