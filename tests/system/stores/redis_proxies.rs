//! Proxies in front of Redis that keep commands back: those that lack too much are refused in
//! words, and behind the others no restart of Redis goes unnoticed.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;

use tests::api::Api;
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::program::signal;
use tests::servers::redis_cluster::free_port;
use tests::servers::redis_server::RedisServer;
use tests::servers::resp_proxy::RespProxy;
use tests::servers::twemproxy::Twemproxy;
use tests::wait::until;

const RUN_ID: &str = "LAUREL_REDIS_RUN_ID";

/// Standings in three kinds of windows.
const STANDINGS: &str = r#"query($slug: String!) { board(slug: $slug) {
    all: standings { top(first: 10) { nodes { rank score member { key } } } }
    daily: standings(of: { window: "daily" }) { top(first: 10) { nodes { rank score member { key } } } }
    rolling: standings(of: { window: "7d" }) { top(first: 10) { nodes { rank score member { key } } } }
} }"#;

/// The data with which a redis-server starts again.
enum Data {
    /// All that it had.
    Same,
    /// A former copy.
    Of(TempDir),
    /// None.
    None,
}

/// A redis-server behind a proxy, and a deployment that reaches it through there.
struct Behind {
    deployment: Arc<Deployment>,
    server: Option<RedisServer>,
    dir: TempDir,
    arguments: Vec<String>,
    _proxy: RespProxy,
}

impl Behind {
    /// Starts all of it; the server has these arguments, and the proxy keeps `INFO` back.
    async fn start(arguments: &[&str]) -> Self {
        let (dir, port) = (tempfile::tempdir().unwrap(), free_port());
        let own = ["--port".to_owned(), port.to_string()];
        let arguments =
            own.into_iter().chain(arguments.iter().map(|&word| word.to_owned())).collect();
        let proxy = RespProxy::before(port, &["INFO"]).await;
        let data = tempfile::Builder::new().prefix("laurel-").tempdir().unwrap();
        let database = Sql::Sqlite.new_database(data.path()).await;
        let deployment = Deployment::elsewhere(data, database, proxy.url());
        let mut behind = Self { deployment, server: None, dir, arguments, _proxy: proxy };
        behind.start_server();
        behind
    }

    fn start_server(&mut self) {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        self.server = Some(RedisServer::start_with(self.dir.path(), &arguments));
    }

    /// A copy of the server's data.
    fn copy(&self) -> TempDir {
        let copy = tempfile::tempdir().unwrap();
        copy_file(&self.dir.path().join("appendonlydir"), copy.path());
        copy
    }

    /// Kills the server, and starts it again.
    fn restart(&mut self, data: &Data) {
        self.server = None;
        let file = self.dir.path().join("appendonlydir");
        if !matches!(data, Data::Same) {
            std::fs::remove_dir_all(&file).unwrap();
        }
        if let Data::Of(copy) = data {
            copy_file(&copy.path().join("appendonlydir"), self.dir.path());
        }
        self.start_server();
    }

    /// Checks by a program with these settings that the diff finds nothing.
    fn check_diff(&self, settings: &[(&str, &str)]) {
        let mut command = self.deployment.analytics_command(&["diff"]);
        let output = command.envs(settings.iter().copied()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
}

fn copy_file(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

/// The output of a server that must not start.
fn refused(deployment: &Deployment, settings: &[(&str, &str)]) -> String {
    let mut command = deployment.api(&["serve"]);
    command.env("LAUREL_LISTEN", "127.0.0.1:0").envs(settings.iter().copied());
    let Output { status, stderr, .. } = command.output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{said}");
    said
}

/// Submits a member's score, again and again, until SQL has it.
async fn submit(api: &Api, member: &str, score: u32) {
    until("a score is in SQL", async || {
        let scores = json!([{ "member": member, "score": score, "eventId": member }]);
        let told = submit_durably(api, "b", scores).await;
        (told["results"][0]["status"] == "APPLIED").then_some(())
    })
    .await;
}

/// The standings of all windows; `None` while the service has none.
async fn standings(api: &Api) -> Option<Value> {
    let answer = api.query(STANDINGS, json!({ "slug": "b" })).await;
    answer.get("errors").is_none().then(|| answer["data"]["board"].clone())
}

/// Standings of all windows, with the members from the first one on; the last one has a score of
/// 10, and each other one 10 more than the next.
fn expected(members: &str) -> Value {
    let count = members.len();
    let nodes = members.chars().enumerate().map(|(index, member)| {
        let score = (10 * (count - index)).to_string();
        json!({ "rank": index + 1, "score": score, "member": { "key": member.to_string() } })
    });
    let top = json!({ "top": { "nodes": nodes.collect::<Vec<_>>() } });
    json!({ "all": top, "daily": top, "rolling": top })
}

async fn create_board(api: &Api) {
    api.create_board(json!({ "slug": "b", "windows": [{ "name": "daily" }, { "name": "7d" }] }))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_is_refused_by_the_name_of_all_that_it_keeps_back() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Own).await;
    let (dir, port) = (tempfile::tempdir().unwrap(), free_port());
    let _server = RedisServer::start_at(dir.path(), port);
    let proxy = Twemproxy::start(dir.path(), port);
    until("the proxy listens", async || TcpStream::connect(proxy.address()).await.ok()).await;
    let url = format!("redis://{}", proxy.address());
    let at = |url: &str| refused(&deployment, &[("LAUREL_REDIS_URL", url)]);
    let said = at(&url);
    let lacks = "XADD, XLEN, XRANGE, SCAN, MULTI, SCRIPT LOAD (";
    assert!(said.contains(&format!("does not pass on INFO, {lacks}")), "{said}");
    assert!(said.contains("or LAUREL_REDIS_RUN_ID may"), "{said}");
    let said = refused(&deployment, &[("LAUREL_REDIS_URL", &url), (RUN_ID, "7")]);
    assert!(said.contains(&format!("does not pass on {lacks}")), "{said}");

    for (kept_back, lacks) in [
        (&["INFO", "MULTI"][..], "MULTI"),
        (&["INFO", "evalsha"], "INFO, EVALSHA"),
        (&["INFO", "ZRANGE", "SCRIPT"], "INFO, ZRANGE, SCRIPT LOAD"),
    ] {
        let proxy = RespProxy::before(port, kept_back).await;
        let said = at(&proxy.url());
        assert!(said.contains(&format!("does not pass on {lacks} (")), "{said}");
    }
    // The server behind it is gone.
    let proxy = RespProxy::before(free_port(), &["INFO"]).await;
    let said = at(&proxy.url());
    assert!(said.contains("unavailable") || said.contains("nothing else"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_proxy_that_keeps_info_back_no_restart_of_redis_goes_unnoticed() {
    let mut behind = Behind::start(&[]).await;
    let deployment = behind.deployment.clone();
    let worker = Api::start_with_settings(&deployment, &[(RUN_ID, "ignored")]).await;
    let log = worker.log();
    assert!(log.contains("behind a proxy that keeps INFO back"), "{log}");
    assert!(log.contains("LAUREL_REDIS_RUN_ID is ignored"), "{log}");
    let silent = Api::start_with(&deployment, &["--no-workers"]).await;
    create_board(&worker).await;
    for (member, score) in [("a", 10), ("b", 20)] {
        submit(&worker, member, score).await;
    }
    behind.restart(&Data::Same);
    let copy = behind.copy();
    for (member, score) in [("c", 30), ("d", 40)] {
        submit(&silent, member, score).await;
    }
    // The proxy has kept the connections, and no other process tells of it.
    signal("STOP", worker.pid());
    behind.restart(&Data::Of(copy));
    let told = until("the former data are not read", async || standings(&silent).await).await;
    assert_eq!(told, expected("dcba"));
    signal("CONT", worker.pid());
    submit(&silent, "e", 50).await;
    signal("STOP", worker.pid());
    behind.restart(&Data::None);
    let told = until("the lost data are not read", async || standings(&silent).await).await;
    assert_eq!(told, expected("edcba"));
    signal("CONT", worker.pid());
    submit(&silent, "f", 60).await;
    drop((worker, silent));
    let worker = Api::start(&deployment).await;
    submit(&worker, "g", 70).await;
    assert_eq!(standings(&worker).await, Some(expected("gfedcba")));
    behind.check_diff(&[]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_tells_its_run_to_no_one_needs_a_name_for_it() {
    let mut behind = Behind::start(&["--rename-command", "INFO", ""]).await;
    let deployment = behind.deployment.clone();
    let said = refused(&deployment, &[]);
    assert!(said.contains("does not pass on INFO (") && said.contains(RUN_ID), "{said}");
    let first = Api::start_with_settings(&deployment, &[(RUN_ID, "first")]).await;
    assert!(first.log().contains("give it a new name whenever Redis restarts"), "{}", first.log());
    create_board(&first).await;
    for (member, score) in [("a", 10), ("b", 20)] {
        submit(&first, member, score).await;
    }
    // The name stays the same: older data are level until the background work has looked.
    behind.restart(&Data::Same);
    let copy = behind.copy();
    submit(&first, "c", 30).await;
    for (data, member, score, members) in [
        (Data::Same, "d", 40, "dcba"),
        (Data::Of(copy), "e", 50, "edcba"),
        (Data::None, "f", 60, "fedcba"),
    ] {
        behind.restart(&data);
        submit(&first, member, score).await;
        until("all scores are ranked", async || {
            (standings(&first).await? == expected(members)).then_some(())
        })
        .await;
    }
    // Once a process has a new name, none goes on with the former one.
    let second = Api::start_with_settings(&deployment, &[(RUN_ID, "second")]).await;
    submit(&second, "g", 70).await;
    let scores = json!([{ "member": "h", "score": 80, "eventId": "h" }]);
    until("the former name is refused", async || {
        let told = submit_durably(&first, "b", scores.clone()).await;
        (told["results"][0]["error"]["code"] == "UNAVAILABLE").then_some(())
    })
    .await;
    submit(&second, "h", 80).await;
    assert_eq!(standings(&second).await, Some(expected("hgfedcba")));
    let said = refused(&deployment, &[(RUN_ID, "first")]);
    assert!(said.contains("second is the last one"), "{said}");
    drop((first, second));
    behind.check_diff(&[(RUN_ID, "second")]);
}
