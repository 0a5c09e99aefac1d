//! The rates of a server for GraphQL clients, beside Redis alone and a server that does nothing.

mod redis_alone;

use std::time::Instant;

use axum::Router;
use axum::routing::get;
use rand::RngExt;
use ranking::board::State;
use ranking::standings_id::StandingsId;
use ranking::window::{Period, Window};
use serde_json::{Value, json};

use crate::Scale;
use crate::chart::{Line, draw as draw_lines};
use crate::figures::{Figures, quantile};
use crate::server::{Load, Sending, Server, wrk};
use crate::stores::Stores;
use redis_alone::{blind_writes, key_of, raw, redis_benchmark};

pub(crate) const TOP: &str = "query($slug: String!) { board(slug: $slug) { standings { top(first: 100) { nodes { rank score member { key } } } } } }";

pub(crate) const RANK: &str = "query($slug: String!, $member: String!) { board(slug: $slug) { standings { entry(member: $member) { rank score } } } }";

pub(crate) const AROUND: &str = "query($slug: String!, $member: String!) { board(slug: $slug) { standings { entry(member: $member) { rank score }
    neighbors(member: $member, above: 5, below: 5) { rank score member { key } } } } }";

const FRIENDS: &str = "query($slug: String!, $member: String!, $first: Int!) { board(slug: $slug) { standings { friends(member: $member, first: $first) { nodes { position entry { rank score member { key } } } } } } }";

const SUBMIT: &str = "mutation($scores: [ScoreInput!]!) { submitScores(input: { board: \"played\", scores: $scores }) { accepted } }";

pub(crate) const ONE: &str = "mutation($member: String!, $score: Decimal!) { submitScores(input: { board: \"played\", scores: [{ member: $member, score: $score }] }) { accepted } }";

const NOTHING: &str = "mutation { upsertMembers(input: { members: [] }) { members { key } } }";

/// Members of the board behind most figures.
const MEMBERS: usize = 100_000;

/// Friends of the member who has friends.
const FRIENDS_COUNT: usize = 500;

/// How many of them a query asks for.
const FRIENDS_PAGES: [(&str, usize); 2] =
    [("the first 20 of 500 friends, p50", 20), ("all of 500 friends with their ranks, p50", 501)];

/// The queries that boards of every size are asked.
const SIZED: [(&str, &str); 3] = [("rank", RANK), ("rank and neighbors", AROUND), ("top 100", TOP)];

/// Makes a server return nothing that was read before the request came.
const AGE_0: [(&str, &str); 1] = [("LAUREL_CACHE_AGE_MS", "0")];

/// Makes a server compute everything for every request.
const UNCACHED: [(&str, &str); 2] =
    [("LAUREL_ANSWER_CACHE_BYTES", "0"), ("LAUREL_PAGE_CACHE_BYTES", "0")];

/// How reads are sent.
pub(crate) const READING: Sending = Sending { connections: 64, seconds: 3, as_admin: false };

/// How writes are sent.
pub(crate) const WRITING: Sending = Sending { connections: 64, seconds: 4, as_admin: true };

/// Measures and adds the figures.
pub(crate) async fn measure(stores: Stores, scale: Scale, figures: &mut Figures) {
    let server = Server::start(&stores, &[]).await;
    let create =
        "mutation($input: CreateBoardInput!) { createBoard(input: $input) { board { slug } } }";
    let windows = json!([{ "name": "daily" }, { "name": "weekly" }]);
    let played = json!({ "input": { "slug": "played", "windows": windows } });
    server.ask(create, played).await;
    let mut boards = vec![];
    for (exponent, shards) in [4, 5, 6, 7].iter().flat_map(|e| [(*e, 1), (*e, 16)]) {
        let members = scale.of(10_usize.pow(exponent), 1000);
        let slug = format!("{members}-members-in-{shards}");
        // At a small scale the smallest two are the same.
        if boards.iter().any(|(other, _)| *other == slug) {
            continue;
        }
        let input = json!({ "input": { "slug": slug, "shards": shards } });
        server.ask(create, input).await;
        boards.push((slug, members));
    }
    let middle = boards[2].0.clone();
    befriend(&server, scale.of(MEMBERS, 1000)).await;
    for (slug, members) in &boards {
        let began = Instant::now();
        let bytes = fill(&stores, slug, *members).await;
        figures.add("memory of an entry", "bytes", slug, bytes);
        println!("{slug}: filled in {:.1} s", began.elapsed().as_secs_f64());
    }
    for run in 1..=crate::RUNS {
        println!("serving, run {run}");
        submissions(&stores, &server, figures).await;
        top(&stores, &server, &middle, figures).await;
        let uncached = Server::start(&stores, &UNCACHED).await;
        around(&stores, &uncached, &middle, scale.of(MEMBERS, 1000), figures).await;
        friends(&stores, &uncached, &middle, figures).await;
        for (slug, members) in &boards {
            sizes(&uncached, slug, *members, figures).await;
        }
    }
    draw(figures);
    drop(server);
    stores.close().await;
}

/// Draws p50 over the number of members.
fn draw(figures: &Figures) {
    let mut lines: Vec<Line> = vec![];
    for what in SIZED.map(|(what, _)| what) {
        for shards in [1, 16] {
            let of_shards = format!("-members-in-{shards}");
            let figure = format!("{what} by size, p50");
            let medians = figures.medians(&figure);
            let points = medians.filter_map(|(slug, p50_ms)| {
                let members = slug.strip_suffix(&of_shards)?;
                Some((members.parse().unwrap(), p50_ms))
            });
            lines.push((format!("{what}, {shards} shards"), points.collect()));
        }
    }
    draw_lines(&Figures::dir().join("latency.svg"), &lines).unwrap();
}

pub(crate) fn body(query: &str, variables: Value) -> String {
    json!({ "query": query, "variables": variables }).to_string()
}

pub(crate) fn name(member: usize) -> String {
    format!("member-{member:09}")
}

pub(crate) fn random_members(members: usize) -> impl Iterator<Item = String> {
    let mut rng = rand::rng();
    std::iter::repeat_with(move || name(rng.random_range(0..members)))
}

/// Puts entries of `members` members into a board's standings, without a history, which reads do
/// not need. Returns the bytes that an entry takes.
pub(crate) async fn fill(stores: &Stores, slug: &str, members: usize) -> f64 {
    let board = stores.board(slug).await;
    let before = stores.memory().await;
    let store = &stores.deployment.store;
    let id = StandingsId::all_time(&board, String::new());
    let mut redis = stores.redis();
    let shards = usize::from(board.rules.shards);
    let mut chunks: Vec<Vec<(String, String)>> = vec![vec![]; shards];
    for place in 0..members {
        // Members come in random order, and every tenth score comes twice.
        let member = name(permuted(place, members));
        let score = 900_000_000 - (place - usize::from(place % 10 == 9)) as i64;
        let state = State { score, tick: board.rules.tick(1_760_000_000_000 + place as i64) };
        let key = board.rules.key(Window::All, &Period::all(), state).unwrap();
        let of = ranking::id::MemberId::new(&member).unwrap();
        let shard = usize::from(ranking::shard::shard_of(&of, board.rules.shards));
        chunks[shard].push((key.to_redis(), member));
        if chunks[shard].len() == 1000 || place + shards * 1000 > members {
            let chunk = std::mem::take(&mut chunks[shard]);
            let partition = store.partitions().of(&board, shard as u16);
            let mut command = redis::cmd("ZADD");
            command.arg(store.keys().standings(partition, &id));
            for (key, member) in chunk {
                command.arg(key).arg(member);
            }
            let () = command.query_async(&mut redis).await.unwrap();
        }
    }
    (stores.memory().await - before) / members as f64
}

/// A permutation of `0..count`: multiplication by a prime.
fn permuted(place: usize, count: usize) -> usize {
    (place as u128 * 2_147_483_647 % count as u128) as usize
}

async fn befriend(server: &Server, members: usize) {
    let mut others: Vec<String> = random_members(members).take(2 * FRIENDS_COUNT).collect();
    others.sort_unstable();
    others.dedup();
    others.retain(|other| *other != name(0));
    others.truncate(FRIENDS_COUNT);
    let all: Vec<Value> =
        others.iter().chain([&name(0)]).map(|key| json!({ "key": key })).collect();
    let upsert = "mutation($members: [MemberInput!]!) { upsertMembers(input: { members: $members }) { members { key } } }";
    server.ask(upsert, json!({ "members": all })).await;
    let add = "mutation($member: String!, $friend: String!) { addFriend(input: { member: $member, friend: $friend }) { friend { key } } }";
    for other in others {
        let pair = json!({ "member": name(0), "friend": other });
        server.ask(add, pair).await;
    }
}

/// Scores in hundreds beside blind writes of as many, and scores one by one beside a mutation that
/// does nothing.
async fn submissions(stores: &Stores, server: &Server, figures: &mut Figures) {
    let mut rng = rand::rng();
    let run: u64 = rng.random();
    let mut event = 0;
    let mut score = |member: String| {
        event += 1;
        json!({ "member": member, "score": rng.random_range(1..100), "eventId": format!("{run:x}-{event}") })
    };
    let mut members = random_members(MEMBERS);
    // More than can be sent, so that nothing is sent twice.
    let batches: Vec<String> = (0..6000)
        .map(|_| {
            let scores: Vec<Value> = members.by_ref().take(100).map(&mut score).collect();
            body(SUBMIT, json!({ "scores": scores }))
        })
        .collect();
    let limit = blind_writes(stores).await;
    let sent = server.load(&batches, WRITING).await;
    let what = "events a second, in batches of 100";
    figures.add(what, "", "blind writes", limit);
    figures.add(what, "", "submitScores", 100.0 * sent.rate);
    let ones: Vec<String> = members
        .take(1000)
        .map(|member| body(ONE, json!({ "member": member, "score": "7" })))
        .collect();
    let nothing = server.load(&[body(NOTHING, json!({}))], WRITING).await;
    let sent = server.load(&ones, WRITING).await;
    let what = "mutations a second, one score each";
    figures.add(what, "", "nothing", nothing.rate);
    figures.add(what, "", "submitScores", sent.rate);
    figures.add("a mutation, p99", "ms", "nothing", nothing.p99_ms);
    figures.add("a mutation, p99", "ms", "submitScores", sent.p99_ms);
    // Events on their way to SQL must not disturb the next measurement.
    stores.settle().await;
}

/// The first hundred, beside Redis's own and a static body.
async fn top(stores: &Stores, server: &Server, slug: &str, figures: &mut Figures) {
    let top = [body(TOP, json!({ "slug": slug }))];
    let bytes = server.answer_bytes(&top[0]).await;
    let hot = server.load(&top, READING).await;
    let fresh = Server::start(stores, &AGE_0).await;
    let shared = fresh.load(&top, READING).await;
    drop(fresh);
    let uncached = Server::start(stores, &UNCACHED).await;
    let cold = uncached.load(&top, READING).await;
    drop(uncached);
    let board = stores.board(slug).await;
    let redis =
        redis_benchmark(stores, &["ZRANGE", &key_of(stores, &board), "0", "99", "WITHSCORES"])
            .await;
    let fixed = static_body(stores, bytes).await;
    for (what, load) in [
        ("hot top 100 a second", &hot),
        ("top 100 at cache age 0 a second", &shared),
        ("top 100 with caches off a second", &cold),
    ] {
        figures.add(what, "", "redis-benchmark ZRANGE", redis);
        figures.add(what, "", "top(first: 100)", load.rate);
    }
    let what = "hot top 100 a second, beside a body of its size";
    figures.add(what, "", "static body", fixed.rate);
    figures.add(what, "", "top(first: 100)", hot.rate);
}

async fn static_body(stores: &Stores, bytes: usize) -> Load {
    let answer = "x".repeat(bytes);
    let router = Router::new().route("/", get(move || std::future::ready(answer.clone())));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let serving = tokio::spawn(axum::serve(listener, router).into_future());
    let load = wrk(stores.dir(), &url, &[String::new()], None, READING).await;
    serving.abort();
    load
}

/// A member's rank and those around it, beside the commands that Redis needs for it.
async fn around(
    stores: &Stores,
    server: &Server,
    slug: &str,
    members: usize,
    figures: &mut Figures,
) {
    let board = stores.board(slug).await;
    let bodies: Vec<String> = random_members(members)
        .take(5000)
        .map(|member| body(AROUND, json!({ "slug": slug, "member": member })))
        .collect();
    let key = key_of(stores, &board);
    let (raw_rate, raw_p50_ms) = raw(
        stores,
        async |redis, rng, key: &str| {
            let member = name(rng.random_range(0..members));
            let mut pipe = redis::pipe();
            pipe.cmd("ZSCORE").arg(key).arg(&member);
            pipe.cmd("ZRANK").arg(key).arg(&member);
            let (_, rank): (f64, i64) = pipe.query_async(redis).await.unwrap();
            let mut range = redis::cmd("ZRANGE");
            range.arg(key).arg((rank - 5).max(0)).arg(rank + 5).arg("WITHSCORES");
            let _: Vec<(String, f64)> = range.query_async(redis).await.unwrap();
        },
        &key,
    )
    .await;
    let served = server.load(&bodies, READING).await;
    let what = "rank and neighbors(5, 5) a second";
    figures.add(what, "", "ZSCORE, ZRANK, ZRANGE", raw_rate);
    figures.add(what, "", "GraphQL", served.rate);
    figures.add("rank and neighbors(5, 5), p50", "ms", "ZSCORE, ZRANK, ZRANGE", raw_p50_ms);
    figures.add("rank and neighbors(5, 5), p50", "ms", "GraphQL", served.p50_ms);
}

/// Pages of 500 friends, beside one ZMSCORE of them; one request at a time.
async fn friends(stores: &Stores, server: &Server, slug: &str, figures: &mut Figures) {
    let board = stores.board(slug).await;
    let key = key_of(stores, &board);
    let one = Sending { connections: 1, ..READING };
    let mut served_ms = vec![];
    for (what, first) in FRIENDS_PAGES {
        let asked = json!({ "slug": slug, "member": name(0), "first": first });
        let served = server.load(&[body(FRIENDS, asked)], one).await;
        served_ms.push((what, served.p50_ms));
    }
    let mut redis = stores.redis();
    let mut command = redis::cmd("ZMSCORE");
    command.arg(&key);
    for member in random_members(board_size(slug)).take(FRIENDS_COUNT) {
        command.arg(member);
    }
    let mut times_ms = vec![];
    for _ in 0..2000 {
        let began = Instant::now();
        let _: Vec<Option<f64>> = command.query_async(&mut redis).await.unwrap();
        times_ms.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    let raw_ms = quantile(&mut times_ms, 0.5);
    for (what, served_ms) in served_ms {
        figures.add(what, "ms", "ZMSCORE of 500", raw_ms);
        figures.add(what, "ms", "friends", served_ms);
    }
}

fn board_size(slug: &str) -> usize {
    slug.split('-').next().unwrap().parse().unwrap()
}

/// The same queries on boards of every size, by a few connections.
async fn sizes(server: &Server, slug: &str, members: usize, figures: &mut Figures) {
    let few = Sending { connections: 8, seconds: 1, as_admin: false };
    for (what, query) in SIZED {
        let bodies: Vec<String> = random_members(members)
            .take(if what == "top 100" { 1 } else { 3000 })
            .map(|member| body(query, json!({ "slug": slug, "member": member })))
            .collect();
        let load = server.load(&bodies, few).await;
        figures.add(&format!("{what} by size, p50"), "ms", slug, load.p50_ms);
        figures.add(&format!("{what} by size, p99"), "ms", slug, load.p99_ms);
        figures.add(&format!("{what} by size, p99.9"), "ms", slug, load.p999_ms);
    }
}
