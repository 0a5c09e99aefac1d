//! A minute without Redis under five hundred readers a second and a writer: what they wait and are
//! told, and what SQL does.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::RngExt;
use reqwest::Client;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::Scale;
use crate::figures::{Figures, quantile};
use tests::api::Api;
use tests::api::friends::change_friends;
use tests::api::submission::submit_durably;
use tests::clock::{DAY_MS, now_ms};
use tests::deployment::{Deployment, Sql};
use tests::documents::{ADD_FRIEND, SUBMIT_SCORES};
use tests::servers::redis_node::RedisNode;

/// The members of the board.
const MEMBERS: usize = 20_000;

/// The requests of a second, and the seconds before Redis goes, without it, and after it is back.
const RATE: u64 = 500;
const SECONDS: [usize; 3] = [15, 60, 15];

/// The pause between two scores of the writer.
const WRITE_PAUSE: Duration = Duration::from_millis(100);

/// The pause after a change, so that only what goes on is measured.
const SETTLE: Duration = Duration::from_secs(5);

/// The answers of some seconds.
#[derive(Debug, Default)]
struct Answers {
    /// The latencies.
    ms: Vec<f64>,
    failed: usize,
    from_sql: usize,
}

/// Measures readers with Redis and without it.
pub(crate) async fn measure(scale: Scale, figures: &mut Figures) {
    for silent in [false, true] {
        let how = if silent { "silent" } else { "dead" };
        let (api, mut redis) = start(scale).await;
        let [before, during, after] = SECONDS.map(|seconds| scale.of(seconds, 5));
        let is_over = Arc::new(AtomicBool::new(false));
        let writer = tokio::spawn(write(api.url().into(), api.token().into(), is_over.clone()));
        measure_for(&api, before, &format!("before Redis is {how}"), figures).await;
        match silent {
            true => redis.signal("STOP"),
            false => redis.kill(),
        }
        measure_for(&api, during, &format!("Redis is {how}"), figures).await;
        match silent {
            true => redis.signal("CONT"),
            false => redis.launch(),
        }
        sleep(SETTLE).await;
        measure_for(&api, after, &format!("after Redis was {how}"), figures).await;
        is_over.store(true, Ordering::Relaxed);
        let told = writer.await.unwrap();
        api.deployment().settle().await;
        let kept = "SELECT COUNT(*) FROM score_event WHERE member LIKE 'w%'";
        let kept = api.deployment().number(kept).await;
        println!("Redis was {how}: the writer was told {told:?}, and SQL has {kept} of its scores");
    }
}

/// A server on PostgreSQL, whose members all have a score of today and some friends.
async fn start(scale: Scale) -> (Api, RedisNode) {
    let dir = tempfile::tempdir().unwrap();
    let files = dir.path().join("redis");
    std::fs::create_dir(&files).unwrap();
    let redis = RedisNode::start(&files, vec![]);
    let database_url = Sql::Postgres.new_database(dir.path()).await;
    let redis_url = format!("redis://127.0.0.1:{}", redis.port());
    let deployment = Deployment::elsewhere(dir, database_url, redis_url);
    let api = Api::start_with_settings(&deployment, &[("LAUREL_READ_RATE", "0")]).await;
    let windows = json!([{ "name": "daily" }, { "name": "7d" }]);
    api.create_board(json!({ "slug": "b", "policy": "SUM", "shards": 4, "windows": windows }))
        .await;
    let members: Vec<usize> = (0..scale.of(MEMBERS, 1000)).collect();
    let now = now_ms();
    for some in members.chunks(1000) {
        let score = |of: &usize| {
            let at = jiff::Timestamp::from_millisecond(now - (*of as i64 % 3) * DAY_MS).unwrap();
            json!({ "member": key(*of), "score": of * 7919 % 100_003, "at": at.to_string() })
        };
        submit_durably(&api, "b", some.iter().map(score).collect()).await;
    }
    for friend in 1..=10 {
        change_friends(&api, ADD_FRIEND, (&key(0), &key(friend * 50))).await;
    }
    deployment.settle().await;
    (api, redis)
}

fn key(number: usize) -> String {
    format!("m{number:05}")
}

/// Asks for a page, a rank, neighbors or friends, of `all` or of the day.
fn query() -> Value {
    let mut rng = rand::rng();
    let member = key(rng.random_range(0..1000));
    let window = ["all", "daily"][rng.random_range(0..2)];
    let what = match rng.random_range(0..4) {
        0 => format!("top(first:{}){{nodes{{rank score member{{key}}}}}}", rng.random_range(5..50)),
        1 => format!("entry(member:\"{member}\"){{rank score}}"),
        2 => format!("neighbors(member:\"{member}\"){{rank score member{{key}}}}"),
        _ => format!("friends(member:\"{}\"){{nodes{{position entry{{rank}}}}}}", key(0)),
    };
    let text = format!(
        "{{board(slug:\"b\"){{standings(of: {{ window:\"{window}\" }}){{source {what}}}}}}}"
    );
    json!({ "query": text })
}

/// Submits scores of new members one after the other; returns what it was told, and how often.
async fn write(
    url: Arc<str>,
    token: Arc<str>,
    is_over: Arc<AtomicBool>,
) -> BTreeMap<String, usize> {
    let client = Client::builder().timeout(Duration::from_secs(30)).build().unwrap();
    let mut told = BTreeMap::new();
    for number in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let score = json!({ "member": format!("w{number}"), "score": 1 });
        let variables = json!({ "board": "b", "scores": [score], "ack": "DURABLE" });
        let body = json!({ "query": SUBMIT_SCORES, "variables": variables });
        let sent = client.post(format!("{url}/graphql")).bearer_auth(&token).json(&body);
        let answer: Value = match sent.send().await {
            Ok(answer) => answer.json().await.unwrap_or_default(),
            Err(error) => json!({ "errors": [{ "extensions": { "code": error.to_string() } }] }),
        };
        let result = &answer["data"]["submitScores"]["results"][0];
        let codes = [&answer["errors"][0]["extensions"]["code"], &result["error"]["code"]];
        let said = codes.into_iter().chain([&result["status"]]).find_map(Value::as_str);
        let said = said.unwrap_or("nothing");
        *told.entry(said.to_owned()).or_default() += 1;
        sleep(WRITE_PAUSE).await;
    }
    told
}

async fn measure_for(api: &Api, seconds: usize, side: &str, figures: &mut Figures) {
    let (transactions, cpu) = (transactions(api).await, postgres_seconds());
    let mut answers = ask(api, Duration::from_secs(seconds as u64)).await;
    let all = answers.ms.len();
    let (failed, from_sql) = (answers.failed, answers.from_sql);
    println!("{side}: {all} answers, {failed} failures, {from_sql} from SQL");
    for (what, part) in [("p50", 0.5), ("p99", 0.99), ("longest", 1.0)] {
        let value = quantile(&mut answers.ms, part);
        figures.add(&format!("a read, {what}"), "ms", side, value);
    }
    let of_second = |count: f64| count / seconds as f64;
    let transactions = self::transactions(api).await - transactions;
    figures.add("transactions of PostgreSQL", "/s", side, of_second(transactions as f64));
    let cpu = postgres_seconds() - cpu;
    figures.add("processor time of PostgreSQL", "% of a core", side, 100.0 * of_second(cpu));
}

/// Sends requests at their rate, however long the answers take.
async fn ask(api: &Api, lasts: Duration) -> Answers {
    let client = Client::builder().timeout(Duration::from_secs(30)).build().unwrap();
    let url: Arc<str> = format!("{}/graphql", api.url()).into();
    let mut ticks = interval(Duration::from_secs(1) / RATE as u32);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (ends, mut asked) = (Instant::now() + lasts, JoinSet::new());
    while Instant::now() < ends {
        let due = ticks.tick().await.into_std();
        asked.spawn(ask_once(client.clone(), url.clone(), due));
    }
    let mut answers = Answers::default();
    for (ms, source) in asked.join_all().await {
        answers.ms.push(ms);
        answers.failed += usize::from(source.is_none());
        answers.from_sql += usize::from(source.as_deref() == Some("FALLBACK"));
    }
    answers
}

/// The milliseconds since a request was due, and the source of its answer; none after an error.
async fn ask_once(client: Client, url: Arc<str>, due: Instant) -> (f64, Option<String>) {
    let sent = client.post(&*url).json(&query()).send().await;
    let answer = match sent {
        Ok(answer) => answer.json::<Value>().await.ok(),
        Err(_) => None,
    };
    let source = answer.filter(|answer| answer["errors"].is_null()).and_then(|answer| {
        answer["data"]["board"]["standings"]["source"].as_str().map(str::to_owned)
    });
    (due.elapsed().as_secs_f64() * 1000.0, source)
}

/// The transactions of the database so far.
async fn transactions(api: &Api) -> i64 {
    let counted = "SELECT xact_commit + xact_rollback FROM pg_stat_database \
        WHERE datname = current_database()";
    api.deployment().number(counted).await
}

/// The processor time of all of PostgreSQL's processes that run, in seconds.
fn postgres_seconds() -> f64 {
    let told = Command::new("ps").args(["-C", "postgres", "-o", "cputimes="]).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    told.split_whitespace().map(|seconds| seconds.parse::<f64>().unwrap()).sum()
}
