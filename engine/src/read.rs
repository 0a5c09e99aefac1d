//! Reads of standings, wherever they are: in Redis, or in SQL once their period is sealed or while
//! Redis is away.

mod answered;
mod batch;
pub mod choice;
pub mod fallback;
mod folds;
pub mod in_sql;
pub mod log_tails;
mod metadata;
mod periods;
pub mod reader;
mod scores_counted;
pub mod sealed;

pub use scores_counted::ScoresCounted;
