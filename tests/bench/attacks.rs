//! The costs of each attack to the server, the wait of other clients, and the worth of a point.
//!
//! `BENCH_SERVER` names another program to attack, such as one of an earlier version: some attacks
//! take all the memory that a server without walls can get, so give it a limit.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde_json::json;

use crate::figures::Figures;
use tests::api::Api;
use tests::attack::request::{Attack, Reply};
use tests::attack::{Attacked, UNRATED, boards, cost, documents, echoes, introspection};
use tests::deployment::{Deployment, Redis, Sql};
use tests::model::schema::Schema;

/// How often each query of a known price is sent: processes count their time in hundredths of a
/// second.
const TIMES: u32 = 10;

/// The pause between two probes of the latency of others.
const PAUSE: Duration = Duration::from_millis(5);

/// The longest times of others beside an attack, as the security page promises them.
const HEALTH_MS_MAX: u128 = 100;
const SUBMISSION_MS_MAX: u128 = 250;

/// Makes a server compute everything for every request.
const UNCACHED: [(&str, &str); 2] =
    [("LAUREL_ANSWER_CACHE_BYTES", "0"), ("LAUREL_PAGE_CACHE_BYTES", "0")];

const SUBMIT: &str = "mutation { submitScores(input: { board: \"big16\", ack: DURABLE,
    scores: [{ member: \"m00001\", score: 1 }] }) { accepted } }";

/// The longest waits of other clients beside an attack; `None` if one was not served.
struct Beside {
    health: Option<Duration>,
    submission: Option<Duration>,
}

/// A longest wait in milliseconds, marked if it is longer than promised.
fn shown(worst: Option<Duration>, promised_ms: u128) -> String {
    match worst.map(|worst| worst.as_millis()) {
        Some(ms) if ms <= promised_ms => ms.to_string(),
        Some(ms) => format!("**{ms}**"),
        None => "**refused**".to_owned(),
    }
}

/// Measures each attack and prints a row; adds the time that a point stands for.
pub(crate) async fn measure(figures: &mut Figures) {
    let server = start().await;
    boards::build(&server.api).await;
    let schema = Schema::of(&server.api).await;
    println!(
        "\n| attack | CPU, ms | more memory, MiB | worst /healthz, ms | worst DURABLE, ms | answer |"
    );
    println!("|---|---|---|---|---|---|");
    let kinds = [
        documents::fragments(),
        documents::variables(),
        documents::heaps(),
        documents::bodies(),
        introspection::circles(6),
        introspection::hidden(),
        introspection::wide(),
        echoes::repeated(),
        cost::bombs(),
        // One argument stands for all of them.
        echoes::texts(&schema, 1_000_000).into_iter().take(1).collect(),
    ];
    for attack in kinds.concat() {
        row(&server, &attack).await;
        if !server.is_alive().await {
            println!("the server does not answer any more");
            return;
        }
    }
    println!(
        "\n| query | points | CPU, ms | more memory, MiB | µs a point |\n|---|---|---|---|---|"
    );
    for attack in cost::rows() {
        price(&server, &attack, figures).await;
    }
}

/// A server without caches, so that a query costs the same each time.
async fn start() -> Attacked {
    let Some(program) = std::env::var_os("BENCH_SERVER") else {
        return Attacked::start_with(&[&UNRATED[..], &UNCACHED].concat()).await;
    };
    let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
    let token = deployment.admin_token().await.to_owned();
    let api = Api::spawn_program(&deployment, program.to_str().unwrap(), &[], token).await;
    api.wait_until_ready().await;
    Attacked::of(api, &deployment).await
}

/// Measures an attack by itself, then others beside it.
async fn row(server: &Attacked, attack: &Attack) {
    let (reply, spent) = server.measure(server.send(attack)).await;
    let told = match &reply {
        Ok(Reply { status, bytes }) => format!("{} of {} B", status.as_u16(), bytes.len()),
        Err(_) => "none".to_owned(),
    };
    let beside = beside(server, attack).await;
    println!(
        "| {} | {} | {} | {} | {} | {told} |",
        attack.what.replace('|', "/"),
        spent.cpu.as_millis(),
        spent.grown_bytes >> 20,
        shown(beside.health, HEALTH_MS_MAX),
        shown(beside.submission, SUBMISSION_MS_MAX)
    );
}

/// Sends an attack, and asks for the health and submits until it is answered.
async fn beside(server: &Attacked, attack: &Attack) -> Beside {
    let is_over = AtomicBool::new(false);
    let attacking = async {
        let reply = server.send(attack).await;
        is_over.store(true, Ordering::Relaxed);
        drop(reply);
    };
    let ask_health = async || {
        let answer = server.client.get(format!("{}/healthz", server.api.url())).send().await;
        answer.is_ok_and(|answer| answer.status() == StatusCode::OK)
    };
    let submit = async || {
        let answer = server.api.try_ask(Some(server.api.token()), SUBMIT, json!({})).await;
        answer.is_ok_and(|answer| answer.body["data"]["submitScores"]["accepted"] == 1)
    };
    let ((), health, submission) =
        tokio::join!(attacking, worst(&is_over, ask_health), worst(&is_over, submit));
    Beside { health, submission }
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

/// Prints the price of a query beside its cost.
async fn price(server: &Attacked, attack: &Attack, figures: &mut Figures) {
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
        Some(points) => {
            let of_point = us / points.max(1) as f64;
            figures.add("a point", "µs", &attack.what, of_point);
            (points.to_string(), format!("{of_point:.2}"))
        }
        None => ("refused".to_owned(), String::new()),
    };
    let (ms, mib) = (us / 1000.0, spent.grown_bytes >> 20);
    println!("| {} | {told} | {ms:.1} | {mib} | {of_point} |", attack.what);
}
