//! The office at `/admin`: a page for administrators and moderators, built from `api/web`.
//!
//! Its files are the same for all, and give nothing away: all that it shows and does goes through
//! the API, by the access token that its reader enters.

use axum::Router;
use axum::extract::Path;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;
use rust_embed::Embed;

use super::{files, front};

/// The output of `npm run build` in `api/web`; empty if that has not run.
#[derive(Embed)]
#[folder = "web/dist/office"]
#[allow_missing = true]
struct Built;

/// All is of this server, but for the icon, which the page has in itself. No frame shows it: else
/// another page could lay its buttons under the pointer of a reader who has entered a token.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The addresses of the office, and its assets.
pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/admin", get(page))
        .route("/admin/{section}", get(page))
        .route("/admin/{section}/{name}", get(page))
        .route("/admin/assets/{name}", get(asset))
}

async fn page(headers: HeaderMap) -> Response {
    match Built::get("office.html.gz") {
        Some(file) => files::page(&headers, &file, POLICY),
        None => front::stand_in(),
    }
}

async fn asset(headers: HeaderMap, Path(name): Path<String>) -> Response {
    files::asset(&headers, &name, Built::get(&format!("assets/{name}.gz")), POLICY)
}
