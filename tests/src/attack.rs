//! Attacks on a server of their own, and what each of them costs it: time of the processors, and
//! memory.
//!
//! | module | has |
//! |---|---|
//! | [`process`] | what Linux counts for a process |
//! | [`request`] | one hostile request, and its answer |
//! | [`socket`] | a raw connection |
//! | [`boards`] | boards large enough to be costly |
//! | [`documents`], [`introspection`], [`echoes`] | hostile requests by their kind |
//! | [`cost`], [`late_events`] | costly requests, and costly scores |
//!
//! The requests are those of a security review and their neighbors. The tests judge them, and
//! `make bench PART=attacks` prints what they cost.

pub mod boards;
pub mod cost;
pub mod documents;
pub mod echoes;
pub mod introspection;
pub mod late_events;
pub mod process;
pub mod request;
pub mod socket;

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use reqwest::{Client, StatusCode};

use crate::api::{Api, client};
use crate::attack::process::{Process, Spent};
use crate::attack::request::{Attack, Outcome, Reply};
use crate::deployment::{Deployment, Redis, Sql};
use crate::wait::PATIENCE;

/// The most time of the processors that one attack may take, the server and Redis together. A
/// program of a debug build takes about ten times as long as one of a release build.
pub const CPU_MAX: Duration = Duration::from_secs(if cfg!(debug_assertions) { 10 } else { 1 });

/// The most memory that the processes may gain while one attack runs.
pub const GROWTH_BYTES_MAX: u64 = 64 << 20;

/// The longest answer to input that an error or a field may repeat.
pub const ECHO_BYTES_MAX: usize = 64 << 10;

/// The settings of a server whose rates are not limited, so that each request meets the limits of
/// its own.
pub const UNRATED: [(&str, &str); 2] = [("LAUREL_READ_RATE", "0"), ("LAUREL_WRITE_RATE", "0")];

/// A pause in which a process that has nothing to do takes at most [`CALM_CPU`].
const CALM: Duration = Duration::from_millis(50);

/// The time of the processors that the background work may take in such a pause.
const CALM_CPU: Duration = Duration::from_millis(20);

/// The time of the processors that the background work may take in a second.
const IDLE_CPU: Duration = Duration::from_millis(250);

/// How many pauses an attack is given to come to its end.
const CALM_PAUSES: usize = 100;

/// How many of many attacks are under way at once.
const AT_ONCE: usize = 4;

/// A server with a private Redis, both of them measured.
pub struct Attacked {
    pub api: Api,
    pub client: Client,
    processes: Vec<Process>,
}

impl Attacked {
    /// Starts one whose rates are not limited.
    pub async fn start() -> Self {
        Self::start_with(&UNRATED).await
    }

    /// Starts one with these settings.
    pub async fn start_with(settings: &[(&str, &str)]) -> Self {
        let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
        let settings =
            [&[("LAUREL_QUERY_TIMEOUT_MS", "5000"), ("LAUREL_MEMBERS", "public")], settings]
                .concat();
        let api = Api::start_with_settings(&deployment, &settings).await;
        Self::of(api, &deployment).await
    }

    /// Measures a process that runs.
    pub async fn of(api: Api, deployment: &Arc<Deployment>) -> Self {
        let redis_pid = deployment.redis_pid().await;
        Self::with_redis(api, redis_pid)
    }

    /// Measures a process that runs, and this process of Redis.
    pub fn with_redis(api: Api, redis_pid: u32) -> Self {
        let processes = [api.pid(), redis_pid].map(Process::of).into();
        Self { api, client: client(2 * PATIENCE), processes }
    }

    /// True while all processes run.
    pub fn is_running(&self) -> bool {
        self.processes.iter().all(Process::is_running)
    }

    /// The time of the processors that all processes have taken.
    pub fn cpu(&self) -> Duration {
        self.processes.iter().map(Process::cpu).sum()
    }

    /// The memory that all processes have now.
    pub fn resident_bytes(&self) -> u64 {
        self.processes.iter().map(Process::resident_bytes).sum()
    }

    /// Runs an attack until the processes are calm again; returns what came of it and what it took.
    pub async fn measure<T>(&self, attack: impl Future<Output = T>) -> (T, Spent) {
        for process in &self.processes {
            process.reset_peak();
        }
        let peak = || self.processes.iter().map(Process::peak_bytes).sum::<u64>();
        let (cpu, bytes) = (self.cpu(), peak());
        let outcome = attack.await;
        self.wait_until_calm().await;
        let spent = Spent { cpu: self.cpu() - cpu, grown_bytes: peak().saturating_sub(bytes) };
        (outcome, spent)
    }

    /// Waits until the processes have nothing to do, or have gone on for too long.
    async fn wait_until_calm(&self) {
        for _ in 0..CALM_PAUSES {
            let before = self.cpu();
            tokio::time::sleep(CALM).await;
            if self.cpu() - before <= CALM_CPU {
                return;
            }
        }
    }

    /// Sends an attack.
    pub async fn send(&self, attack: &Attack) -> reqwest::Result<Reply> {
        attack.send(&self.client, self.api.url(), self.api.token()).await
    }

    /// Sends attacks, one after the other. Each must stay within the limits, be answered as it
    /// should be, and leave the server as it was; all that did not are listed at the end.
    pub async fn withstands(&self, attacks: &[Attack]) {
        let mut findings = vec![];
        for attack in attacks {
            let (reply, spent) = self.measure(self.send(attack)).await;
            let told = match &reply {
                Ok(reply) => format!("{} of {} B", reply.status, reply.bytes.len()),
                Err(error) => format!("no answer: {error}"),
            };
            println!("{:60} {spent} {told}", attack.what);
            let mut found = |what: String| findings.push(format!("{}: {what}", attack.what));
            spent.excess(CPU_MAX, GROWTH_BYTES_MAX).into_iter().for_each(&mut found);
            match reply {
                Ok(reply) => reply.faults(attack.outcome).into_iter().for_each(&mut found),
                // A server may close the connection of a body that it does not read.
                Err(_) if attack.outcome == Outcome::Refused && attack.is_long() => {}
                Err(error) => found(format!("no answer: {error}")),
            }
            if !self.is_alive().await {
                found("the server does not answer any more".to_owned());
                break;
            }
        }
        assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
    }

    /// Sends many attacks, some at once, and measures them together. Each must be answered as it
    /// should be, and as `more` says; on average they may take a twentieth of what one may.
    pub async fn withstands_many(
        &self,
        attacks: &[Attack],
        more: impl Fn(&Attack, &Reply) -> Vec<String>,
    ) {
        let sending = stream::iter(attacks)
            .map(async |attack| (attack, self.send(attack).await))
            .buffer_unordered(AT_ONCE)
            .collect::<Vec<_>>();
        let (replies, spent) = self.measure(sending).await;
        println!("{} attacks {spent}", attacks.len());
        let most = CPU_MAX * attacks.len() as u32 / 20;
        let mut findings = spent.excess(most, GROWTH_BYTES_MAX);
        for (attack, reply) in replies {
            let faults = match reply {
                Ok(reply) => [reply.faults(attack.outcome), more(attack, &reply)].concat(),
                Err(_) if attack.is_long() => vec![],
                Err(error) => vec![format!("no answer: {error}")],
            };
            findings.extend(faults.iter().map(|fault| format!("{}: {fault}", attack.what)));
        }
        assert!(self.is_alive().await, "the server does not answer any more");
        assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
    }

    /// True if the server answers a question about its health within some tries.
    pub async fn is_alive(&self) -> bool {
        for _ in 0..10 {
            let answer = self.client.get(format!("{}/healthz", self.api.url())).send().await;
            if answer.is_ok_and(|answer| answer.status() == StatusCode::OK) {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        false
    }

    /// Fails unless the processes took no more than one attack may.
    pub fn check(&self, what: &str, spent: Spent) {
        println!("{what:60} {spent}");
        let excess = spent.excess(CPU_MAX, GROWTH_BYTES_MAX);
        assert!(excess.is_empty(), "{what}: {}", excess.join(", "));
    }

    /// Fails unless the processes are idle: a second takes them next to no time.
    pub async fn check_idle(&self, what: &str) {
        let before = self.cpu();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let cpu = self.cpu() - before;
        assert!(cpu <= IDLE_CPU, "{what}: {cpu:?} of a second: expected at most {IDLE_CPU:?}");
    }
}
