//! The statements on a real engine, DataFusion, held against `ranking`'s replay on random boards
//! and histories.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{LazyLock, Mutex};

use entity::history::score_event::Model;
use proptest::prelude::*;
use ranking::board::Board;
use ranking::commit::EventPlace;
use ranking::id::MemberId;
use ranking::shard::{Partitions, shard_of};
use serde_json::json;

use super::check::check_states;
use super::plan::{PinnedHead, Plan, make};
use super::sql::{Dialect, directory, statements};
use crate::frame::events::Events;
use crate::frame::fold::tests::{boards, rows};

/// A process that runs statements.
struct Engine {
    _child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

static ENGINE: LazyLock<Mutex<Engine>> = LazyLock::new(|| Mutex::new(Engine::start()));

impl Engine {
    fn start() -> Self {
        let own = std::env::current_exe().unwrap();
        let place = own.ancestors().nth(3).unwrap().join("engines");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/engines/engine.py");
        let mut child = Command::new("python3")
            .arg(script)
            .arg(place)
            .arg("datafusion")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is installed");
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { _child: child, input, output }
    }

    fn run(&mut self, request: &serde_json::Value) {
        writeln!(self.input, "{request}").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        assert_eq!(answer.trim_end(), "done", "{request:#}");
    }
}

/// A history of a board that moves to another number of shards before the event of some index, and
/// the board afterward. Seqs of the later layout are lower than those of the one before.
fn moved(board: &Board, rows: Vec<Model>, (at, shards): (usize, u16)) -> (Board, Vec<Model>) {
    let partitions = Partitions::new(16).unwrap();
    let has_moved = at < rows.len() && shards != board.rules.shards;
    let now = if has_moved { board.moved(shards) } else { board.clone() };
    let mut places: HashMap<EventPlace, EventPlace> = HashMap::new();
    let mut placed = vec![];
    for (index, mut row) in rows.into_iter().enumerate() {
        let former = row.place().unwrap();
        let is_later = has_moved && index >= at;
        let layout = usize::from(is_later);
        let member = MemberId::new(&row.member).unwrap();
        row.partition = partitions.of_member_in(&now, &member, layout).into();
        row.seq = if is_later { 1 + (index - at) as i64 / 3 } else { 1000 + index as i64 / 3 };
        row.generation = if is_later { now.generation as i32 } else { 1 };
        places.insert(former, row.place().unwrap());
        if let Some(target) = row.voids() {
            let EventPlace { partition, seq, index } = places[&target];
            row.void_partition = Some(partition.into());
            row.void_seq = Some(seq as i64);
            row.void_index = Some(index as i32);
        }
        placed.push(row);
    }
    (now, placed)
}

/// Writes the plan of a history.
fn plan(board: &Board, rows: &[Model], through_ms: i64, dir: &Path) -> Plan {
    let partitions = Partitions::new(16).unwrap();
    let mut files = vec![];
    std::fs::create_dir_all(dir.join("events")).unwrap();
    for (number, part) in [&rows[..rows.len() / 2], &rows[rows.len() / 2..]].iter().enumerate() {
        let mut events = Events::default();
        for row in *part {
            let shard = shard_of(&MemberId::new(&row.member).unwrap(), board.rules.shards);
            events.push(row.clone(), shard, None);
        }
        let path = format!("events/{number}.parquet");
        files.push(make::file_of(dir, &path, events).unwrap());
    }
    let mut plan = make::draft(board, (partitions, through_ms), dir, files).unwrap();
    let head = |partition: ranking::id::PartitionNo| PinnedHead {
        partition: partition.0,
        seq: 100_000,
        commit: String::new(),
    };
    plan.heads = partitions.of_board(board).into_iter().map(head).collect();
    plan
}

/// Runs every statement of a plan on DataFusion. Returns the directory of the states.
fn run(plan: &Plan, board: &Board, dir: &Path) -> PathBuf {
    let states = dir.join("states");
    let windows = &board.rules.windows;
    let statements = statements(plan, board, windows, Dialect::Datafusion, "/plan").unwrap();
    let statements = statements.into_iter();
    let statements = statements
        .map(|(window, sql)| json!({ "sql": sql, "out": states.join(directory(window)) }));
    let statements: Vec<_> = statements.collect();
    let (events, periods) = (dir.join("events/"), dir.join("periods.parquet"));
    let request = json!({ "events": events, "periods": periods, "statements": statements });
    ENGINE.lock().unwrap().run(&request);
    states
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, max_shrink_iters: 40, ..ProptestConfig::default() })]
    #[test]
    fn an_engine_folds_to_the_standings_of_a_replay(
        board in boards(),
        rows in rows(),
        later_ms in -9_000_000_000_i64..900_000_000,
        moves in (0_usize..80, prop_oneof![Just(1_u16), Just(4), Just(16)]),
    ) {
        let through_ms = 1_762_100_000_000 + later_ms;
        let (board, rows) = moved(&board, rows, moves);
        let dir = tempfile::tempdir().unwrap();
        let plan = plan(&board, &rows, through_ms, dir.path());
        // It is read back from its text.
        let text = serde_json::to_string(&plan).unwrap();
        let plan: Plan = serde_json::from_str(&text).unwrap();
        let board = plan.board().unwrap();
        let states = run(&plan, &board, dir.path());
        // More members than there are: each is folded again by `ranking`.
        let checked = check_states(&plan, &board, dir.path(), &states, 1000);
        prop_assert!(checked.is_ok(), "{:#}", checked.unwrap_err());
    }
}
