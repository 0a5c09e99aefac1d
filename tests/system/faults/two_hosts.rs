//! Two hosts with one database and a private Redis each: the second does not start.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use reqwest::StatusCode;

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::program::signal;
use tests::servers::redis_server::RedisServer;

/// A command in the data directory of another host.
fn elsewhere(deployment: &Arc<Deployment>, mut command: Command) -> Command {
    command
        .env("LAUREL_DATA_DIR", deployment.path("elsewhere"))
        .env("LAUREL_LISTEN", "127.0.0.1:0");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The complaint of a command that must fail.
async fn complaint(mut command: Command) -> String {
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{complaint}");
    complaint
}

#[tokio::test]
async fn a_second_host_with_a_private_redis_does_not_start() {
    for sql in [Sql::Postgres, Sql::Sqlite] {
        let deployment = Deployment::new(sql, Redis::Private).await;
        let api = Api::start(&deployment).await;
        for command in [deployment.api(&["serve"]), deployment.analytics_command(&["restore"])] {
            let told = complaint(elsewhere(&deployment, command)).await;
            let named = format!("process {} on", api.pid());
            assert!(told.contains(&named), "{told}");
            assert!(told.contains("set LAUREL_REDIS_URL to one Redis for all"), "{told}");
            assert!(!Path::new(&deployment.path("elsewhere/redis")).exists(), "it made a Redis");
        }
        // A Redis of its own that a URL names is another one, too.
        let dir = tempfile::tempdir().unwrap();
        let other = RedisServer::start(dir.path());
        let mut command = elsewhere(&deployment, deployment.api(&["serve"]));
        command.env("LAUREL_REDIS_URL", other.url());
        let told = complaint(command).await;
        assert!(told.contains("a private Redis in"), "{told}");
        // Processes of the same directory share its Redis, also by the URL of its socket.
        let beside = Api::start(&deployment).await;
        let answer = reqwest::get(format!("{}/readyz", api.url())).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{}", answer.text().await.unwrap());
        deployment.settle().await;
        beside.stop().await;
        api.stop().await;
        assert_eq!(deployment.number("SELECT count(*) FROM process").await, 0);
    }
}

#[tokio::test]
async fn a_process_that_was_killed_keeps_no_other_from_starting() {
    let deployment = Deployment::new(Sql::Postgres, Redis::Private).await;
    let api = Api::start(&deployment).await;
    signal("KILL", api.pid());
    api.wait_until_stopped().await;
    assert_eq!(deployment.number("SELECT count(*) FROM process").await, 1);
    let mut command = deployment.analytics_command(&["restore"]);
    command = elsewhere(&deployment, command);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
