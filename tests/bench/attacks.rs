//! The costs of each attack to the server, the wait of other clients, and the worth of a point.
//!
//! `BENCH_EARLIER` names the program of commit e1051fc, which had no walls, for a row of its own
//! beside each kind of attack: `cargo build --release -p api` makes it as `api`. Some attacks take
//! all the memory and time that they can get, so it is limited and started again.

mod strike;
mod target;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::json;
use tests::attack::process::{Process, Spent};
use tests::attack::request::Attack;
use tests::attack::{Attacked, GROWTH_BYTES_MAX, cost};
use tests::model::schema::Schema;
use tests::servers::program::signal;
use tests::wait::until;

use self::strike::Strike;
use self::target::{Target, health};
use crate::figures::Figures;

/// How often each query of a known price is sent: processes count their time in hundredths of a
/// second.
const TIMES: u32 = 10;

/// The pause between two probes of the latency of others.
const PAUSE: Duration = Duration::from_millis(5);

/// The most time of the processors that one attack may take.
const CPU_MAX: Duration = Duration::from_secs(1);

/// The longest times of others beside an attack, as the security page promises them.
const HEALTH_MAX: Duration = Duration::from_millis(100);
const SUBMISSION_MAX: Duration = Duration::from_millis(250);

/// The most microseconds of CPU that a point may stand for.
const US_A_POINT_MAX: f64 = 5.0;

/// Long queries that are under way when a server is told to stop.
const LONG_QUERIES: usize = 8;

const SUBMIT: &str = "mutation { submitScores(input: { board: \"big16\", ack: DURABLE,
    scores: [{ member: \"m00001\", score: 1 }] }) { accepted } }";

/// The longest waits of other clients beside an attack; `None` if one was not served.
#[derive(Clone, Copy)]
struct Beside {
    health: Option<Duration>,
    submission: Option<Duration>,
}

/// An attack, and what it did.
struct Row {
    what: String,
    spent: Spent,
    beside: Beside,
    told: String,
    /// False if the server was gone or went on computing.
    is_sound: bool,
}

impl Row {
    /// True if it took more of the server than an attack may.
    fn is_costly(&self) -> bool {
        !self.is_sound || !self.spent.excess(CPU_MAX, GROWTH_BYTES_MAX).is_empty()
    }

    /// True if it hurt the server, or others.
    fn hurts(&self) -> bool {
        let is_late = |wait: Option<Duration>, most| wait.is_none_or(|wait| wait > most);
        self.is_costly()
            || is_late(self.beside.health, HEALTH_MAX)
            || is_late(self.beside.submission, SUBMISSION_MAX)
    }
}

/// A figure, marked if it is more than it should be.
fn shown(figure: u128, most: u128) -> String {
    if figure <= most { figure.to_string() } else { format!("**{figure}**") }
}

/// A longest wait in milliseconds, marked if it is longer than promised.
fn shown_wait(worst: Option<Duration>, promised: Duration) -> String {
    worst.map_or("**refused**".to_owned(), |ms| shown(ms.as_millis(), promised.as_millis()))
}

/// The figures of an attack, or the worst of many, as cells of a table.
fn cells(spent: Spent, beside: Beside) -> String {
    format!(
        "{} | {} | {} | {}",
        shown(spent.cpu.as_millis(), CPU_MAX.as_millis()),
        shown(u128::from(spent.grown_bytes >> 20), u128::from(GROWTH_BYTES_MAX >> 20)),
        shown_wait(beside.health, HEALTH_MAX),
        shown_wait(beside.submission, SUBMISSION_MAX)
    )
}

/// Measures each attack and prints a row; adds the time that a point stands for. Ends the program
/// with an error if an attack or a point costs more than it may.
pub(crate) async fn measure(figures: &mut Figures) {
    let mut today = Target::today().await;
    let schema = Schema::of(&today.server().api).await;
    let mut earlier = None;
    if let Some(program) = std::env::var_os("BENCH_EARLIER").map(PathBuf::from) {
        earlier = Some(Target::earlier(&program).await);
    }
    let mut kinds = vec![];
    let mut beyond = 0;
    for (kind, strikes) in strike::all(&schema) {
        for target in [Some(&mut today), earlier.as_mut()].into_iter().flatten() {
            let rows = strike_each(kind, &strikes, target).await;
            if target.has_walls() {
                beyond += rows.iter().filter(|row| row.is_costly()).count();
            }
            kinds.push(summary(kind, &rows, target));
        }
    }
    println!(
        "\n| attacks | program | number | hurt | CPU, ms | more memory, MiB | worst /healthz, ms | worst DURABLE, ms |\n|---|---|---|---|---|---|---|---|"
    );
    kinds.iter().for_each(|kind| println!("{kind}"));
    println!(
        "\n| query | points | CPU, ms | more memory, MiB | µs a point |\n|---|---|---|---|---|"
    );
    for attack in cost::rows() {
        beyond += usize::from(price(today.server(), &attack, figures).await > US_A_POINT_MAX);
    }
    println!();
    for target in [Some(today), earlier].into_iter().flatten() {
        stop(target).await;
    }
    assert_eq!(beyond, 0, "attacks or points that cost more than they may");
}

/// Strikes with each attack of a kind, and prints what it did.
async fn strike_each(kind: &str, strikes: &[Strike], target: &mut Target) -> Vec<Row> {
    println!(
        "\n{kind}, {}\n\n| attack | CPU, ms | more memory, MiB | worst /healthz, ms | worst DURABLE, ms | answer |\n|---|---|---|---|---|---|",
        target.name()
    );
    let mut rows = vec![];
    for strike in strikes {
        let row = row(strike, target).await;
        let Row { what, spent, beside, told, is_sound } = &row;
        let state = if *is_sound { "" } else { ", **and it serves no more**" };
        println!("| {what} | {} | {told}{state} |", cells(*spent, *beside));
        if !is_sound {
            target.start_again().await;
        }
        rows.push(row);
    }
    rows
}

/// Measures an attack. The waits of others are measured beside a second one, but for requests to a
/// server without walls: that may not live to see it.
async fn row(strike: &Strike, target: &Target) -> Row {
    let (server, words) = (target.server(), target.words());
    let attacking = strike.run(server, words);
    let is_survived = target.has_walls() || !matches!(strike, Strike::Request(_));
    let (told, beside, spent) = if is_survived {
        let (told, spent) = server.measure(attacking).await;
        let (_, beside) = beside(server, strike.run(server, words)).await;
        (told, beside, spent)
    } else {
        let ((told, beside), spent) = server.measure(beside(server, attacking)).await;
        (told, beside, spent)
    };
    Row { what: strike.what(), spent, beside, told, is_sound: target.is_sound().await }
}

/// The worst of a kind.
fn summary(kind: &str, rows: &[Row], target: &Target) -> String {
    let worst = |of: fn(&Beside) -> Option<Duration>| {
        rows.iter().map(|row| of(&row.beside)).reduce(|a, b| Some(a?.max(b?))).flatten()
    };
    let beside = Beside { health: worst(|of| of.health), submission: worst(|of| of.submission) };
    let spent = Spent {
        cpu: rows.iter().map(|row| row.spent.cpu).max().unwrap_or_default(),
        grown_bytes: rows.iter().map(|row| row.spent.grown_bytes).max().unwrap_or_default(),
    };
    let hurt = rows.iter().filter(|row| row.hurts()).count();
    format!("| {kind} | {} | {} | {hurt} | {} |", target.name(), rows.len(), cells(spent, beside))
}

/// Attacks, and asks for the health and submits until it is over; returns what came of it.
async fn beside(server: &Attacked, attacking: impl Future<Output = String>) -> (String, Beside) {
    let is_over = AtomicBool::new(false);
    let attacking = async {
        let told = attacking.await;
        is_over.store(true, Ordering::Relaxed);
        told
    };
    // Each asks on a connection of its own, as a new client does.
    let client = Client::builder().pool_max_idle_per_host(0).build().unwrap();
    let ask_health = async || health(&client, server).await;
    let submit = async || {
        let request = server.client.post(format!("{}/graphql", server.api.url()));
        let request = request.bearer_auth(server.api.token()).json(&json!({ "query": SUBMIT }));
        let Ok(answer) = request.send().await else { return false };
        let body = answer.json::<serde_json::Value>().await.unwrap_or_default();
        body["data"]["submitScores"]["accepted"] == 1
    };
    let (told, health, submission) =
        tokio::join!(attacking, worst(&is_over, ask_health), worst(&is_over, submit));
    (told, Beside { health, submission })
}

/// The longest time that a probe took until an attack was over; `None` if one was not served.
async fn worst(is_over: &AtomicBool, mut probe: impl AsyncFnMut() -> bool) -> Option<Duration> {
    let mut worst = Some(Duration::ZERO);
    loop {
        let began = Instant::now();
        let took = probe().await.then(|| began.elapsed());
        worst = worst.zip(took).map(|(worst, took)| worst.max(took));
        if is_over.load(Ordering::Relaxed) {
            return worst;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Prints the price of a query beside its cost; returns the microseconds of a point.
async fn price(server: &Attacked, attack: &Attack, figures: &mut Figures) -> f64 {
    let sending = async {
        let mut points = None;
        for _ in 0..TIMES {
            points = server.send(attack).await.ok().and_then(|reply| reply.points());
        }
        points
    };
    let (points, spent) = server.measure(sending).await;
    let us = spent.cpu.as_secs_f64() * 1e6 / f64::from(TIMES);
    let (told, of_point) = match points {
        Some(points) => (points.to_string(), us / points.max(1) as f64),
        None => ("refused".to_owned(), 0.0),
    };
    figures.add("a point", "µs", &attack.what, of_point);
    let (ms, mib) = (us / 1000.0, spent.grown_bytes >> 20);
    println!("| {} | {told} | {ms:.1} | {mib} | {of_point:.2} |", attack.what);
    of_point
}

/// Stops a server while long queries are under way, and prints how long it takes.
async fn stop(mut target: Target) {
    let server = target.take();
    let sending = (0..LONG_QUERIES).map(|number| {
        let (client, url) = (server.client.clone(), server.api.url().to_owned());
        tokio::spawn(async move { cost::long(number).send(&client, &url, "").await.is_ok() })
    });
    let sending: Vec<_> = sending.collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let began = Instant::now();
    signal("TERM", server.api.pid());
    let process = Process::of(server.api.pid());
    until("the server stops", async || (!process.is_running()).then_some(())).await;
    println!(
        "SIGTERM beside {LONG_QUERIES} long queries, {}: {:.1} s",
        target.name(),
        began.elapsed().as_secs_f64()
    );
    drop(sending);
}
