//! The GraphQL schema, one file per noun.

pub mod board;
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
pub(crate) mod types;

use async_graphql::{EmptySubscription, Schema};

use crate::app::SharedApp;
use mutation::Mutation;
use query::Query;

/// The most levels that a query may nest; the standard introspection query has 15.
const DEPTH_MAX: usize = 20;

/// The most directives that a field may carry.
const DIRECTIVES_MAX: usize = 10;

/// Laurel's schema.
pub type LaurelSchema = Schema<Query, Mutation, EmptySubscription>;

/// The schema as text, as `laurel schema` prints it.
#[must_use]
pub fn sdl() -> String {
    Schema::build(Query, Mutation, EmptySubscription).finish().sdl()
}

/// The executable schema.
#[must_use]
pub fn schema(app: SharedApp) -> LaurelSchema {
    Schema::build(Query, Mutation, EmptySubscription)
        .data(app)
        .limit_depth(DEPTH_MAX)
        .limit_directives(DIRECTIVES_MAX)
        .finish()
}
