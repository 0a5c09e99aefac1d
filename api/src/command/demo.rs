//! The demo: boards of real commits, loaded through the ordinary path.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::Read;

use anyhow::{Context, Result, bail, ensure};
use engine::deployment::Deployment;
use engine::partition::recovery::settle;
use entity::board;
use entity::history::score_event;
use flate2::read::GzDecoder;
use futures::StreamExt;
use ranking::board::{Board, Direction, Policy, Rules, RulesInput, TieBreak};
use ranking::commit::COMMIT_EVENTS_MAX;
use ranking::id::{BoardNo, EventId, MemberId, Partition};
use ranking::submission::{Submission, Verdict};
use ranking::window::Window;
use sea_orm::{
    ColumnTrait, DatabaseConnection, EntityTrait, PaginatorTrait, QueryFilter, QuerySelect, Set,
    TryIntoModel,
};
use serde::Deserialize;

use crate::submit::committer::Committers;

const EVENTS: &[u8] = include_bytes!("../../demo/commits.csv.gz");

/// The board of every project's largest commit.
const LARGEST: &str = "largest-commit";

/// How many batches are under way at once.
const IN_FLIGHT: usize = 32;

#[derive(Deserialize)]
struct Row {
    board: String,
    member: String,
    at: i64,
    event_id: String,
    lines: i64,
}

/// Creates the demo boards and loads their events; nothing where they are there already. Says how many events were loaded.
///
/// # Errors
/// Where a store does not answer or refuses an event.
pub async fn load(deployment: &Deployment, committers: &Committers) -> Result<usize> {
    let rows = rows()?;
    let mut boards: BTreeMap<String, Board> = BTreeMap::new();
    for row in &rows {
        if !boards.contains_key(&row.board) {
            let title = format!("{}: lines changed", row.board);
            boards.insert(
                row.board.clone(),
                find_or_create(&deployment.db, &row.board, &title, Policy::Sum).await?,
            );
        }
    }
    let largest =
        find_or_create(&deployment.db, LARGEST, "Largest commit, all projects", Policy::Best)
            .await?;
    for partition in deployment.store.partitions().each() {
        settle(deployment, partition).await?;
    }
    let mut known: HashMap<BoardNo, HashSet<String>> = HashMap::new();
    for board in boards.values().chain([&largest]) {
        known.insert(board.no, known_ids(&deployment.db, board).await?);
    }
    let mut by_partition: BTreeMap<Partition, Vec<Submission>> = BTreeMap::new();
    for row in &rows {
        for (board, event_id) in [
            (&boards[&row.board], row.event_id.clone()),
            (&largest, format!("{}:{}", row.board, row.event_id)),
        ] {
            if known[&board.no].contains(&event_id) {
                continue;
            }
            let member = MemberId::new(&row.member)?;
            let partition = deployment.store.partitions().of_member(board, &member);
            let event_id = Some(EventId::new(&event_id)?);
            let submission = Submission {
                board: board.clone(),
                member,
                score: row.lines,
                at_ms: Some(row.at * 1000),
                event_id,
                segments: vec![],
            };
            by_partition.entry(partition).or_default().push(submission);
        }
    }
    let batches = by_partition.into_iter().flat_map(|(partition, submissions)| {
        let chunks: Vec<_> = submissions
            .chunks(COMMIT_EVENTS_MAX)
            .map(|chunk| (partition, chunk.to_vec()))
            .collect();
        chunks
    });
    let mut placed = futures::stream::iter(
        batches.map(|(partition, batch)| committers.submit(partition, batch)),
    )
    .buffer_unordered(IN_FLIGHT);
    let mut loaded = 0;
    while let Some(answer) = placed.next().await {
        for verdict in answer?.verdicts {
            match verdict {
                Verdict::Accepted { .. } => loaded += 1,
                Verdict::Duplicate { .. } => {}
                Verdict::Rejected(error) => bail!("an event of the demo was refused: {error}"),
            }
        }
    }
    Ok(loaded)
}

/// Whether all of the demo is there: its loading may have been cut short.
///
/// # Errors
/// Where SQL does not answer.
pub async fn is_loaded(db: &DatabaseConnection) -> Result<bool> {
    let rows = rows()?;
    let mut slugs: BTreeSet<&str> = rows.iter().map(|row| row.board.as_str()).collect();
    slugs.insert(LARGEST);
    let boards = board::living().filter(board::Column::Slug.is_in(slugs.clone())).all(db).await?;
    if boards.len() < slugs.len() {
        return Ok(false);
    }
    // What is archived was there.
    if boards.iter().any(|board| board.archived_before_ms.is_some()) {
        return Ok(true);
    }
    let numbers = boards.iter().map(|board| board.no);
    let events = score_event::Entity::find()
        .filter(score_event::Column::BoardNo.is_in(numbers))
        .count(db)
        .await?;
    Ok(events >= 2 * rows.len() as u64)
}

/// The event ids of a board that the history holds: the dedup window forgets them after a day.
async fn known_ids(db: &DatabaseConnection, board: &Board) -> Result<HashSet<String>> {
    let select = score_event::Entity::find().select_only().column(score_event::Column::EventId);
    let ids: Vec<Option<String>> =
        select.filter(score_event::Column::BoardNo.eq(board.no.0)).into_tuple().all(db).await?;
    Ok(ids.into_iter().flatten().collect())
}

fn rows() -> Result<Vec<Row>> {
    let mut text = String::new();
    GzDecoder::new(EVENTS).read_to_string(&mut text).context("the demo's events are broken")?;
    Ok(csv::Reader::from_reader(text.as_bytes()).deserialize().collect::<Result<_, _>>()?)
}

async fn find_or_create(
    db: &DatabaseConnection,
    slug: &str,
    title: &str,
    policy: Policy,
) -> Result<Board> {
    let rules = Rules::new(RulesInput {
        direction: Direction::HighFirst,
        policy,
        tie_break: TieBreak::Earliest,
        tick_ms: None,
        decimals: 0,
        min: 0,
        max: 999_999_999,
        zone: ranking::window::parse_zone("UTC")?,
        shards: 1,
        windows: vec![Window::Daily, Window::Weekly, Window::Monthly],
    })?;
    if let Some(row) = board::living().filter(board::Column::Slug.eq(slug)).one(db).await? {
        let ours = board::of_rules(slug, title, &rules, "UTC", row.created_at_ms);
        let ours = board::ActiveModel { no: Set(row.no), ..ours }.try_into_model()?;
        ensure!(ours == row, "there is a board {slug} of your own; the demo will not touch it");
        return Ok(row.to_ranking()?);
    }
    let row = board::of_rules(slug, title, &rules, "UTC", entity::now_ms());
    Ok(board::Entity::insert(row).exec_with_returning(db).await?.to_ranking()?)
}
