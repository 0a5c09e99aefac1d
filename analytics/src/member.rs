//! The export of one member: everything that SQL and the archive keep of it, as one JSON document.
//!
//! One transaction reads SQL as of one moment. Rows are written as they come, so memory does not
//! grow with them: it holds a page of events, or the member's events of one file of the archive,
//! and the places of the events that are voided on one board.

mod archived;
mod document;
mod events;
mod of_member;
mod on_board;

use std::fmt;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use engine::settings::Settings;
use entity::deployment as deployment_row;
use entity::deployment::clock::sql_now_ms;
use entity::history::log_cursor;
use entity::sql::begin_view;
use ranking::id::MemberId;
use ranking::shard::Partitions;
use sea_orm::{DatabaseConnection, DatabaseTransaction};
use serde::Serialize;

use self::document::{Document, Shape, Time};
use crate::display_path;
use crate::file::out_file::OutFile;
use crate::job::Job;
use crate::job::stop::Stop;

/// The version of the document's form.
const FORMAT: u32 = 1;

/// Options of `export-member`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The key of the member.
    key: String,
    /// The file, which its user alone can open. By default the document goes to standard output,
    /// and the outcome to standard error.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replaces a file that is there.
    #[arg(long, requires = "output")]
    force: bool,
}

/// The outcome of an export.
#[derive(Debug, Serialize)]
pub struct Exported {
    member: String,
    as_of: Time,
    boards: u64,
    events: u64,
    items: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    seconds: f64,
}

impl fmt::Display for Exported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { as_of, boards, events, items, file, seconds, .. } = self;
        let to = file.as_ref().map_or(String::new(), |file| format!(" to {file}"));
        write!(
            f,
            "exported {items} items of the member, {events} of them events, from {boards} boards{to}, as of {as_of}, in {seconds:.1} s"
        )
    }
}

/// The state of SQL that is exported, and the places of the archive.
struct Kept<'a> {
    view: &'a DatabaseTransaction,
    partitions: Partitions,
    /// The directories of the archive, and of its copies if there are any.
    archive: Vec<PathBuf>,
    member: MemberId,
}

impl Kept<'_> {
    fn key(&self) -> &str {
        self.member.as_str()
    }
}

/// The numbers of what was exported.
#[derive(Debug, Default)]
struct Numbers {
    boards: u64,
    events: u64,
}

/// The head of the document.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    format: u32,
    program: &'static str,
    deployment: String,
    as_of: Time,
    commits: Vec<CommitOf>,
    key: String,
}

/// The last commit of a partition that the document takes into account.
#[derive(Serialize)]
struct CommitOf {
    partition: i32,
    seq: i64,
    id: String,
}

/// Exports a member until it is done or a signal stops it; then no file is left.
///
/// # Errors
/// If nothing is kept of the member, the file is there and not to be replaced, SQL does not answer,
/// or a file of the archive is missing or altered.
pub async fn export_until(
    mut stop: Stop,
    settings: Settings,
    db: DatabaseConnection,
    arguments: Arguments,
    json: bool,
) -> Result<()> {
    let to_output = arguments.output.is_none();
    let mut exporting = tokio::spawn(async move { export(&settings, &db, &arguments).await });
    let exported = tokio::select! {
        exported = &mut exporting => exported??,
        why = stop.wait() => {
            exporting.abort();
            // The end of the task removes the file that it began.
            let _ = exporting.await;
            bail!("{why}; no file is left")
        }
    };
    match (to_output, json) {
        (false, json) => crate::print_outcome(json, &exported)?,
        (true, true) => eprintln!("{}", serde_json::to_value(&exported)?),
        (true, false) => eprintln!("{exported}"),
    }
    Ok(())
}

async fn export(
    settings: &Settings,
    db: &DatabaseConnection,
    arguments: &Arguments,
) -> Result<Exported> {
    let began = Instant::now();
    let member = MemberId::new(&arguments.key)?;
    let out = match &arguments.output {
        Some(path) => Some(new_file(path, arguments.force)?),
        None => None,
    };
    let writer: Box<dyn Write + Send> = match &out {
        Some(out) => Box::new(out.file()?),
        None => Box::new(io::stdout()),
    };
    let job = Job::unrecorded()?;
    job.stage("exporting", 0);
    let mut document = Document::new(BufWriter::new(writer));
    let view = begin_view(db).await?;
    let written = write(settings, &view, &member, &mut document, &job).await;
    view.rollback().await?;
    let (as_of, numbers) = written?;
    let items = document.items();
    let cannot = || match &arguments.output {
        Some(path) => format!("{} cannot be written", display_path(path)),
        None => "standard output cannot be written".to_owned(),
    };
    document.finish().with_context(cannot)?;
    ensure!(
        items > 0,
        "nothing is kept of member {:?}: expected the key of a member",
        ranking::shown(&arguments.key)
    );
    match out {
        Some(out) if arguments.force => out.finish()?,
        Some(out) => out.finish_new()?,
        None => {}
    }
    Ok(Exported {
        member: arguments.key.clone(),
        as_of,
        boards: numbers.boards,
        events: numbers.events,
        items,
        file: arguments.output.as_deref().map(display_path),
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// Begins the file, unless something is there that is not to be replaced.
fn new_file(path: &Path, force: bool) -> Result<OutFile> {
    if let Ok(found) = path.symlink_metadata() {
        ensure!(
            found.is_file(),
            "{} is there and no regular file: expected the path of a new file",
            display_path(path)
        );
        ensure!(
            force,
            "{} is there: expected the path of a new file, or --force",
            display_path(path)
        );
    }
    OutFile::create(path)
}

async fn write(
    settings: &Settings,
    view: &DatabaseTransaction,
    member: &MemberId,
    document: &mut Document,
    job: &Job,
) -> Result<(Time, Numbers)> {
    let row = deployment_row::find(view).await?.context("the deployment's row is missing")?;
    let as_of = Time(sql_now_ms(view).await?);
    let kept = Kept {
        view,
        partitions: Partitions::new(row.partitions.try_into()?)?,
        archive: settings.archive_places(),
        member: member.clone(),
    };
    let mut cursors = log_cursor::all(view).await?;
    cursors.sort_by_key(|cursor| cursor.partition);
    let head = Head {
        format: FORMAT,
        program: env!("CARGO_PKG_VERSION"),
        deployment: row.identity,
        as_of,
        commits: cursors.into_iter().map(CommitOf::of).collect(),
        key: kept.key().to_owned(),
    };
    document.open(None, Shape::Object, &head)?;
    of_member::write(&kept, document).await?;
    let numbers = on_board::write_all(&kept, document, job).await?;
    document.close()?;
    Ok((as_of, numbers))
}

impl CommitOf {
    fn of(cursor: log_cursor::Model) -> Self {
        Self { partition: cursor.partition, seq: cursor.seq, id: cursor.commit_id }
    }
}
