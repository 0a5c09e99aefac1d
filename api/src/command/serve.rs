//! The processes: what starts in which order, and stops in the other.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use engine::deployment::{Deployment, Settings};
use entity::access_token;
use sea_orm::{DatabaseConnection, EntityTrait, PaginatorTrait};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::access::{self, Scope};
use crate::app::{App, SharedApp};
use crate::background::daily_diff::Daily;
use crate::background::worker;
use crate::background::worker::Signals;
use crate::cache::shared::CacheSettings;
use crate::command::demo;
use crate::submit::committer::Committers;
use crate::{graphql, http};

/// How long requests may take to end when the process stops.
const REQUESTS_TIMEOUT: Duration = Duration::from_secs(30);

/// Connects to SQL and brings its schema up to date.
///
/// # Errors
/// Where the database does not answer, or is of a newer version.
pub async fn database(settings: &Settings) -> Result<DatabaseConnection> {
    (settings.connect_sql().await).context("the database cannot be opened (LAUREL_DATABASE_URL)")
}

/// Serves until a signal comes, then drains: requests, commits, the log. The background work is left to others where there is none.
///
/// # Errors
/// Where a store does not answer at the start, or the address is taken.
pub async fn serve(
    settings: &Settings,
    listen: SocketAddr,
    public_reads: bool,
    background: Option<Daily>,
    caches: &CacheSettings,
) -> Result<()> {
    let stop = Stop::on_signals()?;
    let db = database(settings).await?;
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| format!("LAUREL_LISTEN: {listen} cannot be listened on"))?;
    let deployment = settings.open(db).await.context("the stores cannot be opened")?;
    let signals = Arc::new(Signals::default());
    let committers = Committers::start(&deployment, &signals);
    let working = background.map(|daily| Working::start(&deployment, &signals, daily));
    let app = Arc::new(App::new(deployment.clone(), committers, public_reads, caches));
    announce(&deployment.db, listener.local_addr()?).await?;
    let router = http::router(app.clone(), graphql::schema(app.clone()), caches);
    let (stopping, mut stopped) = watch::channel(false);
    let serving = axum::serve(listener, router).with_graceful_shutdown(async move {
        stop.wait().await;
        stopping.send_replace(true);
    });
    tokio::select! {
        served = serving => served?,
        () = async { let _ = stopped.wait_for(|stopping| *stopping).await; sleep(REQUESTS_TIMEOUT).await } => {
            tracing::warn!("stopping: some requests did not end in time");
        }
    }
    tracing::info!("stopping: commits and the log follow the requests");
    drain(app).await;
    if let Some(working) = working {
        working.stop().await;
    }
    deployment.close().await;
    Ok(())
}

/// Waits for requests whose clients have gone, then for what the committers have queued.
async fn drain(app: SharedApp) {
    let deadline = Instant::now() + REQUESTS_TIMEOUT;
    while Arc::strong_count(&app) > 1 && Instant::now() < deadline {
        sleep(Duration::from_millis(10)).await;
    }
    match Arc::into_inner(app) {
        Some(app) => app.committers.drain().await,
        None => tracing::warn!(
            "a request is still running; whether its scores count its client learns by sending them again"
        ),
    }
}

/// Does the background work until a signal comes.
///
/// # Errors
/// Where a store does not answer at the start.
pub async fn work(settings: &Settings, daily: Daily) -> Result<()> {
    let stop = Stop::on_signals()?;
    let deployment =
        settings.open(database(settings).await?).await.context("the stores cannot be opened")?;
    let working = Working::start(&deployment, &Arc::default(), daily);
    stop.wait().await;
    working.stop().await;
    deployment.close().await;
    Ok(())
}

/// Loads the demo, and waits until SQL has it.
///
/// # Errors
/// Where a store does not answer or refuses an event.
pub async fn demo(settings: &Settings) -> Result<()> {
    let stop = Stop::on_signals()?;
    let db = database(settings).await?;
    if demo::is_loaded(&db).await? {
        println!("the demo boards are there");
        return Ok(());
    }
    let deployment = settings.open(db).await.context("the stores cannot be opened")?;
    let signals = Arc::new(Signals::default());
    let committers = Committers::start(&deployment, &signals);
    let working = Working::start(&deployment, &signals, Daily::default());
    println!("loading the demo boards: real commits of nine open-source projects …");
    let began = std::time::Instant::now();
    let loaded = tokio::select! {
        loaded = demo::load(&deployment, &committers) => loaded,
        () = stop.wait() => Err(anyhow!("stopped; the next start loads the rest")),
    };
    committers.drain().await;
    working.stop().await;
    deployment.close().await;
    println!("loaded {} events in {:.1} s", loaded?, began.elapsed().as_secs_f64());
    Ok(())
}

/// Prints the addresses, and an admin token where there is no token at all yet.
async fn announce(db: &DatabaseConnection, address: SocketAddr) -> Result<()> {
    println!("Laurel is on http://{address}");
    println!("  GraphQL   http://{address}/graphql");
    println!("  GraphiQL  http://{address}/graphiql");
    println!("  health    http://{address}/healthz  http://{address}/readyz");
    println!("  metrics   http://{address}/metrics");
    if access_token::Entity::find().count(db).await? == 0 {
        println!(
            "  admin token, shown this once: {}",
            access::create(db, Scope::Admin, None, None).await?
        );
    } else {
        println!("  for an access token: api token create --scope admin");
    }
    Ok(())
}

/// The background work, running.
struct Working {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Working {
    fn start(deployment: &Deployment, signals: &Arc<Signals>, daily: Daily) -> Self {
        let (stop, stopped) = watch::channel(false);
        Self {
            stop,
            task: tokio::spawn(worker::work(deployment.clone(), signals.clone(), daily, stopped)),
        }
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the background work ended badly");
        }
    }
}

/// SIGINT and SIGTERM, caught from the start on: a signal during the start still stops in order.
struct Stop {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Stop {
    fn on_signals() -> Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn wait(mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
