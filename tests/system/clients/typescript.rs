//! The TypeScript client, built as a game builds it: the rules of its queue, its example on a bad
//! line, and its hooks.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::OnceCell;
use tokio::time::{Duration, timeout};

use tests::api::Api;
use tests::api::submission::submit;
use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::program;
use tests::servers::proxy::{Ending, Mode, Point, Proxy};
use tests::wait::PATIENCE;

const EVENTS: &str = "query ($member: String!) { member(key: $member) {
  events(board: \"dice\", first: 1000) { nodes { eventId score } }
  entry(board: \"dice\") { score }
} }";

/// A script of the client that runs; killed when dropped.
struct Script {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    seen: Vec<Value>,
}

/// A command in the folder of the client.
fn command(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(name);
    command
        .args(arguments)
        .current_dir(program::root().join("clients/typescript"))
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Generates and compiles the client and its example, once for all tests.
async fn build() {
    static BUILT: OnceCell<()> = OnceCell::const_new();
    let build = async || {
        let dir = program::root().join("clients/typescript");
        assert!(
            dir.join("node_modules/.package-lock.json").exists(),
            "{} lacks its packages: `make test` installs them, or `npm ci` there",
            dir.display()
        );
        run(command("npm", &["run", "build"])).await;
    };
    BUILT.get_or_init(build).await;
}

/// Runs a command that must succeed.
async fn run(mut command: Command) {
    let output = command.output().await.unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

impl Script {
    /// Starts a compiled script.
    fn start(script: &str, arguments: &[&str], token: &str) -> Self {
        let mut child = command("node", &[&[script], arguments].concat())
            .env("LAUREL_TOKEN", token)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines, seen: vec![] }
    }

    /// Reads up to a line that a test waits for, and returns it.
    async fn until(&mut self, what: &str, is_met: impl Fn(&[Value]) -> bool) -> Value {
        let reading = async {
            while !is_met(&self.seen) {
                let line = self.lines.next_line().await.unwrap();
                let line = line.unwrap_or_else(|| panic!("{what}: it has ended"));
                self.seen.push(serde_json::from_str(&line).unwrap());
            }
        };
        let read = timeout(PATIENCE, reading).await;
        assert!(read.is_ok(), "{what}: not within {PATIENCE:?}: {:#?}", self.seen);
        self.seen.last().cloned().unwrap_or_default()
    }

    /// Kills it, and returns its lines.
    async fn kill(mut self) -> Vec<Value> {
        self.child.kill().await.unwrap();
        self.rest().await
    }

    /// Waits for its end, which must be a success, and returns its lines.
    async fn end(mut self) -> Vec<Value> {
        drop(self.child.stdin.take());
        let status = timeout(PATIENCE, self.child.wait()).await.expect("it ends").unwrap();
        assert!(status.success(), "{status}");
        self.rest().await
    }

    async fn rest(&mut self) -> Vec<Value> {
        while let Some(line) = self.lines.next_line().await.unwrap() {
            // A line may be cut where the script was killed.
            self.seen.extend(serde_json::from_str::<Value>(&line));
        }
        std::mem::take(&mut self.seen)
    }
}

/// The number of lines with a key.
fn count(lines: &[Value], key: &str) -> usize {
    lines.iter().filter(|line| line.get(key).is_some()).count()
}

/// A server with the board of the example, and a line to it.
async fn server_and_line() -> (Api, Proxy, String) {
    let api = Api::start(&Deployment::new(Sql::any(), Redis::Own).await).await;
    api.create_board(json!({ "slug": "dice", "policy": "SUM", "selfSubmit": true })).await;
    let port = api.url().rsplit(':').next().unwrap().parse().unwrap();
    let line = Proxy::before(port).await;
    let url = format!("http://127.0.0.1:{}/graphql", line.port());
    (api, line, url)
}

/// A token by which a player submits its own scores.
async fn token_of(api: &Api, member: &str) -> String {
    api.deployment().new_token(&["--scope", "submit", "--member", member]).await
}

/// Plays the example: with so many rounds, from the same directory each time.
fn play(api: &Api, url: &str, member: &str, rounds: &str, token: &str) -> Script {
    let directory = api.deployment().path("queue");
    Script::start("dist/examples/game.js", &[url, "dice", member, rounds, &directory], token)
}

#[tokio::test]
async fn the_rules_of_the_queue_hold() {
    build().await;
    run(command("npm", &["test"])).await;
}

#[tokio::test]
async fn the_programs_of_the_page_compile() {
    build().await;
    run(command("npm", &["run", "page"])).await;
}

#[tokio::test]
async fn a_game_on_a_bad_line_loses_and_doubles_no_score() {
    let ((), (api, line, url)) = tokio::join!(build(), server_and_line());
    let token = token_of(&api, "ann").await;
    let start = |rounds| play(&api, &url, "ann", rounds, &token);

    // The player is offline, and the game dies.
    line.set(Mode::Refused);
    let mut game = start("6");
    game.until("offline", |seen| count(seen, "kept") == 6 && count(seen, "waiting") > 0).await;
    let mut lines = game.kill().await;
    assert_eq!(count(&lines, "counts"), 0);

    // A request does not arrive; the next one does, its answer is lost, and the game dies.
    line.set(Mode::Pass);
    let signs = ["mutation SubmitScores"];
    let (held, game) = tokio::join!(line.hold(&signs, Point::BeforeRequest), async { start("5") });
    let (held, ()) = tokio::join!(line.hold(&signs, Point::BeforeReply), async { drop(held) });
    lines.extend(game.kill().await);
    assert_eq!(count(&lines, "counts"), 0);
    drop(held);

    // Answers are lost, connections are reset, and all is slow.
    line.set(Mode::LostReplies(2));
    let mut game = start("20");
    let delay = Mode::Delay(Duration::from_millis(50));
    for (index, mode) in [Mode::ResetReplies(2), delay, Mode::Bytes].into_iter().enumerate() {
        game.until("progress", |seen| count(seen, "counts") > 6 * index).await;
        line.set(mode);
        line.end_all(Ending::Reset);
    }
    game.until("progress", |seen| count(seen, "counts") > 18).await;
    line.set(Mode::Pass);
    lines.extend(game.end().await);

    let data = api.data(EVENTS, json!({ "member": "ann" })).await;
    judge(&lines, &data["member"]);
}

/// Compares the lines of all runs with the member's history on the server.
fn judge(lines: &[Value], member: &Value) {
    let nodes = member["events"]["nodes"].as_array().unwrap();
    let id = |value: &Value| value.as_str().unwrap().to_owned();
    let points = |value: &Value| id(value).parse::<u64>().unwrap();
    let history: BTreeMap<_, _> =
        nodes.iter().map(|node| (id(&node["eventId"]), points(&node["score"]))).collect();
    assert_eq!(history.len(), nodes.len(), "a score counts twice: {nodes:#?}");
    let kept: BTreeMap<_, _> = lines
        .iter()
        .filter(|line| line.get("kept").is_some())
        .map(|line| (id(&line["kept"]), line["points"].as_u64().unwrap()))
        .collect();
    for (event, points) in &kept {
        assert_eq!(history.get(event), Some(points), "{event} is lost");
    }
    // The game may have been killed after it had kept a score and before it said so.
    assert!(history.len() <= kept.len() + 1, "{history:?} {kept:?}");
    let sum: u64 = history.values().sum();
    assert_eq!(points(&member["entry"]["score"]), sum);
    assert_eq!(
        lines.last().unwrap(),
        &json!({ "rank": 1, "player": "ann", "score": sum.to_string() })
    );
    let told: BTreeSet<_> = lines
        .iter()
        .filter(|line| line.get("counts").is_some())
        .map(|line| id(&line["counts"]))
        .collect();
    assert_eq!(told, history.keys().cloned().collect());
    assert!(lines.iter().any(|line| line["status"] == "DUPLICATE"), "no answer was lost");
    assert_eq!(count(lines, "refused"), 0);
}

#[tokio::test]
async fn a_score_that_the_server_refuses_comes_back_with_its_code() {
    let ((), (api, _line, url)) = tokio::join!(build(), server_and_line());
    let token = token_of(&api, "ann").await;
    let lines = play(&api, &url, "bob", "3", &token).end().await;
    let codes: Vec<_> = lines
        .iter()
        .filter(|line| line.get("refused").is_some())
        .map(|line| &line["code"])
        .collect();
    assert_eq!(codes, ["FORBIDDEN"; 3]);
    let data = api.data(EVENTS, json!({ "member": "bob" })).await;
    assert_eq!(data["member"], Value::Null);
}

#[tokio::test]
async fn hooks_show_the_last_answer_while_the_line_is_down_and_go_on_after() {
    let ((), (api, line, url)) = tokio::join!(build(), server_and_line());
    let token = token_of(&api, "ann").await;
    submit(&api, "dice", json!([{ "member": "ann", "score": 1 }])).await;
    let mut page = Script::start("dist/test/hooks.js", &[&url, "dice", "ann"], &token);
    let last = |seen: &[Value]| seen.last().cloned().unwrap_or_default();
    let drawn = page.until("the first answers", |seen| {
        let last = last(seen);
        last["top"] == json!(["ann 1"])
            && last["mine"] == "1"
            && last["title"] == "dice"
            && last["refused"] == "NOT_FOUND"
    });
    assert_eq!(drawn.await["queued"], 1);

    line.set(Mode::Refused);
    line.end_all(Ending::Reset);
    let drawn = page.until("the line is down", |seen| last(seen)["state"] == "waiting").await;
    assert_eq!(drawn["top"], json!(["ann 1"]));
    submit(&api, "dice", json!([{ "member": "bob", "score": 9 }])).await;

    line.set(Mode::Pass);
    let both = json!(["bob 9", "ann 1"]);
    let drawn = page.until("the line is up", |seen| last(seen)["top"] == both).await;
    assert_eq!(drawn["state"], "live");
    page.child.stdin.as_mut().unwrap().write_all(b"go\n").await.unwrap();
    let sent = json!(["bob 9", "ann 6"]);
    page.until("the score is sent", |seen| {
        let last = last(seen);
        last["top"] == sent && last["mine"] == "6" && last["queued"] == 0
    })
    .await;
    page.end().await;
}
