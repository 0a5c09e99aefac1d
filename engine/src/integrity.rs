//! The integrity diff: entries on which history, SQL and Redis disagree, and their repair.

pub mod look;
pub mod positions;
pub mod repair;
