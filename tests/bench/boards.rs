//! Many small boards: the start of a server, what it costs at rest, a score to each board, the
//! recovery of an empty Redis, diffs, a midnight's roll, and the seal of a past day.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use engine::roll::roll;
use engine::seal::seal;
use futures::StreamExt;
use ranking::id::{MemberId, PartitionNo};
use ranking::submission::Submission;
use ranking::window::Window;
use serde_json::json;
use tests::attack::process::Process;
use tests::clock::DAY_MS;
use tokio::time::sleep;

use crate::Scale;
use crate::figures::Figures;
use crate::history::analytics;
use crate::server::Server;
use crate::stores::Stores;

/// The boards, and the members of each. A full diff of more boards takes too long.
const BOARDS: usize = 10_000;
const MEMBERS: usize = 25;

/// The past days that a board retains.
const RETAINED: u32 = 1;

/// The scores of one submission that fills the boards.
const BATCH: usize = 1000;

/// Requests in flight at once.
const REQUESTS: usize = 32;

/// How long a server rests before it is measured, for every [`BOARDS`], and while it is.
const REST: Duration = Duration::from_secs(20);

/// The pause between two looks whether Redis is level again.
const PAUSE: Duration = Duration::from_millis(10);

const SUBMIT: &str = "mutation($board: String!) { submitScores(input: { board: $board, scores: [{ member: \"member00\", score: 7 }] }) { accepted } }";

/// Measures once.
pub(crate) async fn measure(stores: Stores, scale: Scale, figures: &mut Figures) {
    let count = scale.of(BOARDS, 20);
    fill(&stores, count).await;
    let mut add = |what: &str, unit, value: f64| {
        figures.add(&format!("{count} boards: {what}"), unit, "laurel", value);
    };
    let began = Instant::now();
    let server = Server::start(&stores, &[("LAUREL_DIFF_AT", "off")]).await;
    add("start", "s", began.elapsed().as_secs_f64());
    sleep(REST * (count / BOARDS).max(1) as u32).await;
    let process = Process::of(server.pid());
    let (before, began) = (process.cpu(), Instant::now());
    sleep(REST).await;
    let cpu = (process.cpu() - before).as_secs_f64() / began.elapsed().as_secs_f64();
    add("at rest, of a core", "%", 100.0 * cpu);
    add("at rest", "MB", process.resident_bytes() as f64 / 1e6);
    let began = Instant::now();
    let sent = futures::stream::iter(0..count).map(|number| {
        let board = slug(number);
        let server = &server;
        async move { server.ask(SUBMIT, json!({ "board": board })).await }
    });
    let accepted = sent.buffer_unordered(REQUESTS);
    let accepted = accepted.map(|answer| answer["submitScores"]["accepted"].as_u64().unwrap());
    let accepted: Vec<u64> = accepted.collect().await;
    assert_eq!(accepted.iter().sum::<u64>(), count as u64);
    add("a score to each", "s", began.elapsed().as_secs_f64());
    add("after a score to each", "MB", process.resident_bytes() as f64 / 1e6);
    stores.settle().await;
    let began = Instant::now();
    redis::cmd("FLUSHALL").query_async::<()>(&mut stores.redis()).await.unwrap();
    while !stores.deployment.store.heads().await.unwrap().iter().all(Result::is_ok) {
        sleep(PAUSE).await;
    }
    add("recovery of an empty Redis", "s", began.elapsed().as_secs_f64());
    let mut diffs: Vec<(&str, &[&str])> = vec![("diff", &["diff"]), ("diff again", &["diff"])];
    if count <= BOARDS {
        diffs.push(("full diff", &["diff", "--full"]));
    }
    for (what, arguments) in diffs {
        add(what, "s", analytics(&stores, arguments).await.seconds);
    }
    drop(server);
    let now_ms = stores.deployment.clock.now_ms();
    stores.deployment.clock.set(now_ms + DAY_MS);
    let began = Instant::now();
    assert_eq!(roll(&stores.deployment, now_ms + DAY_MS).await.unwrap(), count);
    add("roll", "s", began.elapsed().as_secs_f64());
    stores.settle().await;
    // The day of the scores is the first that neither the board nor its rolling window retains.
    let then_ms = now_ms + (1 + i64::from(RETAINED)) * DAY_MS;
    stores.deployment.clock.set(then_ms);
    roll(&stores.deployment, then_ms).await.unwrap();
    stores.settle().await;
    let began = Instant::now();
    let sealed = seal(&stores.deployment, then_ms).await.unwrap();
    assert_eq!(sealed.standings, count);
    add("seal", "s", began.elapsed().as_secs_f64());
    stores.close().await;
}

fn slug(number: usize) -> String {
    format!("board{number}")
}

/// Makes the boards, and gives every member a score on each of them.
async fn fill(stores: &Stores, count: usize) {
    let began = Instant::now();
    let windows = [Window::Daily, "2d".parse().unwrap()];
    let retained = BTreeMap::from([(Window::Daily, Some(RETAINED))]);
    let mut by_partition: BTreeMap<PartitionNo, Vec<Submission>> = BTreeMap::new();
    for number in 0..count {
        let board = stores.create_board_that_retains(&slug(number), &windows, &retained).await;
        let scores = by_partition.entry(stores.partition_of(&board)).or_default();
        for member in 0..MEMBERS {
            let member = MemberId::new(&format!("member{member:02}")).unwrap();
            scores.push(stores.score(&board, &member, None));
        }
    }
    for (partition, scores) in by_partition {
        for batch in scores.chunks(BATCH) {
            stores.submit(partition, batch.to_vec()).await;
        }
        stores.deployment.partition(partition).settle().await.unwrap();
    }
    println!("boards: {count} filled in {:.1} s", began.elapsed().as_secs_f64());
}
