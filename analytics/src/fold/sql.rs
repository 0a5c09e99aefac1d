//! The statements of a plan: the fold of one window each, from files of events to states.
//!
//! They say the same as `ranking`'s fold, in words that engines have in common. Periods are joined
//! from a table that `ranking` made, since an engine may know other rules of zones. Scores are
//! added up as decimals, since an engine may let an integer turn over. States are compared as
//! structures, in one pass: the functions that take the value of a greatest row choose any of equal
//! ones.

mod dialect;
mod statement;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use ranking::board::Board;
use ranking::window::Window;
use serde_json::json;

use super::plan::Plan;
use crate::display_path;
pub use dialect::Dialect;
use dialect::Tables;
use statement::statement;

/// Options of `fold sql`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The directory of the plan.
    #[arg(long)]
    plan: PathBuf,
    /// The engine: spark names the files in the statement and sorts, sail names them and does not
    /// sort, datafusion takes them as the tables events and periods.
    #[arg(long, default_value = "spark")]
    dialect: Dialect,
    /// The one window to print; by default every window, those that no client sees among them.
    #[arg(long)]
    window: Option<Window>,
    /// The plan's directory as the engine sees it, such as s3a://bucket/plan; by default the
    /// absolute path of --plan.
    #[arg(long)]
    at: Option<String>,
}

/// The directory of a window's states.
pub fn directory(window: Window) -> String {
    window.to_string().replace(':', "-")
}

/// The directory of a plan as an engine sees it: the one that is named, else its absolute path.
///
/// # Errors
/// If there is no such directory.
pub fn directory_as_seen(dir: &Path, at: Option<&str>) -> Result<String> {
    if let Some(at) = at {
        return Ok(at.to_owned());
    }
    let path = dir.canonicalize();
    let path = path.with_context(|| format!("{} cannot be read", display_path(dir)))?;
    Ok(path.to_str().context("the path of the plan is not UTF-8")?.to_owned())
}

/// The statements of some windows of a plan, which the engine sees at `at`.
///
/// # Errors
/// If a statement cannot name that directory.
pub fn statements(
    plan: &Plan,
    board: &Board,
    windows: &[Window],
    dialect: Dialect,
    at: &str,
) -> Result<Vec<(Window, String)>> {
    let tables = Tables::new(dialect, at)?;
    let statement = |&window: &Window| Ok((window, statement(plan, board, window, &tables)?));
    windows.iter().map(statement).collect()
}

/// Prints statements.
///
/// # Errors
/// If there is no such plan or window, or an engine could not be told of the path.
pub fn print(arguments: &Arguments, json: bool) -> Result<()> {
    let plan = Plan::read(&arguments.plan)?;
    let board = plan.board()?;
    let at = directory_as_seen(&arguments.plan, arguments.at.as_deref())?;
    let windows = match arguments.window {
        Some(window) => {
            ensure!(
                board.rules.windows.contains(&window),
                "invalid window {window}: expected one of {}",
                names(&board)
            );
            vec![window]
        }
        None => board.rules.windows.clone(),
    };
    let statements = statements(&plan, &board, &windows, arguments.dialect, &at)?;
    if json {
        let statement = |(window, sql): &(Window, String)| json!({ "window": window.to_string(), "directory": directory(*window), "sql": sql });
        println!("{}", serde_json::Value::from_iter(statements.iter().map(statement)));
    } else if arguments.window.is_some() {
        statements.iter().for_each(|(_, sql)| println!("{sql}"));
    } else {
        for (window, sql) in statements {
            println!(
                "-- window {window}: its rows as Parquet in the directory {}\n{sql};\n",
                directory(window)
            );
        }
    }
    Ok(())
}

fn names(board: &Board) -> String {
    let names: Vec<String> = board.rules.windows.iter().map(ToString::to_string).collect();
    names.join(", ")
}
