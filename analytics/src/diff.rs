//! The integrity diff: what history adds up to, what the table of standings has, and what Redis has, compared three ways.
//!
//! A first pass compares everything and gives suspects. Each suspect is then looked at again: its key and the head are read at one
//! moment, its history up to that head is folded anew by the Rust fold. Only what still differs is a finding, so that writes under way
//! make no false ones.

mod second_look;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use entity::board::WindowState;
use entity::deployment::Deployment;
use entity::persist::insert_chunked;
use entity::recovery::settle;
use entity::{archive_mark, board, integrity_finding, integrity_run, standing};
use ranking::board::Board;
use ranking::id::{BoardNo, MemberId, Partition};
use ranking::key::StandingsId;
use ranking::roll::Reach;
use ranking::window::Window;
use sea_orm::{ActiveValue::Set, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter};

use crate::finding::{Finding, Held, Kind, name_wrong_windows};
use crate::fold;
use crate::history;
use crate::job::Job;
use second_look::{Archived, look_again};

/// How many entries are read from a sorted set at once.
const ENTRIES_MAX: usize = 5000;

/// How many sorted sets are read at once.
const KEYS_MAX: usize = 100;

/// How many findings are printed; all are kept in SQL.
const PRINTED_MAX: usize = 50;

/// What a diff found.
#[derive(Debug)]
pub struct Found {
    run_id: i64,
    checked: usize,
    findings: Vec<Finding>,
    slugs: HashMap<i64, String>,
    seconds: f64,
}

/// A place where an entry is or should be: the partition it lies in, member bytes as text, standings.
type Place = (Partition, String, StandingsId);

impl Found {
    /// Whether everything agrees.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// Its figures and findings.
    pub fn to_json(&self) -> serde_json::Value {
        let finding = |finding: &Finding| {
            serde_json::json!({
                "kind": finding.kind.name(), "board": self.slugs.get(&finding.board_no), "member": finding.member, "window": finding.window,
                "period": finding.period, "segment": finding.segment, "history": finding.history, "sql": finding.sql, "redis": finding.redis,
            })
        };
        let findings: Vec<_> = self.findings.iter().map(finding).collect();
        serde_json::json!({ "run": self.run_id, "checked": self.checked, "found": findings.len(), "findings": findings, "seconds": self.seconds })
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let raw =
            |score: Option<i64>| score.map_or_else(|| "-".to_owned(), |score| score.to_string());
        for finding in self.findings.iter().take(PRINTED_MAX) {
            let Finding {
                kind,
                board_no,
                member,
                window,
                period,
                history,
                sql,
                redis,
                ..
            } = finding;
            let board = self
                .slugs
                .get(board_no)
                .map_or("a board that is gone", String::as_str);
            let scores = format!(
                "history {}, sql {}, redis {}",
                raw(*history),
                raw(*sql),
                raw(*redis)
            );
            writeln!(
                f,
                "{:<15}  {board}  {window} {period}  {member}: {scores}",
                kind.name()
            )?;
        }
        if self.findings.len() > PRINTED_MAX {
            writeln!(
                f,
                "… and {} more, in the table integrity_finding",
                self.findings.len() - PRINTED_MAX
            )?;
        }
        let (checked, found, seconds) = (self.checked, self.findings.len(), self.seconds);
        write!(
            f,
            "checked {checked} entries, found {found} differences in {seconds:.1} s (run {})",
            self.run_id
        )
    }
}

/// Compares boards, and keeps the run and its findings in SQL.
///
/// # Errors
/// What the stores say.
pub async fn diff(deployment: &Deployment, rows: &[board::Model]) -> Result<Found> {
    let began = Instant::now();
    let one = if let [row] = rows { Some(row.no) } else { None };
    let run = integrity_run::ActiveModel {
        board_no: Set(one),
        started_at_ms: Set(entity::now_ms()),
        checked: Set(0),
        found: Set(0),
        repaired: Set(0),
        ..Default::default()
    };
    let run_id = integrity_run::Entity::insert(run)
        .exec(&deployment.db)
        .await?
        .last_insert_id;
    let job = Job::begin(&deployment.db, "DIFF", one).await?;
    let outcome = compare_boards(deployment, rows, &job)
        .await
        .map(|(checked, findings)| Found {
            run_id,
            checked,
            findings,
            slugs: rows.iter().map(|row| (row.no, row.slug.clone())).collect(),
            seconds: began.elapsed().as_secs_f64(),
        });
    let found = job.end(outcome).await?;
    let rows = found
        .findings
        .iter()
        .enumerate()
        .map(|(index, finding)| finding.to_row(run_id, index).into_active_model());
    insert_chunked::<integrity_finding::Entity, _>(&deployment.db, rows.collect(), None).await?;
    let ended = integrity_run::ActiveModel {
        id: Set(run_id),
        finished_at_ms: Set(Some(entity::now_ms())),
        checked: Set(found.checked as i64),
        found: Set(found.findings.len() as i64),
        ..Default::default()
    };
    integrity_run::Entity::update(ended)
        .exec_without_returning(&deployment.db)
        .await?;
    Ok(found)
}

async fn compare_boards(
    deployment: &Deployment,
    rows: &[board::Model],
    job: &Job,
) -> Result<(usize, Vec<Finding>)> {
    for row in rows {
        for partition in deployment.store.partitions().of_board(&row.to_ranking()?) {
            settle(deployment, partition).await?;
        }
    }
    let mut keys: BTreeMap<BoardNo, Vec<(Partition, String)>> = BTreeMap::new();
    let only = if let [row] = rows {
        Some(BoardNo(row.no))
    } else {
        None
    };
    let (mut checked, mut findings) = (0, vec![]);
    // Events that made it into Redis before the keys are listed are in the history that is read after it.
    for (partition, key) in deployment.store.all_standings_keys(only).await? {
        if let Some(id) = deployment.store.keys().parse_standings(partition, &key) {
            keys.entry(id.board).or_default().push((partition, key));
        } else {
            findings.push(foreign_key(&key));
        }
    }
    for row in rows {
        let board = row.to_ranking()?;
        ensure!(
            !board.layouts.is_coming,
            "board {} is moving to another number of shards; compare it afterwards",
            row.slug
        );
        let mut keys = keys.remove(&board.no).unwrap_or_default();
        let unfinished = unfinished_windows(row)?;
        keys.retain(|(partition, key)| {
            let window = deployment.store.keys().window_of(*partition, key);
            let id = deployment.store.keys().parse_standings(*partition, key);
            if id.is_some_and(|id| is_sealed(&board, &id)) {
                return false;
            }
            window.is_none_or(|window| {
                // What was added since is not in the rules that are compared with.
                window.1 <= row.generation.unsigned_abs() && !unfinished.contains(&window)
            })
        });
        let FirstPass {
            checked: entries,
            suspects,
            foreign,
            marks,
        } = first_pass(deployment, &board, &keys, job).await?;
        checked += entries;
        findings.extend(foreign);
        job.stage(&format!("looking again at {}", row.slug), suspects.len());
        let suspects: Vec<Place> = suspects.into_iter().collect();
        let archived = Archived::of(deployment, &board, marks, &suspects).await?;
        for places in suspects.chunk_by(|a, b| (a.0, &a.1) == (b.0, &b.1)) {
            findings.extend(look_again(deployment, &board, &archived, places).await?);
            job.advance(places.len());
        }
    }
    for (no, key) in keys
        .into_iter()
        .flat_map(|(no, keys)| keys.into_iter().map(move |(_, key)| (no, key)))
    {
        findings.push(Finding {
            board_no: no.0,
            ..foreign_key(&key)
        });
    }
    name_wrong_windows(&mut findings);
    Ok((checked, findings))
}

/// The windows that are being filled or dropped, with the generations that they came in: nobody reads them.
fn unfinished_windows(row: &board::Model) -> Result<BTreeSet<(Window, u32)>> {
    let mut unfinished = BTreeSet::new();
    for window in row.window_rows()? {
        if window.state != WindowState::Whole {
            unfinished.insert((window.name.parse()?, window.since));
        }
    }
    Ok(unfinished)
}

/// Whether a standings is of a period that is being sealed, or is: it is not compared.
fn is_sealed(board: &Board, id: &StandingsId) -> bool {
    let period = id.window.period_named(&id.period, &board.rules.zone);
    period.is_ok_and(|period| period.present_from_ms < board.sealed(id.window).sealing_before_ms)
}

/// A key that lies where standings do and is none.
fn foreign_key(key: &str) -> Finding {
    let text = |text: &str| text.to_owned();
    Finding {
        kind: Kind::Phantom,
        board_no: 0,
        member: text("*"),
        window: text(key),
        period: text(""),
        segment: text(""),
        history: None,
        sql: None,
        redis: None,
    }
}

/// What the first pass gives.
struct FirstPass {
    /// How many entries were compared.
    checked: usize,
    /// The places where the three do not agree.
    suspects: BTreeSet<Place>,
    /// Entries whose member can be nobody: history has none of them.
    foreign: Vec<Finding>,
    /// How far the partitions are archived.
    marks: BTreeMap<Partition, archive_mark::Model>,
}

/// Compares everything once.
async fn first_pass(
    deployment: &Deployment,
    board: &Board,
    keys: &[(Partition, String)],
    job: &Job,
) -> Result<FirstPass> {
    let history = history::read(deployment, board, job).await?;
    let mut expected: HashMap<Place, Held> = HashMap::new();
    let whole = |window: &&Window| board.is_whole(**window);
    let rolls = history::rolls(deployment, board).await?;
    for &window in board.rules.windows.iter().filter(whole) {
        let through_ms = history::through_ms(&rolls, deployment.clock.now_ms());
        for (id, entries) in fold::standings(board, window, &history.counted, through_ms)? {
            let period = window.period_named(&id.period, &board.rules.zone)?;
            for entry in entries {
                let partition = deployment
                    .store
                    .partitions()
                    .of_member(board, &entry.member);
                // What is there in part only is looked at again, entry by entry.
                if window.rolling().is_some()
                    && rolls[&partition].reach(&id, &period, &board.rules.zone)? != Reach::There
                {
                    continue;
                }
                expected.insert(
                    (partition, entry.member.to_string(), id.clone()),
                    Held::Key(entry.key, entry.score),
                );
            }
        }
    }
    let checked = expected.len();
    let (mut suspects, mut foreign) = (BTreeSet::new(), vec![]);
    job.stage("comparing SQL", checked);
    let mut in_sql: BTreeSet<Place> = BTreeSet::new();
    for row in standing::Entity::find()
        .filter(standing::Column::BoardNo.eq(board.no.0))
        .all(&deployment.db)
        .await?
    {
        let id = StandingsId::all_time(board, row.segment);
        let partition = MemberId::new(&row.member).map_or(Partition(0), |member| {
            deployment.store.partitions().of_member(board, &member)
        });
        let place = (partition, row.member, id);
        if expected.get(&place) != Some(&Held::of_row(board, row.score, row.rank_key)) {
            suspects.insert(place.clone());
        }
        in_sql.insert(place);
    }
    suspects.extend(
        expected
            .keys()
            .filter(|place| place.2.window == Window::All && !in_sql.contains(place))
            .cloned(),
    );
    job.stage("comparing Redis", checked);
    for keys in keys.chunks(KEYS_MAX) {
        let names: Vec<String> = keys.iter().map(|(_, key)| key.clone()).collect();
        let sets = deployment.store.raw_entries(&names, 0, ENTRIES_MAX).await?;
        for ((partition, key), set) in keys.iter().zip(sets) {
            let id = deployment
                .store
                .keys()
                .parse_standings(*partition, key)
                .context("a key lost its name")?;
            let (mut start, mut part) = (0, set.unwrap_or_default());
            while !part.is_empty() {
                job.advance(part.len());
                start += part.len();
                let is_last = part.len() < ENTRIES_MAX;
                for (member, double) in part {
                    let text = String::from_utf8_lossy(&member);
                    if MemberId::new(&text).is_err() || text.as_bytes() != member {
                        // As text that every database takes.
                        let name = text.escape_debug().to_string();
                        foreign.extend(Finding::at(
                            &id,
                            &name,
                            None,
                            None,
                            Some(Held::of_double(board, id.window, double)),
                            deployment.clock.now_ms(),
                        ));
                        continue;
                    }
                    let place = (*partition, text.into_owned(), id.clone());
                    if expected.remove(&place) != Some(Held::of_double(board, id.window, double)) {
                        suspects.insert(place);
                    }
                }
                let more = if is_last {
                    None
                } else {
                    deployment
                        .store
                        .raw_entries(std::slice::from_ref(key), start, ENTRIES_MAX)
                        .await?
                        .pop()
                        .flatten()
                };
                part = more.unwrap_or_default();
            }
        }
    }
    // What history has and no sorted set had.
    suspects.extend(expected.into_keys());
    Ok(FirstPass {
        checked,
        suspects,
        foreign,
        marks: history.marks,
    })
}
