//! What a browser shows.

mod graphiql;
mod report;
