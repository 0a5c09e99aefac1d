//! Work on the history besides adding to it: removals and voids, files of old events, and signed
//! statements about it.

pub mod amend;
pub mod archive;
pub mod checkpoint;
pub mod mirror;
pub mod period_reset;
pub mod remove;
mod together;
