//! Two thousand connections, half of them hostile: what honest readers wait beside them, and alone.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rand::RngExt;
use reqwest::Client;
use tokio::runtime::{self, Runtime};
use tokio::task::JoinSet;

use crate::Scale;
use crate::figures::{Figures, quantile};
use serde_json::json;
use tests::attack::boards::{self, MEMBERS, key};
use tests::attack::late_events::{self, LATE_MEMBER, MOST, SUBMIT, late};
use tests::attack::request::{Attack, Outcome, aliases};
use tests::attack::socket::{Socket, head};
use tests::attack::{Attacked, cost, documents, introspection};

/// The addresses of each side, and the connections of each address.
const ADDRESSES: u8 = 20;
const OF_ADDRESS: usize = 50;

/// The seconds of the siege, and of the readers alone.
const SECONDS: usize = 60;

/// The pause between two requests of a connection, on average, in milliseconds; `BENCH_PAUSE_MS`
/// has another one, for a machine on which so many readers alone are too much. After pauses of the
/// same length, all that once waited for the same thing would come at once, again and again.
const PAUSE_MS: u64 = 1000;

/// The longest body of an attack: the attackers share the machine with the server.
const BODY_BYTES_MAX: usize = 40_000;

/// The time for which an attacker holds a connection, on average.
const HOLD: Duration = Duration::from_secs(10);

/// The niceness of the attackers' threads: they stand for machines of their own, whose processors
/// would do their work.
const NICENESS: i32 = 19;

/// Room for all connections; the other limits are the defaults.
const SETTINGS: [(&str, &str); 1] = [("LAUREL_CONNECTIONS_MAX", "4000")];

/// Measures the readers alone, then beside attackers.
pub(crate) async fn measure(scale: Scale, figures: &mut Figures) {
    let server = Attacked::start_with(&SETTINGS).await;
    boards::build(&server.api).await;
    server.api.create_board(late_events::lenient("lenient")).await;
    let mut tokens = vec![];
    for _ in 0..ADDRESSES {
        let member = ["--scope", "submit", "--member", LATE_MEMBER];
        tokens.push(server.api.deployment().new_token(&member).await);
    }
    let url: Arc<str> = server.api.url().into();
    let lasts = Duration::from_secs(scale.of(SECONDS, 5) as u64);
    let alone = read(&url, lasts).await;
    let side = Side::default();
    let elsewhere = elsewhere();
    let hostile = attack(&elsewhere, &url, &tokens, &side);
    let (beside, spent) = server.measure(read(&url, lasts)).await;
    side.is_over.store(true, Ordering::Relaxed);
    hostile.join_all().await;
    elsewhere.shutdown_background();
    println!("the siege: {spent}, {} hostile requests", side.sent.load(Ordering::Relaxed));
    for (side, (mut ms, failed)) in [("alone", alone), ("besieged", beside)] {
        println!("{side}: {} answers, failures {failed:?}", ms.len());
        figures.add("honest readers, p50", "ms", side, quantile(&mut ms, 0.5));
        figures.add("honest readers, p99", "ms", side, quantile(&mut ms, 0.99));
    }
}

/// The end of the siege, and its requests, as the attackers share them.
#[derive(Clone, Default)]
struct Side {
    is_over: Arc<AtomicBool>,
    sent: Arc<AtomicUsize>,
}

impl Side {
    /// False once the siege is over; counts a request otherwise.
    fn goes_on(&self) -> bool {
        let goes_on = !self.is_over.load(Ordering::Relaxed);
        self.sent.fetch_add(goes_on.into(), Ordering::Relaxed);
        goes_on
    }
}

/// The threads of the attackers.
fn elsewhere() -> Runtime {
    let be_nice = || {
        rustix::process::setpriority_process(None, NICENESS).expect("a thread may be nicer");
    };
    runtime::Builder::new_multi_thread().enable_all().on_thread_start(be_nice).build().unwrap()
}

fn mean_pause() -> Duration {
    let given = std::env::var("BENCH_PAUSE_MS").ok();
    Duration::from_millis(given.map_or(PAUSE_MS, |given| given.parse().unwrap()))
}

async fn pause(mean: Duration) {
    let lasts = mean.mul_f64(rand::rng().random_range(0.5..1.5));
    tokio::time::sleep(lasts).await;
}

/// A client of an address of its own.
fn client(host: u8) -> Client {
    let address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, host));
    Client::builder().local_address(address).timeout(Duration::from_secs(30)).build().unwrap()
}

/// Reads by honest clients: the latencies in ms, and the failures by their kind.
async fn read(url: &Arc<str>, lasts: Duration) -> (Vec<f64>, BTreeMap<String, usize>) {
    let deadline = Instant::now() + lasts;
    let mut readers = JoinSet::new();
    for host in 0..ADDRESSES {
        let client = client(10 + host);
        for _ in 0..OF_ADDRESS {
            readers.spawn(read_until(client.clone(), url.clone(), deadline));
        }
    }
    let (mut all, mut failed) = (vec![], BTreeMap::new());
    for (ms, failures) in readers.join_all().await {
        all.extend(ms);
        for failure in failures {
            *failed.entry(failure).or_default() += 1;
        }
    }
    (all, failed)
}

async fn read_until(client: Client, url: Arc<str>, deadline: Instant) -> (Vec<f64>, Vec<String>) {
    let (mut ms, mut failures) = (vec![], vec![]);
    // The readers do not come all at once.
    let wait = mean_pause().mul_f64(rand::rng().random_range(0.0..1.0));
    tokio::time::sleep(wait).await;
    while Instant::now() < deadline {
        let member = key(rand::rng().random_range(0..MEMBERS));
        let query = format!(
            "{{board(slug:\"big16\"){{standings{{entry(member:\"{member}\"){{rank score}} \
                neighbors(member:\"{member}\"){{rank score member{{key}}}}}}}}}}"
        );
        let began = Instant::now();
        let reply = Attack::query("a read", &query).send(&client, &url, "").await;
        let failure = match reply {
            Ok(reply) if reply.faults(Outcome::Served).is_empty() => None,
            Ok(reply) => Some(format!("{} {:?}", reply.status, reply.codes())),
            Err(error) => Some(error.to_string()),
        };
        ms.push(began.elapsed().as_secs_f64() * 1000.0);
        failures.extend(failure);
        pause(mean_pause()).await;
    }
    (ms, failures)
}

/// Begins to attack. Of ten connections four send costly requests, three parts of requests, one
/// asks for a long answer and one for a stream of them and both read nothing, and one submits late
/// scores to a board whose owner accepts any delay.
fn attack(elsewhere: &Runtime, url: &Arc<str>, tokens: &[String], side: &Side) -> JoinSet<()> {
    let _entered = elsewhere.enter();
    let all = [
        documents::fragments(),
        documents::heaps(),
        introspection::circles(6),
        introspection::hidden(),
        cost::rows(),
        cost::bombs(),
    ];
    let mut all = all.concat();
    all.retain(|attack| attack.body().len() <= BODY_BYTES_MAX);
    let attacks: Arc<[Attack]> = all.into();
    let mut hostile = JoinSet::new();
    for (host, token) in (100..100 + ADDRESSES).zip(tokens) {
        let client = client(host);
        for number in 0..OF_ADDRESS {
            let (client, url, side) = (client.clone(), url.clone(), side.clone());
            match number % 10 {
                0..4 => hostile.spawn(send_until(client, url, attacks.clone(), side)),
                4..7 => hostile.spawn(hold_until(host, url, head(100_000), side)),
                7 => hostile.spawn(hold_until(host, url, long_answer(number), side)),
                8 => hostile.spawn(hold_until(host, url, stream(number), side)),
                _ => hostile.spawn(submit_until(client, url, token.clone(), side)),
            };
        }
    }
    hostile
}

/// A request for an answer of some 2 MB.
fn long_answer(number: usize) -> String {
    let lists = aliases(12, "top(first:1000){nodes{id rank score a:id b:id}}");
    let query = format!("{{q{number}:board(slug:\"big\"){{standings{{{lists}}}}}}}");
    let body = json!({ "query": query }).to_string();
    head(body.len()) + &body
}

/// A request for a stream of the best on the board of the late scores.
fn stream(number: usize) -> String {
    let query =
        format!("subscription{{top(board:\"lenient\",first:1{number}){{nodes{{id rank}}}}}}");
    let body = json!({ "query": query }).to_string();
    let accept = "\r\naccept: text/event-stream\r\n\r\n";
    head(body.len()).replacen("\r\n\r\n", accept, 1) + &body
}

async fn send_until(client: Client, url: Arc<str>, attacks: Arc<[Attack]>, side: Side) {
    while side.goes_on() {
        let number = rand::rng().random_range(0..attacks.len());
        // Most are refused; some end with the connection.
        drop(attacks[number].send(&client, &url, "").await);
        pause(mean_pause()).await;
    }
}

/// Submits late scores, each time better ones.
async fn submit_until(client: Client, url: Arc<str>, token: String, side: Side) {
    let late = Attack::new("late scores", SUBMIT, late("lenient", MOST)).with_token(&token);
    for score in 1.. {
        if !side.goes_on() {
            return;
        }
        let better = late.in_words(&[("\"score\":1", &format!("\"score\":{score}"))]);
        drop(better.send(&client, &url, "").await);
        pause(mean_pause()).await;
    }
}

/// Sends a text, and holds the connection without reading from it, again and again.
async fn hold_until(host: u8, url: Arc<str>, text: String, side: Side) {
    while side.goes_on() {
        if let Ok(mut socket) = Socket::connect_unread(&url, host).await
            && socket.send(&text).await
        {
            pause(HOLD).await;
        }
        pause(mean_pause()).await;
    }
}
