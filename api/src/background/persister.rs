//! The persister: brings the log of every partition into SQL, and recovers partitions that are not
//! level.
//!
//! Partitions are persisted side by side, by the Redis server that has them. One that fails, or
//! that is loaded for minutes, holds up no other; a slow server holds up its own.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::board::agenda::Agenda;
use engine::deployment::Deployment;
use entity::error::{Error, Result};
use entity::history::log_cursor;
use futures::FutureExt;
use futures::future::join_all;
use ranking::commit::Head;
use ranking::id::PartitionNo;
use sea_orm::DbBackend;
use tokio::sync::{Semaphore, watch};
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use super::worker::Signals;
use crate::health::Health;
use crate::health::partition::{STUCK_AFTER, StuckBy};

/// How long the persister sleeps before it reads the heads again, as other processes commit too.
const IDLE: Duration = Duration::from_millis(200);

/// How long the persister gathers commits for one transaction, unless a client waits for SQL. Small
/// transactions cost many times as much, and each has the disk to itself while Redis wants to
/// write.
const GATHER: Duration = Duration::from_millis(50);

/// How long a partition pauses after a store failed.
const PAUSE: Duration = Duration::from_millis(500);

/// How often the persister asks which server has which partition.
const SERVERS_INTERVAL: Duration = Duration::from_secs(5);

/// The most transactions of this process at once, for all servers and for one. SQLite takes one
/// writer at a time.
const TRANSACTIONS_MAX: usize = 8;
const TRANSACTIONS_OF_SERVER_MAX: usize = 4;

/// How often the persister asks whether SQL still has what it persisted.
const CURSORS_INTERVAL: Duration = Duration::from_secs(5);

/// How long the rest of the log may take when the process stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(6);

/// How often the log says that a partition is stuck.
const STUCK_INTERVAL: Duration = Duration::from_secs(60);

/// The persister of this process. Clones share its state.
#[derive(Clone)]
struct Persister {
    deployment: Deployment,
    health: Arc<Health>,
    agenda: Arc<Agenda>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The heads up to which SQL has the partitions.
    settled: HashMap<PartitionNo, Head>,
    /// The partitions whose last attempt failed.
    failing: HashSet<PartitionNo>,
}

/// The partitions of one server that are being persisted.
#[derive(Default)]
struct Running {
    tasks: JoinSet<()>,
    partitions: HashSet<PartitionNo>,
    by_task: HashMap<Id, PartitionNo>,
    /// Those that have moved on since they were begun.
    again: HashMap<PartitionNo, Option<Head>>,
}

/// Persists until `stop` is set, then the rest of the logs, as far as the stores answer.
pub(super) async fn persist(
    deployment: &Deployment,
    health: &Arc<Health>,
    signals: &Signals,
    agenda: &Arc<Agenda>,
    mut stop: watch::Receiver<bool>,
) {
    let persister = Persister {
        deployment: deployment.clone(),
        health: health.clone(),
        agenda: agenda.clone(),
        state: Arc::default(),
    };
    let (rounds, round) = watch::channel(0_u64);
    tokio::select! {
        () = pulse(signals, &rounds) => {}
        () = persister.follow_servers(&round) => {}
        () = persister.watch_cursors() => {}
        () = persister.report_stuck() => {}
        _ = stop.changed() => {}
    }
    if timeout(DRAIN_TIMEOUT, persister.drain()).await.is_err() {
        tracing::warn!("the rest of the log waits in Redis for the next start");
    }
}

/// Begins rounds: after commits and some time to gather more of them, at once where a client waits
/// for SQL, and now and then for the commits of other processes.
async fn pulse(signals: &Signals, rounds: &watch::Sender<u64>) {
    loop {
        rounds.send_modify(|round| *round += 1);
        tokio::select! {
            () = signals.committed.notified() => {}
            () = sleep(IDLE) => {}
        }
        tokio::select! {
            () = signals.awaited.notified() => {}
            () = sleep(GATHER) => {}
        }
    }
}

impl Persister {
    /// Persists the partitions of each server, as long as the servers have the same ones.
    async fn follow_servers(&self, round: &watch::Receiver<u64>) {
        let mut servers = self.servers().await;
        loop {
            let lanes = join_all(servers.iter().map(|partitions| {
                let transactions = Arc::new(Semaphore::new(self.transactions(servers.len())));
                self.follow(partitions, transactions, round.clone())
            }));
            let moved = async {
                loop {
                    sleep(SERVERS_INTERVAL).await;
                    let now = self.servers().await;
                    if now != servers {
                        return now;
                    }
                }
            };
            let now = tokio::select! {
                _ = lanes => self.servers().await,
                now = moved => now,
            };
            servers = now;
        }
    }

    /// The partitions of each server, once a server tells.
    async fn servers(&self) -> Vec<Vec<PartitionNo>> {
        loop {
            match self.deployment.store.partitions_by_server().await {
                Ok(mut servers) => {
                    servers.sort_unstable();
                    return servers;
                }
                Err(error) => {
                    self.redis_failed(&error.into()).await;
                    sleep(PAUSE).await;
                }
            }
        }
    }

    fn transactions(&self, servers: usize) -> usize {
        match self.deployment.db.get_database_backend() {
            DbBackend::Sqlite => 1,
            _ => (TRANSACTIONS_MAX / servers.max(1)).clamp(1, TRANSACTIONS_OF_SERVER_MAX),
        }
    }

    /// Persists the partitions of one server whenever their heads have moved.
    async fn follow(
        &self,
        partitions: &[PartitionNo],
        transactions: Arc<Semaphore>,
        mut round: watch::Receiver<u64>,
    ) {
        let mut running = Running::default();
        loop {
            // While SQL is away each attempt would take a connection and wait in vain.
            if !self.health.sql.is_away() {
                match self.deployment.store.heads_of(partitions).await {
                    Ok(heads) => {
                        for (no, head) in partitions.iter().zip(heads) {
                            let head = head.ok();
                            if let Some(head) = &head {
                                self.agenda.see_head(*no, head);
                            }
                            if head.is_none() || self.lock().settled.get(no) != head.as_ref() {
                                running.start(self, *no, head, &transactions);
                            }
                        }
                    }
                    Err(error) => {
                        self.redis_failed(&error.into()).await;
                        sleep(PAUSE).await;
                    }
                }
            }
            loop {
                tokio::select! {
                    changed = round.changed() => match changed {
                        Ok(()) => break,
                        Err(_) => return,
                    },
                    ended = running.tasks.join_next_with_id(), if !running.tasks.is_empty() => {
                        let id = ended.map(|ended| ended.map_or_else(|error| error.id(), |(id, ())| id));
                        let no = id.and_then(|id| running.by_task.remove(&id));
                        if let Some(no) = no {
                            running.partitions.remove(&no);
                        }
                        if let Some((no, head)) = no.and_then(|no| running.again.remove_entry(&no)) {
                            running.start(self, no, head, &transactions);
                        }
                    }
                }
            }
        }
    }

    /// Begins again with partitions whose cursors have gone back in SQL: the log may still have
    /// what a database from a backup lacks, even if no commit follows.
    async fn watch_cursors(&self) {
        loop {
            sleep(CURSORS_INTERVAL).await;
            let before = self.lock().settled.clone();
            let Ok(Ok(cursors)) =
                timeout(CURSORS_INTERVAL, log_cursor::all(&self.deployment.lookups)).await
            else {
                continue;
            };
            for cursor in cursors {
                let Ok(no) = u16::try_from(cursor.partition).map(PartitionNo) else { continue };
                let Some(head) = before.get(&no) else { continue };
                let seq = cursor.seq.unsigned_abs();
                if seq < head.seq || (seq == head.seq && cursor.commit_id != head.commit) {
                    tracing::warn!(partition = %no, "SQL's cursor has gone back");
                    self.lock().settled.remove(&no);
                }
            }
        }
    }

    /// Brings one partition into SQL up to a head that was read, and notes the outcome.
    async fn settle(self, no: PartitionNo, head: Option<Head>, transactions: Arc<Semaphore>) {
        let settled = self.try_settle(no, &transactions).await;
        self.health.persisted(no, settled.as_ref().map_err(ToString::to_string).copied());
        let Err(error) = settled else {
            let mut state = self.lock();
            if let Some(head) = head {
                state.settled.insert(no, head);
            }
            if state.failing.remove(&no) && state.failing.is_empty() {
                tracing::info!("the log of every partition gets to the database again");
            }
            return;
        };
        if self.lock().failing.insert(no) {
            tracing::warn!(partition = %no, %error, "a partition is not persisted; it is tried again");
        }
        self.deployment.revive_redis().await;
        sleep(PAUSE).await;
    }

    async fn try_settle(&self, no: PartitionNo, transactions: &Semaphore) -> Result<()> {
        let partition = self.deployment.partition(no);
        let persist = || {
            let turn = async {
                // The semaphore is never closed.
                let _turn = transactions.acquire().await;
                partition.persist().await
            };
            turn.boxed()
        };
        partition.settle_by(persist).await?;
        Ok(())
    }

    /// Persists what the partitions have now, as far as the stores answer.
    async fn drain(&self) {
        if self.health.sql.is_away() {
            tracing::warn!("the database is away: the log waits in Redis for the next start");
            return;
        }
        let Ok(servers) = self.deployment.store.partitions_by_server().await else {
            return;
        };
        let drains = join_all(servers.iter().map(|partitions| async move {
            let heads = self.deployment.store.heads_of(partitions).await.unwrap_or_default();
            let transactions = Semaphore::new(1);
            for (no, head) in partitions.iter().zip(heads) {
                let is_settled = head.is_ok_and(|head| self.lock().settled.get(no) == Some(&head));
                if !is_settled && let Err(error) = self.try_settle(*no, &transactions).await {
                    tracing::warn!(partition = %no, %error, "the log waits in Redis for the next start");
                }
            }
        }));
        drains.await;
    }

    /// Says in the log, once a minute, which partitions' cursors do not move, and why.
    async fn report_stuck(&self) {
        loop {
            sleep(STUCK_AFTER).await;
            let (now, partitions) = (Instant::now(), self.health.partitions());
            let stuck = partitions.iter().enumerate().filter(|(_, health)| health.is_stuck(now));
            let mut told = false;
            for (partition, health) in stuck {
                told = true;
                tracing::warn!(
                    partition,
                    commits = health.commits_behind(),
                    seconds = health.behind_for(now).as_secs(),
                    reason = health.stuck_by(now, self.health.sql.is_away()).map(StuckBy::name),
                    error = health.error.as_deref(),
                    "SQL's cursor does not move: the log of this partition waits in Redis"
                );
            }
            if told {
                sleep(STUCK_INTERVAL).await;
            }
        }
    }

    async fn redis_failed(&self, error: &Error) {
        tracing::debug!(%error, "the persister waits for Redis");
        self.deployment.revive_redis().await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    /// Begins to persist a partition, or notes that it must begin again.
    fn start(
        &mut self,
        persister: &Persister,
        no: PartitionNo,
        head: Option<Head>,
        transactions: &Arc<Semaphore>,
    ) {
        if !self.partitions.insert(no) {
            self.again.insert(no, head);
            return;
        }
        let task = self.tasks.spawn(persister.clone().settle(no, head, transactions.clone()));
        self.by_task.insert(task.id(), no);
    }
}
