//! GraphiQL: a page and its assets, built from `api/web` and embedded in this program.
//!
//! npm provides GraphiQL, so the repository holds none of it. A program compiled without it serves
//! a page that says how to build it.

use axum::Router;
use axum::extract::Path;
use axum::http::HeaderMap;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use rust_embed::Embed;

use super::files;

/// The output of `npm run build` in `api/web`; empty if that has not run.
#[derive(Embed)]
#[folder = "web/dist/graphiql"]
#[allow_missing = true]
struct Built;

/// Allows scripts, workers and requests of this server only. Monaco and React style elements by
/// attributes, hence the one `unsafe-inline`.
const POLICY: &str = "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self' 'unsafe-inline'; \
    font-src 'self' data:; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// `/graphiql` and its assets.
pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route("/graphiql", get(page)).route("/graphiql/assets/{name}", get(asset))
}

async fn page(headers: HeaderMap) -> Response {
    match Built::get("index.html.gz") {
        Some(file) => files::page(&headers, &file, POLICY),
        None => (files::guards(POLICY), Html(include_str!("graphiql.html"))).into_response(),
    }
}

async fn asset(headers: HeaderMap, Path(name): Path<String>) -> Response {
    files::asset(&headers, &name, Built::get(&format!("assets/{name}.gz")), POLICY)
}
