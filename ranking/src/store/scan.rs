//! Reads of raw Redis data, right or wrong: for batch jobs, rolling, sealing and the integrity
//! diff.

pub(crate) mod event_ids;
pub mod integrity;
pub mod raw;
pub mod rolling;
pub mod sealing;
