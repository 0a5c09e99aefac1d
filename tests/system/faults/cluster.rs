//! A Redis Cluster: boards that lie on several servers, partitions that move between them, masters
//! that die.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rand::RngExt;
use rand::seq::SliceRandom;
use ranking::Error;
use ranking::id::PartitionNo;
use ranking::store::Store;
use serde_json::{Value, json};

use tests::api::listing::check_board;
use tests::api::submission::{create_board, submit, submit_durably, submit_events, try_submit};
use tests::api::{Answer, Api};
use tests::boards::load::{BATCHES, Load, SENDERS, check_recovered};
use tests::deployment::{Deployment, Redis, Sql};
use tests::extent;
use tests::jobs::analytics::figures;
use tests::jobs::diff::check_diff;
use tests::model::game::{Range, batches, every_game, seeded};
use tests::model::oracle::{Board, Event, Oracle};
use tests::servers::redis_cluster::{RedisCluster, free_port};
use tests::servers::redis_server::RedisServer;
use tests::wait::until;

/// How many partitions a deployment has by default.
const PARTITIONS: usize = 16;

/// The number of boards of each policy and number of shards: few and many.
const BOARDS: [usize; 2] = [1, 2];

/// The number of events for each board.
const EVENTS: usize = 60;

const TOP: &str = "
    query($slug: String!) { board(slug: $slug) { standings {
        source size top(first: 1000) { nodes { rank score member { key } } }
    } } }";

/// Asks for the top of a board: the source, and the answer without it.
async fn ask_top(api: &Api, slug: &str) -> (Value, Answer) {
    let mut answer = api.ask(Some(api.token()), TOP, json!({ "slug": slug })).await;
    let standings = answer.body.pointer_mut("/data/board/standings");
    let source = standings.and_then(Value::as_object_mut).and_then(|told| told.remove("source"));
    (source.unwrap_or_default(), answer)
}

fn is_unavailable(answer: &Answer) -> bool {
    answer.codes().iter().all(|&code| code == "UNAVAILABLE")
}

fn head(partition: usize) -> String {
    format!("laurel:{{{partition}}}:head")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn boards_on_a_cluster_are_as_the_rules_say() {
    let mut rng = seeded();
    let deployment = Deployment::new(Sql::any(), Redis::Cluster).await;
    let apis = [Api::start(&deployment).await, Api::start(&deployment).await];
    let mut oracles = vec![];
    for shards in [1, 4, 16] {
        let mut games = every_game(&mut rng, shards, Range::Wide, EVENTS);
        games.extend(every_game(&mut rng, shards, Range::Narrow, EVENTS));
        games.shuffle(&mut rng);
        for policy in ["SUM", "BEST", "LATEST"] {
            let of_policy = games.iter().filter(|game| game.board.policy == policy);
            for game in of_policy.take(extent::boards(BOARDS)) {
                let slug = format!("{}-{shards}", game.board.slug);
                let board = Board { slug, ..game.board.clone() };
                create_board(&apis[0], &board).await;
                let mut oracle = Oracle::new(board);
                for (number, batch) in batches(&mut rng, &game.events).iter().enumerate() {
                    let told = submit_events(&apis[number % 2], &oracle.board, batch).await;
                    let expected: Vec<_> = batch.iter().map(|event| oracle.submit(event)).collect();
                    assert_eq!(told, expected, "{batch:?} to {:?}", oracle.board);
                }
                check_board(&apis[0], &oracle).await;
                oracles.push(oracle);
            }
        }
    }
    check_analytics(&deployment, &oracles);
    // A server that comes back empty is filled from SQL, whichever partitions it has.
    let cluster = deployment.cluster();
    let emptied = cluster.masters()[rng.random_range(0..3)];
    let () = cluster.ask(emptied, &["FLUSHALL"]);
    for oracle in &oracles {
        check_board(&apis[1], oracle).await;
    }
    check_diff(&deployment);
}

/// Checks that the diff finds missing entries on any server, and nothing after a rebuild.
fn check_analytics(deployment: &Deployment, oracles: &[Oracle]) {
    check_diff(deployment);
    let cluster = deployment.cluster();
    let masters = cluster.masters();
    for &master in &masters {
        let keys: Vec<String> = cluster.ask(master, &["KEYS", "laurel:*:z:*::all:all"]);
        let members: Vec<String> = cluster.ask(master, &["ZRANGE", &keys[0], "0", "0"]);
        let () = cluster.ask(master, &["ZREM", &keys[0], &members[0]]);
    }
    let found = deployment.analytics(&["diff", "--json"]);
    assert_eq!(found.status.code(), Some(3));
    let found: Value = serde_json::from_slice(&found.stdout).unwrap();
    let findings = found["findings"].as_array().unwrap();
    assert_eq!(findings.len(), masters.len(), "{findings:?}");
    for oracle in oracles {
        figures(deployment, &["rebuild", "--board", &oracle.board.slug]);
    }
    check_diff(deployment);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_move_under_writers_and_readers() {
    let mut rng = seeded();
    let deployment = Deployment::new(Sql::any(), Redis::Cluster).await;
    let apis = [Api::start(&deployment).await, Api::start(&deployment).await];
    let still = in_all_partitions(Load::new(&mut rng, 1), "still");
    let written = in_all_partitions(Load::new(&mut rng, 0), "written");
    create_board(&apis[0], &still.board).await;
    create_board(&apis[0], &written.board).await;
    still.send(&[&apis[0]], BATCHES, async || ()).await;
    deployment.settle().await;
    let expected = ask_top(&apis[1], "still").await.1.body;
    let (is_over, right, elsewhere) =
        (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let read = async |api: &Api| {
        while !is_over.load(Ordering::Relaxed) {
            let (source, answer) = ask_top(api, "still").await;
            match answer.body.get("errors") {
                Some(_) => assert!(is_unavailable(&answer), "{:?}", answer.body),
                None => assert_eq!(answer.body, expected),
            }
            let count = if source == "LIVE" { &right } else { &elsewhere };
            count.fetch_add(1, Ordering::Relaxed);
        }
    };
    let write = async |api: &Api, batches: &[Vec<Event>]| {
        for batch in batches {
            write_until_taken(api, &written.board, batch).await;
        }
    };
    let stores = deployment.open_stores().await;
    let moving = move_all(deployment.cluster(), &stores.store, &right, &elsewhere);
    let (half, rest) = written.batches.split_at(BATCHES / 2);
    let work = async {
        futures::join!(moving, write(&apis[0], half), write(&apis[1], rest));
        is_over.store(true, Ordering::Relaxed);
    };
    futures::join!(work, read(&apis[0]), read(&apis[1]));
    println!("{right:?} reads were answered by Redis, {elsewhere:?} by SQL, or refused");
    apis[0].wait_until_ready().await;
    for (load, api) in [(&written, &apis[1]), (&still, &apis[0])] {
        let mut oracle = Oracle::new(load.board.clone());
        for event in load.batches.iter().flatten() {
            oracle.submit(event);
        }
        check_board(api, &oracle).await;
    }
    check_diff(&deployment);
}

/// Moves each partition to another server; half of some stays on either until reads were answered
/// by Redis, and by SQL or not at all.
async fn move_all(
    cluster: &RedisCluster,
    store: &Store,
    right: &AtomicUsize,
    elsewhere: &AtomicUsize,
) {
    let (mut keys, mut held, mut held_without_head) = (0, 0, 0);
    for partition in 0..PARTITIONS {
        let masters = cluster.masters();
        let key = head(partition);
        let from = cluster.master_of(&key);
        let place = masters.iter().position(|&port| port == from).unwrap();
        let to = masters[(place + 1) % masters.len()];
        // The board of the readers was created first.
        let entries = format!("laurel:{{{partition}}}:z:1.1::all:all");
        let first = [entries, key.clone()][partition % 2].clone();
        let mut moved = 0;
        // Half of a partition stays on either server until readers have come by.
        let between = async || {
            moved += 1;
            if moved == 2 && first == key && held_without_head == 0 {
                until_more(elsewhere, 1).await;
                held_without_head += 1;
            } else if moved == 2 && first != key && held < 2 && cluster.has(from, &key) {
                until_more(right, 4).await;
                check_half_moved(store, PartitionNo(partition as u16)).await;
                held += 1;
            }
        };
        keys += cluster.move_slot(&key, to, &first, between).await;
    }
    println!("{keys} keys moved");
    assert_eq!((held, held_without_head), (2, 1), "partitions held half moved");
}

/// Checks that half a partition is not taken for the whole.
async fn check_half_moved(store: &Store, partition: PartitionNo) {
    let listed = store.standings_keys(partition, None).await;
    assert!(matches!(listed, Err(Error::Unavailable(_))), "{listed:?}");
    let begun = store.begin_recovery(partition, "test").await;
    assert!(matches!(begun, Err(Error::Unavailable(_))), "{begun:?}");
}

async fn until_more(count: &AtomicUsize, more: usize) {
    let goal = count.load(Ordering::Relaxed) + more;
    let reached = async || (count.load(Ordering::Relaxed) >= goal).then_some(());
    until("readers come by", reached).await;
}

fn in_all_partitions(mut load: Load, slug: &str) -> Load {
    load.board.slug = slug.to_owned();
    load.board.shards = PARTITIONS as u16;
    load
}

/// Sends a batch until each event is accepted, as a patient client does.
async fn write_until_taken(api: &Api, board: &Board, batch: &[Event]) {
    until("a batch is taken", async || {
        let outcomes = try_submit(api, board, batch).await?;
        outcomes.iter().all(Result::is_ok).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_takes_over_and_what_sql_has_is_never_lost() {
    let mut rng = seeded();
    let deployment = Deployment::new(Sql::any(), Redis::Cluster).await;
    let cluster = deployment.cluster();
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "durable", "shards": 16 })).await;
    for number in 0..2 {
        let load = in_all_partitions(Load::new(&mut rng, number), &format!("load-{number}"));
        create_board(&api, &load.board).await;
        let killed = cluster.master_of(&head(rng.random_range(0..PARTITIONS)));
        let (is_over, told) = (AtomicBool::new(false), Mutex::new(vec![]));
        let write = async {
            let k = rng.random_range(1..BATCHES - SENDERS);
            let fault = async || {
                let told = async |more| {
                    let goal = told.lock().unwrap().len() + more;
                    let some = async || (told.lock().unwrap().len() >= goal).then_some(());
                    until("scores are in SQL", some).await;
                };
                told(40).await;
                if number > 0 {
                    // SQL is ahead of the replica that takes over.
                    cluster.cut_off_replica_of(killed);
                    told(40).await;
                }
                cluster.kill(killed);
            };
            load.send(&[&api], k, fault).await;
            is_over.store(true, Ordering::Relaxed);
        };
        let write_durably = async {
            for round in 0.. {
                let score = |member: usize| {
                    json!({
                        "member": format!("m{member}"), "score": 1,
                        "eventId": format!("{number}-{round}"),
                    })
                };
                let scores: Value = (0..8).map(score).collect();
                let payload = submit_durably(&api, "durable", scores.clone()).await;
                let results = payload["results"].as_array().unwrap().iter();
                let taken = results.zip(scores.as_array().unwrap());
                told.lock().unwrap().extend(
                    taken
                        .filter(|(result, _)| result["status"] == "APPLIED")
                        .map(|(_, score)| score.clone()),
                );
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
        };
        futures::join!(write, write_durably);
        cluster.wait_until_replaced(killed).await;
        check_recovered(&api, &load).await;
        let told = told.into_inner().unwrap();
        println!("{} scores were said to be in SQL", told.len());
        for scores in told.chunks(100) {
            let payload = submit(&api, "durable", json!(scores)).await;
            assert_eq!(payload["duplicates"], scores.len(), "{payload}");
        }
        check_diff(&deployment);
        cluster.restart(killed);
        cluster.wait_until_well().await;
    }
    check_without_a_master(cluster, &api).await;
    check_diff(&deployment);
}

/// Checks that SQL answers, and no answer is wrong, while a master and its replica are gone, and
/// that the service recovers by itself when they are back.
async fn check_without_a_master(cluster: &RedisCluster, api: &Api) {
    let expected = ask_top(api, "load-1").await.1.body;
    let master = cluster.master_of(&head(0));
    let gone = [cluster.replica_of(master), master];
    gone.iter().for_each(|&port| cluster.kill(port));
    until("SQL answers", async || {
        let (source, answer) = ask_top(api, "load-1").await;
        match answer.body.get("errors") {
            Some(_) => assert!(is_unavailable(&answer), "{:?}", answer.body),
            None => assert_eq!(answer.body, expected),
        }
        (source == "FALLBACK").then_some(())
    })
    .await;
    gone.iter().for_each(|&port| cluster.restart(port));
    cluster.wait_until_well().await;
    api.wait_until_ready().await;
    assert_eq!(ask_top(api, "load-1").await.1.body, expected);
}

#[tokio::test]
async fn a_url_of_the_other_kind_is_refused_and_the_right_one_is_said() {
    let deployment = Deployment::new(Sql::any(), Redis::Cluster).await;
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    let _single = RedisServer::start_at(dir.path(), port);
    let plain = deployment.cluster().plain_url();
    let single = format!("redis://127.0.0.1:{port}");
    let cases = [
        (plain.clone(), format!("expected {plain}?cluster=true")),
        (format!("{single}?cluster=true"), format!("expected {single} without cluster=true")),
        (
            format!("{single},127.0.0.1:{port}"),
            "redis://host:port,host:port?cluster=true".to_owned(),
        ),
    ];
    for (url, expected) in cases {
        let mut serve = deployment.api(&["serve"]);
        let output = serve
            .env("LAUREL_LISTEN", "127.0.0.1:0")
            .env("LAUREL_REDIS_URL", &url)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(&expected), "{url}: {said}");
    }
}
