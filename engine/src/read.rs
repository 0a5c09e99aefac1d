//! Reads of standings, wherever they are: in Redis, or in SQL once their period is sealed.

mod batch;
pub mod choice;
mod periods;
pub mod reader;
pub mod sealed;
