//! The servers under attack: that of today, and that of a version before it had walls.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tests::api::Api;
use tests::attack::boards::{self, FRIENDS, MEMBERS, key};
use tests::attack::process::redis_in;
use tests::attack::{Attacked, UNRATED};
use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::program::{command_at, limited, signal};

use super::strike::{self, FILES};
use crate::server::FIRST_WORDS;

/// Makes a server compute everything for every request.
const UNCACHED: [(&str, &str); 2] =
    [("LAUREL_ANSWER_CACHE_BYTES", "0"), ("LAUREL_PAGE_CACHE_BYTES", "0")];

/// The memory that a server without walls may take, in KiB, those that it reserves included.
const MEMORY_KIB_MAX: usize = 6 << 20;

/// The time that an attacker waits for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The time in which a healthy server answers about its health, and how often it is given a quarter
/// of that to come to rest.
const HEALTH_MAX: Duration = Duration::from_secs(2);
const REST_TRIES: usize = 6;

/// A server under attack.
pub(crate) struct Target {
    deployment: Arc<Deployment>,
    /// The command that becomes it, if it has no walls.
    earlier: Option<Box<dyn Fn() -> Command>>,
    token: String,
    server: Option<Attacked>,
}

impl Target {
    /// The server of today, its boards filled: without caches, so that a query costs the same each
    /// time.
    pub(crate) async fn today() -> Self {
        let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
        let mut command = deployment.api(&["serve"]);
        command.envs([&UNRATED[..], &UNCACHED].concat());
        command.env("LAUREL_MEMBERS", "public").env("LAUREL_LOG", "warn");
        let command = limited(&command, &[&format!("-n {FILES}")]);
        let api = Api::start_command(&deployment, command).await;
        let token = api.token().to_owned();
        let server = Attacked::of(api, &deployment).await;
        boards::build(&server.api).await;
        for input in strike::boards() {
            server.api.create_board(input).await;
        }
        Self { deployment, earlier: None, token, server: Some(server) }
    }

    /// One without walls, its boards filled over GraphQL: today's stores are not its own.
    pub(crate) async fn earlier(program: &Path) -> Self {
        let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
        let data = deployment.path("earlier");
        let (program, directory) = (program.to_owned(), deployment.path(""));
        let command = move |arguments: &[&str]| {
            let mut command = command_at(&program);
            command.args(arguments).current_dir(&directory).env("LAUREL_DATA_DIR", &data);
            for (name, value) in UNCACHED {
                command.env(name, value);
            }
            command.env("LAUREL_LOG", "warn");
            command
        };
        let made = command(&["token", "create", "--scope", "admin"]).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let token = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        let (files, memory) = (format!("-n {FILES}"), format!("-v {MEMORY_KIB_MAX}"));
        let serve = move || limited(&command(&["serve"]), &[&files, &memory]);
        let mut target = Self { deployment, earlier: Some(Box::new(serve)), token, server: None };
        target.start_again().await;
        fill(&target.server().api).await;
        target
    }

    /// The words in which it is asked.
    pub(crate) fn words(&self) -> &'static [(&'static str, &'static str)] {
        if self.earlier.is_some() { &FIRST_WORDS } else { &[] }
    }

    /// Its name in tables.
    pub(crate) fn name(&self) -> &'static str {
        if self.has_walls() { "today" } else { "before" }
    }

    /// True if it has walls.
    pub(crate) fn has_walls(&self) -> bool {
        self.earlier.is_none()
    }

    /// The running server.
    pub(crate) fn server(&self) -> &Attacked {
        self.server.as_ref().unwrap()
    }

    /// The running server, to be stopped.
    pub(crate) fn take(&mut self) -> Attacked {
        self.server.take().unwrap()
    }

    /// True if it answers about its health, and is at rest soon.
    pub(crate) async fn is_sound(&self) -> bool {
        let server = self.server();
        for _ in 0..REST_TRIES {
            if !server.is_running() || !health(&Client::new(), server).await {
                return false;
            }
            let before = server.cpu();
            tokio::time::sleep(HEALTH_MAX / 4).await;
            if server.cpu().saturating_sub(before) < HEALTH_MAX / 8 {
                return true;
            }
        }
        false
    }

    /// Kills a server without walls, and starts it again on what it has stored.
    pub(crate) async fn start_again(&mut self) {
        let serve = self.earlier.as_ref().expect("the server of today withstands each attack");
        self.server = None;
        let api = Api::spawn_command(&self.deployment, serve(), self.token.clone()).await;
        api.wait_until_ready().await;
        let redis = redis_of(&self.deployment).expect("a server with a private Redis");
        let mut server = Attacked::with_redis(api, redis);
        server.client = Client::builder().timeout(PATIENCE).build().unwrap();
        self.server = Some(server);
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if self.earlier.is_some() {
            // Its redis-server outlives a process that was killed.
            if let Some(pid) = redis_of(&self.deployment) {
                signal("KILL", pid);
            }
        }
    }
}

/// True if a server answers about its health in time, on this client's connections.
pub(crate) async fn health(client: &Client, server: &Attacked) -> bool {
    let asking = client.get(format!("{}/healthz", server.api.url())).timeout(HEALTH_MAX).send();
    asking.await.is_ok_and(|answer| answer.status() == StatusCode::OK)
}

/// The redis-server of a server without walls.
fn redis_of(deployment: &Deployment) -> Option<u32> {
    redis_in(Path::new(&deployment.path("earlier")))
}

/// Makes the boards of [`boards::build`], and no friendships, by the mutations of its version.
async fn fill(api: &Api) {
    for input in boards::inputs().into_iter().chain(strike::boards()) {
        let text = "mutation($i:CreateBoardInput!){createBoard(input:$i){board{id}}}";
        api.data(text, json!({ "i": input })).await;
    }
    let places = || (0..MEMBERS).map(|place| (key(place * 7919 % MEMBERS), place));
    let far = |(member, place)| json!({ "member": member, "score": 900_000 - place });
    let equal = |(member, _)| json!({ "member": member, "score": 7 });
    let standings = [
        ("big", places().map(far).collect()),
        ("big16", places().map(far).collect()),
        ("tie", places().map(equal).collect::<Vec<Value>>()),
    ];
    for (slug, scores) in standings.into_iter().chain(boards::histories()) {
        for some in scores.chunks(1000) {
            let text = "mutation($b:String!,$s:[ScoreInput!]!)\
                {submitScores(input:{board:$b,scores:$s}){accepted}}";
            let told = api.data(text, json!({ "b": slug, "s": some })).await;
            assert_eq!(told["submitScores"]["accepted"], some.len(), "{slug}");
        }
    }
    let friends: Vec<usize> = (1..=FRIENDS[0]).collect();
    for some in friends.chunks(100) {
        let add = |friend: &usize| {
            let friend = key(*friend);
            format!("{friend}:addFriend(member:\"m00000\",friend:\"{friend}\"){{__typename}} ")
        };
        api.data(&format!("mutation{{{}}}", some.iter().map(add).collect::<String>()), json!({}))
            .await;
    }
}
