//! `laurel serve`: what starts in which order, and stops in the other.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use engine::audit::of_command;
use engine::deployment::{Deployment, files};
use engine::process::{StopSignals, open_many_files};
use engine::settings::stores::Missing;
use engine::settings::{ConnectionSettings, RequestLimits, ServeSettings, Switch};
use entity::access_token;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep, timeout};

use super::worker::{Working, stop_in_time};
use super::{ServeArguments, connect};
use crate::access::creation::{self, NewToken};
use crate::access::jwt::Players;
use crate::app::{App, SharedApp};
use crate::background::daily_diff::Daily;
use crate::background::mirror::Mirror;
use crate::background::watch::Watch;
use crate::background::webhooks::Delivery;
use crate::background::worker::{Plan, Signals};
use crate::health::Health;
use crate::http::serving::tls::Certificates;
use crate::http::serving::{Listeners, Serving};
use crate::http::sockets::Most;
use crate::submit::committer::Committers;
use crate::traces::{Exporter, Traces};
use crate::webhook::receiver::Receivers;
use crate::{graphql, http};

/// The time that requests may take to end when the process stops.
const REQUESTS_TIMEOUT: Duration = Duration::from_secs(5);

/// The time that a start may still take once the process is to stop. The stop takes its own time.
const START_TIMEOUT: Duration = Duration::from_millis(500);

/// How long the start waits to learn which members are not public.
const VISIBILITY_WAIT: Duration = Duration::from_secs(10);

/// The time that executions may outlive their requests.
const EXECUTIONS_TIMEOUT: Duration = Duration::from_secs(1);

/// The file with the first admin token, in the data directory; its operator removes it.
const TOKEN_FILE: &str = "admin-token";

/// Serves until a signal comes, then drains requests, commits and the log. With `--no-workers` it
/// leaves the background work to others. A start that is stopped has a moment to complete, and is
/// given up then, as a store may not answer.
pub async fn serve(arguments: ServeArguments, environment: Vec<(String, OsString)>) -> Result<()> {
    let mut stop = StopSignals::catch()?;
    let mut starting = Box::pin(start(arguments, environment));
    let (started, is_stopped) = tokio::select! {
        started = &mut starting => (started, false),
        _ = stop.wait() => match timeout(START_TIMEOUT, starting).await {
            Ok(started) => (started, true),
            Err(_) => {
                tracing::warn!("stopped before the stores answered");
                return Ok(());
            }
        },
    };
    let started = started?;
    if !is_stopped {
        stop.wait().await;
    }
    started.stop().await;
    Ok(())
}

/// A server that serves.
struct Started {
    deployment: Deployment,
    /// Sends spans, if there is a collector.
    exporter: Option<Exporter>,
    health: Arc<Health>,
    watch: Watch,
    app: SharedApp,
    serving: Serving,
    /// The background work, if this process does it.
    working: Option<Working>,
}

async fn start(arguments: ServeArguments, environment: Vec<(String, OsString)>) -> Result<Started> {
    let ServeArguments { http: settings, serve, stores } = arguments;
    let ServeSettings {
        connections,
        pools,
        jwt,
        limits,
        rates,
        live,
        submissions,
        caches,
        daily_diff,
        retention: retained,
        traces,
        webhooks,
    } = serve;
    let traces = Traces::new(&traces, &stores.settings.sql.cleartext, "laurel")?;
    stores.log.start_beside("info", traces.as_ref().map(Traces::layer))?;
    open_many_files();
    // Settings are checked before anything is made.
    let connections_max = connections.connections_max()?;
    let most = Most {
        sockets: live.sockets_max(&connections)?,
        address_sockets: live.address_sockets_max,
        streams: connections_max.div_ceil(2),
        address_streams: usize::try_from(connections.address_connections_max.div_ceil(2))?,
    };
    let certificates = Certificates::load(&connections)?;
    let players = Players::load(&jwt).await?;
    let receivers = Receivers::new(&webhooks, &stores.settings.sql.cleartext)?;
    let plan = match settings.no_workers {
        true => None,
        false => {
            let delivery = Some(Delivery { receivers: receivers.clone(), settings: webhooks });
            let mirror = Mirror::new(&stores.settings.mirror, &daily_diff, &environment)?;
            let daily = Daily::new(&daily_diff, environment)?;
            Some(Plan { daily, mirror, retained, delivery })
        }
    };
    let db = connect(&stores, Missing::Create).await?;
    let listeners = listeners(settings.listen, connections.operations_listen).await?;
    warn_of_clear_text(settings.listen, &connections);
    let opening = stores.settings.open_to_serve(db, &pools).await;
    let deployment = opening.context("the stores cannot be opened")?;
    let exporter = traces.map(|traces| traces.export(&deployment.identity));
    let health = Health::start(&deployment, Duration::from_millis(pools.sql_lookup_timeout_ms));
    let signals = Arc::new(Signals::default());
    let committers = Committers::start(&deployment, &signals, submissions.submissions_bytes);
    let watch = Watch::start(&deployment);
    let working = plan.map(|plan| Working::start(&deployment, &health, &signals, plan));
    let of_app = (deployment.clone(), health.clone(), receivers);
    let open = (settings.public_reads, settings.members, settings.friendships);
    let app = App::new(of_app, committers, open, players, &pools, &submissions, &caches);
    if !app.visibilities.wait(VISIBILITY_WAIT).await {
        tracing::warn!(
            "the visibility of members is not known yet: no member's name is shown to others"
        );
    }
    let app = Arc::new(app);
    let addresses = Addresses::of(&listeners, connections.tls_cert.is_some(), &limits)?;
    let schemas = graphql::Schemas::new(&app, limits.introspection);
    let of_live = (live, most);
    let routes =
        http::routes(app.clone(), schemas, &caches, &connections, &limits, &rates, of_live);
    let serving = Serving::start(listeners, routes, certificates, &connections)?;
    addresses.announce(&deployment, &stores.settings.sql.data_dir).await?;
    Ok(Started { deployment, exporter, health, watch, app, serving, working })
}

impl Started {
    /// Waits for requests, commits and the log, then closes the stores.
    async fn stop(self) {
        let Self { deployment, exporter, health, watch, app, serving, working } = self;
        tracing::info!("stopping: waiting for requests, commits and the log");
        let ending = async {
            serving.stop(REQUESTS_TIMEOUT).await;
            drain(app).await;
            if let Some(working) = working {
                working.stop().await;
            }
        };
        stop_in_time((deployment, exporter), &health, watch, ending).await;
    }
}

async fn listeners(main: SocketAddr, operations: Option<SocketAddr>) -> Result<Listeners> {
    let main = listen("LAUREL_LISTEN", main).await?;
    let operations = match operations {
        Some(address) => Some(listen("LAUREL_OPERATIONS_LISTEN", address).await?),
        None => None,
    };
    Ok(Listeners { main, operations })
}

async fn listen(name: &str, address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        let another = SocketAddr::new(address.ip(), address.port().saturating_add(1));
        format!(
            "{name}: {address} cannot be listened on; if another server has it, perhaps one of yours, end that or set {name}={another}"
        )
    })
}

/// Warns of tokens that travel readable.
fn warn_of_clear_text(listen: SocketAddr, connections: &ConnectionSettings) {
    if !listen.ip().is_loopback() && connections.tls_cert.is_none() {
        tracing::warn!(
            "{listen} is open to other machines without TLS, so access tokens travel in clear text: set LAUREL_TLS_CERT and LAUREL_TLS_KEY, or let a proxy alone reach it"
        );
    }
}

/// Waits a moment for executions that outlive their requests, then for the submissions that the
/// committers have queued.
async fn drain(app: SharedApp) {
    let deadline = Instant::now() + EXECUTIONS_TIMEOUT;
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

/// The addresses that the start prints.
struct Addresses {
    main: String,
    /// The pages that the server has at `main`, by their names.
    pages: Vec<(&'static str, &'static str)>,
    operations: String,
}

impl Addresses {
    fn of(listeners: &Listeners, is_tls: bool, limits: &RequestLimits) -> Result<Self> {
        let scheme = if is_tls { "https" } else { "http" };
        let main = format!("{scheme}://{}", listeners.main.local_addr()?);
        let operations = match &listeners.operations {
            Some(listener) => format!("http://{}", listener.local_addr()?),
            None => main.clone(),
        };
        let pages = [
            (limits.graphiql, ("GraphiQL", "/graphiql")),
            (limits.admin_page, ("office", "/admin")),
        ];
        let pages = pages.into_iter().filter(|(switch, _)| *switch == Switch::On);
        let pages = pages.map(|(_, page)| page).collect();
        Ok(Self { main, pages, operations })
    }

    /// Prints them. If there is no token yet, makes an admin token; and prints it on a terminal,
    /// but else writes it to a file of this user alone, as the output may go to a journal.
    async fn announce(&self, deployment: &Deployment, data_dir: &Path) -> Result<()> {
        let Self { main, pages, operations } = self;
        let lines = pages.iter().map(|(name, path)| format!("  {name:<9} {main}{path}\n"));
        let pages: String = lines.collect();
        let (db, now_ms) = (&deployment.db, deployment.clock.now_ms());
        let how = if access_token::count(db).await? > 0 {
            // By its path, if it was started by one: it may not be on the user's.
            let program = std::env::args().next().unwrap_or_else(|| "laurel".to_owned());
            format!("for an access token: {program} token create --scope admin")
        } else {
            let act = of_command("laurel serve", &deployment.clock);
            let (_, token) = creation::create(db, NewToken::admin(), now_ms, act).await?;
            if std::io::stdout().is_terminal() {
                format!("admin token, shown this once: {token}")
            } else {
                let file = data_dir.join(TOKEN_FILE);
                files::write_private(&file, &format!("{token}\n")).with_context(|| {
                    let file = file.display();
                    format!("{file} cannot be written: expected a place for the admin token")
                })?;
                format!("admin token, in a file: {}", file.display())
            }
        };
        let text = format!(
            "Laurel is on {main}
  GraphQL   {main}/graphql
{pages}  health    {operations}/healthz  {operations}/readyz
  metrics   {operations}/metrics
  {how}
"
        );
        // A server goes on where the reader of its output is gone.
        if let Err(error) = std::io::stdout().lock().write_all(text.as_bytes()) {
            tracing::warn!(%error, "the addresses of the server could not be printed");
        }
        Ok(())
    }
}
