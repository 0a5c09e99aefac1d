//! Subscribers of one board beside writers: how long a change takes from its commit to the sockets,
//! what a socket takes, and what the writers wait.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use crate::Scale;
use crate::figures::{Figures, quantile};
use tests::api::Api;
use tests::api::metrics::metrics_of;
use tests::api::submission::submit;
use tests::api::subscriber::Subscriber;
use tests::attack::Attacked;
use tests::attack::process::Process;

/// The sockets, and the addresses that they come from.
const SOCKETS: usize = 5000;
const ADDRESSES: usize = 20;

/// One of so many sockets notes when each change came.
const NOTED: usize = 25;

/// The submissions a second, and the clients that send them.
const RATE: u32 = 1000;
const WRITERS: u32 = 16;

/// The seconds of the writers alone, and beside the subscribers.
const SECONDS: usize = 20;

/// Room for all sockets of an address, and pushes that none of them lacks points for.
const SETTINGS: [(&str, &str); 3] = [
    ("LAUREL_SOCKETS_MAX", "10000"),
    ("LAUREL_ADDRESS_SOCKETS_MAX", "10000"),
    ("LAUREL_READ_RATE", "0"),
];

const TOP: &str =
    "subscription { top(board: \"live\", first: 10) { nodes { rank score member { key } } } }";

/// The instants at which each score was answered for, by score.
type Commits = Arc<Mutex<Vec<Option<Instant>>>>;

/// Measures writers alone, then beside subscribers.
pub(crate) async fn measure(scale: Scale, figures: &mut Figures) {
    let server = Attacked::start_with(&SETTINGS).await;
    let api = &server.api;
    api.create_board(json!({ "slug": "live", "policy": "BEST" })).await;
    let others: Vec<_> = (0..9).map(|n| json!({ "member": format!("m{n}"), "score": 1 })).collect();
    submit(api, "live", json!(others)).await;
    let process = Process::of(api.pid());
    let lasts = Duration::from_secs(scale.of(SECONDS, 3) as u64);
    let commits = Commits::default();
    let next = Arc::new(AtomicUsize::new(2));
    let (alone, _) = write(api, lasts, &next, &commits).await;
    let count = scale.of(SOCKETS, ADDRESSES);
    let before = process.resident_bytes();
    let is_over = Arc::new(AtomicBool::new(false));
    let subscribers = subscribe(api, count, &commits, &is_over).await;
    let of_socket = process.resident_bytes().saturating_sub(before) as f64 / count as f64;
    figures.add("memory of a socket", "KiB", "resident", of_socket / 1024.0);
    let ((beside, rate), spent) = server.measure(write(api, lasts, &next, &commits)).await;
    let metrics = metrics_of(api).await;
    is_over.store(true, Ordering::Relaxed);
    // The last change ends the waiting sockets.
    tokio::time::sleep(Duration::from_secs(1)).await;
    write(api, Duration::from_secs(1), &next, &commits).await;
    println!(
        "{count} sockets, {rate:.0} submissions a second, {:.0} pushes, {:.0} reads, {:.0} executions: {spent}",
        metrics["laurel_pushes_total"],
        metrics["laurel_live_reads_total"],
        metrics["laurel_live_executions_total"]
    );
    let mut ms: Vec<f64> = subscribers.join_all().await.concat();
    figures.add("from commit to socket, p50", "ms", "live", quantile(&mut ms, 0.5));
    figures.add("from commit to socket, p99", "ms", "live", quantile(&mut ms, 0.99));
    for (side, mut ms) in [("alone", alone), ("beside sockets", beside)] {
        figures.add("a submission, p50", "ms", side, quantile(&mut ms, 0.5));
        figures.add("a submission, p99", "ms", side, quantile(&mut ms, 0.99));
    }
}

/// Submits scores that grow, at the rate; the latencies in ms, and the rate that came of it.
async fn write(
    api: &Api,
    lasts: Duration,
    next: &Arc<AtomicUsize>,
    commits: &Commits,
) -> (Vec<f64>, f64) {
    let began = Instant::now();
    let pause = Duration::from_secs(1) * WRITERS / RATE;
    let writing = (0..WRITERS).map(|writer| async move {
        let mut ms = vec![];
        let mut due = tokio::time::Instant::now() + pause * writer / WRITERS;
        while began.elapsed() < lasts {
            tokio::time::sleep_until(due).await;
            due += pause;
            let score = next.fetch_add(1, Ordering::SeqCst);
            let sent = Instant::now();
            submit(api, "live", json!([{ "member": "leader", "score": score }])).await;
            let now = Instant::now();
            ms.push((now - sent).as_secs_f64() * 1000.0);
            let mut commits = commits.lock().unwrap();
            if commits.len() <= score {
                commits.resize(score + 1, None);
            }
            commits[score] = Some(now);
        }
        ms
    });
    let ms = futures::future::join_all(writing).await.concat();
    let rate = ms.len() as f64 / began.elapsed().as_secs_f64();
    (ms, rate)
}

/// Opens sockets, each with a snapshot, and reads on in tasks that end with the time.
async fn subscribe(
    api: &Api,
    count: usize,
    commits: &Commits,
    is_over: &Arc<AtomicBool>,
) -> JoinSet<Vec<f64>> {
    let mut reading = JoinSet::new();
    for number in 0..count {
        let host = u8::try_from(10 + number % ADDRESSES).unwrap();
        let mut socket = Subscriber::connect_to(api.url(), None, host).await;
        socket.subscribe("1", TOP, json!({})).await;
        socket.text().await;
        let noted = (number % NOTED == 0).then(|| commits.clone());
        reading.spawn(read(socket, noted, is_over.clone()));
    }
    reading
}

/// The times from the commits of changes to a socket, in ms, if they are noted.
async fn read(
    mut socket: Subscriber,
    noted: Option<Commits>,
    is_over: Arc<AtomicBool>,
) -> Vec<f64> {
    let (mut ms, mut last) = (vec![], None);
    while !is_over.load(Ordering::Relaxed) {
        let text = socket.text().await;
        let Some(commits) = &noted else { continue };
        let now = Instant::now();
        let (_, rest) = text.split_once("\"score\":\"").unwrap();
        let score: usize = rest.split('"').next().unwrap().parse().unwrap();
        let commits = commits.lock().unwrap();
        let since = last.map_or(score, |last: usize| last + 1);
        let told = (since..=score).filter_map(|score| *commits.get(score)?);
        // A push may overtake the answer to its writer.
        ms.extend(told.map(|at| now.saturating_duration_since(at).as_secs_f64() * 1000.0));
        last = Some(score);
    }
    ms
}
