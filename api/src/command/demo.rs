//! `laurel demo`: boards of real commits, loaded through the ordinary path.
//!
//! The commits end on a day of the past. All of them are moved by the same span, so that the last
//! one lies at the instant at which the first demo board was made: today, this week and 7d then
//! have entries. An interrupted load goes on with the same span.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::Read;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use engine::audit::of_command;
use engine::board::create::insert_noted;
use engine::deployment::Deployment;
use engine::process::StopSignals;
use engine::settings::stores::Missing;
use engine::settings::{RetentionSettings, StoreArguments};
use entity::board;
use entity::deployment::clock::Clock;
use entity::history::{event_ids, score_event};
use flate2::read::GzDecoder;
use futures::StreamExt;
use ranking::board::rules::{Rules, RulesInput};
use ranking::board::{Board, Policy};
use ranking::commit::COMMIT_EVENTS_MAX;
use ranking::id::{BoardNo, EventId, MemberId, PartitionNo};
use ranking::submission::effect::Report;
use ranking::submission::{Submission, Verdict};
use ranking::window::Window;
use sea_orm::DatabaseConnection;
use serde::Deserialize;

use super::worker::{PROBE_TIMEOUT, Working};
use super::{connect, open};
use crate::background::daily_diff::Daily;
use crate::background::worker::{Plan, Signals};
use crate::health::Health;
use crate::submit::committer::Committers;

const EVENTS: &[u8] = include_bytes!("../../demo/commits.csv.gz");

/// The memory for the batches that are submitted at a time, in bytes.
const BATCHES_BYTES: u64 = 64 << 20;

/// The board of every project's largest commit.
const LARGEST: &str = "largest-commit";

/// The board of the commits of all projects in the last days before the newest one: small enough
/// for a rolling window.
const RECENT: &str = "recent";
const RECENT_DAYS: i64 = 60;

/// The number of batches in flight at once.
const IN_FLIGHT: usize = 32;

#[derive(Deserialize)]
struct Row {
    board: String,
    member: String,
    at: i64,
    event_id: String,
    lines: i64,
}

/// Loads the demo, and waits until SQL has it.
///
/// # Errors
/// If a store does not answer, or an event is refused.
pub async fn run(arguments: StoreArguments) -> Result<()> {
    let mut stop = StopSignals::catch()?;
    arguments.log.start("info")?;
    let db = connect(&arguments, Missing::Create).await?;
    if is_loaded(&db).await? {
        println!("the demo boards are there");
        return Ok(());
    }
    let deployment = open(&arguments, db).await?;
    let signals = Arc::new(Signals::default());
    let committers = Committers::start(&deployment, &signals, BATCHES_BYTES);
    let health = Health::start(&deployment, PROBE_TIMEOUT);
    let plan = Plan {
        daily: Daily::default(),
        mirror: None,
        retained: RetentionSettings::default(),
        delivery: None,
    };
    let working = Working::start(&deployment, &health, &signals, plan);
    println!("loading the demo boards: real commits of nine open-source projects …");
    let began = std::time::Instant::now();
    let loaded = tokio::select! {
        loaded = load(&deployment, &committers) => loaded,
        _ = stop.wait() => Err(anyhow!("stopped; the next start loads the rest")),
    };
    committers.drain().await;
    // A process that stops leaves what SQL lacks to the next one, which the demo is not.
    let settled = match &loaded {
        Ok(_) => settle(&deployment).await,
        Err(_) => Ok(()),
    };
    working.stop().await;
    health.stop();
    deployment.close().await;
    let loaded = loaded?;
    settled?;
    println!(
        "loaded {} events in {:.1} s, moved by {} days so that the newest is of today",
        loaded.events,
        began.elapsed().as_secs_f64(),
        loaded.moved_ms / 86_400_000
    );
    Ok(())
}

/// Waits until SQL has all of every log.
async fn settle(deployment: &Deployment) -> Result<()> {
    for partition in deployment.partitions() {
        partition.settle().await?;
    }
    Ok(())
}

/// The outcome of a load.
struct Loaded {
    events: usize,
    /// The span that the events were moved by, in milliseconds.
    moved_ms: i64,
}

/// Creates the demo boards and loads the events that they lack.
async fn load(deployment: &Deployment, committers: &Committers) -> Result<Loaded> {
    let rows = rows()?;
    let db = &deployment.db;
    let now_ms = deployment.clock.now_ms();
    let (largest, born_ms) =
        find_or_create(db, LARGEST, "Largest commit, all projects", Policy::Best, now_ms).await?;
    let newest_ms = rows.iter().map(|row| row.at).max().unwrap_or(0) * 1000;
    let moved_ms = (born_ms - newest_ms).max(0) / 1000 * 1000;
    let recent_title = format!("All projects, the last {RECENT_DAYS} days");
    let (recent, _) = find_or_create(db, RECENT, &recent_title, Policy::Sum, now_ms).await?;
    let recent_from_ms = newest_ms - RECENT_DAYS * 86_400_000;
    let mut boards: BTreeMap<String, Board> = BTreeMap::new();
    for row in &rows {
        if !boards.contains_key(&row.board) {
            let title = format!("{}: lines changed", row.board);
            boards.insert(
                row.board.clone(),
                find_or_create(db, &row.board, &title, Policy::Sum, now_ms).await?.0,
            );
        }
    }
    for partition in deployment.partitions() {
        partition.settle().await?;
    }
    let mut known: HashMap<BoardNo, HashSet<String>> = HashMap::new();
    for board in boards.values().chain([&largest, &recent]) {
        // The dedup window forgets event ids after a day; the history does not.
        known.insert(board.no, event_ids::of_board(db, board.no).await?);
    }
    let mut by_partition: BTreeMap<PartitionNo, Vec<Submission>> = BTreeMap::new();
    for row in &rows {
        let of_all = format!("{}:{}", row.board, row.event_id);
        let of_boards = [
            (&boards[&row.board], row.event_id.clone()),
            (&largest, of_all.clone()),
            (&recent, of_all),
        ];
        for (board, event_id) in of_boards {
            let is_old = board.no == recent.no && row.at * 1000 < recent_from_ms;
            if is_old || known[&board.no].contains(&event_id) {
                continue;
            }
            let member = MemberId::new(&row.member)?;
            let partition = deployment.store.partitions().of_member(board, &member);
            let event_id = Some(EventId::new(&event_id)?);
            let submission = Submission {
                report: Report::Nothing,
                board: board.clone(),
                member,
                score: row.lines,
                at_ms: Some(row.at * 1000 + moved_ms),
                event_id,
                segments: vec![],
                metadata: None,
                provenance: None,
            };
            by_partition.entry(partition).or_default().push(submission);
        }
    }
    let events = submit_all(committers, by_partition).await?;
    Ok(Loaded { events, moved_ms })
}

/// Submits events in batches. Returns the number of those that are new.
async fn submit_all(
    committers: &Committers,
    by_partition: BTreeMap<PartitionNo, Vec<Submission>>,
) -> Result<usize> {
    let batches = by_partition.into_iter().flat_map(|(partition, submissions)| {
        let chunks: Vec<_> = submissions
            .chunks(COMMIT_EVENTS_MAX)
            .map(|chunk| (partition, chunk.to_vec()))
            .collect();
        chunks
    });
    let client: Arc<str> = "demo".into();
    let mut placed = futures::stream::iter(
        batches.map(|(partition, batch)| committers.submit(&client, partition, batch)),
    )
    .buffer_unordered(IN_FLIGHT);
    let mut loaded = 0;
    while let Some(answer) = placed.next().await {
        for verdict in answer?.verdicts {
            match verdict {
                Verdict::Accepted { .. } => loaded += 1,
                Verdict::Duplicate { .. } | Verdict::Taken { .. } => {}
                Verdict::Rejected(error) => bail!("an event of the demo was refused: {error}"),
                Verdict::Quarantined { message, .. } => {
                    bail!("an event of the demo was quarantined: {message}")
                }
            }
        }
    }
    Ok(loaded)
}

/// True if all of the demo is loaded: a load may have been interrupted.
///
/// # Errors
/// If SQL does not answer.
async fn is_loaded(db: &DatabaseConnection) -> Result<bool> {
    let rows = rows()?;
    let mut slugs: BTreeSet<&str> = rows.iter().map(|row| row.board.as_str()).collect();
    slugs.extend([LARGEST, RECENT]);
    let boards = board::of_slugs(db, &slugs).await?;
    if boards.len() < slugs.len() {
        return Ok(false);
    }
    // Archived events were loaded before.
    if boards.iter().any(|board| board.archived_before_ms.is_some()) {
        return Ok(true);
    }
    let numbers = boards.iter().map(|board| board.no);
    let events = score_event::count_of_boards(db, numbers).await?;
    let recent_from = rows.iter().map(|row| row.at).max().unwrap_or(0) - RECENT_DAYS * 86_400;
    let recent = rows.iter().filter(|row| row.at >= recent_from).count();
    Ok(events >= (2 * rows.len() + recent) as u64)
}

fn rows() -> Result<Vec<Row>> {
    let mut text = String::new();
    GzDecoder::new(EVENTS).read_to_string(&mut text).context("the demo's events are broken")?;
    Ok(csv::Reader::from_reader(text.as_bytes()).deserialize().collect::<Result<_, _>>()?)
}

/// A demo board and the instant at which it was made, in Unix milliseconds.
async fn find_or_create(
    db: &DatabaseConnection,
    slug: &str,
    title: &str,
    policy: Policy,
    now_ms: i64,
) -> Result<(Board, i64)> {
    let mut windows = vec![Window::Daily, Window::Weekly, Window::Monthly];
    if slug == RECENT {
        windows.push("7d".parse()?);
    }
    let rules = Rules::new(RulesInput { policy, windows, ..Default::default() })?;
    if let Some(row) = board::of_slug(db, slug).await? {
        let ours = board::of_rules(slug, title, &rules, "UTC", row.created_at_ms);
        let ours = board::Model { no: row.no, change: row.change, ..ours };
        ensure!(ours == row, "there is a board {slug} of your own; the demo will not touch it");
        return Ok((row.to_ranking()?, row.created_at_ms));
    }
    let row = board::of_rules(slug, title, &rules, "UTC", now_ms);
    let act = of_command("laurel demo", &Clock::default());
    let row = insert_noted(db, row, act).await?;
    let row = row.with_context(|| format!("another program has just made the board {slug}"))?;
    Ok((row.to_ranking()?, now_ms))
}
