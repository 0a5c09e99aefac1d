//! The integrity diff: entries that history, SQL and Redis do not agree about, and their repair.

pub mod look;
pub mod repair;
