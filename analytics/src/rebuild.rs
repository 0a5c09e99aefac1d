//! Rebuild: standings made anew from the history, staged beside the live ones and swapped in by a commit that names the head
//! they were folded to. Where the head has moved meanwhile nothing is swapped, and it begins again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use entity::deployment::Deployment;
use entity::persist::{insert_chunked, is_still};
use entity::recovery::settle;
use entity::roll::mark_rolled;
use entity::{board, log_cursor, standing};
use ranking::board::Board;
use ranking::commit::Head;
use ranking::id::{MemberId, Partition};
use ranking::key::StandingsId;
use ranking::rank_key::RankKey;
use ranking::roll::{Reach, Rolls};
use ranking::seal::{NEVER_MS, SealName};
use ranking::shard::shard_of;
use ranking::store::write::{Outcome, Writes};
use ranking::window::Window;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter, TransactionTrait,
};

use crate::fold::{self, Entries, Entry};
use crate::history::{self, History};
use crate::job::Job;

/// How often a rebuild begins again because somebody wrote meanwhile.
const ATTEMPTS_MAX: usize = 20;

/// What a rebuild did.
#[derive(Debug, Clone, Copy)]
pub struct Rebuilt {
    events: usize,
    standings: usize,
    entries: usize,
    seconds: f64,
}

impl Rebuilt {
    /// Its figures.
    pub fn to_json(self) -> serde_json::Value {
        serde_json::json!({ "events": self.events, "standings": self.standings, "entries": self.entries, "seconds": self.seconds })
    }
}

impl fmt::Display for Rebuilt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            events,
            standings,
            entries,
            seconds,
        } = self;
        write!(
            f,
            "rebuilt {entries} entries of {standings} standings from {events} events in {seconds:.1} s"
        )
    }
}

/// Rebuilds a board, or one window of it.
///
/// # Errors
/// Where the board has no such window, or a store does not answer; where others write faster than it rebuilds.
pub async fn rebuild(
    deployment: &Deployment,
    row: &board::Model,
    window: Option<Window>,
) -> Result<Rebuilt> {
    rebuild_as(deployment, "REBUILD", row, window).await
}

/// As [`rebuild`], as a job of a kind.
///
/// # Errors
/// As [`rebuild`].
pub async fn rebuild_as(
    deployment: &Deployment,
    kind: &str,
    row: &board::Model,
    window: Option<Window>,
) -> Result<Rebuilt> {
    let (board, _) = present(deployment, row.no, window).await?;
    let job = Job::begin(&deployment.db, kind, Some(row.no)).await?;
    let outcome = attempts(deployment, &board, window, &job).await;
    job.end(outcome).await
}

/// The board as its row says now, and the windows that are meant.
async fn present(
    deployment: &Deployment,
    no: i64,
    window: Option<Window>,
) -> Result<(Board, Vec<Window>)> {
    let row = board::living()
        .filter(board::Column::No.eq(no))
        .one(&deployment.db)
        .await?
        .context("the board was deleted")?;
    let board = row.to_ranking()?;
    ensure!(
        row.reshard.is_none(),
        "board {} is moving to another number of shards; rebuild it afterwards",
        row.slug
    );
    let windows = match window {
        Some(window) if board.rules.is_shown(window) => {
            // What it is made of with it: it is carried on from there.
            let base = window.rolling().map(|rolling| rolling.base());
            [window].into_iter().chain(base).collect()
        }
        Some(window) => bail!("board {} has no window {window}", row.slug),
        None => board.rules.windows.clone(),
    };
    Ok((board, windows))
}

async fn attempts(
    deployment: &Deployment,
    board: &Board,
    window: Option<Window>,
    job: &Job,
) -> Result<Rebuilt> {
    let began = Instant::now();
    let mut left: BTreeSet<Partition> = deployment
        .store
        .partitions()
        .of_board(board)
        .into_iter()
        .collect();
    for _ in 0..ATTEMPTS_MAX {
        let (board, windows) = &present(deployment, board.no.0, window).await?;
        let history = history::read(deployment, board, job).await?;
        let rolls = history::rolls(deployment, board).await?;
        let through_ms = history::through_ms(&rolls, deployment.clock.now_ms());
        let mut entries = Entries::new();
        for &window in windows.iter() {
            job.stage(&format!("folding {window}"), 0);
            entries.extend(fold::standings(
                board,
                window,
                &history.counted,
                through_ms,
            )?);
        }
        let rebuilt = Rebuilt {
            events: history.counted.count,
            standings: entries.len(),
            entries: entries.values().map(Vec::len).sum(),
            seconds: began.elapsed().as_secs_f64(),
        };
        let by_partition = split(deployment, board, entries);
        for partition in left.clone() {
            let part = by_partition.get(&partition).cloned().unwrap_or_default();
            if put(deployment, board, windows, &history, partition, &part, job).await? {
                left.remove(&partition);
            }
        }
        if left.is_empty() {
            return Ok(Rebuilt {
                seconds: began.elapsed().as_secs_f64(),
                ..rebuilt
            });
        }
    }
    bail!("others write to this board faster than it is rebuilt; try again when it is quieter")
}

fn split(deployment: &Deployment, board: &Board, entries: Entries) -> BTreeMap<Partition, Entries> {
    let mut parts: BTreeMap<Partition, Entries> = BTreeMap::new();
    for (id, entries) in entries {
        for entry in entries {
            let partition = deployment
                .store
                .partitions()
                .of(board, shard_of(&entry.member, board.rules.shards));
            parts
                .entry(partition)
                .or_default()
                .entry(id.clone())
                .or_default()
                .push(entry);
        }
    }
    parts
}

/// Puts a partition's part in the place of what SQL and Redis have; whether it did, or the partition has moved on.
async fn put(
    deployment: &Deployment,
    board: &Board,
    windows: &[Window],
    history: &History,
    partition: Partition,
    part: &Entries,
    job: &Job,
) -> Result<bool> {
    let head = &history.heads[&partition];
    if windows.contains(&Window::All) && !put_sql(deployment, board, partition, head, part).await? {
        return Ok(false);
    }
    let commit = head.next(entity::random_id(), deployment.clock.now_ms(), vec![]);
    job.stage("loading", part.values().map(Vec::len).sum());
    let mut writes = Writes::default();
    let seal = |&window: &Window| SealName {
        board: board.no,
        generation: board.generation_of(window),
        window,
    };
    let seals: Vec<SealName> = windows.iter().map(seal).collect();
    // Somebody may have changed the board since its row was read: from the commit that says so on, this one is stale, or knows.
    let tail = deployment
        .store
        .tail(partition, u64::MAX - 1, 1, board.no, &seals, None)
        .await?;
    // What is sealed, or is being, stays as it is.
    let sealed_ms: BTreeMap<Window, i64> = seals
        .iter()
        .zip(&tail.seals)
        .map(|(name, mark)| (name.window, mark.sealing_before_ms))
        .collect();
    let is_sealed = |id: &StandingsId| {
        let period = id.window.period_named(&id.period, &board.rules.zone);
        let sealed_ms = sealed_ms.get(&id.window).copied().unwrap_or(NEVER_MS);
        period.is_ok_and(|period| period.present_from_ms < sealed_ms)
    };
    if tail.board.check(board).is_err() {
        return Ok(false);
    }
    let keys = deployment.store.keys();
    for key in live_keys(deployment, board, windows, partition).await? {
        if keys
            .parse_standings(partition, &key)
            .is_none_or(|id| !is_sealed(&id))
        {
            writes.drop_key(&key);
        }
    }
    for key in deployment.store.periods_keys(partition, board.no).await? {
        let window = keys.window_of(partition, &key);
        let is_meant = |(window, generation)| {
            windows.contains(&window)
                && board.generation_of(window) == generation
                // A list may name periods that have no entries.
                && sealed_ms.get(&window).is_none_or(|&sealed_ms| sealed_ms == NEVER_MS)
        };
        if window.is_none_or(is_meant) {
            writes.drop_key(&key);
        }
    }
    let rolls = Rolls {
        marks: tail.rolls,
        now_ms: deployment.clock.now_ms(),
    };
    for (id, entries) in part.iter().filter(|(id, _)| !is_sealed(id)) {
        let period = id.window.period_named(&id.period, &board.rules.zone)?;
        if id.window.rolling().is_some() {
            if rolls.reach(id, &period, &board.rules.zone)? == Reach::NotThere {
                continue;
            }
            mark_rolled(&mut writes, keys, partition, board, id, &rolls)?;
        }
        let pairs: Vec<(MemberId, RankKey)> = entries
            .iter()
            .map(|entry| (entry.member.clone(), entry.key))
            .collect();
        let stage = deployment
            .store
            .stage(partition, &commit.id, id, &pairs)
            .await?;
        writes.swap_in(&stage, &keys.standings(partition, id));
        writes.note_period(keys, partition, id, period.present_from_ms);
        job.advance(pairs.len());
    }
    match deployment
        .store
        .commit_writes(partition, head, &commit, &writes)
        .await
    {
        Ok(Outcome::Done) => {}
        Ok(Outcome::Stale | Outcome::Restarted) => return Ok(false),
        Ok(Outcome::Refused(error)) | Err(error) => return Err(error.into()),
    }
    settle(deployment, partition).await?;
    Ok(true)
}

/// The keys that lie where the board's standings of those windows do, and those whose name nobody here writes.
async fn live_keys(
    deployment: &Deployment,
    board: &Board,
    windows: &[Window],
    partition: Partition,
) -> Result<Vec<String>> {
    let store = &deployment.store;
    let keys = store.standings_keys(partition, Some(board.no)).await?;
    let meant = |key: &String| {
        store
            .keys()
            .parse_standings(partition, key)
            .is_none_or(|id| {
                windows.contains(&id.window) && board.generation_of(id.window) == id.generation
            })
    };
    Ok(keys.into_iter().filter(meant).collect())
}

/// Replaces the partition's rows of `standing` in one transaction, if the cursor is at the head they were folded to.
async fn put_sql(
    deployment: &Deployment,
    board: &Board,
    partition: Partition,
    head: &Head,
    part: &Entries,
) -> Result<bool> {
    let cursor = log_cursor::Entity::find_by_id(i32::from(partition.0))
        .one(&deployment.db)
        .await?;
    let there = |cursor: &log_cursor::Model| {
        (cursor.seq as u64, &cursor.commit_id) == (head.seq, &head.commit)
    };
    let Some(cursor) = cursor.filter(there) else {
        return Ok(false);
    };
    let transaction = deployment.db.begin().await?;
    // A write that changes nothing, for its lock: no persister moves the cursor meanwhile.
    let held = log_cursor::Entity::update_many()
        .set(log_cursor::ActiveModel {
            seq: Set(cursor.seq),
            ..Default::default()
        })
        .filter(is_still(&cursor))
        .exec(&transaction)
        .await?;
    if held.rows_affected != 1 {
        transaction.rollback().await?;
        return Ok(false);
    }
    // Whoever deletes the board waits for this transaction before it takes the rows away.
    let board_is_there = board::living()
        .filter(board::Column::No.eq(board.no.0))
        .one(&transaction)
        .await?;
    if board_is_there.is_none() {
        transaction.rollback().await?;
        bail!("the board was deleted meanwhile");
    }
    standing::Entity::delete_many()
        .filter(standing::Column::BoardNo.eq(board.no.0))
        .filter(standing::Column::Partition.eq(i32::from(partition.0)))
        .exec(&transaction)
        .await?;
    let row = |id: &StandingsId, entry: &Entry| standing::Model {
        board_no: board.no.0,
        segment: id.segment.clone(),
        member: entry.member.to_string(),
        score: entry.score,
        rank_key: entry.key.to_i64(),
        partition: partition.0.into(),
        seq: entry.seq,
    };
    let all = part.iter().filter(|(id, _)| id.window == Window::All);
    let rows = all
        .flat_map(|(id, entries)| {
            entries
                .iter()
                .map(move |entry| row(id, entry).into_active_model())
        })
        .collect();
    insert_chunked::<standing::Entity, _>(&transaction, rows, Some(standing::replace())).await?;
    transaction.commit().await?;
    Ok(true)
}
