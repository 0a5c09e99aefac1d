//! The way from an accepted connection to the routes: TLS, HTTP/1.1, and what holds for every
//! request.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use engine::settings::ConnectionSettings;
use engine::settings::connections::{Hosts, Networks};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio_util::task::AbortOnDropHandle;

use super::activity::{Activity, Closing, Phase, Times};
use super::address::ClientAddress;
use super::places::Place;
use super::stream::Watched;
use super::tls::Certificates;
use super::{Stage, operations, reached};
use crate::error::{Error, ErrorCode};
use crate::http::response::{MediaType, refuse};
use crate::http::shortcut::Shortcut;
use crate::http::{Service, headers};
use crate::metrics::METRICS;

/// The buffer of a connection, in bytes, unless headers may be longer.
const BUFFER_BYTES: usize = 16 << 10;

/// A connection that was accepted.
pub struct Arrival {
    /// Its bytes.
    pub stream: TcpStream,
    /// Those that were read before.
    pub begin: Vec<u8>,
    /// The other end: the client, or a proxy.
    pub peer: IpAddr,
    /// Its place, kept while it lives.
    pub place: Place,
}

/// The way to some routes.
pub struct Door {
    router: TowerToHyperService<Router>,
    shortcut: Option<Shortcut>,
    hosts: Hosts,
    proxies: Networks,
    headers_max: usize,
    times: Times,
    http: http1::Builder,
    tls: Option<(Arc<Certificates>, Service)>,
}

/// A client at the door.
struct Visit<'d> {
    door: &'d Door,
    peer: IpAddr,
    connection: Arc<Connection>,
}

/// The facts that handlers know of a connection.
#[derive(Debug)]
pub struct Connection {
    /// Its state.
    pub activity: Arc<Activity>,
    /// How far the server has stopped.
    pub stages: watch::Receiver<Stage>,
}

/// The origin of a request, an extension of each.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The address of the client.
    pub address: ClientAddress,
    /// The connection that it came by.
    pub connection: Arc<Connection>,
}

impl Door {
    /// A way to these routes, for requests that name one of these hosts.
    pub fn new(router: Router, hosts: Hosts, settings: &ConnectionSettings) -> Self {
        let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let header_bytes = number(settings.header_bytes);
        let mut http = http1::Builder::new();
        // The time limits are those of `Activity`: hyper has one for idle connections and headers.
        http.max_header_size(header_bytes).max_buf_size(header_bytes.max(BUFFER_BYTES));
        Self {
            router: TowerToHyperService::new(router),
            shortcut: None,
            hosts,
            proxies: settings.trusted_proxies.clone().unwrap_or_default(),
            headers_max: number(settings.headers_max),
            times: Times::new(settings),
            http,
            tls: None,
        }
    }

    /// Serves one request a connection, or many.
    pub fn keep_alive(mut self, many: bool) -> Self {
        self.http.keep_alive(many);
        self
    }

    /// Has a shortcut past the routes, or none.
    pub fn with_shortcut(mut self, shortcut: Option<Shortcut>) -> Self {
        self.shortcut = shortcut;
        self
    }

    /// Speaks TLS, if there are certificates; clients pay for their handshakes at a service.
    pub fn with_tls(mut self, tls: Option<(Arc<Certificates>, Service)>) -> Self {
        self.tls = tls;
        self
    }

    /// The time limits of connections.
    pub fn times(&self) -> Times {
        self.times
    }

    /// True if an address is a trusted proxy's.
    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.proxies.contain(peer)
    }

    /// Serves a connection to its end.
    pub async fn serve(&self, arrival: Arrival, stages: watch::Receiver<Stage>) {
        let Arrival { stream, begin, peer, place } = arrival;
        let activity = place.activity().clone();
        let stream = Watched::new(stream, begin, activity.clone());
        let (last, mut is_last) = oneshot::channel();
        let watching = watch_over(activity.clone(), self.times, stages.clone(), last);
        // In a task of its own: this one wakes some times a request, and would look at each limit.
        let mut watching = AbortOnDropHandle::new(tokio::spawn(watching));
        let connection = Arc::new(Connection { activity, stages });
        let visit = Visit { door: self, peer, connection };
        tokio::select! {
            biased;
            () = visit.enter(stream, &mut is_last) => {}
            closing = &mut watching => {
                if let Ok(Some(closing)) = closing {
                    count(closing);
                }
            }
        }
    }
}

impl Visit<'_> {
    async fn enter(&self, stream: Watched<TcpStream>, is_last: &mut oneshot::Receiver<()>) {
        let Some((certificates, service)) = &self.door.tls else {
            return self.speak(stream, is_last).await;
        };
        // The connections of a proxy are those of its clients, who are not known yet.
        if !self.door.trusts(self.peer) && !service.may_shake_hands(self.peer) {
            METRICS.connections.refused_for_address.inc();
            return;
        }
        match certificates.acceptor().accept(stream).await {
            // In a box of its own, as most connections that are many are without TLS.
            Ok(stream) => Box::pin(self.speak(stream, is_last)).await,
            Err(error) => tracing::debug!(%error, "no TLS with a client"),
        }
    }

    /// Speaks HTTP/1.1. When the server stops, the request under way is the last one.
    async fn speak<S>(&self, stream: S, is_last: &mut oneshot::Receiver<()>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(move |request| self.answer(request));
        let connection = self.door.http.serve_connection(TokioIo::new(stream), service);
        // A WebSocket leaves: it has a place of its own, and times of its own.
        let mut connection = pin!(connection.with_upgrades());
        let ended = tokio::select! {
            biased;
            ended = connection.as_mut() => Some(ended),
            Ok(()) = is_last => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None if self.connection.activity.is(Phase::Headers) => return,
            None => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection broke off");
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response, Infallible> {
        let activity = &self.connection.activity;
        activity.enter(Phase::Answer);
        let mut answer = match self.refusal(&request) {
            Some(refusal) => refusal,
            None => {
                let mut request = request.map(Body::new);
                let address =
                    ClientAddress::of_request(self.peer, request.headers(), &self.door.proxies);
                headers::accept_identity(request.headers_mut());
                let caller = Caller { address, connection: self.connection.clone() };
                match self.door.shortcut.as_ref().filter(|_| Shortcut::fits(&request)) {
                    Some(shortcut) => shortcut.answer(caller, request).await,
                    None => {
                        request.extensions_mut().insert(caller);
                        self.door.router.call(request).await?
                    }
                }
            }
        };
        headers::guard(answer.headers_mut());
        if activity.ends_with_answer() && answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        activity.enter(Phase::Idle);
        Ok(answer)
    }

    /// Refuses a request with too many headers, or for a host that is not this server.
    fn refusal(&self, request: &Request<Incoming>) -> Option<Response> {
        let max = self.door.headers_max;
        if request.headers().len() > max {
            let message = format!("the request has too many headers: expected at most {max}");
            let error = Error::new(ErrorCode::LimitExceeded, message);
            let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
            return Some(refuse(MediaType::Json, status, &error));
        }
        // Probes name hosts by address, and operations tell of no board.
        if operations::has(request.uri().path())
            || headers::names_allowed_host(request, &self.door.hosts)
        {
            return None;
        }
        let error =
            Error::bad_input("invalid Host: expected one of the names in LAUREL_ALLOWED_HOSTS");
        Some(refuse(MediaType::Json, StatusCode::MISDIRECTED_REQUEST, &error))
    }
}

/// Waits until the server has a reason to close a connection; `None` if it stops. While it is
/// about to stop, the request under way is the last one.
async fn watch_over(
    activity: Arc<Activity>,
    times: Times,
    mut stages: watch::Receiver<Stage>,
    last: oneshot::Sender<()>,
) -> Option<Closing> {
    let stopped = async {
        reached(&mut stages, Stage::Ending).await;
        let _ = last.send(());
        reached(&mut stages, Stage::Ended).await;
    };
    tokio::select! {
        closing = activity.ended(times) => Some(closing),
        () = stopped => None,
    }
}

/// Counts a connection that the server closes.
pub fn count(closing: Closing) {
    let connections = &METRICS.connections;
    let counter = match closing {
        Closing::Headers => &connections.closed_for_headers,
        Closing::Idle => &connections.closed_for_idleness,
        Closing::Write => &connections.closed_for_stall,
        Closing::Room => &connections.closed_for_room,
    };
    counter.inc();
}
