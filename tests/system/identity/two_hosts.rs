//! Two hosts with one database and a private Redis each: the second does not start.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use reqwest::StatusCode;

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::program::signal;
use tests::servers::redis_server::RedisServer;
use tests::wait::until;

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
    for sql in Sql::all() {
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

/// A host that starts; it is stopped when dropped, and its private Redis with it.
struct Host {
    child: Child,
    printed: PathBuf,
    log: PathBuf,
}

impl Host {
    fn start(deployment: &Arc<Deployment>, number: usize) -> Self {
        let (printed, log) = (deployment.new_file("printed"), deployment.new_file("log"));
        let mut command = deployment.api(&["serve"]);
        command
            .env("LAUREL_DATA_DIR", deployment.path(&format!("host-{number}")))
            .env("LAUREL_LISTEN", "127.0.0.1:0")
            .stdout(File::create(&printed).unwrap())
            .stderr(File::create(&log).unwrap());
        Self { child: command.spawn().unwrap(), printed, log }
    }

    /// True if it serves, false if it has ended, and nothing before.
    fn serves(&mut self) -> Option<bool> {
        if let Some(status) = self.child.try_wait().unwrap() {
            assert!(!status.success(), "{status}");
            return Some(false);
        }
        let printed = fs::read_to_string(&self.printed).unwrap();
        printed.contains("Laurel is on ").then_some(true)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            signal("TERM", self.child.id());
        }
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_three_hosts_that_start_at_once_with_a_redis_each_one_serves_at_most() {
    for _ in 0..3 {
        let deployment = Deployment::new(Sql::Postgres, Redis::Private).await;
        deployment.settings().sql.create().await.unwrap().close().await.unwrap();
        let mut hosts: Vec<Host> = (0..3).map(|number| Host::start(&deployment, number)).collect();
        let serving = until("each host serves or has ended", async || {
            hosts.iter_mut().map(Host::serves).collect::<Option<Vec<bool>>>()
        })
        .await;
        let count = serving.iter().filter(|serves| **serves).count();
        assert!(count <= 1, "{count} hosts serve, each with a Redis of its own");
        for (host, _) in hosts.iter().zip(&serving).filter(|(_, serves)| !**serves) {
            let told = fs::read_to_string(&host.log).unwrap();
            assert!(told.contains("LAUREL_REDIS_URL"), "{told}");
        }
        drop(hosts);
        // None of them is in the way of the next one.
        let mut host = Host::start(&deployment, 0);
        let serves = until("a host alone serves or has ended", async || host.serves()).await;
        assert!(serves, "{}", fs::read_to_string(&host.log).unwrap());
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
