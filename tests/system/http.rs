//! HTTP around GraphQL.

mod answers;
mod connections;
mod graphiql;
mod limits;
mod log;
mod metrics;
mod office;
mod overlaps;
mod page;
mod partitions;
mod persisted_queries;
mod players;
mod private_boards;
mod schema;
mod specification;
mod tls;
mod tokens;
mod traces;
mod validation;
