//! Reads of standings, wherever they are.

pub mod sealed;
