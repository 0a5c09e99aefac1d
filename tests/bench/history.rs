//! Rebuilds and diffs of a whole history, beside the same work by others; and the latency of
//! writers during a rebuild.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use entity::history::score_event;
use rand::RngExt;
use rand::seq::SliceRandom;
use ranking::board::Board;
use ranking::board::rules::{Rules, RulesInput};
use ranking::score::rank_key::RankKey;
use ranking::store::stage::payload;
use ranking::window::Window;
use redis::aio::MultiplexedConnection;
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::figures::{Figures, quantile};
use crate::server::{Server, program};
use crate::stores::Stores;
use crate::{Scale, peers};
use tests::servers::program::ANALYTICS;

/// The members of the boards, and the events of each.
const MEMBERS: usize = 10_000_000;
const EVENTS_OF_MEMBER: usize = 5;

/// The partitions of the deployment, as many as giant boards want.
const PARTITIONS: u16 = 256;

/// The boards' shards.
const SHARDS: [u16; 2] = [256, 16];

/// The tick: sums this large leave no room for a finer one.
const TICK_MS: u32 = 100_000;

/// The highest score: no sum is above it.
const SCORE_MAX: i64 = 10_000_000_000;

/// Entries of a payload, few enough that no command runs for long.
const PAYLOAD_ENTRIES: usize = 40_000;

/// Entries that one variadic `ZADD` sets.
const PAIRS: usize = 1000;

/// Commands in flight at once.
const PIPELINED: usize = 16;

/// Submissions a second beside a rebuild, the scores of one mutation, and how long writers are
/// measured alone.
const SUBMISSIONS: usize = 5000;
const BATCH: usize = 10;
const ALONE: Duration = Duration::from_secs(5);

/// The mutation that is sent beside a rebuild.
const SUBMIT: &str = "mutation($slug: ID!, $scores: [ScoreInput!]!) { submitScores(input: { board: $slug, scores: $scores }) { accepted } }";

/// Measures and adds the figures.
pub(crate) async fn measure(scale: Scale, figures: &mut Figures) {
    let members = scale.of(MEMBERS, 10_000);
    let stores = Stores::open(PARTITIONS).await;
    let python = python().await;
    let events = stores.dir().join("events.parquet");
    let [count, events_count] =
        [members, members * EVENTS_OF_MEMBER].map(|count| count.to_string());
    let generate = ["generate", "--members", &count, "--events", &events_count, "--out"];
    analytics(&stores, &[&generate[..], &[text(&events)]].concat()).await;
    let mut boards = vec![];
    for shards in SHARDS {
        let board = create(&stores, shards).await;
        fill(&stores, &python, &events, &board).await;
        boards.push(board);
    }
    let restored = analytics(&stores, &["restore", "--exclusive"]).await;
    figures.add("restore of both boards from SQL", "s", "Laurel", restored.seconds);
    for run in 1..=crate::RUNS {
        println!("history, run {run}");
        let (polars, entries) = fold(&python, "polars", &events).await;
        let (duckdb, _) = fold(&python, "duckdb", &events).await;
        let raw = load_sorted(&stores, entries).await;
        let random = load_random(&stores, entries.div_ceil(10)).await
            * (entries as f64 / entries.div_ceil(10) as f64);
        println!(
            "polars {polars:.1} s, DuckDB {duckdb:.1} s, RESTORE {raw:.1} s, random ZADD {random:.1} s"
        );
        for board in &boards {
            let (slug, shards) = (slug(board), board.rules.shards);
            let rebuild = ["rebuild", "--board", &slug];
            let rebuilt = analytics(&stores, &rebuild).await;
            let said = |name: &str| rebuilt.said[name].as_f64().unwrap();
            let alone = analytics(&stores, &[&rebuild[..], &["--exclusive"]].concat()).await;
            for (how, rebuilt) in [("rebuild", &rebuilt), ("rebuild --exclusive", &alone)] {
                let what = format!("{how} of {members} members, S = {shards}");
                figures.add(
                    &what,
                    "s",
                    "polars' own group-by and sort, then RESTORE",
                    polars + raw,
                );
                figures.add(&what, "s", "Laurel", rebuilt.seconds);
            }
            let what = format!("of it reading and folding, S = {shards}");
            figures.add(&what, "s", "DuckDB's group-by and sort", duckdb);
            figures.add(&what, "s", "Laurel", said("readingSeconds") + said("foldingSeconds"));
            let what = format!("of it loading, S = {shards}");
            figures.add(&what, "s", "variadic ZADD in random order", random);
            figures.add(&what, "s", "Laurel", said("loadingSeconds"));
            let what = format!("memory of the rebuild, S = {shards}");
            figures.add(&what, "MB", "analytics", rebuilt.memory_mb);
            let whole = analytics(&stores, &["diff", "--board", &slug, "--full"]).await;
            let clean = analytics(&stores, &["diff", "--board", &slug]).await;
            let exclusive = ["diff", "--board", &slug, "--exclusive"];
            let alone = analytics(&stores, &exclusive).await;
            for (what, diff) in [
                ("whole diff", &whole),
                ("diff with nothing new", &clean),
                ("diff with nothing new, --exclusive", &alone),
            ] {
                assert_eq!(diff.said["found"], 0, "{}", diff.said);
                let what = format!("{what}, S = {shards}");
                figures.add(&what, "s", "the rebuild", rebuilt.seconds);
                figures.add(&what, "s", "the diff", diff.seconds);
            }
            let what = format!("memory of the whole diff, S = {shards}");
            figures.add(&what, "MB", "analytics", whole.memory_mb);
        }
        beside_writers(&stores, &boards[0], members, figures).await;
    }
    stores.close().await;
}

/// A Python that has polars and DuckDB.
pub(crate) async fn python() -> PathBuf {
    let python = peers::python("history", "polars==2.1.0 duckdb==2.0.0 xxhash==4.1.0").await;
    python.expect("polars and duckdb come from PyPI")
}

/// The output and the cost of a run of the program.
pub(crate) struct Done {
    pub(crate) said: Value,
    pub(crate) seconds: f64,
    pub(crate) memory_mb: f64,
}

/// Runs `analytics` on the stores.
pub(crate) async fn analytics(stores: &Stores, arguments: &[&str]) -> Done {
    let began = Instant::now();
    let mut command: Command = program(stores, ANALYTICS).into();
    command.args(arguments).args(["--json", "--log", "error"]).stdout(std::process::Stdio::piped());
    let child = command.spawn().expect("`make bench` builds analytics");
    let status = PathBuf::from(format!("/proc/{}/status", child.id().unwrap()));
    let mut output = Box::pin(child.wait_with_output());
    let mut memory_mb = 0.0;
    let output = loop {
        tokio::select! {
            output = &mut output => break output.unwrap(),
            () = tokio::time::sleep(Duration::from_millis(50)) => memory_mb = most_memory(&status).unwrap_or(memory_mb),
        }
    };
    let seconds = began.elapsed().as_secs_f64();
    let said = String::from_utf8_lossy(&output.stdout);
    println!(
        "analytics {}: {seconds:.1} s, {memory_mb:.0} MB: {}",
        arguments.join(" "),
        said.trim()
    );
    assert!(output.status.success(), "analytics {arguments:?}");
    Done { said: serde_json::from_str(&said).unwrap(), seconds, memory_mb }
}

/// The peak memory of a process in MB, if it is known.
fn most_memory(status: &Path) -> Option<f64> {
    let status = std::fs::read_to_string(status).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes / 1000.0)
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("temporary directories have names of text")
}

fn slug(board: &Board) -> String {
    format!("in-{}", board.rules.shards)
}

/// Creates a board with the window `all` alone.
pub(crate) async fn create(stores: &Stores, shards: u16) -> Board {
    let rules = Rules::new(RulesInput {
        tick_ms: Some(TICK_MS),
        max: SCORE_MAX,
        shards,
        ..Default::default()
    });
    let slug = format!("in-{shards}");
    let row = entity::board::of_rules(&slug, &slug, &rules.unwrap(), "UTC", 0);
    let row = entity::board::insert(&stores.deployment.db, row).await.unwrap();
    row.unwrap().to_ranking().unwrap()
}

/// Puts the events into the board's archive, as if they had been played.
pub(crate) async fn fill(stores: &Stores, python: &Path, events: &Path, board: &Board) {
    let began = Instant::now();
    let partitions = stores.deployment.store.partitions();
    let of_shards: Vec<u16> =
        (0..board.rules.shards).map(|shard| partitions.of(board, shard).0).collect();
    let settings = json!({
        "no": board.no.0, "generation": board.generation, "partitions": of_shards, "tick_ms": TICK_MS, "max_score": SCORE_MAX,
        "time_bits": board.rules.layout(Window::All).time_bits(),
    });
    let data = stores.dir().join("data");
    let (database, archive) = (data.join("laurel.sqlite"), data.join("archive"));
    let settings = settings.to_string();
    let arguments = ["history.py", text(&database), text(&archive), text(events), &settings];
    run(python, &arguments).await;
    println!("{}: its history made in {:.0} s", slug(board), began.elapsed().as_secs_f64());
}

pub(crate) async fn run(python: &Path, arguments: &[&str]) -> Vec<u8> {
    let mut command = Command::new(python);
    command.current_dir(peers::dir()).args(arguments);
    let output = command.output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    output.stdout
}

/// The same group-by and sort of the same file by a peer: the seconds, and the number of entries.
async fn fold(python: &Path, peer: &str, events: &Path) -> (f64, usize) {
    let said = run(python, &["fold.py", peer, text(events)]).await;
    let said: Value = serde_json::from_slice(&said).unwrap();
    let [seconds, rows] = ["seconds", "rows"].map(|name| said[name].as_f64().unwrap());
    (seconds, rows as usize)
}

/// A member's id, as the events have it.
fn member(place: usize, members: usize) -> String {
    format!("m{place:0width$}", width = members.to_string().len())
}

/// Loads sorted entries with RESTORE alone, the fastest way there is. Returns seconds.
async fn load_sorted(stores: &Stores, members: usize) -> f64 {
    let mut redis = stores.redis();
    let entries: Vec<(String, f64)> =
        (0..members).map(|place| (member(place, members), place as f64)).collect();
    let began = Instant::now();
    let (mut pipe, mut keys) = (redis::pipe(), vec![]);
    for (piece, entries) in entries.chunks(PAYLOAD_ENTRIES).enumerate() {
        let entries = entries.iter().map(|(member, double)| (member.as_bytes(), *double));
        let key = format!("sorted:{piece}");
        pipe.cmd("RESTORE").arg(&key).arg(0).arg(payload::encode(entries)).ignore();
        keys.push(key);
        if pipe.len() == PIPELINED {
            let () = pipe.query_async(&mut redis).await.unwrap();
            pipe.clear();
        }
    }
    let () = pipe.query_async(&mut redis).await.unwrap();
    let seconds = began.elapsed().as_secs_f64();
    unlink(redis, &keys).await;
    seconds
}

/// Loads entries in random order with variadic ZADD, pipelined. Returns seconds.
async fn load_random(stores: &Stores, members: usize) -> f64 {
    let mut redis = stores.redis();
    let mut entries: Vec<(String, String)> = (0..members as i64)
        .map(|place| {
            (member(place as usize, members), RankKey::from_i64(place << 20).unwrap().to_redis())
        })
        .collect();
    entries.shuffle(&mut rand::rng());
    let began = Instant::now();
    let mut pipe = redis::pipe();
    for pairs in entries.chunks(PAIRS) {
        let command = pipe.cmd("ZADD").arg("random");
        for (member, key) in pairs {
            command.arg(key).arg(member);
        }
        command.ignore();
        if pipe.len() == PIPELINED {
            let () = pipe.query_async(&mut redis).await.unwrap();
            pipe.clear();
        }
    }
    let () = pipe.query_async(&mut redis).await.unwrap();
    let seconds = began.elapsed().as_secs_f64();
    unlink(redis, &["random".to_owned()]).await;
    seconds
}

async fn unlink(mut redis: MultiplexedConnection, keys: &[String]) {
    let () = redis::cmd("UNLINK").arg(keys).query_async(&mut redis).await.unwrap();
}

/// Measures submissions during a rebuild, and checks that no event is lost or counted twice.
async fn beside_writers(stores: &Stores, board: &Board, members: usize, figures: &mut Figures) {
    let server = Arc::new(Server::start(stores, &[]).await);
    let before = events(stores, board).await;
    let slug = slug(board);
    let (mut alone_ms, alone) =
        submit_until(&server, &slug, members, tokio::time::sleep(ALONE)).await;
    let rebuild = async {
        analytics(stores, &["rebuild", "--board", &slug]).await;
    };
    let (mut beside_ms, beside) = submit_until(&server, &slug, members, rebuild).await;
    let diff = analytics(stores, &["diff", "--board", &slug]).await;
    assert_eq!(diff.said["found"], 0, "{}", diff.said);
    assert_eq!(
        events(stores, board).await - before,
        alone + beside,
        "an event is lost, or there twice"
    );
    for (what, part) in [("p50", 0.5), ("p99", 0.99)] {
        let what = format!("{SUBMISSIONS} submissions a second in tens, {what}");
        figures.add(&what, "ms", "alone", quantile(&mut alone_ms, part));
        figures.add(&what, "ms", "beside a rebuild of the board", quantile(&mut beside_ms, part));
    }
}

/// The number of a board's events in SQL, once the persister has all of them.
async fn events(stores: &Stores, board: &Board) -> u64 {
    stores.settle().await;
    let of_board = score_event::Entity::find().filter(score_event::Column::BoardNo.eq(board.no.0));
    of_board.count(&stores.deployment.db).await.unwrap()
}

/// Submits at a steady rate until `done`. Returns the time of each mutation, and the number of
/// accepted scores.
async fn submit_until(
    server: &Arc<Server>,
    slug: &str,
    members: usize,
    done: impl Future<Output = ()>,
) -> (Vec<f64>, u64) {
    let mut ticks =
        tokio::time::interval(Duration::from_secs(1) * BATCH as u32 / SUBMISSIONS as u32);
    let (mut sent, mut done) = (JoinSet::new(), std::pin::pin!(done));
    loop {
        tokio::select! {
            () = &mut done => break,
            _ = ticks.tick() => {}
        }
        let (server, slug) = (Arc::clone(server), slug.to_owned());
        sent.spawn(async move {
            let of_member = |_| json!({ "member": member(rand::rng().random_range(1..members), members), "score": "1" });
            let scores: Vec<Value> = (0..BATCH).map(of_member).collect();
            let began = Instant::now();
            let said = server.ask(SUBMIT, json!({ "slug": slug, "scores": scores })).await;
            (began.elapsed().as_secs_f64() * 1000.0, said["submitScores"]["accepted"].as_u64().unwrap())
        });
    }
    let (mut times_ms, mut accepted) = (vec![], 0);
    while let Some(one) = sent.join_next().await {
        let (ms, count) = one.unwrap();
        times_ms.push(ms);
        accepted += count;
    }
    (times_ms, accepted)
}
