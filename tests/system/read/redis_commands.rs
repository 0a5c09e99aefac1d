//! Counts of Redis commands: the look-ups of one request become one batch.

use std::collections::{BTreeMap, BTreeSet};

use ranking::id::MemberId;
use ranking::shard::shard_of;
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::{submit, submit_durably};
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::REMOVE_ENTRY;
use tests::servers::command_counts::{counts, reset_counts};
use tests::servers::command_senders::senders;
use tests::servers::redis_node::RedisNode;

/// How many members are looked up.
const MEMBERS: usize = 1000;

/// The partitions of a deployment.
const PARTITIONS: usize = 16;

/// The number of places that one counting script looks for.
const PLACES_A_SCRIPT: usize = 250;

fn keys() -> Vec<String> {
    (0..MEMBERS).map(|number| format!("m{number}")).collect()
}

/// A board whose members all have different scores, served by a process without background work.
async fn board_of(shards: usize) -> (std::sync::Arc<Deployment>, Api) {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "shards": shards })).await;
    let scores: Vec<Value> = keys()
        .iter()
        .zip(1..)
        .map(|(key, score)| json!({ "member": key, "score": score }))
        .collect();
    assert_eq!(submit_durably(&api, "b", json!(scores)).await["accepted"], MEMBERS);
    api.stop().await;
    let api = Api::start_with(&deployment, &["--no-workers"]).await;
    (deployment, api)
}

/// Reaches every member by three paths of different depth, some by more.
async fn ask_by_every_path(api: &Api) {
    let aliases: String = (0..100)
        .map(|number| format!("a{number}: entry(member: \"m{number}\") {{ rank }} "))
        .collect();
    let text = format!(
        "query($keys: [String!]!) {{
            board(slug: \"b\") {{ standings {{ entries(members: $keys) {{ rank score }} {aliases} }} }}
            members(keys: $keys) {{ entry(board: \"b\") {{ rank }} }}
            member(key: \"m7\") {{ entries(boards: [\"b\"]) {{ rank }} }}
        }}"
    );
    let data = api.data(&text, json!({ "keys": keys() })).await;
    for number in 0..MEMBERS {
        let rank = MEMBERS - number;
        assert_eq!(data["board"]["standings"]["entries"][number]["rank"], rank);
        assert_eq!(data["members"][number]["entry"]["rank"], rank);
        if number < 100 {
            assert_eq!(data["board"]["standings"][format!("a{number}")]["rank"], rank);
        }
    }
    assert_eq!(data["member"]["entries"][0]["rank"], MEMBERS - 7);
}

async fn counts_of_every_path(shards: usize) -> BTreeMap<String, usize> {
    let (deployment, api) = board_of(shards).await;
    reset_counts(&deployment).await;
    ask_by_every_path(&api).await;
    counts(&deployment).await
}

fn check(counts: &BTreeMap<String, usize>, expected: &[(&str, usize)]) {
    for (command, count) in expected {
        let mut counted = counts.get(*command).copied().unwrap_or(0);
        // The process looks at the heads of all partitions now and then, for its health.
        if *command == "get" {
            counted %= PARTITIONS;
        }
        assert_eq!(counted, *count, "{command} of {counts:?}");
    }
}

#[tokio::test]
async fn a_thousand_members_by_every_path_are_scripts_with_a_count_each() {
    let counts = counts_of_every_path(1).await;
    let scripts = MEMBERS.div_ceil(PLACES_A_SCRIPT);
    // The head is read with them.
    check(
        &counts,
        &[
            ("zmscore", scripts),
            ("zrank", MEMBERS),
            ("get", 1),
            ("evalsha", scripts),
            ("zcount", 0),
            ("zrange", 0),
            ("zscore", 0),
        ],
    );
}

#[tokio::test]
async fn in_four_shards_they_are_a_look_up_a_shard_and_scripts_that_count_the_others() {
    let shards = 4;
    let counts = counts_of_every_path(shards).await;
    let mut sizes = vec![0; shards];
    for key in keys() {
        sizes[usize::from(shard_of(&MemberId::new(&key).unwrap(), shards as u16))] += 1;
    }
    // A shard counts what comes before the members of the others; all scores differ, so no run of
    // equals is bisected.
    let scripts: usize = sizes.iter().map(|size| (MEMBERS - size).div_ceil(PLACES_A_SCRIPT)).sum();
    let own: usize = sizes.iter().map(|size| size.div_ceil(PLACES_A_SCRIPT)).sum();
    let places = sizes.iter().map(|size| MEMBERS - size).sum::<usize>();
    check(
        &counts,
        &[
            ("zmscore", shards + own),
            ("zrank", MEMBERS),
            ("get", 2 * shards),
            ("evalsha", scripts + own),
            ("zcount", 2 * places),
            ("zrange", 0),
        ],
    );
}

#[tokio::test]
async fn a_page_with_its_size_is_one_range_and_one_count() {
    let (deployment, api) = board_of(1).await;
    reset_counts(&deployment).await;
    let text = "
        { board(slug: \"b\") { standings {
            size top(first: 1000) { totalCount nodes { rank percentile score member { key } } }
        } } }";
    let data = api.data(text, json!({})).await;
    assert_eq!(data["board"]["standings"]["top"]["nodes"][999]["rank"], MEMBERS);
    let counts = counts(&deployment).await;
    check(
        &counts,
        &[("zrange", 1), ("zcard", 1), ("zmscore", 0), ("zrank", 0), ("zcount", 0), ("evalsha", 0)],
    );
}

#[tokio::test]
async fn a_page_of_periods_looks_at_few_more_than_it_has() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "windows": [{ "name": "hourly" }] })).await;
    api.stop().await;
    let api = Api::start_with(&deployment, &["--no-workers"]).await;
    let score = |hour: i64| {
        let at = jiff::Timestamp::from_second(1_735_689_600 + hour * 3600).unwrap().to_string();
        // The last hundred hours are those of one member alone.
        json!({ "member": if hour < 600 { "ann" } else { "bob" }, "score": 1, "at": at })
    };
    let scores: Vec<Value> = (0..700).map(score).collect();
    assert_eq!(submit(&api, "b", json!(scores)).await["accepted"], 700);
    let text = "{ board(slug: \"b\") {
        periods(window: \"hourly\", first: 1) { nodes { label } }
    } }";
    let label = async || {
        let data = api.data(text, json!({})).await;
        data["board"]["periods"]["nodes"][0]["label"].as_str().unwrap().to_owned()
    };
    reset_counts(&deployment).await;
    assert_eq!(label().await, "2025-01-30T03+00:00");
    check(&counts(&deployment).await, &[("zrange", 1), ("exists", 8)]);
    // Periods without an entry are passed over, however many there are.
    let removed = api.data(REMOVE_ENTRY, json!({ "board": "b", "member": "bob" })).await;
    assert_eq!(removed["removeEntry"]["removed"], true);
    assert_eq!(label().await, "2025-01-25T23+00:00");
}

/// How many friends a member has, of whom a page is read.
const FRIENDS: usize = 5000;

/// How many there are on that page.
const FRIENDS_PAGE: usize = 100;

/// A board on which m0 has 5,000 friends, of whom 999 have scores.
async fn friends_of(shards: usize) -> (std::sync::Arc<Deployment>, Api) {
    let (deployment, api) = board_of(shards).await;
    drop(api);
    let db = deployment.sql().await;
    let numbers = Sql::any().numbers(FRIENDS);
    for insert in [
        format!(
            "INSERT INTO member (\"key\", created_at_ms) SELECT CONCAT('m', i), 0 FROM {numbers} \
                WHERE i >= {MEMBERS}"
        ),
        format!(
            "INSERT INTO friendship (low, high, created_at_ms) SELECT 'm0', CONCAT('m', i), 0 \
                FROM {numbers}"
        ),
    ] {
        db.execute_unprepared(&insert).await.unwrap();
    }
    db.close().await.unwrap();
    let api = Api::start_with(&deployment, &["--no-workers"]).await;
    (deployment, api)
}

/// A page of m0's friends: their keys, and the counts of commands.
async fn page_of_friends(shards: usize) -> (Vec<String>, BTreeMap<String, usize>) {
    let (deployment, api) = friends_of(shards).await;
    reset_counts(&deployment).await;
    let text = "
        query($first: Int) { board(slug: \"b\") { standings {
            friends(member: \"m0\", first: $first, includeMissing: true) {
                totalCount nodes { position entry { rank score member { key } } }
            }
        } } }";
    let data = api.data(text, json!({ "first": FRIENDS_PAGE })).await;
    let counts = counts(&deployment).await;
    let friends = &data["board"]["standings"]["friends"];
    assert_eq!(friends["totalCount"], FRIENDS + 1);
    let nodes = friends["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), FRIENDS_PAGE);
    assert_eq!((&nodes[99]["position"], &nodes[99]["entry"]["rank"]), (&json!(100), &json!(100)));
    let keys = tests::api::connection::texts(nodes, "/entry/member/key");
    (keys, counts)
}

#[tokio::test]
async fn a_page_of_five_thousand_friends_is_one_look_up_and_a_count_each() {
    let (_, counts) = page_of_friends(1).await;
    check(
        &counts,
        &[
            ("zmscore", 2),
            ("zrank", FRIENDS_PAGE),
            ("get", 2),
            ("evalsha", 1),
            ("zcount", 0),
            ("zrange", 0),
            ("zscore", 0),
        ],
    );
}

#[tokio::test]
async fn in_four_shards_it_is_a_look_up_a_shard_and_scripts_for_the_page_alone() {
    let shards = 4;
    let (keys, counts) = page_of_friends(shards).await;
    let mut sizes = vec![0; shards];
    for key in &keys {
        sizes[usize::from(shard_of(&MemberId::new(key).unwrap(), shards as u16))] += 1;
    }
    let others = || sizes.iter().map(|size| FRIENDS_PAGE - size);
    let own = sizes.iter().filter(|size| **size > 0).count();
    let scripts: usize = others().map(|places| places.div_ceil(PLACES_A_SCRIPT)).sum();
    check(
        &counts,
        &[
            ("zmscore", shards + own),
            ("zrank", FRIENDS_PAGE),
            ("get", 2 * shards),
            ("evalsha", scripts + own),
            ("zcount", 2 * others().sum::<usize>()),
            ("zrange", 0),
        ],
    );
}

/// A connection answers in the order in which it was asked: a commit, or a read of one entry, would
/// wait there for the answers to others.
#[tokio::test]
async fn commits_light_reads_and_costly_reads_have_a_connection_each() {
    let (dir, redis_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let redis = RedisNode::start(redis_dir.path(), vec![]);
    let database_url = Sql::any().new_database(dir.path()).await;
    let redis_url = format!("redis://127.0.0.1:{}", redis.port());
    let deployment = Deployment::elsewhere(dir, database_url, redis_url);
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "shards": 1, "tieBreak": "MEMBER" })).await;
    let scores: Vec<Value> =
        keys().iter().map(|key| json!({ "member": key, "score": 1 })).collect();
    let commits = senders(&deployment, &["xadd"], async {
        submit_durably(&api, "b", json!(scores)).await;
    });
    let commits = commits.await;
    let ask = async |fields: &str| {
        let text = format!("{{ board(slug: \"b\") {{ standings {{ {fields} }} }} }}");
        let answer = api.ask(None, &text, json!({})).await;
        assert!(answer.body["errors"].is_null(), "{:?}", answer.body);
    };
    let reads = ["zcount", "zrange", "zmscore", "zrangebyscore", "zrevrange", "zrank"];
    let light = senders(&deployment, &reads, ask("entry(member: \"m7\") { rank }")).await;
    // A stranger's long text is taken for a costly request.
    let long = format!("entry(member: \"m8\") {{ rank }} # {}\n", "long ".repeat(2000));
    let costly = senders(&deployment, &reads, ask(&long)).await;
    for (senders, what) in [(&commits, "commits"), (&light, "light"), (&costly, "costly")] {
        assert_eq!(senders.len(), 1, "{what}: {senders:?}");
    }
    assert_eq!(BTreeSet::from_iter([commits, light, costly].into_iter().flatten()).len(), 3);
}
