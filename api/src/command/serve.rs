//! `laurel serve`: what starts in which order, and stops in the other.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use engine::process::StopSignals;
use engine::settings::stores::Missing;
use entity::access_token;
use sea_orm::DatabaseConnection;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::worker::Working;
use super::{ServeArguments, connect, open};
use crate::access::{self, Scope};
use crate::app::{App, SharedApp};
use crate::background::daily_diff::Daily;
use crate::background::worker::Signals;
use crate::submit::committer::Committers;
use crate::{graphql, http};

/// The time that requests may take to end when the process stops.
const REQUESTS_TIMEOUT: Duration = Duration::from_secs(30);

/// Serves until a signal comes, then drains requests, commits and the log. With `--no-workers` it
/// leaves the background work to others.
pub async fn serve(arguments: ServeArguments, environment: Vec<(String, OsString)>) -> Result<()> {
    let mut stop = StopSignals::catch()?;
    let ServeArguments { http: settings, limits, rates, caches, daily_diff, stores } = arguments;
    stores.log.start("info")?;
    // Settings are checked before anything is made.
    let daily = match settings.no_workers {
        true => None,
        false => Some(Daily::new(&daily_diff, environment)?),
    };
    let db = connect(&stores, Missing::Create).await?;
    let listener = TcpListener::bind(settings.listen)
        .await
        .with_context(|| format!("LAUREL_LISTEN: {} cannot be listened on", settings.listen))?;
    let deployment = open(&stores, db).await?;
    let signals = Arc::new(Signals::default());
    let committers = Committers::start(&deployment, &signals);
    let working = daily.map(|daily| Working::start(&deployment, &signals, daily));
    let app = Arc::new(App::new(deployment.clone(), committers, settings.public_reads, &caches));
    announce(&deployment.db, listener.local_addr()?, deployment.clock.now_ms()).await?;
    let router = http::router(app.clone(), graphql::schema(app.clone()), &caches, &limits, &rates);
    let (stopping, mut stopped) = watch::channel(false);
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    let serving = axum::serve(listener, service).with_graceful_shutdown(async move {
        stop.wait().await;
        stopping.send_replace(true);
    });
    tokio::select! {
        served = serving => served?,
        () = async { let _ = stopped.wait_for(|stopping| *stopping).await; sleep(REQUESTS_TIMEOUT).await } => {
            tracing::warn!("stopping: some requests did not end in time");
        }
    }
    tracing::info!("stopping: waiting for commits and the log");
    drain(app).await;
    if let Some(working) = working {
        working.stop().await;
    }
    deployment.close().await;
    Ok(())
}

/// Waits for requests whose clients have gone, then for the submissions that the committers have
/// queued.
async fn drain(app: SharedApp) {
    let deadline = Instant::now() + REQUESTS_TIMEOUT;
    while Arc::strong_count(&app) > 1 && Instant::now() < deadline {
        sleep(Duration::from_millis(10)).await;
    }
    match Arc::into_inner(app) {
        Some(app) => app.committers.drain().await,
        None => tracing::warn!(
            "a request is still running; its client has to send its scores again to learn if they count"
        ),
    }
}

/// Prints the addresses, and an admin token if there is no token yet.
async fn announce(db: &DatabaseConnection, address: SocketAddr, now_ms: i64) -> Result<()> {
    println!("Laurel is on http://{address}");
    println!("  GraphQL   http://{address}/graphql");
    println!("  GraphiQL  http://{address}/graphiql");
    println!("  health    http://{address}/healthz  http://{address}/readyz");
    println!("  metrics   http://{address}/metrics");
    if access_token::count(db).await? == 0 {
        println!(
            "  admin token, shown this once: {}",
            access::create(db, Scope::Admin, None, None, now_ms).await?
        );
    } else {
        println!("  for an access token: laurel token create --scope admin");
    }
    Ok(())
}
