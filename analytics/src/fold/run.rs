//! The engine that runs the statements of a plan: a server of Spark Connect.

#[cfg_attr(not(feature = "spark"), path = "run/no_connection.rs")]
mod connection;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use engine::deployment::Deployment;
use entity::board;
use serde::Serialize;

use super::plan::{self, Plan};
use super::sql::{self, Dialect};
use crate::job::Job;
use connection::Connection;

/// The directory of states in that of their plan.
const STATES: &str = "states";

/// The directory of states: the one that is named, else that in the plan's directory.
pub fn states_of(plan: &Path, named: Option<&Path>) -> PathBuf {
    named.map_or_else(|| plan.join(STATES), Path::to_owned)
}

/// How an engine sees a plan.
#[derive(Debug, Clone, clap::Args)]
pub struct View {
    /// The engine's words: spark, or sail, which leaves rows as they come.
    #[arg(long, default_value = "spark", requires = "engine")]
    dialect: Dialect,
    /// The plan's directory as the engine sees it, such as s3a://bucket/plan; by default the
    /// absolute path of --plan.
    #[arg(long, requires = "engine")]
    at: Option<String>,
}

/// Options of `fold run`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The directory of the plan; the states are written into its directory `states`.
    #[arg(long)]
    plan: PathBuf,
    /// The engine: a server of Spark Connect, as sc://HOST:PORT. Beyond this machine it is
    /// sc://HOST:PORT/;use_ssl=true, and a token is taken from SPARK_CONNECT_AUTHENTICATE_TOKEN.
    #[arg(long, value_name = "URL")]
    engine: String,
    #[command(flatten)]
    view: View,
}

/// The outcome.
#[derive(Debug, Serialize)]
pub struct Ran {
    /// The version that the engine tells.
    engine: String,
    windows: usize,
    /// The directory of the states, as the engine sees it.
    states: String,
    seconds: f64,
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { engine, windows, states, seconds } = self;
        write!(
            f,
            "the engine, Spark {engine} by its own account, folded {windows} windows in {seconds:.1} s: {states}"
        )
    }
}

/// Lets an engine run the statements of a plan, and write the states.
///
/// # Errors
/// If there is no such plan, or the engine does not answer or fails.
pub async fn run(arguments: &Arguments) -> Result<Ran> {
    run_plan(&arguments.plan, &arguments.engine, &arguments.view).await
}

/// Lets an engine run the statements of a plan, which is made first unless it is there.
///
/// # Errors
/// As [`plan::make::make`] and [`run`].
pub async fn plan_and_run(
    deployment: &Deployment,
    row: &board::Model,
    dir: &Path,
    engine: &str,
    view: &View,
) -> Result<()> {
    if !Plan::is_in(dir) {
        // An engine that is not there is found before the plan is made.
        Connection::open(engine).await?.end().await;
        let planned = plan::make::make(deployment, row, dir).await?;
        eprintln!("{planned}");
    }
    let ran = run_plan(dir, engine, view).await?;
    eprintln!("{ran}");
    Ok(())
}

async fn run_plan(dir: &Path, engine: &str, view: &View) -> Result<Ran> {
    let began = Instant::now();
    ensure!(
        view.dialect != Dialect::Datafusion,
        "invalid --dialect datafusion: expected spark or sail, as DataFusion does not speak Spark Connect"
    );
    let plan = Plan::read(dir)?;
    let board = plan.board()?;
    let at = sql::directory_as_seen(dir, view.at.as_deref())?;
    let statements = sql::statements(&plan, &board, &board.rules.windows, view.dialect, &at)?;
    let job = Job::unrecorded()?;
    let states = format!("{}/{STATES}", at.trim_end_matches('/'));
    let working = async {
        let connection = Connection::open(engine).await?;
        for (place, (window, statement)) in statements.iter().enumerate() {
            job.part(place, statements.len());
            job.stage(&format!("folding {window} on the engine"), 0);
            let out = format!("{states}/{}", sql::directory(*window));
            let written = connection.write(statement, &out).await;
            written.with_context(|| format!("the engine did not fold window {window}"))?;
        }
        let engine = connection.version().to_owned();
        connection.end().await;
        let (windows, seconds) = (statements.len(), began.elapsed().as_secs_f64());
        Ok(Ran { engine, windows, states: states.clone(), seconds })
    };
    let ran = working.await;
    job.end(ran).await
}
