//! Redis and SQL that do not belong together: each refuses the other's stranger and leaves it as it
//! is, until an operator joins the two.

use std::process::Command;
use std::sync::Arc;

use redis::AsyncCommands;
use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::SUBMIT_SCORES;
use tests::jobs::diff::check_diff;
use tests::servers::program::signal;
use tests::wait::until;

const SIZE: &str = "{ board(slug: \"b\") { standings { size } } }";

/// A deployment with a board of ten members in SQL and Redis.
async fn filled(sql: Sql, redis: Redis) -> (Arc<Deployment>, Api) {
    let deployment = Deployment::new(sql, redis).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "shards": 4 })).await;
    let scores: Value =
        (0..10).map(|member| json!({ "member": format!("m{member}"), "score": 1 })).collect();
    assert_eq!(submit_durably(&api, "b", scores).await["accepted"], 10);
    (deployment, api)
}

async fn check_size(api: &Api) {
    assert_eq!(api.data(SIZE, json!({})).await["board"]["standings"]["size"], 10);
}

/// A command with the Redis of the deployment and a database of its own.
fn elsewhere(deployment: &Deployment, mut command: Command) -> Command {
    let database = format!("sqlite://{}?mode=rwc", deployment.path("other.sqlite"));
    command
        .env("LAUREL_DATABASE_URL", database)
        .env("LAUREL_DATA_DIR", deployment.path("other"))
        .env("LAUREL_LISTEN", "127.0.0.1:0");
    command
}

/// The error output of a command that must fail.
fn refused(mut command: Command) -> String {
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{command:?}: {error}");
    error
}

/// The output of a command that must succeed.
fn done(mut command: Command) -> String {
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn a_redis_of_another_deployment_is_refused_and_left_as_it_is() {
    let (deployment, api) = filled(Sql::any(), Redis::Own).await;
    let own: Vec<String> = deployment.column("SELECT identity FROM deployment").await;
    let before = deployment.redis_contents().await;
    // A batch command makes no database where there is none.
    for arguments in [&["restore"][..], &["diff", "--repair"], &["rebuild", "--board", "b"]] {
        let error = refused(elsewhere(&deployment, deployment.analytics_command(arguments)));
        assert!(error.contains("there is no deployment"), "{arguments:?}: {error}");
    }
    let said = refused(elsewhere(&deployment, deployment.api(&["serve"])));
    assert!(said.contains(&own[0]) && said.contains("laurel adopt"), "{said}");
    // Now there is one.
    for arguments in [&["restore"][..], &["diff", "--repair"]] {
        let error = refused(elsewhere(&deployment, deployment.analytics_command(arguments)));
        assert!(error.contains(&own[0]), "{arguments:?}: {error}");
    }
    let worker = refused(elsewhere(&deployment, deployment.api(&["worker"])));
    assert!(worker.contains(&own[0]), "{worker}");
    assert_eq!(deployment.redis_contents().await, before);
    check_size(&api).await;
    check_diff(&deployment);
}

#[tokio::test]
async fn a_running_process_refuses_a_redis_that_became_another_deployments() {
    let (deployment, api) = filled(Sql::any(), Redis::Own).await;
    let mut redis = deployment.redis().await;
    let heads: Vec<String> = redis.keys("laurel:*:head").await.unwrap();
    for head in &heads {
        let owner = head.replace(":head", ":owner");
        let () = redis.set(owner, "another its-redis").await.unwrap();
    }
    let () = redis.del(&heads).await.unwrap();
    let without_tokens = async || {
        let mut left = deployment.redis_contents().await;
        left.retain(|(key, _)| !key.ends_with(":recovery"));
        left
    };
    let before = without_tokens().await;
    until("the process says so", async || api.log().contains("deployment another").then_some(()))
        .await;
    assert_eq!(without_tokens().await, before);
}

#[tokio::test]
async fn another_prefix_of_the_same_server_is_refused_while_a_process_uses_the_first_one() {
    let (deployment, api) = filled(Sql::any(), Redis::Own).await;
    let before = deployment.redis_contents().await;
    let other_prefix = || {
        let mut serve = deployment.api(&["serve"]);
        serve.env("LAUREL_LISTEN", "127.0.0.1:0").env("LAUREL_REDIS_PREFIX", "other");
        serve
    };
    let error = refused(other_prefix());
    assert!(error.contains("another process uses the one that the database names"), "{error}");
    // As if that process had been without SQL for long, and had not written there again yet.
    let db = deployment.sql().await;
    let unseen = "UPDATE deployment SET redis_seen_at_ms = 1";
    db.execute_raw(Statement::from_string(db.get_database_backend(), unseen)).await.unwrap();
    let error = refused(other_prefix());
    assert!(error.contains("another process uses the one that the database names"), "{error}");
    assert_eq!(deployment.redis_contents().await, before);
    check_size(&api).await;
    check_diff(&deployment);
}

#[tokio::test]
async fn a_command_that_starts_on_an_emptied_redis_beside_a_process_goes_on() {
    let (deployment, api) = filled(Sql::any(), Redis::Own).await;
    deployment.flush_redis().await;
    done(deployment.analytics_command(&["restore"]));
    check_size(&api).await;
    check_diff(&deployment);
}

#[tokio::test]
async fn a_redis_with_keys_of_no_deployment_is_left_as_it_is() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let mut redis = deployment.redis().await;
    let () = redis.zadd("laurel:{0}:z:1.1::all:all", "ann", 1).await.unwrap();
    let before = deployment.redis_contents().await;
    let mut serve = deployment.api(&["serve"]);
    serve.env("LAUREL_LISTEN", "127.0.0.1:0");
    let error = refused(serve);
    assert!(error.contains("laurel:{0}:z:1.1::all:all"), "{error}");
    assert_eq!(deployment.redis_contents().await, before);
}

#[tokio::test]
async fn adoption_shows_what_would_be_lost_before_it_joins_a_redis_and_a_database() {
    let (deployment, api) = filled(Sql::any(), Redis::Own).await;
    api.stop().await;
    refused(elsewhere(&deployment, deployment.api(&["serve"])));
    let before = deployment.redis_contents().await;
    let shown = done(elsewhere(&deployment, deployment.api(&["adopt"])));
    assert!(shown.contains("would be cleared") && shown.contains("--yes"), "{shown}");
    assert_eq!(deployment.redis_contents().await, before);
    let adopted = done(elsewhere(&deployment, deployment.api(&["adopt", "--yes"])));
    assert!(adopted.contains("all partitions are level"), "{adopted}");
    let mut redis = deployment.redis().await;
    let standings: Vec<String> = redis.keys("laurel:*:z:*").await.unwrap();
    assert_eq!(standings, [""; 0]);
    done(elsewhere(&deployment, deployment.analytics_command(&["diff"])));
    // Now the first database is the stranger, and adopts its Redis again.
    let mut serve = deployment.api(&["serve"]);
    serve.env("LAUREL_LISTEN", "127.0.0.1:0");
    refused(serve);
    done(deployment.api(&["adopt", "--yes"]));
    let api = Api::start(&deployment).await;
    check_size(&api).await;
    check_diff(&deployment);
    // A pair that belongs together loses nothing.
    let shown = done(deployment.api(&["adopt"]));
    assert!(shown.contains("0 of 16 partitions would lose something"), "{shown}");
}

#[tokio::test]
async fn a_process_that_runs_on_commits_nothing_to_a_redis_that_another_deployment_adopted() {
    let (deployment, api) = filled(Sql::any(), Redis::Own).await;
    refused(elsewhere(&deployment, deployment.api(&["serve"])));
    done(elsewhere(&deployment, deployment.api(&["adopt", "--yes"])));
    let scores = json!([{ "member": "late", "score": 1 }]);
    let variables = json!({ "board": "b", "scores": scores, "ack": "APPLIED" });
    if let Ok(answer) = api.try_ask(Some(api.token()), SUBMIT_SCORES, variables).await {
        let accepted = &answer.body["data"]["submitScores"]["accepted"];
        assert_ne!(*accepted, json!(1), "{:?}", answer.body);
    }
    let mut redis = deployment.redis().await;
    let heads: Vec<String> = redis.keys("laurel:*:head").await.unwrap();
    assert_eq!(heads.len(), 16);
    for head in heads {
        let text: String = redis.get(&head).await.unwrap();
        assert!(text.starts_with("0 "), "{head} is {text}");
    }
    let standings: Vec<String> = redis.keys("laurel:*:z:*").await.unwrap();
    assert_eq!(standings, [""; 0]);
    let own: Vec<String> = deployment.column("SELECT identity FROM deployment").await;
    let refusal = format!("the database is deployment {}", own[0]);
    until("the process says so", async || api.log().contains(&refusal).then_some(())).await;
}

#[tokio::test]
async fn a_second_host_with_a_redis_of_its_own_is_refused_while_the_first_one_lives() {
    let (deployment, api) = filled(Sql::Postgres, Redis::Private).await;
    let second = || {
        let mut command = deployment.api(&["serve"]);
        command
            .env("LAUREL_DATA_DIR", deployment.path("second"))
            .env("LAUREL_LISTEN", "127.0.0.1:0");
        command
    };
    let error = refused(second());
    assert!(error.contains("LAUREL_REDIS_URL"), "{error}");
    check_size(&api).await;
    // Once no process reaches the first Redis, the second one takes its place.
    signal("KILL", api.pid());
    drop(api);
    let moved = Api::start_command(&deployment, second()).await;
    check_size(&moved).await;
    moved.stop().await;
}

#[tokio::test]
async fn a_setting_of_the_whole_deployment_is_refused_where_it_differs() {
    let (deployment, api) = filled(Sql::any(), Redis::Own).await;
    api.stop().await;
    let mut restore = deployment.analytics_command(&["restore"]);
    restore.env("LAUREL_DEDUP_HOURS", "48");
    let error = refused(restore);
    assert!(error.contains("LAUREL_DEDUP_HOURS 48: expected 24"), "{error}");
    let db = deployment.sql().await;
    let older = "UPDATE deployment SET tzdb = '1999a'";
    db.execute_raw(Statement::from_string(db.get_database_backend(), older)).await.unwrap();
    let error = refused(deployment.analytics_command(&["restore"]));
    assert!(error.contains("1999a") && error.contains("laurel migrate time-zones"), "{error}");
    let said = done(deployment.api(&["migrate", "time-zones"]));
    assert!(said.contains("before 1999a"), "{said}");
    done(deployment.analytics_command(&["restore"]));
}
