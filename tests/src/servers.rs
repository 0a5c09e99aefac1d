//! Processes that run beside the tests: the programs, the stores, Node.js.

pub mod certificates;
pub mod command_counts;
pub mod node;
pub mod postgres;
pub mod program;
pub mod redis_cluster;
pub mod redis_server;
