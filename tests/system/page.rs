//! Pages in a browser: GraphiQL and reports.

mod graphiql;
mod report;
