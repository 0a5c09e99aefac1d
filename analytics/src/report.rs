//! Report: writes a page about a board: its leaders, how scores are spread, how it grew, how the
//! top moved, ties, and the share of the top 1 %. The page is self-contained: pictures are SVG, and
//! it loads nothing.

mod charts;
mod figures;
mod labels;
mod page;
mod timeline;

use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, ensure};
use engine::deployment::Deployment;
use entity::board;
use polars::prelude::{col, lit};
use ranking::standings_id::StandingsId;
use ranking::window::Window;
use serde::Serialize;

use crate::display_path;
use crate::file::out_file::OutFile;
use crate::frame::counted::in_parts;
use crate::frame::fold;
use crate::frame::history;
use crate::job::Job;
use figures::Figures;

/// Options of `report`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The board's slug.
    #[arg(long)]
    pub board: String,
    /// The HTML file. An existing file is replaced.
    #[arg(long)]
    out: PathBuf,
}

/// The outcome of a report.
#[derive(Debug, Serialize)]
pub struct Reported {
    figures: Figures,
    file: String,
    seconds: f64,
}

impl fmt::Display for Reported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "reported {} members and {} events to {} in {:.1} s",
            self.figures.members, self.figures.events, self.file, self.seconds
        )
    }
}

/// Writes a report.
///
/// # Errors
/// If the board has no entries, a store does not answer, or the file cannot be written.
pub async fn report(
    deployment: &Deployment,
    row: &board::Model,
    arguments: &Arguments,
) -> Result<Reported> {
    let (began, now_ms) = (Instant::now(), deployment.clock.now_ms());
    let (board, job) = (row.to_ranking()?, Job::unrecorded()?);
    let history = history::read(deployment, &board, &job).await?;
    job.stage("folding", 0);
    let everyone = history.counted.only(col("segment").eq(lit("")));
    let events = in_parts(everyone.rows.clone())?;
    let id = StandingsId::all_time(&board, String::new());
    let mut standings = fold::standings(&board, Window::All, &everyone, now_ms)?;
    let entries = standings.remove(&id).unwrap_or_default();
    ensure!(!entries.is_empty(), "board {} has no entries yet; a report needs some", row.slug);
    let figures = Figures::new(row, &board, &events, &entries, now_ms)?;
    job.stage("drawing", 0);
    let page = page::page(&figures)?;
    let out = OutFile::create(&arguments.out)?;
    out.file()?.write_all(page.as_bytes())?;
    out.finish()?;
    Ok(Reported {
        figures,
        file: display_path(&arguments.out),
        seconds: began.elapsed().as_secs_f64(),
    })
}
