//! The GraphQL schema, one file per noun.

pub mod board;
pub(crate) mod change;
pub mod event;
pub mod integrity;
pub mod job;
pub mod member;
pub mod mutation;
pub(crate) mod price;
pub mod query;
pub mod request;
pub mod standings;
pub mod submission;
pub mod subscription;
pub(crate) mod types;

use async_graphql::{SDLExportOptions, Schema};

use crate::app::SharedApp;
use mutation::Mutation;
use query::Query;
use subscription::Subscription;

/// Laurel's schema.
pub type LaurelSchema = Schema<Query, Mutation, Subscription>;

/// The description of the schema. async-graphql has none of its own.
pub const DESCRIPTION: &str = "Laurel, a leaderboard service. Scores go in by `submitScores`; \
    ranks, pages, neighbors and friends come out of the standings of a board.";

/// The schema as text, as `laurel schema` prints it.
pub fn sdl() -> String {
    let described = format!("\"\"\"\n{DESCRIPTION}\n\"\"\"\nschema {{");
    definitions().replace("\nschema {", &format!("\n{described}"))
}

/// The schema as text without its description, which the parser of async-graphql does not read.
pub fn definitions() -> String {
    let schema = Schema::build(Query, Mutation, Subscription).finish();
    schema.sdl_with_options(SDLExportOptions::new().include_specified_by())
}

/// The executable schema. The limits of requests are checked before it sees them.
pub fn schema(app: SharedApp) -> LaurelSchema {
    Schema::build(Query, Mutation, Subscription).data(app).finish()
}
