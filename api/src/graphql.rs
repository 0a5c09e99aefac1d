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

use async_graphql::Schema;

use crate::app::SharedApp;
use mutation::Mutation;
use query::Query;
use subscription::Subscription;

/// Laurel's schema.
pub type LaurelSchema = Schema<Query, Mutation, Subscription>;

/// The schema as text, as `laurel schema` prints it.
pub fn sdl() -> String {
    Schema::build(Query, Mutation, Subscription).finish().sdl()
}

/// The executable schema. The limits of requests are checked before it sees them.
pub fn schema(app: SharedApp) -> LaurelSchema {
    Schema::build(Query, Mutation, Subscription).data(app).finish()
}
