//! The fold on an engine such as Spark: a plan of pinned heads, events and periods, a statement of
//! SQL for each window, and the engine's states, of which nothing is believed.

pub(crate) mod check;
mod drawn;
pub(crate) mod load;
pub(crate) mod plan;
pub(crate) mod run;
pub(crate) mod sql;
mod states;
#[cfg(test)]
mod tests;

use anyhow::Result;
use clap::Subcommand;
use engine::deployment::Deployment;
use futures::FutureExt;
use tokio::task::spawn_blocking;

use crate::job::stop::Stop;
use crate::{Alone, On, find_board, print_outcome};

/// The steps of a fold on an engine; `rebuild --plan` is the last one.
#[derive(Debug, Subcommand)]
pub enum FoldCommand {
    /// Writes the history of a board up to now, the periods of its windows and what an engine's
    /// answer must add up to, into a new directory.
    Plan(On<plan::make::Arguments>),
    /// Prints a statement for each window of a plan. It needs no store.
    Sql(Alone<sql::Arguments>),
    /// Lets an engine run the statements of a plan, over Spark Connect. It needs no store.
    Run(Alone<run::Arguments>),
    /// Checks an engine's answers to the statements of a plan, and changes nothing. It needs no
    /// store.
    Check(Alone<check::Arguments>),
}

/// Makes a plan.
///
/// # Errors
/// As [`plan::make::make`].
pub async fn plan(
    deployment: &Deployment,
    arguments: &plan::make::Arguments,
    json: bool,
) -> Result<()> {
    let board = find_board(deployment, &arguments.board).await?;
    print_outcome(json, &plan::make::make(deployment, &board, &arguments.out).boxed().await?)
}

/// Runs a command that needs no store, until it is done or a signal stops it.
///
/// # Errors
/// Those of the command.
pub async fn run_alone(mut stop: Stop, command: FoldCommand, json: bool) -> Result<()> {
    let working = async move {
        if let FoldCommand::Run(job) = command {
            return print_outcome(json, &run::run(&job.own).await?);
        }
        let working = spawn_blocking(move || match command {
            FoldCommand::Sql(job) => sql::print(&job.own, json),
            FoldCommand::Check(job) => print_outcome(json, &check::check(&job.own)?),
            FoldCommand::Plan(_) | FoldCommand::Run(_) => unreachable!("they are done elsewhere"),
        });
        working.await?
    };
    let mut working = Box::pin(working);
    let why = tokio::select! {
        done = &mut working => return done,
        why = stop.wait() => why,
    };
    // The connection's end lets an engine stop, which the exit of the process would not.
    drop(working);
    eprintln!("error: {why}");
    std::process::exit(1)
}
