//! The background work. It persists the log of every partition, recovers partitions that are not
//! level, rolls windows, finishes interrupted work, deletes old rows, and runs the daily diff.

use std::sync::Arc;
use std::time::Duration;

use engine::board::agenda::Agenda;
use engine::deployment::Deployment;
use engine::job::{self, Begun};
use engine::settings::RetentionSettings;
use engine::webhook::overtaken::Looks;
use entity::Result;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::persister;
use crate::background::checkpoints;
use crate::background::daily_diff::Daily;
use crate::background::erased_files;
use crate::background::mirror::Mirror;
use crate::background::retention;
use crate::background::webhooks::{self, Delivery};
use crate::health::Health;

/// The longest time of one round of upkeep. Each step of it goes on where it stopped.
const UPKEEP_TIMEOUT: Duration = Duration::from_secs(3600);

/// The longest time in which SQL tells what is to be done: on a silent connection all other upkeep
/// would wait.
const LIST_TIMEOUT: Duration = Duration::from_secs(600);

/// How long SQL may take to note that this process' jobs end.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the agenda of upkeep rests between two refreshes.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(1);

/// How long after the deletion of a board upkeep purges the data that the deleting request left, in
/// milliseconds.
const PURGE_AFTER_MS: i64 = 20_000;

/// How long after a failed seal upkeep tries again, in milliseconds.
const SEAL_AGAIN_MS: i64 = 10_000;

/// The parts of the background work that settings make.
pub struct Plan {
    /// The daily diff.
    pub daily: Daily,
    /// The runs of the mirror; none without a lake.
    pub(crate) mirror: Option<Mirror>,
    /// How long rows are kept that only tell what happened.
    pub retained: RetentionSettings,
    /// Deliveries to webhooks; none by a process that delivers nothing.
    pub(crate) delivery: Option<Delivery>,
}

/// Signals to the persister of this process.
#[derive(Debug, Default)]
pub struct Signals {
    /// A committer has committed.
    pub committed: Notify,
    /// A client waits until SQL has its commit.
    pub awaited: Notify,
}

/// Works until `stop` is set, then persists the rest of the logs, as far as the stores answer.
pub async fn work(
    deployment: Deployment,
    health: Arc<Health>,
    signals: Arc<Signals>,
    Plan { daily, mirror, retained, delivery }: Plan,
    stop: watch::Receiver<bool>,
) {
    let agenda = Arc::new(Agenda::default());
    let (refreshed, _) = watch::channel(());
    let told = || (refreshed.subscribe(), stop.clone());
    let persisted = deployment.for_persister();
    let (program, looks) = (daily.program(), Arc::new(Looks::default()));
    tokio::join!(
        erased_files::work(program, &deployment, &agenda, told()),
        daily.work(&deployment, stop.clone()),
        async {
            if let Some(mirror) = &mirror {
                mirror.work(&deployment, stop.clone()).await;
            }
        },
        checkpoints::work(&deployment, stop.clone()),
        retention::work(&deployment, &retained, stop.clone()),
        persister::persist(&persisted, &health, &signals, &agenda, stop.clone()),
        refresh(&deployment, &agenda, &refreshed, stop.clone()),
        upkeep(&deployment, &agenda, told(), |deployment, agenda| {
            finish_interrupted_work(deployment, agenda).boxed()
        }),
        upkeep(&deployment, &agenda, told(), |deployment, agenda| {
            roll(deployment, agenda).boxed()
        }),
        upkeep(&deployment, &agenda, told(), |deployment, agenda| {
            let now_ms = deployment.clock.now_ms();
            engine::webhook::ended::tell_ended(deployment, agenda, now_ms).boxed()
        }),
        upkeep(&deployment, &agenda, told(), |deployment, agenda| {
            let now_ms = deployment.clock.now_ms();
            engine::webhook::corrected::tell_corrected(deployment, agenda, now_ms).boxed()
        }),
        upkeep(&deployment, &agenda, told(), |deployment, agenda| {
            let (looks, now_ms) = (looks.clone(), deployment.clock.now_ms());
            async move { looks.tell(deployment, agenda, now_ms).await }.boxed()
        }),
        webhooks::work(&deployment, delivery.as_ref(), &agenda, stop.clone()),
    );
    let now_ms = deployment.clock.now_ms();
    let ended = job::end_own(&deployment.db, "its server was stopped", now_ms);
    match timeout(END_TIMEOUT, ended).await {
        Ok(Ok(_)) => {}
        ended => tracing::warn!(
            ?ended,
            "jobs of this process could not be ended; they end once their heartbeats expire"
        ),
    }
}

/// Refreshes the agenda, with a pause of [`UPKEEP_INTERVAL`], until `stop` is set, and tells each
/// time that it is done.
async fn refresh(
    deployment: &Deployment,
    agenda: &Agenda,
    refreshed: &watch::Sender<()>,
    mut stop: watch::Receiver<bool>,
) {
    let mut well = true;
    while !*stop.borrow() {
        tokio::select! {
            done = in_time(agenda.refresh(deployment)) => {
                let was_well = std::mem::replace(&mut well, done.is_ok());
                match done {
                    Ok(()) => refreshed.send_replace(()),
                    Err(error) if was_well => {
                        tracing::warn!(%error, "the boards are not known and are asked for again");
                    }
                    Err(_) => {}
                }
            }
            _ = stop.changed() => return,
        }
        tokio::select! {
            () = sleep(UPKEEP_INTERVAL) => {}
            _ = stop.changed() => {}
        }
    }
}

/// Repeats `work` whenever the agenda was refreshed, until `stop` is set.
async fn upkeep(
    deployment: &Deployment,
    agenda: &Agenda,
    (mut refreshed, mut stop): (watch::Receiver<()>, watch::Receiver<bool>),
    work: impl for<'a> Fn(&'a Deployment, &'a Agenda) -> BoxFuture<'a, Result<()>>,
) {
    let mut well = true;
    while !*stop.borrow() {
        tokio::select! {
            told = refreshed.changed() => if told.is_err() {
                return;
            },
            _ = stop.changed() => return,
        }
        tokio::select! {
            finished = timeout(UPKEEP_TIMEOUT, work(deployment, agenda)) => {
                let late = || ranking::Error::Unavailable("it took too long".into()).into();
                let finished = finished.unwrap_or_else(|_| Err(late()));
                let was_well = std::mem::replace(&mut well, finished.is_ok());
                if let Err(error) = finished && was_well {
                    tracing::warn!(%error, "upkeep failed and is retried");
                }
            }
            _ = stop.changed() => return,
        }
    }
}

async fn roll(deployment: &Deployment, agenda: &Agenda) -> Result<()> {
    engine::roll::roll_due(deployment, agenda, deployment.clock.now_ms()).await
}

/// Finishes interrupted work: voids of events that SQL refused and Redis still counts, windows to
/// fill or drop, abandoned moves to another number of shards, due seals, dead jobs, and the data of
/// deleted boards. Asks SQL only for what the agenda says is there.
async fn finish_interrupted_work(deployment: &Deployment, agenda: &Agenda) -> Result<()> {
    let signs = agenda.signs();
    if signs.dead_letters > 0 {
        engine::history::amend::void_dead_letters(deployment).await?;
    }
    if signs.merges > 0 {
        engine::merge::resume(deployment).await?;
    }
    if signs.bans > 0 {
        engine::ban::resume(deployment).await?;
    }
    if signs.erasures > 0 {
        engine::erasure::resume(deployment).await?;
    }
    // A board that fails must not stop the others.
    let numbers = agenda.unfinished();
    let unfinished = engine::board::windows::unfinished(deployment, &numbers);
    let (boards, mut failed) = in_time(unfinished).await?;
    for board in boards {
        if let Err(error) = engine::board::windows::finish(deployment, &board).await {
            failed = Some(error);
        }
    }
    if agenda.has_moves()
        && let Err(error) = engine::reshard::look_after(deployment).await
    {
        failed = Some(error);
    }
    if let Err(error) = seal(deployment, agenda).await {
        failed = Some(error);
    }
    if signs.jobs > 0 {
        in_time(job::end_dead(&deployment.db, deployment.clock.now_ms())).await?;
    }
    for no in agenda.deleted_before(deployment.clock.now_ms() - PURGE_AFTER_MS) {
        if let Some(board) = in_time(engine::board::delete::left_over(deployment, no)).await?
            && let Err(error) = engine::board::delete::purge(deployment, &board).await
        {
            failed = Some(error);
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Waits until SQL tells what is to be done, up to [`LIST_TIMEOUT`].
async fn in_time<T>(told: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(LIST_TIMEOUT, told).await.unwrap_or_else(|_| {
        let silent = "the database took too long to tell what upkeep is due";
        Err(ranking::Error::Unavailable(silent.into()).into())
    })
}

/// Seals the due periods of some boards, as a job. Does nothing if another process runs that job,
/// or if it failed a moment ago.
async fn seal(deployment: &Deployment, agenda: &Agenda) -> Result<()> {
    let (db, now_ms) = (&deployment.db, deployment.clock.now_ms());
    // Which boards are due takes longer to tell. One whose process is gone is ended by upkeep.
    if agenda.signs().jobs > 0 && job::running(db, entity::job::SEAL, None).await?.is_some() {
        return Ok(());
    }
    let boards = in_time(engine::seal::due::boards(deployment, agenda, now_ms)).await?;
    if boards.is_empty()
        || job::failed_since(db, entity::job::SEAL, None, now_ms - SEAL_AGAIN_MS).await?
    {
        return Ok(());
    }
    let Begun::Running(job) = job::begin(db, &deployment.clock, entity::job::SEAL, None).await?
    else {
        return Ok(());
    };
    let sealed = engine::seal::seal_boards(deployment, boards, now_ms).await;
    let outcome = match &sealed {
        Ok(sealing) => Ok(sealing.to_string()),
        Err(error) => Err(error.to_string()),
    };
    job.end(outcome.as_deref().map_err(String::as_str)).await?;
    sealed.map(drop)
}
