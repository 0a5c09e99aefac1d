//! Two thousand connections, half of them hostile: what honest readers wait beside them, and alone.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::RngExt;
use reqwest::Client;
use tokio::task::JoinSet;

use crate::Scale;
use crate::figures::{Figures, quantile};
use tests::attack::boards::{self, MEMBERS, key};
use tests::attack::request::{Attack, Outcome};
use tests::attack::socket::{Socket, head};
use tests::attack::{Attacked, cost, documents, introspection};

/// The addresses of each side, and the connections of each address.
const ADDRESSES: u8 = 20;
const OF_ADDRESS: usize = 50;

/// The seconds of the siege, and of the readers alone.
const SECONDS: usize = 60;

/// The pause between two requests of a connection, on average. After pauses of the same length, all
/// that once waited for the same thing would come at once, again and again.
const PAUSE: Duration = Duration::from_secs(1);

/// The longest body of an attack: the attackers share the machine with the server.
const BODY_BYTES_MAX: usize = 40_000;

/// Room for all connections; the other limits are the defaults.
const SETTINGS: [(&str, &str); 1] = [("LAUREL_CONNECTIONS_MAX", "4000")];

/// Measures the readers alone, then beside attackers.
pub(crate) async fn measure(scale: Scale, figures: &mut Figures) {
    let server = Attacked::start_with(&SETTINGS).await;
    boards::build(&server.api).await;
    let url: Arc<str> = server.api.url().into();
    let lasts = Duration::from_secs(scale.of(SECONDS, 5) as u64);
    let alone = read(&url, lasts).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let hostile = attack(&url, &is_over);
    let (beside, spent) = server.measure(read(&url, lasts)).await;
    is_over.store(true, Ordering::Relaxed);
    hostile.join_all().await;
    println!("the siege: {spent}");
    for (side, (mut ms, failed)) in [("alone", alone), ("besieged", beside)] {
        println!("{side}: {} answers, failures {failed:?}", ms.len());
        figures.add("honest readers, p50", "ms", side, quantile(&mut ms, 0.5));
        figures.add("honest readers, p99", "ms", side, quantile(&mut ms, 0.99));
    }
}

async fn pause() {
    let lasts = PAUSE.mul_f64(rand::rng().random_range(0.5..1.5));
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
    let wait = PAUSE.mul_f64(rand::rng().random_range(0.0..1.0));
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
        pause().await;
    }
    (ms, failures)
}

/// Begins to attack: half of the connections send costly requests, the others parts of requests.
fn attack(url: &Arc<str>, is_over: &Arc<AtomicBool>) -> JoinSet<()> {
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
    for host in 0..ADDRESSES {
        let client = client(100 + host);
        for number in 0..OF_ADDRESS {
            let (url, is_over) = (url.clone(), is_over.clone());
            if number % 2 == 0 {
                hostile.spawn(send_until(client.clone(), url, attacks.clone(), is_over));
            } else {
                hostile.spawn(stall_until(100 + host, url, is_over));
            }
        }
    }
    hostile
}

async fn send_until(
    client: Client,
    url: Arc<str>,
    attacks: Arc<[Attack]>,
    is_over: Arc<AtomicBool>,
) {
    while !is_over.load(Ordering::Relaxed) {
        let number = rand::rng().random_range(0..attacks.len());
        // Most are refused; some end with the connection.
        drop(attacks[number].send(&client, &url, "").await);
        pause().await;
    }
}

/// Holds a connection with half a request, again and again.
async fn stall_until(host: u8, url: Arc<str>, is_over: Arc<AtomicBool>) {
    while !is_over.load(Ordering::Relaxed) {
        if let Ok(mut socket) = Socket::connect(&url, host).await
            && socket.send(&head(100_000)).await
        {
            socket.read(15 * PAUSE).await;
        }
        pause().await;
    }
}
