//! The rates of others: two libraries on the same Redis, and SQL alone.
//!
//! The libraries run in their own process, without a server before them. `leaderboard` makes one
//! call at a time, `redis-rank` 64.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rand::RngExt;
use sea_orm::{ConnectionTrait, Database, Statement};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::Scale;
use crate::figures::{Figures, quantile};
use crate::server::{Sending, Server};
use crate::serving::{AROUND, ONE, RANK, READING, TOP, WRITING, body, fill, name, random_members};
use crate::stores::Stores;
use tests::servers::postgres;
use tests::servers::program::root;

/// Members of the libraries' board.
const MEMBERS: usize = 100_000;

/// Members in the SQL table.
const ROWS: usize = 1_000_000;

/// How long each call is repeated, in seconds.
const SECONDS: &str = "3";

/// A library, and the program that drives it.
struct Peer {
    name: &'static str,
    program: PathBuf,
    script: &'static str,
}

/// Measures and adds the figures.
pub(crate) async fn measure(stores: Stores, scale: Scale, figures: &mut Figures) {
    let server = Server::start(&stores, &[]).await;
    let create =
        "mutation($input: CreateBoardInput!) { createBoard(input: $input) { board { slug } } }";
    let (members, rows) = (scale.of(MEMBERS, 1000), scale.of(ROWS, 1000));
    for (slug, count) in [("played", members), ("large", rows)] {
        server.ask(create, json!({ "input": { "slug": slug } })).await;
        fill(&stores, slug, count).await;
    }
    let mut plain = redis::cmd("ZADD");
    plain.arg("peers");
    for place in 0..members {
        plain.arg(place).arg(name(place));
    }
    let () = plain.query_async(&mut stores.redis()).await.unwrap();
    let peers = install().await;
    for run in 1..=crate::RUNS {
        println!("peers, run {run}");
        let mut did = vec![("Laurel, by GraphQL", own(&server, members).await)];
        for peer in &peers {
            did.push((peer.name, peer.work(&stores, members).await));
        }
        for (name, did) in did {
            for (what, doing) in [
                ("rank and those around, a second", "around"),
                ("the first hundred, a second", "top"),
                ("scores one by one, a second", "submit"),
            ] {
                figures.add(what, "", name, did[doing].as_f64().unwrap());
            }
        }
        sql(&server, rows, figures).await;
        stores.settle().await;
    }
    drop(server);
    stores.close().await;
}

/// The rates of a Laurel server with 64 connections and its caches on.
async fn own(server: &Server, members: usize) -> Value {
    let of = |query, members: usize| -> Vec<String> {
        let some = random_members(members).take(3000);
        some.map(|member| body(query, json!({ "slug": "played", "member": member, "score": "7" })))
            .collect()
    };
    let around = server.load(&of(AROUND, members), READING).await;
    let top = server.load(&of(TOP, members)[..1], READING).await;
    let submit = server.load(&of(ONE, members), WRITING).await;
    json!({ "around": around.rate, "top": top.rate, "submit": submit.rate })
}

/// Copies the scripts and their package files to a directory, and returns it.
pub(crate) fn dir() -> PathBuf {
    let sources = root().join("tests/bench/peers");
    let dir = Figures::dir().join("peers");
    std::fs::create_dir_all(&dir).unwrap();
    for entry in std::fs::read_dir(sources).unwrap() {
        let file = entry.unwrap();
        std::fs::copy(file.path(), dir.join(file.file_name())).unwrap();
    }
    dir
}

/// A Python with wheels in pinned versions; `None` if they cannot be installed.
pub(crate) async fn python(name: &str, wheels: &str) -> Option<PathBuf> {
    let dir = dir();
    let install =
        format!("python3 -m venv {name} && {name}/bin/python -m pip install --quiet {wheels}");
    let is_there = shell(&dir, &install).await;
    is_there.then(|| dir.join(name).join("bin/python"))
}

/// The libraries that can be installed.
async fn install() -> Vec<Peer> {
    let mut peers = vec![];
    if let Some(program) = python("leaderboards", "leaderboard==3.7.3 redis==2.10.6").await {
        peers.push(Peer { name: "leaderboard (PyPI)", program, script: "leaderboard_py.py" });
    }
    if shell(&dir(), "npm ci --no-audit --no-fund --silent").await {
        peers.push(Peer {
            name: "redis-rank (npm)",
            program: "node".into(),
            script: "redis_rank.js",
        });
    }
    peers
}

async fn shell(dir: &Path, line: &str) -> bool {
    let output = Command::new("sh").args(["-c", line]).current_dir(dir).output().await.unwrap();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        println!("left out: {line}: {said}");
    }
    output.status.success()
}

impl Peer {
    /// The rate of each call, per second.
    async fn work(&self, stores: &Stores, members: usize) -> Value {
        let mut command = Command::new(&self.program);
        command.current_dir(dir()).arg(self.script).arg(stores.socket()).args([
            "peers",
            &members.to_string(),
            SECONDS,
        ]);
        let output = command.output().await.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", self.name);
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// A member's rank by a count of the better scores in an indexed table of PostgreSQL, beside
/// Laurel's; one request at a time.
async fn sql(server: &Server, rows: usize, figures: &mut Figures) {
    let db = Database::connect(postgres::new_database().await).await.unwrap();
    let fill = format!(
        "CREATE TABLE played (member text COLLATE \"C\" PRIMARY KEY, score bigint NOT NULL);
         INSERT INTO played SELECT 'member-' || lpad(n::text, 9, '0'), (n::bigint * 7919) % {rows} FROM generate_series(0, {rows} - 1) AS n;
         CREATE INDEX played_score ON played (score);
         VACUUM ANALYZE played"
    );
    for statement in fill.split(';') {
        db.execute_unprepared(statement).await.unwrap();
    }
    let mut times_ms = vec![];
    let end = Instant::now() + Duration::from_secs(READING.seconds);
    while Instant::now() < end {
        let member = name(rand::rng().random_range(0..rows));
        let count = Statement::from_sql_and_values(
            db.get_database_backend(),
            "SELECT 1 + count(*) FROM played WHERE score > (SELECT score FROM played WHERE member = $1)",
            [member.into()],
        );
        let began = Instant::now();
        let row = db.query_one_raw(count).await.unwrap().unwrap();
        times_ms.push(began.elapsed().as_secs_f64() * 1000.0);
        assert!(row.try_get_by_index::<i64>(0).unwrap() > 0);
    }
    db.close().await.unwrap();
    let bodies: Vec<String> = random_members(rows)
        .take(3000)
        .map(|member| body(RANK, json!({ "slug": "large", "member": member })))
        .collect();
    let one = Sending { connections: 1, ..READING };
    let own = server.load(&bodies, one).await;
    let what = format!("a rank among {rows}, p50");
    figures.add(&what, "ms", "COUNT in PostgreSQL", quantile(&mut times_ms, 0.5));
    figures.add(&what, "ms", "Laurel, by GraphQL", own.p50_ms);
}
