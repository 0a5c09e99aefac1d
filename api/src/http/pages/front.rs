//! The page for people, at `/`, and its lists for frames in other pages, at `/embed/BOARD`.
//!
//! npm builds it from `api/web`. A program compiled without it serves a page that says so. The
//! server writes the head of each answer: a title and a preview, by which programs show a link to
//! it, and the settings that the page follows.

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use engine::settings::connections::{ImageHosts, Origins};
use engine::settings::{ConnectionSettings, Switch};
use rust_embed::Embed;

use super::files;
use super::preview::{self, Chosen, Preview, escaped};
use crate::http::Service;
use crate::http::serving::door::Caller;

/// The output of `npm run build` in `api/web`; empty if that has not run.
#[derive(Embed)]
#[folder = "web/dist/page"]
#[allow_missing = true]
struct Built;

/// The title in the page as it is built, in whose place the head goes.
const TITLE: &str = "<title>Laurel</title>";

/// The policy of the page without its pictures and its frames: all else is of this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'";

/// The policy of its assets.
const ASSET_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The policy of the page that stands in for one that was not built: it has a style, no script.
const STAND_IN_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The shape in which the page is shown.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// With all its parts, in no frame.
    Page,
    /// A list alone, which a frame may have.
    Frame,
}

/// The page, and the settings that it follows.
pub struct Front {
    /// The text before the head and after it; `None` if the page was not built.
    built: Option<(String, String)>,
    /// The settings, as elements of the head.
    settings: String,
    /// The policy of the page.
    policy: HeaderValue,
    /// The policy of a list in a frame.
    embed_policy: HeaderValue,
    images: ImageHosts,
}

impl Front {
    /// Reads the page that is embedded.
    pub fn new(connections: &ConnectionSettings, graphiql: Switch) -> Self {
        let built = Built::get("index.html.gz").map(|file| {
            let page = String::from_utf8(files::inflate(&file.data)).expect("the page is UTF-8");
            let (before, after) = page.split_once(TITLE).expect("the page has its title");
            (before.to_owned(), after.to_owned())
        });
        let images = connections.image_hosts.clone().unwrap_or_default();
        let off = [
            ("graphiql", graphiql == Switch::On),
            ("health", connections.operations_listen.is_none()),
            ("embed", connections.embed_origins.is_some()),
        ];
        let off = off.into_iter().filter(|(_, is_on)| !is_on);
        let mut settings: String = off.map(|(name, _)| setting(name, "off")).collect();
        settings.push_str(&setting("image-hosts", &images.spaced()));
        let pictures = format!("{POLICY}; img-src 'self' data: {}", images.spaced());
        let framed_by = |ancestors: &str| {
            let policy = format!("{}; frame-ancestors {ancestors}", pictures.trim_end());
            HeaderValue::from_str(&policy).expect("settings are visible ASCII")
        };
        let embed_policy = match &connections.embed_origins {
            None => framed_by("'none'"),
            Some(Origins::Any) => framed_by("*"),
            Some(Origins::Named(origins)) => framed_by(&origins.join(" ")),
        };
        Self { built, settings, policy: framed_by("'none'"), embed_policy, images }
    }

    fn answer(&self, preview: &Preview, shape: Shape) -> Response {
        let Some((before, after)) = &self.built else { return stand_in() };
        let (policy, shape) = match shape {
            Shape::Page => (&self.policy, String::new()),
            Shape::Frame => (&self.embed_policy, setting("shape", "frame")),
        };
        let head = preview.head(&self.images);
        let page = [before, &head, &self.settings, &shape, after].map(String::as_str).concat();
        let described = [
            (header::CONTENT_SECURITY_POLICY, policy.clone()),
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        ];
        (described, Html(page)).into_response()
    }
}

/// The page that stands in for one that was not built.
pub fn stand_in() -> Response {
    (files::guards(STAND_IN_POLICY), Html(include_str!("front.html"))).into_response()
}

/// A setting that the page follows, as an element of its head.
fn setting(name: &str, value: &str) -> String {
    format!("<meta name=\"laurel:{name}\" content=\"{}\" />", escaped(value))
}

/// The addresses of the page.
pub fn router() -> Router<Service> {
    Router::new()
        .route("/", get(plain))
        .route("/members", get(plain))
        .route("/members/{key}", get(member))
        .route("/boards/{slug}", get(board))
        .route("/embed/{slug}", get(embed))
}

/// The assets of the page.
pub fn assets() -> Router<Service> {
    Router::new().route("/page/assets/{name}", get(asset))
}

async fn plain(State(service): State<Service>) -> Response {
    service.front.answer(&Preview::default(), Shape::Page)
}

async fn member(
    State(service): State<Service>,
    Extension(caller): Extension<Caller>,
    Path(key): Path<String>,
) -> Response {
    let preview = preview::of_member(&service, caller.address.0, &key).await;
    service.front.answer(&preview, Shape::Page)
}

async fn board(
    State(service): State<Service>,
    Extension(caller): Extension<Caller>,
    Path(slug): Path<String>,
    chosen: Result<Query<Chosen>, QueryRejection>,
) -> Response {
    let chosen = chosen.map(|Query(chosen)| chosen).unwrap_or_default();
    let preview = preview::of_board(&service, caller.address.0, &slug, &chosen).await;
    service.front.answer(&preview, Shape::Page)
}

async fn embed(State(service): State<Service>) -> Response {
    service.front.answer(&Preview::default(), Shape::Frame)
}

async fn asset(headers: HeaderMap, Path(name): Path<String>) -> Response {
    files::asset(&headers, &name, Built::get(&format!("assets/{name}.gz")), ASSET_POLICY)
}
