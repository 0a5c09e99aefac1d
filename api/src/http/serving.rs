//! Serving: connections are accepted, held to their limits, and ended.
//!
//! A thread of its own accepts connections, and answers `/healthz`, `/readyz` and `/metrics`. It
//! reads the first bytes of each connection, and gives the others to the main runtime. So health is
//! known however busy that is, and requests of a connection that lives on cross no thread. A
//! connection that speaks TLS goes to the main runtime at once; for probes of such a server there
//! is the address of operations.
//!
//! | module | has |
//! |---|---|
//! | [`activity`] | the state of a connection, and its time limits |
//! | [`address`] | the client's address, also behind proxies |
//! | [`body`] | bodies, and their limits |
//! | [`door`] | the way from an accepted connection to the routes |
//! | [`operations`] | health and metrics |
//! | [`places`] | the number of connections |
//! | [`stream`] | the bytes of a connection |
//! | [`tls`] | certificates |

pub mod activity;
pub mod address;
pub mod body;
pub mod door;
pub mod operations;
mod places;
mod stream;
pub mod tls;

use std::io::ErrorKind;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use engine::settings::ConnectionSettings;
use engine::settings::connections::Hosts;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, timeout};

use super::shortcut::Shortcut;
use crate::metrics::METRICS;
use address::ClientAddress;
use door::{Arrival, Door, count};
use places::{Full, Places};
use tls::Certificates;

/// The most connections at the address of operations.
const OPERATIONS_CONNECTIONS_MAX: usize = 64;

/// How long the server pauses after the system could not give it a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often that is logged.
const ACCEPT_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// How long connections may take to end once they are cut off.
const CUT_TIMEOUT: Duration = Duration::from_secs(1);

/// How far the server has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It serves.
    Open,
    /// It accepts no connections; requests under way go on.
    Ending,
    /// Requests under way are cut off.
    Ended,
}

/// The listeners of the server.
pub struct Listeners {
    /// The one for GraphQL.
    pub main: TcpListener,
    /// The one for operations; without it the main one serves them, too.
    pub operations: Option<TcpListener>,
}

/// The routes of the server.
pub struct Routes {
    /// Those of the main listener.
    pub main: Router,
    /// A way past them.
    pub shortcut: Option<Shortcut>,
    /// Those of operations.
    pub operations: Router,
    /// The service, at which clients pay for TLS handshakes.
    pub service: super::Service,
}

/// A server that runs.
pub struct Serving {
    stage: watch::Sender<Stage>,
    thread: JoinHandle<()>,
    /// Dropped to end the thread.
    running: oneshot::Sender<()>,
}

/// The connections of a listener, and where they go.
struct Entrance {
    places: Arc<Places>,
    /// The way into the main runtime; `None` at the address of operations.
    main: Option<(Arc<Door>, Handle)>,
    /// The way to operations; `None` if the main routes have them.
    operations: Option<Arc<Door>>,
}

impl Serving {
    /// Serves from here on. Requests are answered on the runtime of the caller.
    ///
    /// # Errors
    /// Settings that do not hold; the system's, if it has no room for another thread.
    pub fn start(
        listeners: Listeners,
        routes: Routes,
        certificates: Option<Arc<Certificates>>,
        settings: &ConnectionSettings,
    ) -> Result<Self> {
        if let Some(certificates) = &certificates {
            certificates.follow()?;
        }
        let max = settings.connections_max()?;
        let address_max = usize::try_from(settings.address_connections_max)?;
        let hosts = settings.hosts(listeners.main.local_addr()?);
        let has_own_address = listeners.operations.is_some();
        // One request a connection: the next one may be for GraphQL.
        let sorts = !has_own_address && certificates.is_none();
        // A probe of another machine names the address of this one, whatever names are allowed.
        let of_operations = match &hosts {
            Hosts::Loopback if !has_own_address => Hosts::Loopback,
            _ => Hosts::Any,
        };
        let of_operations =
            Arc::new(Door::new(routes.operations, of_operations, settings).keep_alive(!sorts));
        let door = Door::new(routes.main, hosts, settings);
        let tls = certificates.map(|certificates| (certificates, routes.service));
        let door = door.with_shortcut(routes.shortcut).with_tls(tls);
        let entrance = Entrance {
            places: Places::new(max, address_max),
            main: Some((Arc::new(door), Handle::current())),
            operations: sorts.then(|| of_operations.clone()),
        };
        let mut entrances = vec![(listeners.main.into_std()?, Arc::new(entrance))];
        if let Some(listener) = listeners.operations {
            // One address leaves places for probes from others.
            let of_address = OPERATIONS_CONNECTIONS_MAX / 2;
            let places = Places::new(OPERATIONS_CONNECTIONS_MAX, of_address);
            let entrance = Entrance { places, main: None, operations: Some(of_operations) };
            entrances.push((listener.into_std()?, Arc::new(entrance)));
        }
        let (stage, stages) = watch::channel(Stage::Open);
        let (running, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("a thread cannot be started")?;
        let serve = async move {
            for (listener, entrance) in entrances {
                match TcpListener::from_std(listener) {
                    Ok(listener) => {
                        tokio::spawn(accept(listener, entrance, stages.clone()));
                    }
                    Err(error) => tracing::error!(%error, "an address cannot be listened on"),
                }
            }
            drop(stages);
            let _ = stopped.await;
        };
        let thread = std::thread::Builder::new()
            .name("operations".to_owned())
            .spawn(move || runtime.block_on(serve))
            .context("a thread cannot be started")?;
        Ok(Self { stage, thread, running })
    }

    /// Accepts no more connections, waits for requests under way, and cuts them off after the
    /// grace.
    pub async fn stop(self, grace: Duration) {
        self.stage.send_replace(Stage::Ending);
        if timeout(grace, self.stage.closed()).await.is_err() {
            tracing::warn!("stopping: some requests did not end in time and are cut off");
            self.stage.send_replace(Stage::Ended);
            let _ = timeout(CUT_TIMEOUT, self.stage.closed()).await;
        }
        drop(self.running);
        if self.thread.join().is_err() {
            tracing::error!("the thread of operations ended badly");
        }
    }
}

/// Waits until the server has come to a stage.
pub async fn reached(stages: &mut watch::Receiver<Stage>, stage: Stage) {
    let _ = stages.wait_for(|now| *now >= stage).await;
}

/// Accepts connections until the server stops.
async fn accept(
    listener: TcpListener,
    entrance: Arc<Entrance>,
    mut stages: watch::Receiver<Stage>,
) {
    let mut trouble = Trouble::default();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = reached(&mut stages, Stage::Ending) => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                let peer = peer.ip();
                let of_stages = stages.clone();
                tokio::select! {
                    () = entrance.admit(stream, peer, of_stages) => {}
                    () = reached(&mut stages, Stage::Ending) => return,
                }
            }
            // The client went before it was accepted.
            Err(error) if is_of_client(error.kind()) => {}
            Err(error) => {
                METRICS.connections.refused_by_system.inc();
                trouble.log(&error);
                entrance.places.make_room();
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn is_of_client(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset
    )
}

/// Connections that the system could not give, logged now and then.
#[derive(Debug, Default)]
struct Trouble {
    logged: Option<Instant>,
    unlogged: u64,
}

impl Trouble {
    fn log(&mut self, error: &std::io::Error) {
        self.unlogged += 1;
        if self.logged.is_none_or(|at| at.elapsed() >= ACCEPT_LOG_INTERVAL) {
            let times = std::mem::take(&mut self.unlogged);
            tracing::error!(%error, times, "connections cannot be accepted");
            self.logged = Some(Instant::now());
        }
    }
}

impl Entrance {
    /// Lets a connection in, once there is a place for it. A connection beyond the limit of its
    /// address is closed.
    async fn admit(
        &self,
        stream: TcpStream,
        peer: std::net::IpAddr,
        stages: watch::Receiver<Stage>,
    ) {
        let is_proxy = self.main.as_ref().is_some_and(|(door, _)| door.trusts(peer));
        let place = loop {
            match self.places.take(ClientAddress::of(peer), is_proxy) {
                Ok(place) => break place,
                Err(Full::Address) => {
                    METRICS.connections.refused_for_address.inc();
                    return;
                }
                Err(Full::All) => {
                    self.places.make_room();
                    self.places.freed().await;
                }
            }
        };
        let _ = stream.set_nodelay(true);
        let arrival = Arrival { stream, begin: vec![], peer, place };
        match (&self.main, &self.operations) {
            (Some((door, main)), Some(operations)) => {
                let (door, main, operations) = (door.clone(), main.clone(), operations.clone());
                tokio::spawn(sort(arrival, door, main, operations, stages));
            }
            (Some((door, main)), None) => give(arrival, door.clone(), main, stages),
            (None, Some(operations)) => {
                let operations = operations.clone();
                tokio::spawn(async move { operations.serve(arrival, stages).await });
            }
            (None, None) => {}
        }
    }
}

/// Reads the first bytes of a connection, and gives it to operations or to the main runtime.
async fn sort(
    mut arrival: Arrival,
    door: Arc<Door>,
    main: Handle,
    operations: Arc<Door>,
    mut stages: watch::Receiver<Stage>,
) {
    let activity = arrival.place.activity().clone();
    let begin = tokio::select! {
        begin = operations::read_begin(&mut arrival.stream) => begin,
        closing = activity.ended(door.times()) => return count(closing),
        () = reached(&mut stages, Stage::Ending) => return,
    };
    match begin {
        Ok((begin, true)) => operations.serve(Arrival { begin, ..arrival }, stages).await,
        Ok((begin, false)) if !begin.is_empty() => {
            give(Arrival { begin, ..arrival }, door, &main, stages);
        }
        Ok(_) => {}
        Err(error) => tracing::debug!(%error, "a connection broke off"),
    }
}

/// Gives a connection to the main runtime.
fn give(arrival: Arrival, door: Arc<Door>, main: &Handle, stages: watch::Receiver<Stage>) {
    let Arrival { stream, begin, peer, place } = arrival;
    // A stream belongs to the runtime in which it was made.
    let Ok(stream) = stream.into_std() else { return };
    main.spawn(async move {
        match TcpStream::from_std(stream) {
            Ok(stream) => door.serve(Arrival { stream, begin, peer, place }, stages).await,
            Err(error) => tracing::debug!(%error, "a connection broke off"),
        }
    });
}
