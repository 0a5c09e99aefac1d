//! The shortcut to `/graphql` by POST, the way of most requests: past the router, which looks for
//! the route of each request and hands it through boxes.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{Method, header};
use axum::response::Response;
use futures::FutureExt;
use tower::{Layer, ServiceExt, service_fn};

use super::serving::door::Caller;
use super::{Service, headers, query_by_post};

/// The shortcut.
pub struct Shortcut(Service);

impl Shortcut {
    /// The shortcut to a service.
    pub fn new(service: Service) -> Self {
        Self(service)
    }

    /// True if a request may take it.
    pub fn fits<B>(request: &Request<B>) -> bool {
        request.method() == Method::POST && request.uri().path() == "/graphql"
    }

    /// Answers a request as its route would. Where the compressor has nothing to do, its `Vary` is
    /// left out: no cache keeps an answer to POST.
    pub async fn answer(&self, caller: Caller, request: Request) -> Response {
        let answer = |request: Request| {
            Box::pin(query_by_post(State(self.0.clone()), Extension(caller.clone()), request))
        };
        if !request.headers().contains_key(header::ACCEPT_ENCODING) {
            return answer(request).await;
        }
        let plain = service_fn(|request| answer(request).map(Ok::<_, Infallible>));
        let Ok(answer) = headers::compression().layer(plain).oneshot(request).await;
        answer.map(Body::new)
    }
}
