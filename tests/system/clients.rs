//! The clients of `clients/`, with their example games.

mod csharp;
mod csharp_json;
mod typescript;
