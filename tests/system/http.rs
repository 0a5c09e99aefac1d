//! HTTP around GraphQL.

mod connections;
mod limits;
mod metrics;
mod persisted_queries;
mod private_boards;
mod schema;
mod specification;
mod tokens;
