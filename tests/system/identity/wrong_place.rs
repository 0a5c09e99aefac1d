//! Commands in a wrong place: another directory, another prefix, another number of a database. Each
//! ends in words, and no key of the Redis that is in use changes.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use redis::AsyncCommands;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::{submit, submit_durably};
use tests::deployment::{CHANGES, Deployment, Redis, Sql};
use tests::jobs::diff::check_diff;
use tests::wait::until;

/// Jobs that write to Redis, or would.
const JOBS: [&[&str]; 6] = [
    &["restore"],
    &["diff", "--repair"],
    &["rebuild", "--board", "b"],
    &["roll"],
    &["seal"],
    &["archive", "--before", "2025-01-01"],
];

const PROGRAMS: [&[&str]; 3] = [&["serve"], &["worker"], &["demo"]];

const SIZE: &str = "{ board(slug: \"b\") { standings { size } } }";

const EVENTS: &str = "SELECT CAST(COUNT(*) AS BIGINT) FROM score_event";

/// The keys of a Redis, each with its server and its content.
type Contents = Vec<(u16, String, Option<Vec<u8>>)>;

/// A deployment with a board of so many members, in use.
async fn filled(sql: Sql, redis: Redis, members: usize) -> (Arc<Deployment>, Api) {
    let deployment = Deployment::new(sql, redis).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "shards": 4 })).await;
    let score = |member| json!({ "member": format!("m{member}"), "score": 1 });
    let scores: Value = (0..members).map(score).collect();
    assert_eq!(submit_durably(&api, "b", scores).await["accepted"], members);
    (deployment, api)
}

async fn check(deployment: &Deployment, api: &Api, members: usize) {
    assert_eq!(api.data(SIZE, json!({})).await["board"]["standings"]["size"], members);
    check_diff(deployment);
}

async fn contents_of_one(deployment: &Deployment) -> Contents {
    let contents = deployment.redis_contents().await.into_iter();
    contents.map(|(key, dump)| (0, key, dump)).collect()
}

fn contents_of_cluster(deployment: &Deployment) -> Contents {
    let cluster = deployment.cluster();
    let mut masters = cluster.masters();
    masters.sort_unstable();
    let mut contents = vec![];
    for port in masters {
        let mut keys: Vec<String> = cluster.ask(port, &["KEYS", "*"]);
        keys.retain(|key| !key.ends_with(CHANGES));
        keys.sort();
        for key in keys {
            let dump = cluster.ask(port, &["DUMP", &key]);
            contents.push((port, key, dump));
        }
    }
    contents
}

/// The contents once the persister has trimmed what it wrote.
async fn still(mut contents: impl AsyncFnMut() -> Contents) -> Contents {
    let mut last = contents().await;
    until("Redis stands still", async || {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now = contents().await;
        let is_still = now == std::mem::replace(&mut last, now.clone());
        is_still.then_some(now)
    })
    .await
}

/// A command that reaches the Redis of another deployment.
fn at(live: &Deployment, mut command: Command) -> Command {
    command.env("LAUREL_REDIS_URL", live.redis_url()).env("LAUREL_LISTEN", "127.0.0.1:0");
    command
}

/// The error output of a command that must fail.
async fn refused(mut command: Command) -> String {
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    error
}

/// Checks that a deployment is refused at the Redis of a living one, whatever it runs.
async fn check_refused(live: &Deployment, other: &Arc<Deployment>) {
    let jobs = JOBS.map(|arguments| other.analytics_command(arguments));
    let programs = PROGRAMS.map(|arguments| other.api(arguments));
    for command in jobs.into_iter().chain(programs) {
        let name = format!("{command:?}");
        let error = refused(at(live, command)).await;
        assert!(error.contains("laurel adopt"), "{name}: {error}");
    }
    // It shows the loss, and does nothing yet.
    let mut shown = at(live, other.api(&["adopt"]));
    let output = tokio::task::spawn_blocking(move || shown.output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("would be cleared"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_with_data_of_its_own_changes_nothing_at_the_redis_of_another_one() {
    for sql in Sql::all() {
        let (live, api) = filled(sql, Redis::Own, 10).await;
        let (other, its_api) = filled(sql, Redis::Own, 3).await;
        its_api.stop().await;
        let before = still(async || contents_of_one(&live).await).await;
        check_refused(&live, &other).await;
        assert_eq!(contents_of_one(&live).await, before);
        check(&live, &api, 10).await;
        let its_api = Api::start(&other).await;
        check(&other, &its_api, 3).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_with_data_of_its_own_changes_nothing_at_the_cluster_of_another_one() {
    let (live, api) = filled(Sql::Postgres, Redis::Cluster, 10).await;
    let (other, its_api) = filled(Sql::Sqlite, Redis::Own, 3).await;
    its_api.stop().await;
    let before = still(async || contents_of_cluster(&live)).await;
    check_refused(&live, &other).await;
    assert_eq!(contents_of_cluster(&live), before);
    check(&live, &api, 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_in_an_empty_directory_touches_no_redis_and_jobs_make_nothing_there() {
    let (live, api) = filled(Sql::Sqlite, Redis::Own, 10).await;
    let before = still(async || contents_of_one(&live).await).await;
    let dir = live.new_file("empty");
    fs::create_dir(&dir).unwrap();
    let inside = |mut command: Command| {
        command.current_dir(&dir).env_remove("LAUREL_DATA_DIR").env_remove("LAUREL_DATABASE_URL");
        at(&live, command)
    };
    for arguments in JOBS {
        let error = refused(inside(live.analytics_command(arguments))).await;
        assert!(error.contains("there is no deployment"), "{arguments:?}: {error}");
        assert_eq!(entries(&dir), 0, "{arguments:?}");
    }
    for arguments in PROGRAMS {
        let error = refused(inside(live.api(arguments))).await;
        assert!(error.contains("deployment"), "{arguments:?}: {error}");
    }
    assert_eq!(contents_of_one(&live).await, before);
    check(&live, &api, 10).await;
}

fn entries(dir: &Path) -> usize {
    fs::read_dir(dir).unwrap().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_prefix_or_number_of_the_same_server_is_refused_while_one_is_in_use() {
    for sql in Sql::all() {
        let (live, api) = filled(sql, Redis::Own, 10).await;
        let before = still(async || contents_of_one(&live).await).await;
        let prefix = |mut command: Command| {
            command.env("LAUREL_REDIS_PREFIX", "other");
            command
        };
        let second = format!("{}?db=1", live.redis_url());
        let number = |mut command: Command| {
            command.env("LAUREL_REDIS_URL", &second);
            command
        };
        for command in [
            prefix(live.analytics_command(&["restore"])),
            prefix(at(&live, live.api(&["worker"]))),
            number(live.analytics_command(&["diff", "--repair"])),
            number(at(&live, live.api(&["serve"]))),
        ] {
            let name = format!("{command:?}");
            let error = refused(command).await;
            assert!(error.contains("LAUREL_REDIS_PREFIX"), "{name}: {error}");
        }
        assert_eq!(contents_of_one(&live).await, before);
        let client = redis::Client::open(second.as_str()).unwrap();
        let mut redis = client.get_multiplexed_async_connection().await.unwrap();
        let keys: Vec<String> = redis.keys("*").await.unwrap();
        assert_eq!(keys, [""; 0]);
        check(&live, &api, 10).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_third_process_with_another_prefix_costs_two_others_no_score() {
    let (live, first) = filled(Sql::Postgres, Redis::Own, 10).await;
    let second = Api::start(&live).await;
    let third = || {
        let mut command = at(&live, live.api(&["serve"]));
        command.env("LAUREL_REDIS_PREFIX", "other");
        command
    };
    let mut trying = Box::pin(async {
        for _ in 0..3 {
            refused(third()).await;
        }
    });
    let mut sent = 10;
    while futures::poll!(&mut trying).is_pending() {
        for api in [&first, &second] {
            let score = json!([{ "member": format!("m{sent}"), "score": 1 }]);
            assert_eq!(submit(api, "b", score).await["accepted"], 1);
            sent += 1;
        }
    }
    until("SQL has every score", async || (deployment_events(&live).await == sent).then_some(()))
        .await;
    check(&live, &second, sent).await;
}

async fn deployment_events(deployment: &Deployment) -> usize {
    usize::try_from(deployment.number(EVENTS).await).unwrap()
}
