//! A server of the release build on the benchmark's stores, and what loads it: wrk, from the
//! outside.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::stores::Stores;
use tests::servers::program::{self, SERVER};

/// Sends the requests of a file, a body a line, one after the other; at the end prints what came of
/// it as JSON.
const SCRIPT: &str = r#"
local requests, at = {}, 0
function init(args)
  wrk.headers["Content-Type"] = "application/json"
  if args[2] then wrk.headers["Authorization"] = "Bearer " .. args[2] end
  for body in io.lines(args[1]) do
    requests[#requests + 1] = wrk.format(body == "" and "GET" or "POST", nil, nil, body)
  end
end
function request()
  at = at % #requests + 1
  return requests[at]
end
function done(summary, latency)
  local e = summary.errors
  print(string.format('{"requests":%d,"us":%d,"failed":%d,"p50":%f,"p99":%f,"p999":%f}', summary.requests, summary.duration,
    e.connect + e.read + e.write + e.status + e.timeout, latency:percentile(50), latency:percentile(99), latency:percentile(99.9)))
end
"#;

/// Words of the schema, and those of its first edition.
pub(crate) const FIRST_WORDS: [(&str, &str); 6] = [
    ("standings(of:{", "standings("),
    ("}){", "){"),
    ("entry(member:", "rank(member:"),
    ("entries(members:", "ranks(members:"),
    ("entries(boards:", "ranks(boards:"),
    (",includeMissing:true", ""),
];

/// A running `api serve`; killed when dropped.
pub(crate) struct Server {
    child: Child,
    url: String,
    token: String,
    client: reqwest::Client,
    dir: PathBuf,
}

/// The outcome of a load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// Requests a second.
    pub(crate) rate: f64,
    /// Half of the answers took no longer, in ms.
    pub(crate) p50_ms: f64,
    /// 99 % of them.
    pub(crate) p99_ms: f64,
    /// 99.9 % of them.
    pub(crate) p999_ms: f64,
}

/// A load to send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sending {
    /// The number of connections.
    pub(crate) connections: usize,
    /// The duration, in seconds.
    pub(crate) seconds: u64,
    /// True if the admin token goes with each request.
    pub(crate) as_admin: bool,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program of the release build, with the settings of the stores.
pub(crate) fn program(stores: &Stores, name: &str) -> Command {
    let mut command = program::command(name);
    command
        .env("LAUREL_DATA_DIR", stores.dir().join("data"))
        .env("LAUREL_REDIS_URL", stores.redis_url())
        .env("LAUREL_LISTEN", "127.0.0.1:0")
        .env("LAUREL_ADDRESS_CONNECTIONS_MAX", "10000")
        .env("LAUREL_LOG", "warn");
    if let Some(url) = stores.database_url() {
        command.env("LAUREL_DATABASE_URL", url);
    }
    command
}

/// Starts a server, and waits until it is ready; returns its process and its address.
pub(crate) async fn listen(mut serve: Command) -> (Child, String) {
    let mut child = serve.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let url =
        lines.by_ref().find_map(|line| Some(line.ok()?.strip_prefix("Laurel is on ")?.to_owned()));
    std::thread::spawn(move || lines.for_each(drop));
    let url = url.expect("the server says where it is");
    let ready = format!("{url}/readyz");
    while !reqwest::get(&ready).await.is_ok_and(|answer| answer.status().is_success()) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    (child, url)
}

impl Server {
    /// Starts one with further settings, and waits until it is ready.
    pub(crate) async fn start(stores: &Stores, settings: &[(&str, &str)]) -> Self {
        let token = program(stores, SERVER)
            .args(["token", "create", "--scope", "admin"])
            .output()
            .expect("`make bench` builds the api");
        let token = String::from_utf8(token.stdout).unwrap().trim().to_owned();
        let mut serve = program(stores, SERVER);
        serve.arg("serve").envs(settings.iter().copied());
        let (child, url) = listen(serve).await;
        Self { child, url, token, client: reqwest::Client::new(), dir: stores.dir().to_owned() }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks one thing as the admin; the data.
    pub(crate) async fn ask(&self, query: &str, variables: Value) -> Value {
        let answer = self.client.post(format!("{}/graphql", self.url));
        let answer = answer.bearer_auth(&self.token);
        let answer = answer.header("Content-Type", "application/json");
        let body = json!({ "query": query, "variables": variables }).to_string();
        let text = answer.body(body).send().await.unwrap().text().await.unwrap();
        let mut answer: Value = serde_json::from_str(&text).unwrap();
        assert!(answer["errors"].is_null(), "{query}: {answer}");
        answer["data"].take()
    }

    /// How long the answer to a body is, in bytes.
    pub(crate) async fn answer_bytes(&self, body: &str) -> usize {
        let answer = self.client.post(format!("{}/graphql", self.url));
        let answer = answer.header("Content-Type", "application/json");
        let bytes = answer.body(body.to_owned()).send().await.unwrap();
        bytes.bytes().await.unwrap().len()
    }

    /// Sends bodies to GraphQL, over and over.
    pub(crate) async fn load(&self, bodies: &[String], sending: Sending) -> Load {
        let token = sending.as_admin.then_some(self.token.as_str());
        let url = format!("{}/graphql", self.url);
        wrk(&self.dir, &url, bodies, token, sending).await
    }
}

/// Runs wrk; a body that is empty is a GET.
pub(crate) async fn wrk(
    dir: &std::path::Path,
    url: &str,
    bodies: &[String],
    token: Option<&str>,
    sending: Sending,
) -> Load {
    let (script, file) = (dir.join("wrk.lua"), dir.join("bodies"));
    std::fs::write(&script, SCRIPT).unwrap();
    let mut written = std::io::BufWriter::new(std::fs::File::create(&file).unwrap());
    for body in bodies {
        writeln!(written, "{body}").unwrap();
    }
    written.into_inner().unwrap();
    let mut command = tokio::process::Command::new("wrk");
    command
        .args(["-t", "1", "-c", &sending.connections.to_string()])
        .args(["-d", &format!("{}s", sending.seconds), "--timeout", "30s"])
        .arg("-s")
        .arg(script)
        .arg(url)
        .arg("--")
        .arg(file)
        .args(token);
    let output = command.output().await.expect("wrk is installed");
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.starts_with('{'));
    let line = line.unwrap_or_else(|| panic!("{text} {}", String::from_utf8_lossy(&output.stderr)));
    let said: Value = serde_json::from_str(line).unwrap();
    assert_eq!(said["failed"], 0, "{url}: {said}");
    let number = |name: &str| said[name].as_f64().unwrap();
    Load {
        rate: number("requests") / number("us") * 1e6,
        p50_ms: number("p50") / 1000.0,
        p99_ms: number("p99") / 1000.0,
        p999_ms: number("p999") / 1000.0,
    }
}
