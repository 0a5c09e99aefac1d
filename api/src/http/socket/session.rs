//! A WebSocket: what passes between its client and async-graphql, and when it ends.
//!
//! ```text
//! client ──> session ──> GraphQLWebSocket ──> operations
//!        <──         <──                  <──
//! ```
//!
//! Both ways to async-graphql hold a message or two, and an answer is written before the next one
//! is asked for. So a client that takes nothing stops its own answers, and memory stays as it is.

use std::collections::HashMap;
use std::future::pending;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_graphql_axum::{GraphQLProtocol, GraphQLWebSocket};
use axum::extract::ws::{CloseFrame, Message, WebSocket};
use futures::StreamExt;
use futures::channel::mpsc;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::close::Close;
use super::entering::Entering;
use super::executor::{Executor, Login};
use super::message::{Received, Sent, error};
use crate::error::{Error, ErrorCode};
use crate::http::execution::request_points;
use crate::http::rates::{Account, Client};
use crate::http::response::server_error;
use crate::http::serving::{Stage, reached};
use crate::http::sockets::Place;
use crate::http::{Service, login};
use crate::metrics::METRICS;

/// The messages of a client that may wait for async-graphql, which reads all of them at once.
const MESSAGES_WAITING_MAX: usize = 64;

/// How long the other end may take to close, too.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a client that takes nothing may still take to learn why it is closed.
const SLOW_GOODBYE_TIMEOUT: Duration = Duration::from_secs(5);

/// A WebSocket that was accepted.
pub struct Session {
    service: Service,
    address: IpAddr,
    /// The token of the upgrade's header.
    token: Option<String>,
    stages: watch::Receiver<Stage>,
    _place: Place,
}

/// The state of a session.
struct Talk {
    service: Service,
    address: IpAddr,
    stages: watch::Receiver<Stage>,
    /// Set by a log-in; the error of one that failed.
    login: Arc<Mutex<Option<Result<Login, ErrorCode>>>>,
    to_graphql: mpsc::Sender<Result<Message, axum::Error>>,
    has_begun: bool,
    is_acknowledged: bool,
    /// The operations that async-graphql has, by the ids of the client.
    operations: HashMap<String, Operation>,
    began: Instant,
    heard: Instant,
    pinged: Option<Instant>,
    check_at: Option<Instant>,
}

/// An operation of a socket.
enum Operation {
    UnderWay,
    /// The client has ended it, or was told an error, and async-graphql is not done with it. The id
    /// is free, so the next operation by that id waits here.
    Ending(Option<Message>),
}

type Step = Result<(), End>;

/// The end of a session.
enum End {
    /// By the client, or by the network.
    Gone,
    /// By the server.
    Closed(Close),
}

impl Session {
    /// A session for a client at an address, who holds a place.
    pub fn new(
        service: Service,
        address: IpAddr,
        token: Option<String>,
        stages: watch::Receiver<Stage>,
        place: Place,
    ) -> Self {
        Self { service, address, token, stages, _place: place }
    }

    /// Serves the socket to its end.
    pub async fn serve(self, mut socket: WebSocket, protocol: GraphQLProtocol) {
        METRICS.live.websockets.inc();
        let end = self.talk(&mut socket, protocol).await;
        if let End::Closed(close) = end {
            METRICS.live.count_closed(close);
            say_goodbye(socket, close).await;
        }
        METRICS.live.websockets.dec();
    }

    async fn talk(&self, socket: &mut WebSocket, protocol: GraphQLProtocol) -> End {
        let (to_graphql, from_client) = mpsc::channel(MESSAGES_WAITING_MAX);
        let (to_client, mut from_graphql) = mpsc::channel(0);
        let logged_in = Arc::new(Mutex::new(None));
        let executor = Executor { service: self.service.clone() };
        let entering = Entering {
            service: self.service.clone(),
            address: self.address,
            token: self.token.clone(),
            login: logged_in.clone(),
        };
        let graphql = GraphQLWebSocket::new_with_pair(to_client, from_client, executor, protocol);
        let graphql = graphql.on_connection_init(move |payload| entering.enter(payload));
        let mut graphql = pin!(graphql.serve());
        let now = Instant::now();
        let mut talk = Talk {
            service: self.service.clone(),
            address: self.address,
            stages: self.stages.clone(),
            login: logged_in,
            to_graphql,
            has_begun: false,
            is_acknowledged: false,
            operations: HashMap::new(),
            began: now,
            heard: now,
            pinged: None,
            check_at: None,
        };
        loop {
            let (mut stages, mut login) = (talk.stages.clone(), talk.login());
            let step = tokio::select! {
                biased;
                () = reached(&mut stages, Stage::Ending) => Err(End::Closed(Close::Stop)),
                () = revoked(&mut login, &self.service) => Err(End::Closed(Close::Token)),
                Some(message) = from_graphql.next() => talk.send(socket, message).await,
                () = &mut graphql => Err(End::Gone),
                message = socket.recv() => talk.receive(socket, message).await,
                () = sleep_until(talk.due()) => talk.look_at_time(socket).await,
            };
            if let Err(end) = step {
                return end;
            }
        }
    }
}

impl Talk {
    /// Passes a message of the client on, if it is in order.
    async fn receive(
        &mut self,
        socket: &mut WebSocket,
        message: Option<Result<Message, axum::Error>>,
    ) -> Step {
        self.heard = Instant::now();
        self.pinged = None;
        let text = match message {
            Some(Ok(Message::Text(text))) => text,
            // The library answers pings.
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => return self.pay(0),
            Some(Ok(Message::Binary(_))) => return Err(End::Closed(Close::Message)),
            Some(Ok(Message::Close(_))) | None => return Err(End::Gone),
            Some(Err(error)) if is_too_long(&error) => return Err(End::Closed(Close::TooLong)),
            Some(Err(_)) => return Err(End::Gone),
        };
        // Whatever it turns out to be: to read it takes the time.
        let paid = self.pay(text.len());
        if paid.is_err() {
            self.account().read_more(request_points(text.len()));
        }
        let received = Received::read(text.as_str()).ok_or(End::Closed(Close::Message))?;
        match &received {
            Received::ConnectionInit if std::mem::replace(&mut self.has_begun, true) => {
                return Err(End::Closed(Close::TooMany));
            }
            Received::Subscribe { id } => {
                // One that cannot be paid for is refused with the time to wait.
                return self.subscribe(socket, id.clone(), Message::Text(text)).await;
            }
            Received::Complete { .. } if !self.is_acknowledged => {
                return Err(End::Closed(Close::Early));
            }
            _ => paid?,
        }
        if let Received::Complete { id } = &received
            && let Some(operation) = self.operations.get_mut(id)
            && let Operation::Ending(_) = std::mem::replace(operation, Operation::Ending(None))
        {
            return Ok(());
        }
        self.pass(Message::Text(text))
    }

    async fn subscribe(&mut self, socket: &mut WebSocket, id: String, message: Message) -> Step {
        if !self.is_acknowledged {
            return Err(End::Closed(Close::Early));
        }
        let max = self.service.live.socket_subscriptions_max as usize;
        let open =
            self.operations.values().filter(|of| !matches!(of, Operation::Ending(None))).count();
        match self.operations.get_mut(&id) {
            Some(Operation::Ending(next @ None)) if open < max => {
                *next = Some(message);
                return Ok(());
            }
            None if open < max => {
                self.operations.insert(id, Operation::UnderWay);
                return self.pass(message);
            }
            None | Some(Operation::Ending(None)) => {}
            Some(_) => return Err(End::Closed(Close::Duplicate)),
        }
        let text = format!("this socket has too many operations under way: expected at most {max}");
        let refusal = server_error(Error::limit_exceeded(text));
        METRICS.count_error(ErrorCode::LimitExceeded.name());
        let errors = serde_json::json!([refusal]).to_string();
        self.write(socket, Message::Text(error(&id, &errors).into())).await
    }

    /// Hands a message to async-graphql.
    fn pass(&mut self, message: Message) -> Step {
        self.to_graphql.try_send(Ok(message)).map_err(|_| End::Closed(Close::TooMany))
    }

    /// Takes the points of a message from the rate of the client.
    fn pay(&self, bytes: usize) -> Step {
        let paid = self.account().read(request_points(bytes));
        paid.map(|_| ()).map_err(|_| End::Closed(Close::TooMany))
    }

    fn account(&self) -> Arc<Account> {
        self.service.rates.account(&self.client())
    }

    fn client(&self) -> Client {
        let login = self.login();
        let principal = login.as_ref().and_then(|login| login.principal.as_deref());
        login::client(principal, self.address)
    }

    fn login(&self) -> Option<Login> {
        let login = self.login.lock().unwrap_or_else(PoisonError::into_inner);
        login.as_ref().and_then(|login| login.as_ref().ok().cloned())
    }

    /// Sends a message of async-graphql to the client, as the protocol has it.
    async fn send(&mut self, socket: &mut WebSocket, message: Message) -> Step {
        let text = match message {
            Message::Text(text) => text,
            // It closes only where a log-in failed; the session sees to all else.
            _ => return Err(End::Closed(self.failure())),
        };
        let replaced = match Sent::read(text.as_str()) {
            Sent::ConnectionAck => {
                self.is_acknowledged = true;
                self.check_at = self.next_check();
                None
            }
            Sent::Next { id } | Sent::Refusal { id, .. } if self.is_ending(&id) => return Ok(()),
            Sent::Refusal { id, errors } => {
                let refusal = error(&id, &errors);
                if let Some(operation) = self.operations.get_mut(&*id) {
                    *operation = Operation::Ending(None);
                }
                Some(refusal)
            }
            Sent::Complete { id } => match self.operations.remove(&*id) {
                Some(Operation::Ending(Some(next))) => {
                    self.operations.insert(id.into_owned(), Operation::UnderWay);
                    return self.pass(next);
                }
                Some(Operation::Ending(None)) => return Ok(()),
                _ => None,
            },
            Sent::Next { .. } | Sent::Other => None,
        };
        let text = replaced.map_or(text, Into::into);
        self.write(socket, Message::Text(text)).await
    }

    /// True if the client waits for no more of an operation.
    fn is_ending(&self, id: &str) -> bool {
        matches!(self.operations.get(id), Some(Operation::Ending(_)))
    }

    fn failure(&self) -> Close {
        let login = self.login.lock().unwrap_or_else(PoisonError::into_inner);
        match *login {
            Some(Err(code)) if code.is_of_token() => Close::Token,
            Some(Err(_)) => Close::Busy,
            _ => Close::Message,
        }
    }

    /// Writes to the client, which must take something within its time.
    async fn write(&mut self, socket: &mut WebSocket, message: Message) -> Step {
        let mut login = self.login();
        tokio::select! {
            biased;
            () = revoked(&mut login, &self.service) => Err(End::Closed(Close::Token)),
            sent = socket.send(message) => sent.map_err(|_| End::Gone),
            () = sleep(self.service.write_timeout) => Err(End::Closed(Close::Slow)),
            () = reached(&mut self.stages, Stage::Ending) => Err(End::Closed(Close::Stop)),
        }
    }

    /// When there is something to do that no message tells of.
    fn due(&self) -> Instant {
        let live = &self.service.live;
        let end = self.began + live.lifetime();
        let init = (!self.has_begun).then(|| self.began + live.init_timeout());
        let ping = self.pinged.unwrap_or(self.heard) + live.ping_interval();
        let others = [init, self.check_at, Some(ping)];
        others.into_iter().flatten().fold(end, Instant::min)
    }

    async fn look_at_time(&mut self, socket: &mut WebSocket) -> Step {
        let (now, live) = (Instant::now(), &self.service.live);
        if now >= self.began + live.lifetime() {
            return Err(End::Closed(Close::Lifetime));
        }
        if !self.has_begun && now >= self.began + live.init_timeout() {
            return Err(End::Closed(Close::InitTimeout));
        }
        if self.check_at.is_some_and(|at| now >= at) {
            self.check_token().await?;
        }
        match self.pinged {
            Some(at) if now >= at + self.service.live.ping_interval() => {
                return Err(End::Closed(Close::Silent));
            }
            None if now >= self.heard + self.service.live.ping_interval() => {
                self.pinged = Some(now);
                return self.write(socket, Message::Ping(vec![].into())).await;
            }
            _ => {}
        }
        Ok(())
    }

    /// When the token is looked at again; `None` without one.
    fn next_check(&self) -> Option<Instant> {
        let now_ms = self.service.app.deployment.clock.now_ms();
        self.login().and_then(|login| login.next_check(now_ms))
    }

    async fn check_token(&mut self) -> Step {
        if let Some(login) = self.login()
            && !login.is_still_good(&self.service, self.address).await
        {
            return Err(End::Closed(Close::Token));
        }
        self.check_at = self.next_check();
        Ok(())
    }
}

/// Waits until the token of a client is revoked.
async fn revoked(login: &mut Option<Login>, service: &Service) {
    match login {
        Some(login) => login.revoked(service).await,
        None => pending().await,
    }
}

fn is_too_long(error: &axum::Error) -> bool {
    error.to_string().contains("too long")
}

/// Closes a socket, and waits a moment for the other end to do so.
async fn say_goodbye(mut socket: WebSocket, close: Close) {
    let frame = CloseFrame { code: close.code(), reason: close.reason().into() };
    let patience = if close == Close::Slow { SLOW_GOODBYE_TIMEOUT } else { GOODBYE_TIMEOUT };
    let closing = async {
        if socket.send(Message::Close(Some(frame))).await.is_ok() {
            while let Some(Ok(_)) = socket.recv().await {}
        }
    };
    let _ = timeout(patience, closing).await;
}
