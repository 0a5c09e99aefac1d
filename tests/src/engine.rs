//! Engines that run the statements of a fold: DataFusion, and Sail behind Spark Connect. Python
//! runs them; their packages are installed beside the build the first time.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::deployment::Deployment;
use crate::jobs::analytics::run;
use crate::servers::program;

/// The engines, by the names of their dialects.
pub const ENGINES: [&str; 2] = ["datafusion", "sail"];

/// A running engine; killed when dropped.
pub struct Engine {
    dialect: &'static str,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Engine {
    /// Starts one.
    pub fn start(dialect: &'static str) -> Self {
        let own = std::env::current_exe().unwrap();
        let place = own.ancestors().nth(3).unwrap().join("engines");
        let mut child = Command::new("python3")
            .arg(program::root().join("tests/engines/engine.py"))
            .arg(place)
            .arg(dialect)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("python3 is installed");
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { dialect, child, input, output }
    }

    /// Plans the fold of a board, in a new directory, and returns that.
    pub fn plan(deployment: &Deployment, slug: &str, name: &str) -> String {
        let dir = deployment.path(name);
        let output = deployment.analytics(&["fold", "plan", "--board", slug, "--out", &dir]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        dir
    }

    /// Runs every statement of a plan, and returns the directory of the states.
    pub fn run(&mut self, deployment: &Deployment, plan: &str) -> String {
        let command = ["fold", "sql", "--plan", plan, "--dialect", self.dialect, "--json"];
        let output = deployment.analytics(&command);
        let error = String::from_utf8_lossy(&output.stderr);
        let statements: Vec<Value> = serde_json::from_slice(&output.stdout).expect(&error);
        let states = format!("{plan}-{}", self.dialect);
        self.execute(plan, &statements, &states);
        states
    }

    /// Runs statements, as `fold sql` prints them, on the files of a plan; each writes its states
    /// below a directory.
    pub fn execute(&mut self, plan: &str, statements: &[Value], states: &str) {
        let statements = statements.iter().map(|statement| {
            let out = format!("{states}/{}", statement["directory"].as_str().unwrap());
            json!({ "sql": statement["sql"], "out": out })
        });
        let statements: Vec<Value> = statements.collect();
        self.ask(&json!({
            "events": format!("{plan}/events/"),
            "periods": format!("{plan}/periods.parquet"),
            "statements": statements,
        }));
    }

    /// The address of Sail as a server of Spark Connect.
    pub fn url(&mut self) -> String {
        self.answer(&json!({ "ask": "url" }))
    }

    /// Makes a file of states wrong.
    pub fn spoil(&mut self, path: &Path, how: &str, unit: i64) {
        self.ask(&json!({ "spoil": path, "how": how, "unit": unit }));
    }

    fn ask(&mut self, request: &Value) {
        assert_eq!(self.answer(request), "done", "{request:#}");
    }

    fn answer(&mut self, request: &Value) -> String {
        writeln!(self.input, "{request}").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Checks states, which must be right.
pub fn check_states(deployment: &Deployment, plan: &str, states: &str) -> Value {
    fold_check(deployment, plan, states).unwrap()
}

/// Checks states: the outcome, or the error.
pub fn fold_check(deployment: &Deployment, plan: &str, states: &str) -> Result<Value, String> {
    let output =
        deployment.analytics(&["fold", "check", "--plan", plan, "--states", states, "--json"]);
    match output.status.code() {
        Some(0) => Ok(serde_json::from_slice(&output.stdout).unwrap()),
        _ => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Loads states: the figures of the rebuild, or the error.
pub fn load(
    deployment: &Deployment,
    slug: &str,
    plan: &str,
    states: &str,
) -> Result<Value, String> {
    let command = ["rebuild", "--board", slug, "--plan", plan, "--states", states];
    let (code, figures, error) = run(deployment, &command);
    if code == 0 { Ok(figures) } else { Err(error) }
}
