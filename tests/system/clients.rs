//! The clients of `clients/`, with their example games.

mod typescript;
