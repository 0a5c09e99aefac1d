//! Stores that answer and are wrong: the start refuses them, and the watch tells of them, each in
//! one sentence that says what to do.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ranking::commit::Head;
use reqwest::StatusCode;
use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::metrics::metrics_of;
use tests::api::submission::{submit, submit_durably};
use tests::clock::{DAY_MS, now_ms};
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::diff::check_diff;
use tests::servers::redis_cluster::free_port;
use tests::servers::redis_server::RedisServer;
use tests::wait::until;

/// The longest time for a start to be refused: much less than a start may wait for Redis.
const SOON: Duration = Duration::from_secs(30);

/// The pause between two looks at a process.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs a command that must fail soon, and returns its complaint.
async fn refused(deployment: &Arc<Deployment>, mut command: Command) -> String {
    let log = deployment.new_file("refused");
    command.env("LAUREL_LISTEN", "127.0.0.1:0").stdout(Stdio::null());
    let mut child = command.stderr(File::create(&log).unwrap()).spawn().unwrap();
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if began.elapsed() > SOON {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        tokio::time::sleep(PAUSE).await;
    };
    let complaint = fs::read_to_string(&log).unwrap();
    assert!(status.is_some_and(|status| !status.success()), "it runs: {complaint}");
    complaint
}

/// The answer to `/readyz`.
async fn readiness(api: &Api) -> (StatusCode, String) {
    let answer = reqwest::get(format!("{}/readyz", api.url())).await.unwrap();
    (answer.status(), answer.text().await.unwrap())
}

/// Waits until `/readyz` has a status and a text.
async fn until_ready_says(api: &Api, status: StatusCode, text: &str) -> String {
    until(text, async || {
        let (found, body) = readiness(api).await;
        (found == status && body.contains(text)).then_some(body)
    })
    .await
}

/// The number of warnings of a check.
async fn warnings(api: &Api, check: &str) -> f64 {
    metrics_of(api).await[&format!("laurel_warnings{{check=\"{check}\"}}")]
}

async fn configure(deployment: &Deployment, name: &str, value: &str) {
    let () = deployment.ask_redis(&["CONFIG", "SET", name, value]).await;
}

#[tokio::test]
async fn a_damaged_append_only_file_is_named_at_once_with_the_way_out() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    let scores = json!([{ "member": "ann", "score": 7 }, { "member": "bob", "score": 8 }]);
    submit_durably(&api, "b", scores).await;
    api.stop().await;
    let place = deployment.path("data/redis/appendonlydir");
    let files = fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path());
    let file =
        files.into_iter().find(|file| file.to_string_lossy().ends_with(".incr.aof")).unwrap();
    let mut bytes = fs::read(&file).unwrap();
    // So many bytes that they are no part of one value, and not the end, which Redis cuts off.
    let (begin, end) = (bytes.len() / 2, bytes.len() - 50);
    bytes[begin..end].fill(0);
    fs::write(&file, bytes).unwrap();

    let complaint = refused(&deployment, deployment.api(&["serve"])).await;
    let moving = format!("mv {place} {place}.damaged");
    assert!(complaint.contains("is damaged") && complaint.contains(&moving), "{complaint}");
    fs::rename(&place, format!("{place}.damaged")).unwrap();
    let api = Api::start(&deployment).await;
    let read = "{ board(slug: \"b\") { standings { entry(member: \"ann\") { score } } } }";
    let data = api.data(read, json!({})).await;
    assert_eq!(data["board"]["standings"]["entry"]["score"], "7");
    check_diff(&deployment);
}

#[tokio::test]
async fn an_eviction_policy_is_refused_at_the_start_and_told_while_it_holds() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    configure(&deployment, "maxmemory-policy", "allkeys-lru").await;
    let sentence = "run CONFIG SET maxmemory-policy noeviction";
    let body = until_ready_says(&api, StatusCode::SERVICE_UNAVAILABLE, sentence).await;
    assert!(body.starts_with("not ready\n"), "{body}");
    until("the metric tells", async || {
        (warnings(&api, "eviction_policy").await == 1.0).then_some(())
    })
    .await;
    assert!(api.log().contains(sentence), "{}", api.log());
    let complaint = refused(&deployment, deployment.api(&["serve"])).await;
    assert!(complaint.contains("allkeys-lru") && complaint.contains(sentence), "{complaint}");
    let complaint = refused(&deployment, deployment.analytics_command(&["diff"])).await;
    assert!(complaint.contains(sentence), "{complaint}");
    configure(&deployment, "maxmemory-policy", "noeviction").await;
    until_ready_says(&api, StatusCode::OK, "ready\n").await;
    assert_eq!(warnings(&api, "eviction_policy").await, 0.0);
}

#[tokio::test]
async fn a_clock_of_event_ids_that_stands_ahead_is_told() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    until_ready_says(&api, StatusCode::OK, "ready\n").await;
    // As if the clock of Redis had been ten days ahead for a while.
    let heads: Vec<String> = deployment.ask_redis(&["KEYS", "laurel:*:head"]).await;
    let text: String = deployment.ask_redis(&["GET", &heads[0]]).await;
    let head = Head::parse(&text).unwrap();
    let head = Head { clock_ms: now_ms() + 10 * DAY_MS, ..head };
    let () = deployment.ask_redis(&["SET", &heads[0], &head.to_text()]).await;
    let sentence = "the clock of event ids is 239 h ahead in 1 of the partitions";
    until_ready_says(&api, StatusCode::OK, sentence).await;
    assert_eq!(warnings(&api, "clock").await, 1.0);
}

#[tokio::test]
async fn evicted_entries_are_told_until_a_diff_leaves_nothing() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    let scores: Vec<_> =
        (0..500).map(|number| json!({ "member": format!("m{number}"), "score": number })).collect();
    submit_durably(&api, "b", json!(scores)).await;
    // The watch knows the count before.
    until_ready_says(&api, StatusCode::OK, "ready\n").await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    configure(&deployment, "maxmemory-policy", "allkeys-random").await;
    configure(&deployment, "maxmemory", "1").await;
    until("entries are evicted", async || {
        let _: redis::RedisResult<()> =
            redis::cmd("SET").arg("x").arg("y").query_async(&mut deployment.redis().await).await;
        let info: String = deployment.ask_redis(&["INFO", "stats"]).await;
        (!info.contains("evicted_keys:0\r\n")).then_some(())
    })
    .await;
    configure(&deployment, "maxmemory", "0").await;
    configure(&deployment, "maxmemory-policy", "noeviction").await;
    let sentence = "then run `laurel diff --repair`";
    until_ready_says(&api, StatusCode::SERVICE_UNAVAILABLE, sentence).await;
    deployment.analytics(&["diff", "--repair"]);
    until_ready_says(&api, StatusCode::OK, "ready\n").await;
    let read = "{ board(slug: \"b\") { standings { size } } }";
    assert_eq!(api.data(read, json!({})).await["board"]["standings"]["size"], 500);
    check_diff(&deployment);
}

#[tokio::test]
async fn scores_that_came_while_keys_were_evicted_are_right_after_a_repair() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "policy": "SUM" })).await;
    let scores = |members: usize, score: i64| -> Value {
        (0..members)
            .map(|number| json!({ "member": format!("m{number}"), "score": score }))
            .collect()
    };
    submit_durably(&api, "b", scores(10, 5)).await;
    // Only keys with an end are evicted, so the heads stay, and no recovery sees that entries went.
    let found: Vec<String> = deployment.ask_redis(&["KEYS", "laurel:*:z:*:all:all"]).await;
    let [key] = &found[..] else { panic!("{found:?}") };
    let _: i64 = deployment.ask_redis(&["EXPIRE", key, "3600"]).await;
    configure(&deployment, "maxmemory-policy", "volatile-ttl").await;
    configure(&deployment, "maxmemory", "1").await;
    until("the entries are evicted", async || {
        let _: redis::RedisResult<()> =
            redis::cmd("SET").arg("x").arg("y").query_async(&mut deployment.redis().await).await;
        let count: i64 = deployment.ask_redis(&["EXISTS", key]).await;
        (count == 0).then_some(())
    })
    .await;
    configure(&deployment, "maxmemory", "0").await;
    // The sums of these begin at nothing in Redis, and go on in SQL.
    submit_durably(&api, "b", scores(5, 2)).await;
    configure(&deployment, "maxmemory-policy", "noeviction").await;
    deployment.analytics(&["diff", "--repair"]);
    let read = "{ board(slug: \"b\") { standings {
        size entries(members: [\"m0\", \"m4\", \"m5\", \"m9\"]) { score }
    } } }";
    let expected = json!({
        "size": 10,
        "entries": [{ "score": "7" }, { "score": "7" }, { "score": "5" }, { "score": "5" }],
    });
    until("the standings are what the history adds up to", async || {
        let data = api.data(read, json!({})).await;
        (data["board"]["standings"] == expected).then_some(())
    })
    .await;
    check_diff(&deployment);
}

#[tokio::test]
async fn a_start_on_a_replica_is_refused_with_the_name_of_its_master() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let dir = tempfile::tempdir().unwrap();
    let (master_dir, replica_dir) = (dir.path().join("master"), dir.path().join("replica"));
    let (master, port) = start_at_some_port(&master_dir);
    fs::create_dir(&replica_dir).unwrap();
    let replica = RedisServer::start(&replica_dir);
    let client = redis::Client::open(replica.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut following = redis::cmd("REPLICAOF");
    following.arg("127.0.0.1").arg(port);
    let () = following.query_async(&mut connection).await.unwrap();

    let mut command = deployment.api(&["serve"]);
    command.env("LAUREL_REDIS_URL", replica.url());
    let complaint = refused(&deployment, command).await;
    let sentence = format!("is a replica of 127.0.0.1:{port}");
    assert!(complaint.contains(&sentence), "{complaint}");
    assert!(complaint.contains("LAUREL_REDIS_URL"), "{complaint}");
    drop((master, replica));
}

/// A server that listens on a free port, in a new directory; and the port.
fn start_at_some_port(dir: &Path) -> (RedisServer, u16) {
    fs::create_dir(dir).unwrap();
    let port = free_port();
    (RedisServer::start_at(dir, port), port)
}

#[tokio::test]
async fn a_redis_that_forgets_in_a_crash_needs_a_setting() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let allowed = [("LAUREL_REDIS_ALLOW_VOLATILE", "true")];
    for (name, value, usual) in [("appendonly", "no", "yes"), ("appendfsync", "no", "everysec")] {
        configure(&deployment, name, value).await;
        let complaint = refused(&deployment, deployment.api(&["serve"])).await;
        assert!(complaint.contains(&format!("({name} {value})")), "{complaint}");
        assert!(complaint.contains("LAUREL_REDIS_ALLOW_VOLATILE"), "{complaint}");
        let api = Api::start_with_settings(&deployment, &allowed).await;
        assert!(api.log().contains(&format!("({name} {value})")), "{}", api.log());
        assert_eq!(warnings(&api, "persistence").await, 0.0);
        api.stop().await;
        configure(&deployment, name, usual).await;
    }
    // A managed server hides its configuration, and its users cannot change it.
    configure(&deployment, "appendonly", "no").await;
    let () = deployment.ask_redis(&["ACL", "SETUSER", "default", "-config"]).await;
    let api = Api::start(&deployment).await;
    until_ready_says(&api, StatusCode::OK, "keeps no append-only file").await;
    assert!(api.log().contains("keeps no append-only file"), "{}", api.log());
}

#[tokio::test]
async fn a_setting_that_stops_redis_for_a_while_is_told() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    // Valkey says yes by itself.
    configure(&deployment, "lazyfree-lazy-expire", "no").await;
    let api = Api::start(&deployment).await;
    until_ready_says(&api, StatusCode::OK, "run CONFIG SET lazyfree-lazy-expire yes").await;
    configure(&deployment, "lazyfree-lazy-expire", "yes").await;
    until("it is right", async || (readiness(&api).await.1 == "ready\n").then_some(())).await;
}

async fn check_refusals(sql: Sql) {
    let deployment = Deployment::new(sql, Redis::Own).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    let db = deployment.sql().await;
    let execute = async |sql: &str| {
        let statement = Statement::from_string(db.get_database_backend(), sql);
        db.execute_raw(statement).await.unwrap();
    };
    execute("ALTER TABLE score_event ADD CONSTRAINT poison CHECK (member <> 'poison')").await;
    submit(&api, "b", json!([{ "member": "poison", "score": 1 }])).await;
    until_ready_says(&api, StatusCode::OK, "SQL refused 1 events").await;
    until("the metric tells", async || {
        let measured = metrics_of(&api).await;
        (measured["laurel_dead_letters{state=\"VOIDED\"}"] == 1.0).then_some(())
    })
    .await;
    assert_eq!(warnings(&api, "dead_letters").await, 1.0);

    // Each event alone passes, and their commit does not.
    execute("ALTER TABLE \"commit\" ADD CONSTRAINT few CHECK (events < 2)").await;
    submit(&api, "b", json!([{ "member": "ann", "score": 1 }, { "member": "bob", "score": 1 }]))
        .await;
    until_ready_says(&api, StatusCode::OK, "though it takes each of its events alone").await;
    until("the metric tells", async || (warnings(&api, "persister").await == 1.0).then_some(()))
        .await;
    assert!(api.log().contains("though it takes each of its events alone"), "{}", api.log());
    execute("ALTER TABLE \"commit\" DROP CONSTRAINT few").await;
    until("SQL takes it again", async || {
        let (_, body) = readiness(&api).await;
        (!body.contains("each of its events alone")).then_some(())
    })
    .await;
    let members = "SELECT count(*) FROM score_event WHERE member IN ('ann', 'bob')";
    assert_eq!(deployment.number(members).await, 2);
}

#[tokio::test]
async fn events_and_commits_that_postgresql_refuses_are_told() {
    check_refusals(Sql::Postgres).await;
}

#[tokio::test]
async fn events_and_commits_that_mariadb_refuses_are_told() {
    if let Some(sql) = Sql::mariadb() {
        check_refusals(sql).await;
    }
}
