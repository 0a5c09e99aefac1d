//! Tools that others have written, and that the developers of clients use: caches, code generators
//! and linters.

mod caches;
mod schema;
mod types;
