//! Event streams: an operation's answers as server-sent events, in the mode of distinct connections
//! of npm's graphql-sse. Each answer is an event `next`; the event `complete` ends them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response as HttpResponse};
use futures::StreamExt;
use futures::stream::{BoxStream, unfold};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::execution::{limited, refuse_login, request_points};
use super::operation::{Update, answers};
use super::parameters::Parameters;
use super::response::preference::Preference;
use super::response::{MediaType, refuse, server_error};
use super::serving::activity::{Activity, Phase};
use super::serving::door::Caller;
use super::serving::{Stage, reached};
use super::socket::executor::Login;
use super::socket::no_place;
use super::sockets::Place;
use super::{Service, login};
use crate::error::{Error, Result};
use crate::metrics::METRICS;

/// The media type.
const MEDIA_TYPE: &str = "text/event-stream";

/// A comment, which keeps proxies from closing a silent stream.
const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// The last event. An event without data would not reach an EventSource; this one has a line of
/// none.
const COMPLETE: Bytes = Bytes::from_static(b"event: complete\ndata:\n\n");

/// All of a request for events but its parameters.
pub struct Asked<'a> {
    /// The client, and its connection.
    pub caller: &'a Caller,
    /// The bytes of its parameters.
    pub bytes: usize,
    /// The headers.
    pub headers: HeaderMap,
}

/// A stream under way.
struct Events {
    service: Service,
    answers: BoxStream<'static, Arc<Update>>,
    login: Login,
    address: IpAddr,
    stages: watch::Receiver<Stage>,
    activity: Arc<Activity>,
    ends_at: Instant,
    check_at: Option<Instant>,
    comment_every: Duration,
    is_over: bool,
    _place: Place,
}

/// True if a request asks for events rather than for one answer: it names them, and names JSON with
/// less weight or not at all. Some clients, such as urql, name both in every request.
pub fn are_asked_for(headers: &HeaderMap) -> bool {
    let Some(preference) = Preference::of(headers, header::ACCEPT) else {
        return false;
    };
    let weight = |wanted| preference.welcomes(wanted).filter(|one| one.named).map(|one| one.weight);
    let json = MediaType::NAMES.into_iter().filter_map(weight).fold(0.0, f32::max);
    weight(MEDIA_TYPE).is_some_and(|events| events > json)
}

/// Answers a request by events. Where the request itself is wrong, the answer has a status that
/// says so; where its document is, the first event does, as an EventSource reads nothing else.
pub async fn answer(
    service: Service,
    asked: Asked<'_>,
    parse: impl FnOnce() -> Result<Parameters>,
) -> HttpResponse {
    match begin(service, asked, parse).await {
        Ok(answer) | Err(answer) => answer,
    }
}

async fn begin(
    service: Service,
    asked: Asked<'_>,
    parse: impl FnOnce() -> Result<Parameters>,
) -> Result<HttpResponse, HttpResponse> {
    let Asked { caller: Caller { address, connection }, bytes, headers } = asked;
    let (place, address) = (*address, address.0);
    let refused = |error: &Error| refuse_login(MediaType::Json, error);
    let token = login::token_of(&headers).map_err(|error| refused(&error))?;
    let login = Login::of_token(&service, address, token).await.map_err(|error| refused(&error))?;
    let client = login::client(login.principal.as_deref(), address);
    let paid = service.rates.account(&client).read(request_points(bytes));
    paid.map_err(|wait| limited(MediaType::Json, wait))?;
    let parameters = parse();
    let parameters =
        parameters.map_err(|error| refuse(MediaType::Json, StatusCode::BAD_REQUEST, &error))?;
    let place = service.sockets.take_stream(place);
    let _place = place.map_err(|error| no_place(&error))?;
    let principal = login.principal.clone();
    // Its bytes are paid for.
    let answers = answers(service.clone(), client, principal, Ok(parameters), 0);
    METRICS.live.event_streams.inc();
    let now_ms = service.app.deployment.clock.now_ms();
    let events = Events {
        ends_at: Instant::now() + service.live.lifetime(),
        comment_every: service.live.ping_interval(),
        check_at: login.next_check(now_ms),
        service,
        answers,
        login,
        address,
        stages: connection.stages.clone(),
        activity: connection.activity.clone(),
        is_over: false,
        _place,
    };
    let body =
        Body::from_stream(unfold(events, Events::next).map(Ok::<_, std::convert::Infallible>));
    let headers = [(header::CONTENT_TYPE, MEDIA_TYPE), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, body).into_response())
}

impl Events {
    /// The next bytes of the stream.
    async fn next(mut self) -> Option<(Bytes, Self)> {
        if self.is_over {
            return None;
        }
        // The stream has times of its own; a client that takes nothing is closed all the same.
        self.activity.enter(Phase::Answer);
        let mut comment_at = Instant::now() + self.comment_every;
        loop {
            let due = self.check_at.map_or(self.ends_at, |at| at.min(self.ends_at));
            tokio::select! {
                biased;
                () = reached(&mut self.stages, Stage::Ending) => return None,
                () = self.activity.last_answer() => return None,
                () = self.login.revoked(&self.service) => {
                    self.is_over = true;
                    return Some((expired(), self));
                }
                // Before the answers, which a slow reader may find ready each time.
                () = sleep_until(due) => {
                    if Instant::now() >= self.ends_at {
                        return None;
                    }
                    if !self.login.is_still_good(&self.service, self.address).await {
                        self.is_over = true;
                        return Some((expired(), self));
                    }
                    let now_ms = self.service.app.deployment.clock.now_ms();
                    self.check_at = self.login.next_check(now_ms);
                }
                update = self.answers.next() => {
                    self.is_over = update.is_none();
                    let event = update.map_or(COMPLETE, |update| next(&update.json));
                    return Some((event, self));
                }
                () = sleep_until(comment_at) => {
                    comment_at += self.comment_every;
                    return Some((COMMENT, self));
                }
            }
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // The connection waits for its next request.
        self.activity.enter(Phase::Idle);
        METRICS.live.event_streams.dec();
    }
}

/// The event of an answer.
fn next(json: &[u8]) -> Bytes {
    [b"event: next\ndata: ", json, b"\n\n"].concat().into()
}

/// The last two events of a client whose token is not good any more.
fn expired() -> Bytes {
    let error = Error::unauthenticated("this access token is unknown, revoked or expired");
    let refusal = Update::refusal(vec![server_error(error)]);
    [&next(&refusal.json)[..], &COMPLETE].concat().into()
}
