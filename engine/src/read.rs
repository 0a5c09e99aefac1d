//! Reads of standings, wherever they are: in Redis, or in SQL once their period is sealed.

pub mod choice;
mod periods;
pub mod reader;
pub mod sealed;
