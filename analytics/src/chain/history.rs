//! The whole history written to a file that `verify` checks.

use std::fmt;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use engine::deployment::Deployment;
use entity::history::log_cursor;
use serde::Serialize;

use super::commits::Commits;
use super::line::Line;
use crate::display_path;
use crate::file::format::FileFormat;
use crate::file::out_file::OutFile;
use crate::job::Job;

/// Options of `history`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The file: .ndjson, one commit with its events in each line. An existing file is replaced.
    #[arg(long)]
    out: PathBuf,
}

/// The outcome of `history`.
#[derive(Debug, Serialize)]
pub struct Written {
    commits: usize,
    events: usize,
    gone: usize,
    file: String,
    seconds: f64,
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { commits, events, gone, file, seconds } = self;
        write!(
            f,
            "wrote {commits} commits with {events} events, and {gone} more whose content is gone, to {file} in {seconds:.1} s"
        )
    }
}

/// Writes all commits of all partitions, up to where SQL is, with their events.
///
/// # Errors
/// If a store does not answer, a file of the archive cannot be read, or the file cannot be written.
/// No file is left then.
pub async fn history(deployment: &Deployment, arguments: &Arguments) -> Result<Written> {
    let began = Instant::now();
    ensure!(
        FileFormat::of_output(&arguments.out)? == FileFormat::Ndjson,
        "invalid file name {:?}: expected .ndjson",
        display_path(&arguments.out)
    );
    let out = OutFile::create(&arguments.out)?;
    let mut file = BufWriter::new(out.file()?);
    let job = Job::unrecorded()?;
    job.stage("writing commits", 0);
    let (mut commits, mut events, mut gone) = (0, 0, 0);
    for partition in deployment.partitions() {
        let seq = partition.settle().await?;
        let cursor = log_cursor::of(&deployment.db, partition.no).await?;
        let seq = cursor.map_or(seq as i64, |cursor| cursor.seq);
        let mut last = 0;
        let mut pages = Commits::new(deployment, partition.no, (last, seq));
        while let Some(page) = pages.next().await? {
            ensure!(page.unread.is_empty(), "{}", page.unread.join("; "));
            for commit in &page.commits {
                let missing = commit.missing();
                events += commit.events.len() - missing;
                gone += missing;
                last = commit.row.seq;
                serde_json::to_writer(&mut file, &Line::of(commit)?)?;
                file.write_all(b"\n")?;
            }
            commits += page.commits.len();
            job.advance(page.commits.len());
        }
        ensure!(
            last == seq,
            "commit {} of partition {partition} is missing; run `laurel diff --full`",
            last + 1
        );
    }
    file.flush().with_context(|| format!("{} cannot be written", display_path(&arguments.out)))?;
    out.finish()?;
    Ok(Written {
        commits,
        events,
        gone,
        file: display_path(&arguments.out),
        seconds: began.elapsed().as_secs_f64(),
    })
}
