//! A process of the server, and requests to it.

pub mod amendment;
pub mod attempts;
pub mod audit;
pub mod connection;
pub mod friends;
pub mod listing;
pub mod metrics;
pub mod moderation;
pub mod playthrough;
pub mod refusal;
pub mod submission;
pub mod subscriber;
pub mod window;

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};

use crate::deployment::Deployment;
use crate::documents::{CREATE_BOARD, DELETE_BOARD, UPDATE_BOARD, UPSERT_MEMBERS};
use crate::servers::program::signal;
use crate::wait::{PATIENCE, until};

/// Settings that a test may give others: all clients of a test have one address, the programs are
/// not optimized, and a database beside many tests may take seconds for a look-up.
const USUAL: [(&str, &str); 3] = [
    ("LAUREL_ADDRESS_CONNECTIONS_MAX", "10000"),
    ("LAUREL_QUERY_TIMEOUT_MS", "30000"),
    ("LAUREL_SQL_LOOKUP_TIMEOUT_MS", "10000"),
];

/// The longest time for which a connection is kept for the next request, shorter than that of a
/// server of any test.
const IDLE_MAX: Duration = Duration::from_secs(1);

/// A running process; killed when dropped. Several may share a deployment.
pub struct Api {
    child: Child,
    url: String,
    token: String,
    client: Client,
    log: PathBuf,
    printed: PathBuf,
    // The last field, dropped after the process is gone.
    deployment: Arc<Deployment>,
}

/// An answer to a request.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub body: Value,
}

impl Answer {
    /// The codes of its errors.
    pub fn codes(&self) -> Vec<&str> {
        let errors = self.body["errors"].as_array().into_iter().flatten();
        errors.map(|error| error["extensions"]["code"].as_str().unwrap()).collect()
    }

    /// The message of its first error.
    pub fn message(&self) -> &str {
        self.body["errors"][0]["message"].as_str().unwrap()
    }
}

impl Api {
    /// Starts a process that serves and does the background work, and waits until it is ready.
    pub async fn start(deployment: &Arc<Deployment>) -> Self {
        Self::start_with(deployment, &[]).await
    }

    /// Like [`Self::start`], with more arguments.
    pub async fn start_with(deployment: &Arc<Deployment>, arguments: &[&str]) -> Self {
        let token = deployment.admin_token().await.to_owned();
        let api = Self::spawn(deployment, arguments, token).await;
        api.wait_until_ready().await;
        api
    }

    /// Like [`Self::start`], with settings in the environment.
    pub async fn start_with_settings(
        deployment: &Arc<Deployment>,
        settings: &[(&str, &str)],
    ) -> Self {
        let mut command = deployment.api(&["serve"]);
        command.envs(settings.iter().copied());
        Self::start_command(deployment, command).await
    }

    /// Like [`Self::start`], by a command that becomes the process.
    pub async fn start_command(deployment: &Arc<Deployment>, command: Command) -> Self {
        let token = deployment.admin_token().await.to_owned();
        let api = Self::spawn_command(deployment, usual(command), token).await;
        api.wait_until_ready().await;
        api
    }

    /// Starts a process with a token of the caller's, and waits until it prints its address.
    pub async fn spawn(deployment: &Arc<Deployment>, arguments: &[&str], token: String) -> Self {
        let command = deployment.api(&[&["serve"], arguments].concat());
        Self::spawn_command(deployment, usual(command), token).await
    }

    /// Like [`Self::spawn`], with a copy of the program.
    pub async fn spawn_program(
        deployment: &Arc<Deployment>,
        program: &str,
        arguments: &[&str],
        token: String,
    ) -> Self {
        let given = deployment.api(&[]);
        let mut command = Command::new(program);
        command.arg("serve").args(arguments);
        for (name, value) in given.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Self::spawn_command(deployment, usual(command), token).await
    }

    /// Like [`Self::spawn`], by a command that becomes the process, with its own settings alone.
    pub async fn spawn_command(
        deployment: &Arc<Deployment>,
        mut command: Command,
        token: String,
    ) -> Self {
        let (log, printed) = (deployment.new_file("log"), deployment.new_file("out"));
        let child = command
            .env("LAUREL_LISTEN", "127.0.0.1:0")
            .stdout(File::create(&printed).unwrap())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut api = Self {
            child,
            url: String::new(),
            token,
            client: client(PATIENCE),
            log,
            printed,
            deployment: deployment.clone(),
        };
        api.url = until("api serve listens", async || {
            assert_eq!(api.child.try_wait().unwrap(), None, "api serve has stopped");
            let printed = api.printed();
            let line = printed.lines().find_map(|line| line.strip_prefix("Laurel is on "));
            line.filter(|_| printed.contains("token")).map(str::to_owned)
        })
        .await;
        api
    }

    /// Waits until it takes scores, as `/readyz` says.
    pub async fn wait_until_ready(&self) {
        until("api serve is ready", async || self.is_ready().await.then_some(())).await;
    }

    /// True if it takes scores, as `/readyz` says.
    pub async fn is_ready(&self) -> bool {
        let asking = async {
            let answer = self.client.get(format!("{}/readyz", self.url)).send().await?;
            let answer = answer.error_for_status()?;
            Ok::<_, reqwest::Error>(!answer.text().await?.contains("read from SQL"))
        };
        asking.await.unwrap_or(false)
    }

    /// Its address: `http://127.0.0.1:<port>`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its output so far.
    pub fn printed(&self) -> String {
        std::fs::read_to_string(&self.printed).unwrap()
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Sends a request with the admin token; returns the whole response body.
    pub async fn query(&self, text: &str, variables: Value) -> Value {
        self.ask(Some(&self.token), text, variables).await.body
    }

    /// Sends a request with the admin token; returns the data of a response that must have no
    /// errors.
    pub async fn data(&self, text: &str, variables: Value) -> Value {
        let mut body = self.query(text, variables).await;
        assert_eq!(body.get("errors"), None, "{text}");
        body["data"].take()
    }

    /// Creates a board; returns its fields.
    pub async fn create_board(&self, input: Value) -> Value {
        let mut data = self.data(CREATE_BOARD, json!({ "input": input })).await;
        data["createBoard"]["board"].take()
    }

    /// Changes a board; returns its fields.
    pub async fn update_board(&self, input: Value) -> Value {
        let mut data = self.data(UPDATE_BOARD, json!({ "input": input })).await;
        data["updateBoard"]["board"].take()
    }

    /// Deletes a board.
    pub async fn delete_board(&self, slug: &str) {
        let data = self.data(DELETE_BOARD, json!({ "slug": slug })).await;
        let id = data["deleteBoard"]["deletedBoardId"].as_str().unwrap();
        assert!(id.starts_with(&format!("board:{slug}.")), "{id}");
    }

    /// Creates or changes members; returns their fields.
    pub async fn upsert_members(&self, input: impl Into<Value>) -> Value {
        let variables = json!({ "members": input.into() });
        self.data(UPSERT_MEMBERS, variables).await["upsertMembers"]["members"].take()
    }

    /// Sends a request with another token, or none.
    pub async fn ask(&self, token: Option<&str>, text: &str, variables: Value) -> Answer {
        self.try_ask(token, text, variables).await.unwrap()
    }

    /// Sends a request to a process that may be killed before it answers.
    pub async fn try_ask(
        &self,
        token: Option<&str>,
        text: &str,
        variables: Value,
    ) -> reqwest::Result<Answer> {
        let body = json!({ "query": text, "variables": variables });
        let mut request = self.client.post(format!("{}/graphql", self.url)).json(&body);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let answer = request.send().await?;
        Ok(Answer { status: answer.status(), body: answer.json().await? })
    }

    /// The admin token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Its deployment.
    pub fn deployment(&self) -> &Arc<Deployment> {
        &self.deployment
    }

    /// The id of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it finish its work and stop; it must succeed.
    pub async fn stop(self) {
        signal("TERM", self.pid());
        let status = self.wait_until_stopped().await;
        assert!(status.success(), "{status}");
    }

    /// Waits until it stops; returns its exit status.
    pub async fn wait_until_stopped(mut self) -> ExitStatus {
        until("api serve stops", async || self.child.try_wait().unwrap()).await
    }
}

/// A command with those of the usual settings that it does not have.
fn usual(mut command: Command) -> Command {
    for (name, value) in USUAL {
        if command.get_envs().all(|(given, _)| given != name) {
            command.env(name, value);
        }
    }
    command
}

/// A client with a deadline: a request to a process that is killed at that instant may be neither
/// answered nor refused. It leaves connections that the server may be about to close.
pub(crate) fn client(patience: Duration) -> Client {
    Client::builder().timeout(patience).pool_idle_timeout(IDLE_MAX).build().unwrap()
}

impl Drop for Api {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            eprintln!("---- log of {}\n{log}----", self.url);
        }
    }
}
