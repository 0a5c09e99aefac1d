//! The cost of a request in several versions of the server, in turns.
//!
//! `BENCH_PROGRAMS` names their programs, with colons between them. Each has a private Redis and a
//! SQLite file of its own; a request costs the time of the processors of both.

use std::path::Path;
use std::process::Child;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tests::attack::UNRATED;
use tests::attack::process::{Process, redis_in};
use tests::servers::program::{command_at, signal};

use crate::figures::quantile;
use crate::server::{FIRST_WORDS, Sending, listen, wrk};

/// The rounds, in each of which every program has a turn with each kind of request.
const ROUNDS: usize = 12;

/// The members of the board.
const MEMBERS: usize = 50_000;

/// The different writes that a client sends over and over. Reads are of every member in turn: no
/// answer that is kept lives until its question comes again.
const WRITES: usize = 2000;

/// How they are sent.
const SENDING: Sending = Sending { connections: 8, seconds: 2, as_admin: false };

/// The time in which a server that is at rest takes next to nothing.
const CALM: Duration = Duration::from_millis(300);
const CALM_CPU: Duration = Duration::from_millis(20);

/// A kind of request: its name, whether a token goes with it, and the request of a number.
type Kind = (&'static str, bool, fn(usize) -> String);

const KINDS: [Kind; 6] = [
    ("a page that is kept", false, |_| standings("top(first:100){nodes{rank score member{key}}}")),
    ("a rank", false, |no| standings(&format!("{}{{rank score}}", entry(no)))),
    ("a rank with a token", true, |no| standings(&format!("{}{{rank score}}", entry(no)))),
    ("a rank with ten neighbors", false, |no| {
        let neighbors = format!("neighbors(member:\"{}\",above:5,below:5)", key(no));
        standings(&format!("{}{{rank score}} {neighbors}{{rank score member{{key}}}}", entry(no)))
    }),
    ("a score", true, |no| submission(no, 1)),
    ("100 scores", true, |no| submission(no, 100)),
];

/// A running server; it is killed when dropped, and its Redis with it.
struct Version {
    name: String,
    child: Child,
    url: String,
    token: String,
    redis: u32,
    /// True if it has the words of the first edition of the schema.
    is_first_edition: bool,
    dir: TempDir,
}

fn key(number: usize) -> String {
    format!("m{:05}", number * 7919 % MEMBERS)
}

fn entry(number: usize) -> String {
    format!("entry(member:\"{}\")", key(number))
}

fn standings(fields: &str) -> String {
    format!("{{board(slug:\"b\"){{standings{{{fields}}}}}}}")
}

fn submission(number: usize, count: usize) -> String {
    let score = |place: usize| {
        format!("{{member:\"{}\",score:{}}} ", key(number * count + place), 1 + place % 9)
    };
    let scores: String = (0..count).map(score).collect();
    format!("mutation{{submitScores(input:{{board:\"b\",scores:[{scores}]}}){{accepted}}}}")
}

/// Measures the programs and prints a table.
pub(crate) async fn measure() {
    let Ok(programs) = std::env::var("BENCH_PROGRAMS") else {
        println!("BENCH_PROGRAMS names the programs to compare, with colons between them");
        return;
    };
    let mut versions = vec![];
    for program in programs.split(':') {
        versions.push(Version::start(program).await);
    }
    let names: Vec<&str> = versions.iter().map(|version| version.name.as_str()).collect();
    println!("\n| µs of CPU | {} | ratios to the first |", names.join(" | "));
    println!("|---|{}---|", "---|".repeat(names.len()));
    for kind in KINDS {
        let mut rounds = vec![vec![]; versions.len()];
        for _ in 0..ROUNDS {
            for (version, costs) in versions.iter().zip(&mut rounds) {
                costs.push(version.cost(kind).await);
            }
        }
        let first = rounds[0].clone();
        let medians = rounds.iter_mut().map(|costs| {
            let mut ratios: Vec<f64> = costs.iter().zip(&first).map(|(a, b)| a / b).collect();
            (quantile(costs, 0.5), quantile(&mut ratios, 0.5))
        });
        let (costs, ratios): (Vec<_>, Vec<_>) = medians.unzip();
        let costs: Vec<String> = costs.iter().map(|us: &f64| format!("{us:.1}")).collect();
        let ratios: Vec<String> =
            ratios[1..].iter().map(|ratio: &f64| format!("{ratio:.2}")).collect();
        println!("| {} | {} | {} |", kind.0, costs.join(" | "), ratios.join(", "));
    }
}

impl Version {
    async fn start(program: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("laurel-").tempdir().unwrap();
        let command = |arguments: &[&str]| {
            let mut command = command_at(Path::new(program));
            command.args(arguments).env("LAUREL_DATA_DIR", dir.path().join("data"));
            command.env("LAUREL_LISTEN", "127.0.0.1:0").env("LAUREL_LOG", "warn");
            command
        };
        let help = command(&["serve", "--help"]).output().unwrap();
        let is_rated = String::from_utf8_lossy(&help.stdout).contains(UNRATED[0].0);
        let mut serve = command(&["serve"]);
        // A version of before the rates refuses to be told of them.
        serve.envs(UNRATED.into_iter().filter(|_| is_rated));
        let (child, url) = listen(serve).await;
        let made = command(&["token", "create", "--scope", "admin"]).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let token = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        let redis = redis_in(dir.path()).expect("a server with a private Redis");
        let name = program.rsplit('/').next().unwrap().to_owned();
        let mut version = Self { name, child, url, token, redis, is_first_edition: false, dir };
        let told = version.ask("{__type(name:\"Standings\"){fields{name}}}").await;
        version.is_first_edition = !told.to_string().contains("\"entry\"");
        version.ask("mutation{createBoard(input:{slug:\"b\"}){board{id}}}").await;
        for batch in 0..MEMBERS / 500 {
            version.ask(&submission(batch, 500)).await;
        }
        version.rest().await;
        version
    }

    async fn ask(&self, query: &str) -> Value {
        let request = reqwest::Client::new().post(format!("{}/graphql", self.url));
        let request = request.bearer_auth(&self.token).json(&json!({ "query": query }));
        let told: Value = request.send().await.unwrap().json().await.unwrap();
        assert!(told["errors"].is_null(), "{}: {told}", self.name);
        told
    }

    fn cpu(&self) -> Duration {
        [self.child.id(), self.redis].map(Process::of).iter().map(Process::cpu).sum()
    }

    /// Waits until SQL has what was submitted.
    async fn rest(&self) {
        let mut before = self.cpu();
        loop {
            tokio::time::sleep(CALM).await;
            let now = self.cpu();
            if now - before < CALM_CPU {
                return;
            }
            before = now;
        }
    }

    /// The microseconds of CPU of a request of a kind, its way into SQL included.
    async fn cost(&self, (_, has_token, request): Kind) -> f64 {
        let is_write = request(0).starts_with("mutation");
        let text = |number| {
            let words: &[(&str, &str)] =
                if self.is_first_edition && !is_write { &FIRST_WORDS } else { &[] };
            words.iter().fold(request(number), |text, (word, first)| text.replace(word, first))
        };
        // An answer with errors would be a cheap one.
        self.ask(&text(0)).await;
        let body = |number| json!({ "query": text(number) }).to_string();
        let count = if is_write { WRITES } else { MEMBERS };
        let bodies: Vec<String> = (0..count).map(body).collect();
        let token = has_token.then_some(self.token.as_str());
        let before = self.cpu();
        let url = format!("{}/graphql", self.url);
        let load = wrk(self.dir.path(), &url, &bodies, token, SENDING).await;
        self.rest().await;
        let requests = load.rate * SENDING.seconds as f64;
        (self.cpu() - before).as_secs_f64() * 1e6 / requests
    }
}

impl Drop for Version {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        signal("KILL", self.redis);
    }
}
